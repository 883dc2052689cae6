// A TCP connection of a client: opened, written and awaited with limits of time. Blocking; one
// thread at a time.
#pragma once

#include <chrono>
#include <functional>
#include <string_view>

#include "base/descriptor.h"
#include "base/status.h"
#include "client/http_client.h"

namespace tutti::client {

class Socket {
 public:
  explicit Socket(int fd) : descriptor_(fd) {}
  int fd() const { return descriptor_.get(); }

 private:
  Descriptor descriptor_;
};

// "unreachable", naming the server.
Status Unreachable(const Server& server, const char* why);

Result<Socket> Connect(const Server& server);

Status SendAll(const Server& server, const Socket& socket, std::string_view bytes);

// Waits until there is something to read, `patience` is over or `stopped` (may be empty) returns
// true.
Status AwaitBytes(const Server& server, const Socket& socket, std::chrono::milliseconds patience,
                  const std::function<bool()>& stopped);

}  // namespace tutti::client
