// Loop: the listener's only io thread and the objects that belong to it: the hub, the connections,
// the login gate, the inbox of work from other threads.
#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/work_inbox.h"
#include "server/mqtt/listener/authenticator.h"
#include "server/mqtt/listener/hub.h"
#include "server/mqtt/listener/limits.h"
#include "server/net/io_thread.h"

namespace tutti::mqtt::listener {

class Connection;

// LoginGate: limits the connections without a login, in total and per address, so that clients
// which never log in take a bounded share of memory and connections. Pure counting.
class LoginGate {
 public:
  explicit LoginGate(const Limits& limits) : limits_(limits) {}

  bool Enter(const std::string& address) {  // false: there is no room
    if (inside_ >= limits_.logins || IsFull(address)) return false;
    ++of_address_[address];
    ++inside_;
    return true;
  }
  // Whether the limit of that address is reached.
  bool IsFull(const std::string& address) const {
    const auto known = of_address_.find(address);
    return known != of_address_.end() && known->second >= limits_.logins_per_address;
  }
  void Leave(const std::string& address) {
    const auto known = of_address_.find(address);
    CHECK(known != of_address_.end());
    if (--known->second == 0) of_address_.erase(known);
    --inside_;
  }
  int inside() const { return inside_; }

 private:
  const Limits& limits_;
  int inside_ = 0;
  std::unordered_map<std::string, int> of_address_;  // at most one entry for each connection inside
};

// The user name of a login, for logs. A name longer than those of people may be a key or a token in
// the wrong field, so only its length is logged.
std::string NameForLog(const std::string& user_name);

class Loop {
 public:
  Loop(const Limits& limits, const Clock& clock, Authenticator& authenticator, Logger* log);
  ~Loop();

  // --- owner ---
  void Start();
  // Runs `work` on the io thread and waits for it; on the caller's thread if the io thread does not
  // run.
  void Do(const std::function<void()>& work);
  void Stop();  // closes every connection, then joins

  // --- io thread ---
  boost::asio::io_context& context() { return thread_.context(); }
  // Takes a place at the login gate. If there is none, the oldest connection that has not sent
  // CONNECT is closed for it, so that silent clients cannot block others. False: all have sent
  // CONNECT.
  bool Enter(const std::string& address);
  void Leave(Connection& connection);  // gives up its place at the login gate
  void Add(std::shared_ptr<Connection> connection);
  void Remove(const std::shared_ptr<Connection>& connection);
  template <typename Visit>
  void ForEach(Visit visit) {
    const auto copy = connections_;  // a visit may remove
    for (const auto& connection : copy) visit(*connection);
  }
  // Called after every event: sends what the hub has for its sessions, and sets the hub's timer.
  void Settle();
  // The client in a line of the log.
  struct Who {
    const std::string& peer;
    const std::string& user;        // empty before the login
    const std::string& asked_name;  // NameForLog()
  };
  void NoteEnd(const Who& who, ReasonCode why);
  void NoteForbidden(const Who& who, std::string_view what, std::string_view topic);
  void NoteHandshake(const std::string& peer, const std::string& why);  // logs a failed handshake

  const Limits& limits;
  const Clock& clock;
  Authenticator& authenticator;
  Hub hub;
  std::function<void()> on_closed;  // a connection has ended: accepting may continue
  // --- any thread ---
  const std::shared_ptr<WorkInbox>& inbox() const { return inbox_; }
  int connections() const { return count_.load(); }

 private:
  void CheckLogins();  // now, and repeatedly while there are connections

  Logger* const log_;
  LogPace end_lines_, handshake_lines_, forbidden_lines_;
  sockets::IoThread thread_;
  boost::asio::steady_timer hub_timer_;
  TimePoint armed_for_ = TimePoint::max();
  boost::asio::steady_timer login_timer_;
  bool checks_logins_ = false;
  const std::shared_ptr<WorkInbox> inbox_;
  LoginGate gate_;
  std::vector<Connection*> newcomers_;  // at the login gate, oldest first
  std::set<std::shared_ptr<Connection>> connections_;
  std::atomic<int> count_{0};
};

}  // namespace tutti::mqtt::listener
