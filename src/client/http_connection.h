// HttpConnection: requests one after the other over one kept connection, each answer read whole.
// For benches, where opening a connection would be in the timing. One thread at a time.
//
// Written against servers that state the length of their answers; bounded against any other.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "base/status.h"
#include "client/socket.h"

namespace tutti::client {

class HttpConnection {
 public:
  struct Answer {
    int status = 0;
    std::string body;
  };

  // `patience`: longest silence of the server.
  static Result<HttpConnection> Open(const Server& server, std::string api_key,
                                     std::chrono::milliseconds patience);

  // Posts JSON, or what `fields` says first by a "Content-Type: " of its own. `fields`: more of the
  // head, each with its line end. Errors: unavailable (closed,
  // silent, an answer without length or above 256 MiB); the connection is of no use then. Any
  // status is an answer.
  Result<Answer> Post(const std::string& path, std::string_view body, std::string_view fields = {});

 private:
  HttpConnection(Server server, std::string api_key, std::chrono::milliseconds patience,
                 Socket socket);
  Status ReadMore();

  const Server server_;
  const std::string api_key_;
  const std::chrono::milliseconds patience_;
  Socket socket_;
  std::string input_;  // read and not used yet
};

}  // namespace tutti::client
