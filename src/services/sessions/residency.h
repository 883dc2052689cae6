// Residency: the sessions in memory. Active sessions stay; idle ones beyond a limit are evicted,
// least recently used first, because the store has all of them. The number of active sessions is
// bounded, per tenant and in total. Used on the strand only.
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

  // Returns the session and makes it, not yet loaded, if it is not in memory. It is active until
  // Settle(). Errors: tenant_concurrency, overloaded (too many active sessions).
  Result<std::shared_ptr<Session>> Use(const SessionKey& key);
  std::shared_ptr<Session> Find(const SessionKey& key) const;
  // If the session is idle now, makes it the most recently used idle session and evicts the oldest
  // ones beyond the limit. A session without a row in the store is dropped at once.
  void Settle(const std::shared_ptr<Session>& session);
  void Remove(const std::shared_ptr<Session>& session);
  // Drops idle sessions that have not been used since `before_s`.
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
