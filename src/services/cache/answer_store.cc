#include "services/cache/answer_store.h"

#include <algorithm>
#include <iterator>

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

  // Allocates first: if memory runs out, the answer is not stored and nothing changes.
  std::list<Entry> entry;
  entry.push_front({answer, bytes, now});
  const auto place = by_key_.try_emplace(answer->key(), Place{{}, entry.begin()}).first;
  Tenants::iterator tenant;
  try {
    tenant = tenants_.try_emplace(answer->tenant()).first;
  } catch (...) {
    by_key_.erase(place);
    throw;
  }
  place->second.tenant = tenant;
  tenant->second.entries.splice(tenant->second.entries.begin(), entry);
  tenant->second.bytes += bytes;
  bytes_ += bytes;
  // The newest is never its tenant's only one too many: it fits by itself.
  while (tenant->second.bytes > limits_.tenant_bytes) RemoveLast(tenant, &gone);
  ShrinkTo(limits_.bytes, &gone);
  return gone;
}

AnswerStore::Gone AnswerStore::ShrinkTo(size_t bytes) {
  Gone gone;
  ShrinkTo(bytes, &gone);
  return gone;
}

void AnswerStore::ShrinkTo(size_t bytes, Gone* gone) {
  while (bytes_ > bytes) {
    RemoveLast(std::max_element(
                   tenants_.begin(), tenants_.end(),
                   [](const auto& a, const auto& b) { return a.second.bytes < b.second.bytes; }),
               gone);
  }
}

void AnswerStore::RemoveLast(Tenants::iterator tenant, Gone* gone) {
  Remove({tenant, std::prev(tenant->second.entries.end())}, gone);
}

void AnswerStore::Remove(const Place& place, Gone* gone) {
  const auto [tenant, entry] = place;
  gone->push_back(entry->answer);  // alone may throw
  by_key_.erase(entry->answer->key());
  bytes_ -= entry->bytes;
  tenant->second.bytes -= entry->bytes;
  tenant->second.entries.erase(entry);
  if (tenant->second.entries.empty()) tenants_.erase(tenant);
}

AnswerStore::Gone AnswerStore::Flush(std::optional<std::string_view> tenant) {
  ++era_;
  Gone gone;
  // Looked up each time, because removing its last answer also removes the tenant.
  const auto next = [&] { return tenant.has_value() ? tenants_.find(*tenant) : tenants_.begin(); };
  for (auto found = next(); found != tenants_.end(); found = next()) RemoveLast(found, &gone);
  return gone;
}

size_t AnswerStore::tenant_bytes(std::string_view tenant) const {
  const auto found = tenants_.find(tenant);
  return found == tenants_.end() ? 0 : found->second.bytes;
}

}  // namespace tutti::cache
