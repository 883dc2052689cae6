// Residency: which sessions are in memory. One that has something to do stays; of the idle ones the
// least recently used go first, once there are more than so many: the store has all of them. What
// one tenant, and all together, may keep busy is bounded. Belongs to the strand.
#pragma once

#include <cstddef>
#include <list>
#include <map>
#include <memory>
#include <string>

#include "base/status.h"
#include "services/sessions/session.h"

namespace tutti::sessions {

class Residency {
 public:
  struct Limits {
    size_t idle = 100;
    size_t active = 4096;
    size_t active_per_tenant = 1000;
  };
  explicit Residency(const Limits& limits) : limits_(limits) {}

  // The session, made where it is not in memory (then it is not loaded); active until Settle().
  // Errors: tenant_concurrency, overloaded (too many active ones).
  Result<std::shared_ptr<Session>> Use(const SessionKey& key);
  std::shared_ptr<Session> Find(const SessionKey& key) const;
  // If it is idle now it is the most recently used of those, and the oldest may go; one that the
  // store does not have goes at once.
  void Settle(const std::shared_ptr<Session>& session);
  void Remove(const std::shared_ptr<Session>& session);
  // Idle ones not used since `before_s` go.
  void RemoveUnused(int64_t before_s, int64_t conversations_before_s);

  template <typename F>
  void ForEach(F&& f) const {
    for (const auto& [key, session] : sessions_) f(session);
  }
  size_t size() const { return sessions_.size(); }
  size_t idle() const { return idle_.size(); }

 private:
  void Awake(Session& session);

  const Limits limits_;
  std::map<SessionKey, std::shared_ptr<Session>> sessions_;
  std::list<SessionKey> idle_;            // the least recently used first
  std::map<std::string, size_t> active_;  // by tenant
};

}  // namespace tutti::sessions
