#include "server/control/control_server.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>
#include <vector>

#include "base/descriptor.h"
#include "base/threads.h"

namespace tutti::control {
namespace {

constexpr int kMaxWaiting = 8;  // connections that are not served yet

Status Failed(const std::string& path, int error) {
  return Unavailable("control_failed", path + ": " + std::generic_category().message(error));
}

// Whether the client of a connection runs as the user of this process, or as root.
bool IsOwnerOrRoot(int fd) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
         (peer.uid == geteuid() || peer.uid == 0);
}

}  // namespace

Result<std::unique_ptr<ControlServer>> ControlServer::Open(const std::string& folder,
                                                           Handler handler, const Limits& limits) {
  const std::string path = folder + "/control.sock";
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return Failed(path, ENAMETOOLONG);
  std::memcpy(address.sun_path, path.c_str(), path.size());
  Descriptor listener(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  Descriptor stop(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!listener.ok() || !stop.ok()) return Failed(path, errno);
  if (unlink(path.c_str()) != 0 && errno != ENOENT) return Failed(path, errno);
  // No client can connect before listen(), and the mode is set by then.
  if (bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      chmod(path.c_str(), 0600) != 0 || listen(listener.get(), kMaxWaiting) != 0)
    return Failed(path, errno);
  return std::unique_ptr<ControlServer>(
      new ControlServer(path, listener.Release(), stop.Release(), std::move(handler), limits));
}

ControlServer::ControlServer(std::string path, int listener, int stop, Handler handler,
                             const Limits& limits)
    : path_(std::move(path)),
      listener_(listener),
      stop_(stop),
      handler_(std::move(handler)),
      limits_(limits) {
  thread_ = std::thread([this] { Main(); });
}

ControlServer::Client::~Client() { close(fd); }

ControlServer::~ControlServer() {
  const uint64_t one = 1;
  (void)!write(stop_, &one, sizeof one);
  thread_.join();
  unlink(path_.c_str());
  close(listener_);
  close(stop_);
}

// Polls all clients at once, so that a silent client does not block the others.
void ControlServer::Main() {
  NameThread("tutti-control");
  std::list<Client> clients;  // ordered by the time of the last request
  while (true) {
    std::vector<pollfd> ready = {{stop_, POLLIN, 0}, {listener_, POLLIN, 0}};
    for (const Client& client : clients) ready.push_back({client.fd, POLLIN, 0});
    int wait_ms = -1;
    if (!clients.empty()) {
      const auto left = clients.front().heard + silence() - Steady::now();
      // Rounded up, to avoid busy polling in the last millisecond.
      wait_ms = static_cast<int>(
          std::max<int64_t>(0, std::chrono::ceil<std::chrono::milliseconds>(left).count()));
    }
    if (poll(ready.data(), ready.size(), wait_ms) < 0) continue;
    if (ready[0].revents != 0) return;
    size_t at = 2;
    for (auto client = clients.begin(); at < ready.size(); ++at) {
      const auto here = client++;
      if (ready[at].revents == 0) continue;
      if (Serve(*here)) {
        here->heard = Steady::now();
        clients.splice(clients.end(), clients, here);
      } else {
        clients.erase(here);
      }
    }
    while (!clients.empty() && clients.front().heard + silence() <= Steady::now())
      clients.pop_front();
    if (ready[1].revents != 0) Accept(clients);
  }
}

void ControlServer::Accept(std::list<Client>& clients) {
  Descriptor connection(accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (connection.ok()) {
    if (!IsOwnerOrRoot(connection.get())) return;
    if (clients.size() == limits_.clients) clients.pop_front();
    clients.emplace_back(connection.Release(), Steady::now());
  } else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM) {
    (void)Await(stop_, POLLIN, 100);  // no descriptor or memory: wait before the next try
  }
}

bool ControlServer::Await(int fd, short events, int wait_ms) const {
  while (true) {
    std::array<pollfd, 2> ready = {{{fd, events, 0}, {stop_, POLLIN, 0}}};
    const int count = poll(ready.data(), ready.size(), wait_ms);
    if (count < 0 && errno == EINTR) continue;
    return count > 0 && ready[1].revents == 0;
  }
}

bool ControlServer::Serve(Client& client) {
  std::string& input = client.input;
  std::array<char, 4096> bytes;
  const ssize_t got = recv(client.fd, bytes.data(), bytes.size(), 0);
  if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) return false;
  if (got > 0) input.append(bytes.data(), static_cast<size_t>(got));
  for (size_t end = 0; (end = input.find('\n')) != std::string::npos;) {
    const std::string answer = handler_(std::string_view(input).substr(0, end)) + "\n";
    explicit_bzero(input.data(), end);  // it may have held a password
    input.erase(0, end + 1);
    if (!Send(client.fd, answer)) return false;
  }
  return input.size() <= limits_.request_bytes;
}

bool ControlServer::Send(int fd, std::string_view bytes) const {
  while (!bytes.empty()) {
    if (!Await(fd, POLLOUT, limits_.silence_ms)) return false;
    const ssize_t sent = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN && errno != EINTR) return false;
    if (sent > 0) bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

}  // namespace tutti::control
