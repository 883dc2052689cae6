// Acceptor: the listening socket of the gRPC server. Limits the number of connections, and shuts
// down connections that abuse the server.
//
// The gRPC library of Debian 12 has no limit on connections, so this class accepts them: one
// thread, which blocks in epoll only. Each connection is passed to the library, after a delay if
// others of its address were shut down for abuse (abuse_limits.h). The acceptor keeps a
// duplicate of the descriptor, to notice the end of the connection (the library shuts a socket down
// before it closes it), and to check the number of received bytes (ConnectionAccount). A second
// thread passes connections to the library, because the library may use that thread to read from a
// connection for as long as it sends. Start and Stop belong to one thread.
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
#include "server/grpc/abuse_limits.h"

namespace tutti::rpc {

class Acceptor {
 public:
  struct Options {
    int most = 1024;            // limit of connections
    int64_t message_bytes = 0;  // limit of one message
    AbuseLimits abuse;
    PenaltyLimits penalties;
    // Called for each connection that is shut down for abuse, with the kind of its verdict or
    // "all_bytes". On the acceptor's thread; may be null.
    std::function<void(std::string_view peer, std::string_view why)> on_abuse = nullptr;
  };
  // `take` takes ownership of a descriptor; it is called on a thread of its own. `accounts` gets
  // the accounts of the connections. `accounts` and `clock` outlive the acceptor.
  Acceptor(const Options& options, ConnectionAccounts& accounts, const Clock& clock,
           std::function<void(int fd)> take);
  ~Acceptor();  // Stop()
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  // `host` is an address, or localhost. Errors: invalid_value, io_error.
  Status Listen(const std::string& host, int port);
  void Start();          // begins to accept
  void StopListening();  // accepts no more; open connections stay counted
  void Stop();

  int port() const { return port_; }
  const std::string& address() const { return address_; }  // the bound address, in digits
  int connections() const { return connections_.load(std::memory_order_relaxed); }

 private:
  // One connection; the key is the duplicate of its descriptor.
  struct Watched {
    std::string peer, network;  // name of the peer in calls; key of its penalties
    std::shared_ptr<ConnectionAccount> account;
    int64_t debt = 0;  // at its last judgement
    bool suspect = false;
    bool ended = false;  // shut down for abuse
    int held = -1;       // the delayed descriptor; -1: passed on
  };
  void Main();
  void HandOn();
  void Accept();
  void Watch(int fd, bool on) const;  // adds own descriptors to epoll, or removes them
  // Arms epoll for the end of a connection and, if `bytes`, once for its next byte.
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
  std::vector<int> talking_;                  // of the thread: connections that sent something
  AddressPenalties penalties_;                // of the thread
  std::multimap<TimePoint, int> held_;        // of the thread: delayed connections, by time
  int64_t all_debt_ = 0;                      // of the thread
  TimePoint police_at_ = TimePoint::max();    // of the thread
  Mutex mutex_;
  CondVar accepted_;
  std::deque<int> to_hand_on_ GUARDED_BY(mutex_);  // descriptors
  // Connections to judge because of their calls, whether they still send or not. A descriptor may
  // meanwhile belong to another connection; judging that one too is harmless.
  std::vector<int> to_judge_ GUARDED_BY(mutex_);  // unique; capacity for all connections
  std::thread thread_, hand_on_;
};

// Whether `host` is a loopback address. Errors: invalid_value if it is no address.
Result<bool> IsLoopback(const std::string& host);

}  // namespace tutti::rpc
