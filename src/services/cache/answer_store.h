// AnswerStore: LRU store of complete answers (generations, encoder rows), bounded in bytes and age.
//
// Each tenant has an LRU list of its own. Evictions come from a tenant that exceeds its share, else
// from the tenant with the most bytes, so that no tenant can evict the answers of a smaller one.
// Not thread-safe: the owner locks it, and passes the time to each call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "services/cache/answer_key.h"

namespace tutti::cache {

struct AnswerLimits {
  size_t bytes = size_t{64} << 20;         // of all answers
  size_t tenant_bytes = size_t{16} << 20;  // of one tenant's, and so of one answer
  Duration ttl = std::chrono::hours(1);
};

// An entry of the store.
class Kept {
 public:
  virtual ~Kept() = default;
  virtual const AnswerKey& key() const = 0;
  virtual const std::string& tenant() const = 0;
  virtual size_t bytes() const = 0;  // of memory; the same from when it is kept
};

class AnswerStore {
 public:
  explicit AnswerStore(const AnswerLimits& limits) : limits_(limits) {}

  struct Found {
    std::shared_ptr<const Kept> answer;
    Duration age{0};
  };
  // Returns no entry older than `max_age` or the time to live. A found entry becomes the most
  // recently used one.
  std::optional<Found> Find(const AnswerKey& key, TimePoint now, std::optional<Duration> max_age);

  // Inserts or replaces an entry. Returns the evicted entries, so that the caller can free them
  // outside its lock.
  using Gone = std::vector<std::shared_ptr<const Kept>>;
  Gone Insert(std::shared_ptr<const Kept> answer, TimePoint now);
  // Removes the entries of a tenant; nullopt: all.
  Gone Flush(std::optional<std::string_view> tenant);
  // Evicts entries until at most `bytes` remain.
  Gone ShrinkTo(size_t bytes);
  Gone Halve() { return ShrinkTo(bytes_ / 2); }

  // Counted up by every flush: an answer whose computation began in an earlier era is not kept.
  uint64_t era() const { return era_; }
  size_t entries() const { return by_key_.size(); }
  size_t bytes() const { return bytes_; }
  size_t tenant_bytes(std::string_view tenant) const;

 private:
  struct Entry {
    std::shared_ptr<const Kept> answer;
    size_t bytes = 0;
    TimePoint since;
  };
  struct Tenant {
    std::list<Entry> entries;  // the last used first
    size_t bytes = 0;
  };
  using Tenants = std::map<std::string, Tenant, std::less<>>;
  struct Place {
    Tenants::iterator tenant;
    std::list<Entry>::iterator entry;
  };
  void Remove(const Place& place, Gone* gone);
  void ShrinkTo(size_t bytes, Gone* gone);
  void RemoveLast(Tenants::iterator tenant, Gone* gone);

  const AnswerLimits limits_;
  Tenants tenants_;  // none without an entry
  std::unordered_map<AnswerKey, Place, AnswerKeyHash> by_key_;
  size_t bytes_ = 0;
  uint64_t era_ = 0;
};

}  // namespace tutti::cache
