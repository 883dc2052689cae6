#include "services/sessions/session.h"

#include <utility>

#include "services/sessions/conversations.h"

namespace tutti::sessions {

Result<std::shared_ptr<Session>> Residency::Use(const SessionKey& key) {
  const auto known = sessions_.find(key);
  if (known != sessions_.end() && !known->second->in_idle) return known->second;
  if (sessions_.size() - idle_.size() >= limits_.active)
    return Unavailable("overloaded", "too many sessions are being answered");
  if (const auto of = active_.find(key.tenant);
      of != active_.end() && of->second >= limits_.active_per_tenant) {
    return ResourceExhausted("tenant_concurrency",
                             std::to_string(of->second) + " sessions are being answered already");
  }
  if (known != sessions_.end()) {
    Awake(*known->second);
    return known->second;
  }
  auto session = std::make_shared<Session>(key);
  sessions_[key] = session;
  ++active_[key.tenant];
  return session;
}

std::shared_ptr<Session> Residency::Find(const SessionKey& key) const {
  const auto known = sessions_.find(key);
  return known == sessions_.end() ? nullptr : known->second;
}

void Residency::Awake(Session& session) {
  idle_.erase(session.idle_place);
  session.in_idle = false;
  ++active_[session.key.tenant];
}

void Residency::Settle(const std::shared_ptr<Session>& session) {
  if (session->in_idle || !session->idle() || Find(session->key) != session) return;
  if (session->dialog == 0) return Remove(session);  // there is nothing to remember of it
  session->in_idle = true;
  session->idle_place = idle_.insert(idle_.end(), session->key);
  if (const auto of = active_.find(session->key.tenant); --of->second == 0) active_.erase(of);
  while (idle_.size() > limits_.idle) Remove(std::shared_ptr(sessions_.at(idle_.front())));
}

void Residency::Remove(const std::shared_ptr<Session>& session) {
  const auto known = sessions_.find(session->key);
  if (known == sessions_.end() || known->second != session) return;
  if (session->in_idle) {
    idle_.erase(std::exchange(session->idle_place, {}));
    session->in_idle = false;
  } else if (const auto of = active_.find(session->key.tenant); --of->second == 0) {
    active_.erase(of);
  }
  sessions_.erase(known);
}

void Residency::RemoveUnused(int64_t before_s, int64_t conversations_before_s) {
  for (auto place = idle_.begin(); place != idle_.end();) {
    const std::shared_ptr<Session> session = sessions_.at(*place);
    ++place;
    const bool conversation = session->key.project == kConversations;
    if (session->used_s < (conversation ? conversations_before_s : before_s)) Remove(session);
  }
}

}  // namespace tutti::sessions
