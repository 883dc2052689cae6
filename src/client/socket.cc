#include "client/socket.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "base/addresses.h"
#include "base/clock.h"

namespace tutti::client {

Status Unreachable(const Server& server, const char* why) {
  return Unavailable("unreachable",
                     server.scheme + "://" + server.host + ":" + server.port + ": " + why);
}

Result<Socket> Connect(const Server& server) {
  int error = 0;
  const AddressList all = LookUpTcp(server.host.c_str(), server.port.c_str(), &error);
  if (error != 0) return Unreachable(server, gai_strerror(error));
  for (const addrinfo* address = all.get(); address != nullptr; address = address->ai_next) {
    Socket socket(
        ::socket(address->ai_family, address->ai_socktype | SOCK_CLOEXEC, address->ai_protocol));
    if (socket.fd() >= 0 && connect(socket.fd(), address->ai_addr, address->ai_addrlen) == 0) {
      SetNoDelay(socket.fd());
      return Result<Socket>(std::move(socket));
    }
    error = errno;
  }
  return Unreachable(server, std::strerror(error));
}

Status SendAll(const Server& server, const Socket& socket, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(socket.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return Unreachable(server, std::strerror(errno));
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return OkStatus();
}

Status AwaitBytes(const Server& server, const Socket& socket, std::chrono::milliseconds patience,
                  const std::function<bool()>& stopped) {
  constexpr std::chrono::milliseconds kLook{100};
  const SteadyClock clock;
  const TimePoint deadline = clock.Now() + patience;
  while (true) {
    if (stopped != nullptr && stopped())
      return {StatusCode::kCancelled, "cancelled", "the request was stopped"};
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - clock.Now());
    if (left.count() <= 0) return Unreachable(server, "no answer within the limit of time");
    pollfd waiting{socket.fd(), POLLIN, 0};
    const auto wait = stopped != nullptr ? std::min(left, kLook) : left;
    const int ready = poll(&waiting, 1, static_cast<int>(wait.count()));
    if (ready > 0) return OkStatus();
    if (ready < 0 && errno != EINTR) return Unreachable(server, std::strerror(errno));
  }
}

}  // namespace tutti::client
