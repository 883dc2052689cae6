// Acceptor: the listening socket of the door, and how many connections there are.
//
// The gRPC library of Debian 12 has no limit on connections, so that accepting is ours: one thread,
// which blocks in epoll only. A connection is handed on, and a duplicate of its descriptor kept to
// see its end: the library shuts a socket down before it closes it. Start and Stop belong to one
// thread.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <unordered_set>

#include "base/clock.h"
#include "base/status.h"

namespace tutti::rpc {

class Acceptor {
 public:
  // `take` owns the descriptor that it is given; it is called on the acceptor's thread.
  Acceptor(int most, std::function<void(int fd)> take);
  ~Acceptor();  // Stop()
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  // `host` is an address, or localhost. Errors: invalid_value, io_error.
  Status Listen(const std::string& host, int port);
  void Start();          // begins to accept
  void StopListening();  // no further connection; those there are stay counted
  void Stop();

  int port() const { return port_; }
  const std::string& host() const { return host_; }  // as it is bound
  int connections() const { return connections_.load(std::memory_order_relaxed); }

 private:
  void Main();
  void Accept();
  void Watch(int fd, bool on) const;  // whether the listening socket is asked

  const int most_;
  const std::function<void(int)> take_;
  std::string host_;
  int port_ = 0;
  int listener_ = -1, epoll_ = -1, wake_ = -1;
  std::atomic<bool> closing_{false}, stopping_{false};
  std::atomic<int> connections_{0};
  bool accepting_ = false;              // of the thread
  std::unordered_set<int> duplicates_;  // of the thread
  std::thread thread_;
};

// Whether the address is of this machine alone. Errors: invalid_value for what is no address.
Result<bool> IsLoopback(const std::string& host);

}  // namespace tutti::rpc
