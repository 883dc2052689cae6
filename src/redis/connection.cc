#include "redis/connection.h"

#include <fcntl.h>
#include <hiredis/hiredis.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>
#include <vector>

#include "base/addresses.h"
#include "base/ascii.h"
#include "base/descriptor.h"
#include "base/log.h"
#include "base/url.h"

namespace tutti::redis {
namespace {

constexpr int kMaxDatabase = 1 << 20;

Status NoUrl() {
  return InvalidArgument("invalid_value",
                         "is no address of a Redis: write redis://[USER@]HOST[:PORT][/DATABASE]");
}

Status Unreachable(std::string why) {
  return Unavailable("redis_unreachable", "Redis cannot be reached: " + std::move(why));
}
Status Late() { return Unavailable("redis_timeout", "Redis did not answer in time"); }

TimePoint Now() { return std::chrono::steady_clock::now(); }

// Waits until `fd` can be read or written (`events`), or has an error.
Status WaitFor(int fd, short events, TimePoint until) {
  while (true) {
    const Duration left = std::max(until - Now(), Duration::zero());
    // Rounded up: a wait that ends early would be a spin.
    const auto most = std::min(std::chrono::ceil<std::chrono::milliseconds>(left),
                               std::chrono::milliseconds(std::chrono::hours(1)));
    timespec timeout{};
    const Duration bounded = std::min<Duration>(left, most);
    timeout.tv_sec = std::chrono::duration_cast<std::chrono::seconds>(bounded).count();
    timeout.tv_nsec = (bounded % std::chrono::seconds(1)).count();
    pollfd ready{.fd = fd, .events = events, .revents = 0};
    const int found = ppoll(&ready, 1, &timeout, nullptr);
    if (found > 0) return OkStatus();
    if (found < 0 && errno != EINTR) return Unreachable(std::strerror(errno));
    if (Now() >= until) return Late();
  }
}

Status ConnectTo(int fd, const addrinfo& address, TimePoint until) {
  if (connect(fd, address.ai_addr, address.ai_addrlen) == 0) return OkStatus();
  if (errno != EINPROGRESS) return Unreachable(std::strerror(errno));
  RETURN_IF_ERROR(WaitFor(fd, POLLOUT, until));
  int error = 0;
  socklen_t size = sizeof error;
  if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
  return error == 0 ? OkStatus() : Unreachable(std::strerror(error));
}

// The first of the host's addresses that takes a connection.
Result<int> Dial(const RedisUrl& url, TimePoint until) {
  int error = 0;
  const AddressList addresses =
      LookUpTcp(url.host.c_str(), std::to_string(url.port).c_str(), &error);
  if (error != 0) return Unreachable(std::string("its name: ") + gai_strerror(error));
  Status why = Unreachable("its name has no address");
  for (const addrinfo* address = addresses.get(); address != nullptr; address = address->ai_next) {
    Descriptor dialled(socket(address->ai_family,
                              address->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC,
                              address->ai_protocol));
    if (!dialled.ok()) return Unreachable(std::strerror(errno));
    why = ConnectTo(dialled.get(), *address, until);
    if (!why.ok()) continue;
    SetNoDelay(dialled.get());
    return dialled.Release();
  }
  return why;
}

struct FreeCommand {
  void operator()(char* command) const { redisFreeCommand(command); }
};

}  // namespace

Result<RedisUrl> ParseRedisUrl(std::string_view url) {
  Url parts;
  const UrlFault fault = ParseUrl(url, &parts);
  if (url.starts_with("rediss://")) {
    return InvalidArgument("invalid_value",
                           "rediss:// is not spoken: put a TLS tunnel before Redis, and name its "
                           "near end");
  }
  if (parts.password.has_value()) {
    return InvalidArgument("invalid_value",
                           "holds a password, which everybody can see who lists processes: "
                           "write it into a file");
  }
  std::optional<std::string> user = DecodeUrlPart(parts.user.value_or(""));
  const std::optional<std::string> database =
      DecodeUrlPart(parts.path.substr(parts.path.empty() ? 0 : 1));
  if (fault != UrlFault::kNone || parts.scheme != "redis" || !parts.rest.empty() ||
      !user.has_value() || !database.has_value())
    return NoUrl();
  RedisUrl out{.user = *std::move(user),
               .host = std::string(parts.host),
               .port = parts.port != 0 ? parts.port : 6379,
               .database = 0};
  if (database->empty()) return out;
  out.database = ParseNumber<int>(*database).value_or(-1);
  if (out.database < 0 || out.database > kMaxDatabase) return NoUrl();
  return out;
}

std::string RedactedUrl(const RedisUrl& url) {
  return "redis://" + HostAndPort(url.host, url.port) + "/" + std::to_string(url.database);
}

Status RefusedBy(const Reply& reply) {
  return Unavailable("redis_refused", "Redis says " + LogEscape(reply.text, 128));
}

Result<std::unique_ptr<Connection>> Connection::Open(const ConnectionOptions& options) {
  const TimePoint until = Now() + options.connect_timeout;
  ASSIGN_OR_RETURN(const int fd, Dial(options.url, until));
  std::unique_ptr<Connection> connection(new Connection(fd, options.reply));
  RETURN_IF_ERROR(connection->Greet(options, until));
  return connection;
}

Connection::~Connection() { close(fd_); }

Status Connection::Greet(const ConnectionOptions& options, TimePoint until) {
  if (!options.password.empty()) {
    const Result<Reply> believed = options.url.user.empty()
                                       ? Call({"AUTH", options.password}, until)
                                       : Call({"AUTH", options.url.user, options.password}, until);
    RETURN_IF_ERROR(believed.status());
  }
  if (options.url.database != 0)
    RETURN_IF_ERROR(Call({"SELECT", std::to_string(options.url.database)}, until).status());
  // Checks that the server answers and allows commands.
  return Call({"PING"}, until).status();
}

Status Connection::Broken(Status why) {
  broken_ = true;
  return why;
}

Status Connection::Send(Words command, TimePoint until) {
  if (broken_) return Unreachable("the connection is broken");
  std::vector<const char*> words;
  std::vector<size_t> sizes;
  words.reserve(command.size());
  sizes.reserve(command.size());
  for (const std::string_view word : command) {
    words.push_back(word.data());
    sizes.push_back(word.size());
  }
  char* formatted = nullptr;
  const auto size = redisFormatCommandArgv(&formatted, static_cast<int>(words.size()), words.data(),
                                           sizes.data());
  if (size < 0) return Broken(Unreachable("no memory for a command"));
  const std::unique_ptr<char, FreeCommand> held(formatted);
  ++outstanding_;  // of a half-sent one too something may come
  std::string_view left(formatted, static_cast<size_t>(size));
  while (!left.empty()) {
    const ssize_t sent = send(fd_, left.data(), left.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      left.remove_prefix(static_cast<size_t>(sent));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      if (Status status = WaitFor(fd_, POLLOUT, until); !status.ok())
        return Broken(std::move(status));
    } else if (errno != EINTR) {
      return Broken(Unreachable(std::strerror(errno)));
    }
  }
  return OkStatus();
}

Result<Reply> Connection::Receive(TimePoint until) {
  if (broken_) return Unreachable("the connection is broken");
  if (outstanding_ == 0) return Broken(Unreachable("nothing was asked"));
  std::array<char, 16384> buffer;
  while (true) {
    Result<std::optional<Reply>> next = reader_.Next();
    if (!next.ok()) return Broken(std::move(next).status());
    if (next->has_value()) {
      --outstanding_;
      return **std::move(next);
    }
    const ssize_t got = recv(fd_, buffer.data(), buffer.size(), 0);
    if (got > 0) {
      if (Status status = reader_.Feed({buffer.data(), static_cast<size_t>(got)}); !status.ok())
        return Broken(std::move(status));
      // The time limit also holds for a server that sends single bytes, or without end.
      if (Now() < until) continue;
      next = reader_.Next();
      if (next.ok() && next->has_value()) {
        --outstanding_;
        return **std::move(next);
      }
      return Broken(Late());
    }
    if (got == 0) return Broken(Unreachable("it has closed the connection"));
    if (errno == EAGAIN || errno == EWOULDBLOCK) {
      if (Status status = WaitFor(fd_, POLLIN, until); !status.ok())
        return Broken(std::move(status));
    } else if (errno != EINTR) {
      return Broken(Unreachable(std::strerror(errno)));
    }
  }
}

Result<std::optional<Reply>> Connection::ReceiveNow() {
  if (broken_) return Unreachable("the connection is broken");
  std::array<char, 16384> buffer;
  while (true) {
    Result<std::optional<Reply>> next = reader_.Next();
    if (!next.ok()) return Broken(std::move(next).status());
    if (next->has_value()) {
      if (outstanding_ == 0) return Broken(Unreachable("an answer to nothing came"));
      --outstanding_;
      return next;
    }
    const ssize_t got = recv(fd_, buffer.data(), buffer.size(), 0);
    if (got > 0) {
      if (Status status = reader_.Feed({buffer.data(), static_cast<size_t>(got)}); !status.ok())
        return Broken(std::move(status));
    } else if (got == 0) {
      return Broken(Unreachable("it has closed the connection"));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return std::optional<Reply>();
    } else if (errno != EINTR) {
      return Broken(Unreachable(std::strerror(errno)));
    }
  }
}

Result<Reply> Connection::Call(Words command, TimePoint until) {
  RETURN_IF_ERROR(Send(command, until));
  Result<Reply> reply = Receive(until);
  if (reply.ok() && reply->is_error()) return RefusedBy(*reply);
  return reply;
}

void Connection::Interrupt() { (void)shutdown(fd_, SHUT_RDWR); }

bool Connection::Clean() {
  if (broken_ || outstanding_ > 0 || !reader_.empty()) return false;
  char byte = 0;
  const ssize_t got = recv(fd_, &byte, 1, MSG_PEEK);
  return got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
}

}  // namespace tutti::redis
