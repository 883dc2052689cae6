// Connection: one connection to a Redis: commands go out, replies come back in the same order, each
// wait ends by a time that its caller chose.
//
// One thread at a time, which may wait as long as it says: no io thread calls it, and no lock is
// held meanwhile. Interrupt() alone is for any thread.
//
// Whoever reads lists as they fill (BLPOP) does it on a thread of its own with a connection of its
// own: Call({"BLPOP", key, "30"}, 31 s) in a loop, and Interrupt() from whoever ends the thread:
// the call returns at once, and the connection is broken. Without that, a short wait at Redis
// (BLPOP key 0.1) and a look at a flag. A wait here that ends before that at Redis breaks the
// connection, and what Redis hands out in that moment is lost: so wait longer here than there. Or
// with many reads under way and ReceiveNow() (broker/redis_broker.cc).
//
// After any error the connection is broken: what is still on its way would be taken for the answer
// to somebody else's question.
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
#include "redis/redis_url.h"
#include "redis/reply.h"

namespace tutti::redis {

struct ConnectionOptions {
  RedisUrl url;
  std::string password;                                // empty: none
  Duration connect_timeout = std::chrono::seconds(1);  // until it can be used; the name's look-up
                                                       // takes what the system's resolver takes
  ReplyLimits reply;
};

class Connection {
 public:
  // Connected, its user believed (AUTH), in its database (SELECT). Errors: redis_unreachable,
  // redis_timeout, redis_protocol, redis_refused (what Redis says of user, password or database).
  static Result<std::unique_ptr<Connection>> Open(const ConnectionOptions& options);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  using Words = std::span<const std::string_view>;  // of a command; any bytes
  // Sends a command. Errors: redis_timeout, redis_unreachable.
  Status Send(Words command, TimePoint until);
  // The reply to the oldest command that has none yet; one of kind kError is a reply. Errors:
  // redis_timeout, redis_unreachable, redis_protocol.
  Result<Reply> Receive(TimePoint until);
  // The same if it has come, without waiting; nothing: it has not. descriptor() becomes readable
  // when there is more.
  Result<std::optional<Reply>> ReceiveNow();
  int descriptor() const { return fd_; }
  // Both. Errors: as those, and redis_refused for a reply of kind kError.
  Result<Reply> Call(Words command, TimePoint until);
  Result<Reply> Call(std::initializer_list<std::string_view> command, TimePoint until) {
    return Call(Words(command.begin(), command.size()), until);
  }

  // What waits on it returns at once, and whoever waits next; any thread, while it lives.
  void Interrupt();

  // Whether somebody else may use it now: nothing is on its way, nothing came unasked for.
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

// redis_refused, with what Redis says (cut, and without control characters).
Status RefusedBy(const Reply& reply);

}  // namespace tutti::redis
