#include "server/grpc/acceptor.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <new>
#include <optional>
#include <system_error>
#include <utility>

#include "base/addresses.h"
#include "base/threads.h"
#include "server/access/listen_rules.h"

namespace tutti::rpc {
namespace {

constexpr int kBacklog = 1024;
constexpr int kPauseMs = 50;                 // after a failure such as no descriptors
constexpr unsigned kUserTimeoutMs = 35'000;  // of a peer that vanished with bytes on their way
constexpr int kSendBufferBytes = 256 << 10;
// Limits for a connection from an address with a penalty: quick resets at once, and unfinished
// calls. A client may run 100 calls at once.
constexpr int kResetsOfHeld = 20;
constexpr int64_t kCallsOfHeld = 200;
constexpr Duration kPolice = std::chrono::milliseconds(20);  // between looks at what was sent

struct Address {
  sockaddr_storage storage{};
  socklen_t size = 0;
  bool loopback = false;
};

Result<Address> ParseAddress(const std::string& host, int port) {
  Address out;
  const std::string text = access::AddressOf(host);
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
  return access::BadHost();
}

bool IsV6(const Address& address) { return address.storage.ss_family == AF_INET6; }

int PortOf(const Address& address) {
  const auto* v4 = reinterpret_cast<const sockaddr_in*>(&address.storage);
  const auto* v6 = reinterpret_cast<const sockaddr_in6*>(&address.storage);
  return ntohs(IsV6(address) ? v6->sin6_port : v4->sin_port);
}

std::string Digits(const Address& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const auto* v4 = reinterpret_cast<const sockaddr_in*>(&address.storage);
  const auto* v6 = reinterpret_cast<const sockaddr_in6*>(&address.storage);
  inet_ntop(address.storage.ss_family,
            IsV6(address) ? static_cast<const void*>(&v6->sin6_addr) : &v4->sin_addr, text.data(),
            text.size());
  return text.data();
}

// The peer's name as the library's calls have it. A mapped address has its IPv4 form.
std::string PeerName(const Address& address) {
  const std::string port = ":" + std::to_string(PortOf(address));
  if (!IsV6(address)) return "ipv4:" + Digits(address) + port;
  const std::string digits = Digits(address);
  if (digits.starts_with("::ffff:")) return "ipv4:" + digits.substr(7) + port;
  return "ipv6:%5B" + digits + "%5D" + port;
}

// The addresses that one client may have: an IPv4 address, or 64 bits of an IPv6 address.
std::string NetworkOf(Address address) {
  const std::string digits = Digits(address);
  if (!IsV6(address)) return digits;
  if (digits.starts_with("::ffff:")) return digits.substr(7);
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&address.storage);
  std::fill(v6->sin6_addr.s6_addr + 8, v6->sin6_addr.s6_addr + 16, uint8_t{0});
  return Digits(address);
}

// Bytes of a connection that the library has read; nothing if the system does not report the
// number.
std::optional<int64_t> TakenFrom(int fd) {
  tcp_info info{};
  socklen_t size = sizeof info;
  int waiting = 0;
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0 ||
      size < offsetof(tcp_info, tcpi_bytes_received) + sizeof info.tcpi_bytes_received ||
      ioctl(fd, FIONREAD, &waiting) != 0)
    return std::nullopt;
  return static_cast<int64_t>(info.tcpi_bytes_received) - waiting;
}

void Tune(int fd) {
  SetNoDelay(fd);
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

Acceptor::Acceptor(const Options& options, ConnectionAccounts& accounts, const Clock& clock,
                   std::function<void(int)> take)
    : options_(options),
      accounts_(accounts),
      clock_(clock),
      take_(std::move(take)),
      penalties_(options.penalties) {}

Acceptor::~Acceptor() {
  Stop();
  Close(&wake_);  // calls that outlast Stop() may use it
}

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
    std::string why = std::generic_category().message(errno);
    if (errno == EADDRINUSE) why += "; give another --grpc-port, or --grpc-port 0 for no gRPC";
    Close(&listener_);
    // Not invalid_value: whether the bind succeeds depends on the other processes and on the user's
    // rights.
    return Unavailable("io_error", "cannot listen on " + host + " port " + std::to_string(port) +
                                       " for gRPC: " + why)
        .WithParam("grpc-port");
  }
  address_ = Digits(address);
  port_ = PortOf(address);
  return OkStatus();
}

void Acceptor::Start() {
  thread_ = std::thread([this] { Main(); });
  hand_on_ = std::thread([this] { HandOn(); });
}

void Acceptor::StopListening() {
  closing_.store(true);
  Wake();
}

void Acceptor::Wake() const {
  const uint64_t one = 1;
  if (wake_ >= 0) (void)!write(wake_, &one, sizeof one);
}

void Acceptor::Stop() {
  stopping_.store(true);
  StopListening();
  if (thread_.joinable()) thread_.join();
  {
    const MutexLock lock(mutex_);
    accepted_.NotifyAll();
  }
  if (hand_on_.joinable()) hand_on_.join();
  while (!watched_.empty()) Forget(watched_.begin()->first);
  Close(&listener_);
  Close(&epoll_);
}

void Acceptor::Watch(int fd, bool on) const {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd;
  epoll_ctl(epoll_, on ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, fd, &event);
}

bool Acceptor::Arm(int duplicate, bool first, bool bytes) const {
  epoll_event event{};
  event.events = (bytes ? uint32_t{EPOLLIN} : 0) | EPOLLONESHOT;
  event.data.fd = duplicate;
  return epoll_ctl(epoll_, first ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, duplicate, &event) == 0;
}

void Acceptor::Serve(int fd) {
  const MutexLock lock(mutex_);
  to_hand_on_.push_back(fd);
  accepted_.NotifyOne();
}

// Hands it on too, or holds it. False when descriptors or memory are short: nothing is left behind
// then.
bool Acceptor::Remember(int fd, int duplicate, std::string peer, std::string network) {
  const TimePoint now = clock_.Now();
  const TimePoint at = penalties_.ServedAt(network, now);
  Watched watched;
  watched.peer = std::move(peer);
  watched.network = std::move(network);
  AbuseLimits abuse = options_.abuse;
  if (at > now) {
    watched.held = fd;
    abuse.resets = std::min(abuse.resets, kResetsOfHeld);
    abuse.calls = std::min(abuse.calls, kCallsOfHeld);
  }
  try {
    watched.account = std::make_shared<ConnectionAccount>(
        abuse, options_.message_bytes, now, [this, duplicate] { JudgeSoon(duplicate); });
    talking_.reserve(watched_.size() + 1);
    {
      const MutexLock lock(mutex_);
      to_judge_.reserve(watched_.size() + 1);
    }
    accounts_.Add(watched.peer, watched.account);
    watched_.emplace(duplicate, watched);
    if (at > now) {
      held_.emplace(at, duplicate);
      if (Arm(duplicate, true, false)) return true;
    } else if (Arm(duplicate, true)) {
      Serve(fd);
      return true;
    }
  } catch (const std::bad_alloc&) {
  }
  accounts_.Remove(watched.peer, watched.account);
  watched_.erase(duplicate);
  std::erase_if(held_, [&](const auto& each) { return each.second == duplicate; });
  Watch(duplicate, false);
  return false;
}

void Acceptor::ServeHeld(TimePoint now) {
  while (!held_.empty() && held_.begin()->first <= now) {
    const int duplicate = held_.begin()->second;
    held_.erase(held_.begin());
    Watched& watched = watched_.at(duplicate);
    const int fd = std::exchange(watched.held, -1);
    try {
      Serve(fd);
      Arm(duplicate, false);
    } catch (const std::bad_alloc&) {
      watched.held = fd;
      Forget(duplicate);
    }
  }
}

void Acceptor::DropHeld() {
  while (!held_.empty()) Forget(held_.begin()->second);
}

void Acceptor::Forget(int duplicate) {
  const auto found = watched_.find(duplicate);
  if (found == watched_.end()) return;
  all_debt_ -= found->second.debt;
  accounts_.Remove(found->second.peer, found->second.account);
  if (found->second.held >= 0) {
    std::erase_if(held_, [&](const auto& each) { return each.second == duplicate; });
    close(found->second.held);
  }
  watched_.erase(found);
  // Removed explicitly: while the library has the socket open, the epoll entry would outlive the
  // descriptor, and its events would be attributed to the next descriptor with the same number.
  Watch(duplicate, false);
  close(duplicate);
  connections_.fetch_sub(1);
}

void Acceptor::ShutDown(int duplicate, Watched& watched, std::string_view why) {
  all_debt_ -= std::exchange(watched.debt, 0);
  watched.ended = true;
  try {
    penalties_.Add(watched.network, clock_.Now());
  } catch (const std::bad_alloc&) {
  }
  // shutdown() would not do: the library would still read the bytes in the socket's buffer.
  const sockaddr nobody{.sa_family = AF_UNSPEC, .sa_data = {}};
  if (connect(duplicate, &nobody, sizeof nobody) != 0) shutdown(duplicate, SHUT_RDWR);
  if (options_.on_abuse) options_.on_abuse(watched.peer, why);
}

void Acceptor::Judge(int duplicate, Watched& watched, TimePoint now) {
  const std::optional<int64_t> taken = TakenFrom(duplicate);
  if (!taken.has_value() || watched.ended) return;
  const ConnectionAccount::Verdict verdict = watched.account->Judge(*taken, now);
  all_debt_ += verdict.debt - std::exchange(watched.debt, verdict.debt);
  watched.suspect = verdict.suspect;
  if (verdict.abuse) ShutDown(duplicate, watched, verdict.why);
}

void Acceptor::JudgeSoon(int duplicate) {
  {
    const MutexLock lock(mutex_);
    const bool named = std::find(to_judge_.begin(), to_judge_.end(), duplicate) != to_judge_.end();
    if (!named && to_judge_.size() < to_judge_.capacity()) to_judge_.push_back(duplicate);
  }
  judge_now_.store(true);
  Wake();
}

void Acceptor::JudgeNamed() {
  std::vector<int> named;
  {
    const MutexLock lock(mutex_);
    named = to_judge_;
    to_judge_.clear();
  }
  const TimePoint now = clock_.Now();
  for (const int duplicate : named) {
    const auto found = watched_.find(duplicate);
    if (found != watched_.end()) Judge(duplicate, found->second, now);
  }
}

// Looks at those that sent something, and waits for their next byte; suspects are looked at again.
void Acceptor::Police() {
  const TimePoint now = clock_.Now();
  std::erase_if(talking_, [&](int duplicate) {
    const auto found = watched_.find(duplicate);
    if (found == watched_.end()) return true;
    Judge(duplicate, found->second, now);
    if (found->second.suspect && !found->second.ended) return false;
    Arm(duplicate, false);
    return true;
  });
  police_at_ = talking_.empty() ? TimePoint::max() : now + kPolice;
  if (all_debt_ <= options_.abuse.all_bytes) return;
  for (auto& [duplicate, watched] : watched_) Judge(duplicate, watched, now);  // what is old news
  while (all_debt_ > options_.abuse.all_bytes) {
    const auto most = std::max_element(
        watched_.begin(), watched_.end(),
        [](const auto& a, const auto& b) { return a.second.debt < b.second.debt; });
    ShutDown(most->first, most->second, "all_bytes");
  }
}

void Acceptor::Main() {
  NameThread("tutti-accept");
  Watch(wake_, true);
  Watch(listener_, true);
  accepting_ = true;
  std::array<epoll_event, 64> events;
  while (!stopping_.load()) {
    // While the process is out of descriptors, accepting is retried after a pause.
    const bool paused = !accepting_ && !closing_.load() && connections_.load() < options_.most;
    int wait_ms = paused ? kPauseMs : -1;
    const TimePoint next = held_.empty() ? police_at_ : std::min(police_at_, held_.begin()->first);
    if (next != TimePoint::max()) {
      const auto left = std::max(next - clock_.Now(), Duration::zero());
      const int ms = static_cast<int>(left / std::chrono::milliseconds(1)) + 1;
      wait_ms = wait_ms < 0 ? ms : std::min(wait_ms, ms);
    }
    const int count = epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), wait_ms);
    bool again = paused && count == 0;  // accepting may go on
    for (int i = 0; i < count; ++i) {
      const int fd = events[static_cast<size_t>(i)].data.fd;
      if (fd == wake_) {
        uint64_t ignored = 0;
        (void)!read(wake_, &ignored, sizeof ignored);
      } else if (fd == listener_) {
        Accept();
      } else if ((events[static_cast<size_t>(i)].events & (EPOLLHUP | EPOLLERR)) != 0) {
        Forget(fd);
        again = true;
      } else {
        talking_.push_back(fd);
        if (police_at_ == TimePoint::max()) police_at_ = clock_.Now() + kPolice;
      }
    }
    if (judge_now_.exchange(false)) JudgeNamed();
    if (clock_.Now() >= police_at_) Police();
    ServeHeld(clock_.Now());
    if (closing_.load()) {
      DropHeld();
      accepting_ = false;
      Close(&listener_);
    } else if (again && !accepting_ && connections_.load() < options_.most) {
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
  if (connections_.load() >= options_.most) return pause();
  Address peer;
  peer.size = sizeof peer.storage;
  const int fd = accept4(listener_, reinterpret_cast<sockaddr*>(&peer.storage), &peer.size,
                         SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (fd < 0) {
    if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) pause();
    return;
  }
  Tune(fd);
  const int duplicate = fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (duplicate < 0 || !Remember(fd, duplicate, PeerName(peer), NetworkOf(peer))) {
    if (duplicate >= 0) close(duplicate);
    close(fd);
    return pause();
  }
  connections_.fetch_add(1);
}

void Acceptor::HandOn() {
  NameThread("tutti-hand-on");
  const auto next = [this]() -> std::optional<int> {
    const MutexLock lock(mutex_);
    while (to_hand_on_.empty() && !stopping_.load()) accepted_.Wait(mutex_);
    if (to_hand_on_.empty()) return std::nullopt;
    const int fd = to_hand_on_.front();
    to_hand_on_.pop_front();
    return fd;
  };
  while (const std::optional<int> fd = next()) {
    if (stopping_.load()) {
      close(*fd);
    } else {
      take_(*fd);
    }
  }
}

}  // namespace tutti::rpc
