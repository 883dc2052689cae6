#include "services/cache/answer_store.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace tutti::cache {

std::optional<AnswerStore::Found> AnswerStore::Find(const AnswerKey& key, TimePoint now,
                                                    std::optional<Duration> max_age) {
  const auto found = by_key_.find(key);  // by the hash, then word for word
  if (found == by_key_.end()) return std::nullopt;
  const Place& place = found->second;
  const Duration age = now - place.entry->since;
  if (age >= limits_.ttl) {
    Gone gone;
    Remove(place, &gone);
    return std::nullopt;
  }
  if (max_age.has_value() && age > *max_age) return std::nullopt;
  std::list<Entry>& entries = place.tenant->second.entries;
  entries.splice(entries.begin(), entries, place.entry);
  return Found{place.entry->answer, age};
}

AnswerStore::Gone AnswerStore::Insert(std::shared_ptr<const Kept> answer, TimePoint now) {
  Gone gone;
  if (const auto old = by_key_.find(answer->key()); old != by_key_.end())
    Remove(old->second, &gone);
  const size_t bytes = answer->bytes();
  if (bytes > std::min(limits_.bytes, limits_.tenant_bytes)) return gone;

  const auto tenant = tenants_.try_emplace(answer->tenant()).first;
  tenant->second.entries.push_front({answer, bytes, now});
  tenant->second.bytes += bytes;
  bytes_ += bytes;
  by_key_.emplace(answer->key(), Place{tenant, tenant->second.entries.begin()});
  // The newest is never its tenant's only one too many: it fits by itself.
  while (tenant->second.bytes > limits_.tenant_bytes) RemoveLast(tenant, &gone);
  while (bytes_ > limits_.bytes) {
    RemoveLast(std::max_element(
                   tenants_.begin(), tenants_.end(),
                   [](const auto& a, const auto& b) { return a.second.bytes < b.second.bytes; }),
               &gone);
  }
  return gone;
}

void AnswerStore::RemoveLast(Tenants::iterator tenant, Gone* gone) {
  Remove({tenant, std::prev(tenant->second.entries.end())}, gone);
}

void AnswerStore::Remove(const Place& place, Gone* gone) {
  const auto [tenant, entry] = place;
  by_key_.erase(entry->answer->key());
  bytes_ -= entry->bytes;
  tenant->second.bytes -= entry->bytes;
  gone->push_back(std::move(entry->answer));
  tenant->second.entries.erase(entry);
  if (tenant->second.entries.empty()) tenants_.erase(tenant);
}

AnswerStore::Gone AnswerStore::Flush(std::string_view tenant) {
  Gone gone;
  // Found anew each time: the last of its answers takes the tenant along.
  for (auto found = tenants_.find(tenant); found != tenants_.end(); found = tenants_.find(tenant))
    RemoveLast(found, &gone);
  return gone;
}

AnswerStore::Gone AnswerStore::FlushAll() {
  Gone gone;
  while (!tenants_.empty()) RemoveLast(tenants_.begin(), &gone);
  return gone;
}

size_t AnswerStore::tenant_bytes(std::string_view tenant) const {
  const auto found = tenants_.find(tenant);
  return found == tenants_.end() ? 0 : found->second.bytes;
}

}  // namespace tutti::cache
