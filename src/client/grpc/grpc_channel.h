// GrpcChannel: calls of one request and one answer to a gRPC server over one connection, which all
// callers share. Plain TCP. For benches: nothing is tried again by itself.
//
// Made and destroyed by one thread, after its last call; Call() is for any, and blocks. No header
// of the gRPC library is included here.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"

namespace tutti::client {

class GrpcChannel {
 public:
  // `url`: "[grpc://]HOST:PORT". `patience`: the deadline of each call, and of the connection. With
  // a key, calls carry "authorization: Bearer KEY". Errors: invalid_value; unavailable if no server
  // answers.
  static Result<std::unique_ptr<GrpcChannel>> Open(std::string_view url, const std::string& api_key,
                                                   std::chrono::milliseconds patience);
  virtual ~GrpcChannel() = default;

  // `method`: "/tutti.v1.Tutti/Embed"; request and answer are serialised messages. A call that
  // fails gives its gRPC code, and as reason what the server's trailer tutti-error-code says.
  virtual Result<std::string> Call(const std::string& method, std::string_view request) = 0;

  // TCP connections that this process has to the server's port now, as the system counts them.
  virtual int connections() const = 0;
  virtual const std::string& target() const = 0;  // "127.0.0.1:8081"
};

}  // namespace tutti::client
