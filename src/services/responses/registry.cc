#include "services/responses/registry.h"

#include <utility>

namespace tutti::responses {

Status Registry::Add(const std::shared_ptr<Response>& response) {
  const MutexLock lock(mutex_);
  const std::string& name = response->owner();
  if (entries_.contains(response->id()))
    return Status(StatusCode::kAlreadyExists, "store_conflict", "there is such a response already");
  Owner& owner = owners_[name];
  if (owner.responses >= limits_.per_owner || entries_.size() >= limits_.all) {
    const bool own = owner.responses >= limits_.per_owner;
    if (owner.ended.empty()) {
      if (owner.responses == 0) owners_.erase(name);
      if (own) {
        return ResourceExhausted("tenant_concurrency",
                                 std::to_string(limits_.per_owner) + " responses are under way")
            .WithExcess(static_cast<int64_t>(limits_.per_owner) + 1,
                        static_cast<int64_t>(limits_.per_owner));
      }
      return Unavailable("overloaded", "too many responses are under way");
    }
    RemoveLocked(std::string(owner.ended.front()));
  }
  ++owners_[name].responses;
  entries_[response->id()] = {response};
  return OkStatus();
}

std::shared_ptr<Response> Registry::Find(const std::string& owner, const std::string& id) const {
  const MutexLock lock(mutex_);
  const auto found = entries_.find(id);
  if (found == entries_.end() || found->second.response->owner() != owner) return nullptr;
  return found->second.response;
}

void Registry::Ended(const Response& response) {
  const MutexLock lock(mutex_);
  const auto found = entries_.find(response.id());
  if (found == entries_.end() || std::exchange(found->second.ended, true)) return;
  Owner& owner = owners_[response.owner()];
  found->second.place = owner.ended.insert(owner.ended.end(), response.id());
}

void Registry::Remove(const std::string& id) {
  const MutexLock lock(mutex_);
  RemoveLocked(id);
}

void Registry::RemoveEnded(const std::string& name) {
  const MutexLock lock(mutex_);
  const auto owner = owners_.find(name);
  if (owner == owners_.end()) return;
  const std::list<std::string> ended = owner->second.ended;
  for (const std::string& id : ended) RemoveLocked(id);
}

void Registry::RemoveLocked(const std::string& id) {
  const auto found = entries_.find(id);
  if (found == entries_.end()) return;
  const auto owner = owners_.find(found->second.response->owner());
  if (found->second.ended) owner->second.ended.erase(found->second.place);
  if (--owner->second.responses == 0) owners_.erase(owner);
  entries_.erase(found);
}

size_t Registry::size() const {
  const MutexLock lock(mutex_);
  return entries_.size();
}

}  // namespace tutti::responses
