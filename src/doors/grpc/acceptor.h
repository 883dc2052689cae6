// Acceptor: the listening socket of the door, how many connections there are, and the end of those
// that abuse it.
//
// The gRPC library of Debian 12 has no limit on connections, so that accepting is ours: one thread,
// which blocks in epoll only. A connection is handed on, after a while where others of its address
// were shut down for abuse (address_penalties.h), and a duplicate of its descriptor kept: to
// see its end, as the library shuts a socket down before it closes it, and, while bytes come, to
// look at their amount (connection_account.h). A second thread hands connections on: the library
// may use it to read what they send, for as long as they send. Start and Stop belong to one thread.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/status.h"
#include "doors/grpc/address_penalties.h"
#include "doors/grpc/connection_account.h"

namespace tutti::rpc {

class Acceptor {
 public:
  struct Options {
    int most = 1024;            // connections at once
    int64_t message_bytes = 0;  // of one message, at most
    AbuseLimits abuse;
    PenaltyLimits penalties;
    // Told of each connection that is shut down for abuse, and what kind it was: that of its
    // verdict, or "all_bytes". On the acceptor's thread; may be null.
    std::function<void(std::string_view peer, std::string_view why)> on_abuse = nullptr;
  };
  // `take` owns the descriptor that it is given; it is called on a thread of its own. Accounts of
  // the connections are put among `accounts`. What it refers to outlives it.
  Acceptor(const Options& options, ConnectionAccounts& accounts, const Clock& clock,
           std::function<void(int fd)> take);
  ~Acceptor();  // Stop()
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  // `host` is an address, or localhost. Errors: invalid_value, io_error.
  Status Listen(const std::string& host, int port);
  void Start();          // begins to accept
  void StopListening();  // no further connection; those there are stay counted
  void Stop();

  int port() const { return port_; }
  const std::string& address() const { return address_; }  // that is bound, in digits
  int connections() const { return connections_.load(std::memory_order_relaxed); }

 private:
  // One connection, by the duplicate of its descriptor.
  struct Watched {
    std::string peer, network;  // as calls name it; whose penalties it shares
    std::shared_ptr<ConnectionAccount> account;
    int64_t debt = 0;  // when it was judged
    bool suspect = false;
    bool ended = false;  // shut down by us
    int held = -1;       // the descriptor that is yet to be handed on
  };
  void Main();
  void HandOn();
  void Accept();
  void Watch(int fd, bool on) const;  // whether a descriptor of our own is asked
  // Told of the next byte of a connection, once, or of none; of its end always.
  bool Arm(int duplicate, bool first, bool bytes = true) const;
  bool Remember(int fd, int duplicate, std::string peer, std::string network);
  void Wake() const;
  void Serve(int fd);
  void ServeHeld(TimePoint now);
  void DropHeld();
  void Forget(int duplicate);
  void JudgeSoon(int duplicate);  // any thread
  void JudgeNamed();
  void Police();
  void Judge(int duplicate, Watched& watched, TimePoint now);
  void ShutDown(int duplicate, Watched& watched, std::string_view why);

  const Options options_;
  ConnectionAccounts& accounts_;
  const Clock& clock_;
  const std::function<void(int)> take_;
  std::string address_;
  int port_ = 0;
  int listener_ = -1, epoll_ = -1, wake_ = -1;
  std::atomic<bool> closing_{false}, stopping_{false}, judge_now_{false};
  std::atomic<int> connections_{0};
  bool accepting_ = false;                    // of the thread
  std::unordered_map<int, Watched> watched_;  // of the thread
  std::vector<int> talking_;                  // of the thread: those that sent something
  AddressPenalties penalties_;                // of the thread
  std::multimap<TimePoint, int> held_;        // of the thread: when whose turn comes
  int64_t all_debt_ = 0;                      // of the thread
  TimePoint police_at_ = TimePoint::max();    // of the thread
  Mutex mutex_;
  CondVar accepted_;
  std::deque<int> to_hand_on_ GUARDED_BY(mutex_);  // descriptors
  // Whose calls have come to be abuse, whether they still send or not. By then the number may be
  // another connection's: judging that one too does no harm.
  std::vector<int> to_judge_ GUARDED_BY(mutex_);  // none twice; with room for all connections
  std::thread thread_, hand_on_;
};

// Whether the address is of this machine alone. Errors: invalid_value for what is no address.
Result<bool> IsLoopback(const std::string& host);

}  // namespace tutti::rpc
