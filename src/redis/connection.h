// Connection: one connection to a Redis server. Replies arrive in the order of the commands, and
// every wait ends at a time that its caller chose.
//
// Used by one thread at a time, which may block: never call it from an I/O thread or while holding
// a lock. Only Interrupt() may be called from any thread.
//
// To read a list as it fills (BLPOP), use a thread with a connection of its own that calls
// Call({"BLPOP", key, "30"}, 31 s) in a loop. The thread that ends the reader calls Interrupt():
// the call returns at once, and the connection is broken. Without Interrupt(), use a short timeout
// in Redis (BLPOP key 0.1) and check a flag between calls. The timeout here must be longer than the
// timeout in Redis: if it ends first, the connection breaks, and an element that Redis hands out at
// that moment is lost. The alternative is to keep many reads under way and call ReceiveNow()
// (broker/redis_broker.cc).
//
// After any error the connection is broken, because a reply still on its way would be taken for the
// reply to a later command.
//
// ParseRedisUrl() reads the address of a server.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/status.h"
#include "redis/reply.h"

namespace tutti::redis {

// --- the address of a Redis server: pure functions over plain values; any thread ---

struct RedisUrl {
  std::string user;  // empty: Redis' user "default"
  std::string host;  // a name, or an address in digits (IPv6 without brackets)
  int port = 6379;   // 1 to 65,535
  int database = 0;
  friend bool operator==(const RedisUrl&, const RedisUrl&) = default;
};

// Parses `redis://[USER@]HOST[:PORT][/DATABASE]`. A password in the URL is refused, because it
// would be visible in the process's arguments. Error: invalid_value; the message names the accepted
// form and never contains what may be a password.
Result<RedisUrl> ParseRedisUrl(std::string_view url);

// "redis://HOST:PORT/DATABASE", for logs; without the user's name.
std::string RedactedUrl(const RedisUrl& url);

struct ConnectionOptions {
  RedisUrl url;
  std::string password;                                // empty: none
  Duration connect_timeout = std::chrono::seconds(1);  // until it can be used; the name's look-up
                                                       // takes what the system's resolver takes
  ReplyLimits reply;
};

class Connection {
 public:
  // Connects, authenticates the user (AUTH) and selects the database (SELECT). Errors:
  // redis_unreachable, redis_timeout, redis_protocol, redis_refused (Redis rejects the user,
  // password or database).
  static Result<std::unique_ptr<Connection>> Open(const ConnectionOptions& options);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  using Words = std::span<const std::string_view>;  // of a command; any bytes
  // Sends a command. Errors: redis_timeout, redis_unreachable.
  Status Send(Words command, TimePoint until);
  // Waits for the reply to the oldest command without one; a reply of kind kError is a reply.
  // Errors: redis_timeout, redis_unreachable, redis_protocol.
  Result<Reply> Receive(TimePoint until);
  // Returns the same reply if it has arrived, without waiting; nothing if it has not. descriptor()
  // becomes readable when more bytes arrive.
  Result<std::optional<Reply>> ReceiveNow();
  int descriptor() const { return fd_; }
  // Send() and Receive(). Errors: those of both, and redis_refused for a reply of kind kError.
  Result<Reply> Call(Words command, TimePoint until);
  Result<Reply> Call(std::initializer_list<std::string_view> command, TimePoint until) {
    return Call(Words(command.begin(), command.size()), until);
  }

  // Makes the current wait and every later one return at once. Any thread, while the connection
  // lives.
  void Interrupt();

  // Whether the connection may be reused by another borrower: no reply is outstanding, and no
  // unexpected bytes arrived.
  bool Clean();
  bool broken() const { return broken_; }
  size_t outstanding() const { return outstanding_; }  // commands without a reply

 private:
  Connection(int fd, const ReplyLimits& limits) : fd_(fd), reader_(limits) {}
  Status Greet(const ConnectionOptions& options, TimePoint until);
  Status Broken(Status why);

  const int fd_;
  ReplyReader reader_;
  size_t outstanding_ = 0;
  bool broken_ = false;
};

// redis_refused with the error text of Redis, truncated and without control characters.
Status RefusedBy(const Reply& reply);

}  // namespace tutti::redis
