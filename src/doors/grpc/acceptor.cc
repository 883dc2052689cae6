#include "doors/grpc/acceptor.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>

namespace tutti::rpc {
namespace {

constexpr int kBacklog = 1024;
constexpr int kPauseMs = 50;                 // after a failure such as no descriptors
constexpr unsigned kUserTimeoutMs = 35'000;  // of a peer that vanished with bytes on their way
constexpr int kSendBufferBytes = 256 << 10;

struct Address {
  sockaddr_storage storage{};
  socklen_t size = 0;
  bool loopback = false;
};

Result<Address> ParseAddress(const std::string& host, int port) {
  Address out;
  const std::string text = host == "localhost" ? "127.0.0.1" : host;
  auto* v4 = reinterpret_cast<sockaddr_in*>(&out.storage);
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&out.storage);
  if (inet_pton(AF_INET, text.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(static_cast<uint16_t>(port));
    out.size = sizeof(sockaddr_in);
    out.loopback = ntohl(v4->sin_addr.s_addr) >> 24 == 127;
    return out;
  }
  if (inet_pton(AF_INET6, text.c_str(), &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(static_cast<uint16_t>(port));
    out.size = sizeof(sockaddr_in6);
    out.loopback = IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr) != 0;
    return out;
  }
  return InvalidArgument("invalid_value", "--host must be an IP address or localhost")
      .WithParam("host");
}

void Tune(int fd) {
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &kUserTimeoutMs, sizeof kUserTimeoutMs);
  setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &kSendBufferBytes, sizeof kSendBufferBytes);
}

void Close(int* fd) {
  if (*fd >= 0) close(*fd);
  *fd = -1;
}

}  // namespace

Result<bool> IsLoopback(const std::string& host) {
  ASSIGN_OR_RETURN(const Address address, ParseAddress(host, 0));
  return address.loopback;
}

Acceptor::Acceptor(int most, std::function<void(int)> take) : most_(most), take_(std::move(take)) {}

Acceptor::~Acceptor() { Stop(); }

Status Acceptor::Listen(const std::string& host, int port) {
  ASSIGN_OR_RETURN(Address address, ParseAddress(host, port));
  listener_ = socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  const int on = 1;
  setsockopt(listener_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  epoll_ = epoll_create1(EPOLL_CLOEXEC);
  wake_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (listener_ < 0 || epoll_ < 0 || wake_ < 0 ||
      bind(listener_, reinterpret_cast<sockaddr*>(&address.storage), address.size) != 0 ||
      listen(listener_, kBacklog) != 0 ||
      getsockname(listener_, reinterpret_cast<sockaddr*>(&address.storage), &address.size) != 0) {
    const std::string why = std::generic_category().message(errno);
    Close(&listener_);
    // Not a bad value: it depends on what else runs here, and on who asks.
    return Unavailable("io_error", "cannot listen on " + host + " port " + std::to_string(port) +
                                       " for gRPC: " + why)
        .WithParam("grpc-port");
  }
  std::array<char, INET6_ADDRSTRLEN> text{};
  const bool v6 = address.storage.ss_family == AF_INET6;
  const auto* v4_address = reinterpret_cast<const sockaddr_in*>(&address.storage);
  const auto* v6_address = reinterpret_cast<const sockaddr_in6*>(&address.storage);
  inet_ntop(address.storage.ss_family,
            v6 ? static_cast<const void*>(&v6_address->sin6_addr) : &v4_address->sin_addr,
            text.data(), text.size());
  host_ = v6 ? "[" + std::string(text.data()) + "]" : std::string(text.data());
  port_ = ntohs(v6 ? v6_address->sin6_port : v4_address->sin_port);
  return OkStatus();
}

void Acceptor::Start() {
  thread_ = std::thread([this] { Main(); });
}

void Acceptor::StopListening() {
  closing_.store(true);
  const uint64_t one = 1;
  if (wake_ >= 0) (void)!write(wake_, &one, sizeof one);
}

void Acceptor::Stop() {
  stopping_.store(true);
  StopListening();
  if (thread_.joinable()) thread_.join();
  for (const int fd : duplicates_) close(fd);
  duplicates_.clear();
  connections_.store(0);
  Close(&listener_);
  Close(&epoll_);
  Close(&wake_);
}

void Acceptor::Watch(int fd, bool on) const {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd;
  epoll_ctl(epoll_, on ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, fd, &event);
}

void Acceptor::Main() {
  Watch(wake_, true);
  Watch(listener_, true);
  accepting_ = true;
  std::array<epoll_event, 64> events;
  while (!stopping_.load()) {
    // While descriptors are short the listening socket is asked again a little later.
    const bool paused = !accepting_ && !closing_.load() && connections_.load() < most_;
    const int count =
        epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), paused ? kPauseMs : -1);
    bool again = paused && count == 0;  // accepting may go on
    for (int i = 0; i < count; ++i) {
      const int fd = events[static_cast<size_t>(i)].data.fd;
      if (fd == wake_) {
        uint64_t ignored = 0;
        (void)!read(wake_, &ignored, sizeof ignored);
      } else if (fd == listener_) {
        Accept();
      } else if (duplicates_.erase(fd) != 0) {  // a connection has ended
        // Taken out by name: while the library has the socket open the entry would outlive the
        // descriptor, and its hang-ups would be taken for those of the next one with its number.
        Watch(fd, false);
        close(fd);
        connections_.fetch_sub(1);
        again = true;
      }
    }
    if (closing_.load()) {
      accepting_ = false;
      Close(&listener_);
    } else if (again && !accepting_ && connections_.load() < most_) {
      Watch(listener_, true);
      accepting_ = true;
    }
  }
}

void Acceptor::Accept() {
  if (closing_.load()) return;
  const auto pause = [this] {
    Watch(listener_, false);
    accepting_ = false;
  };
  if (connections_.load() >= most_) return pause();
  const int fd = accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (fd < 0) {
    if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) pause();
    return;
  }
  Tune(fd);
  const int duplicate = fcntl(fd, F_DUPFD_CLOEXEC, 0);
  epoll_event end{};
  end.events = 0;  // hang-ups are always told
  end.data.fd = duplicate;
  if (duplicate < 0 || epoll_ctl(epoll_, EPOLL_CTL_ADD, duplicate, &end) != 0) {
    if (duplicate >= 0) close(duplicate);
    close(fd);
    return pause();
  }
  duplicates_.insert(duplicate);
  connections_.fetch_add(1);
  take_(fd);
}

}  // namespace tutti::rpc
