#include "client/control_client.h"

#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "client/socket.h"

namespace tutti::client {
namespace {

constexpr size_t kMaxAnswerBytes = size_t{16} << 20;

Status Unanswered(const std::string& path, const char* why) {
  return Unavailable("unreachable", path + ": " + why);
}

bool IsOurs(const Socket& socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return getsockopt(socket.fd(), SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
         (peer.uid == geteuid() || geteuid() == 0);
}

Result<Socket> Open(const std::string& path, std::chrono::milliseconds patience) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return Unanswered(path, "the path is too long");
  std::memcpy(address.sun_path, path.c_str(), path.size());
  Socket socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (socket.fd() < 0) return Unanswered(path, std::strerror(errno));
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(patience);
  const timeval wait{.tv_sec = seconds.count(),
                     .tv_usec = std::chrono::microseconds(patience - seconds).count()};
  setsockopt(socket.fd(), SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
  setsockopt(socket.fd(), SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof wait);  // of connect too
  if (connect(socket.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return Unanswered(path, std::strerror(errno));
  if (!IsOurs(socket)) return Unanswered(path, "another user listens there");
  return socket;
}

}  // namespace

Result<std::string> AskControl(const std::string& folder, std::string_view request,
                               std::chrono::milliseconds patience) {
  const std::string path = folder + "/control.sock";
  ASSIGN_OR_RETURN(const Socket socket, Open(path, patience));
  const std::string line = std::string(request) + "\n";
  for (std::string_view rest = line; !rest.empty();) {
    const ssize_t sent = send(socket.fd(), rest.data(), rest.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return Unanswered(path, std::strerror(errno));
    rest.remove_prefix(static_cast<size_t>(sent));
  }
  std::string answer;
  while (answer.size() <= kMaxAnswerBytes) {
    std::array<char, 16384> bytes;
    const ssize_t got = recv(socket.fd(), bytes.data(), bytes.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Unanswered(path, "no answer within the limit of time");
    if (got == 0) return Unanswered(path, "the connection ended before the answer");
    answer.append(bytes.data(), static_cast<size_t>(got));
    if (answer.back() != '\n') continue;
    answer.pop_back();
    return answer;
  }
  return Unanswered(path, "the answer is too long");
}

}  // namespace tutti::client
