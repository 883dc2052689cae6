// AnswerStore: answers that are whole (generations, rows of encoders), bounded in bytes and in age.
//
// Each tenant's are in the order of their last use. What is too much goes from a tenant's own end
// where the tenant has more than its share, and else from the end of whoever has most: nobody can
// drive out the answers of a tenant that has fewer. An owner with a lock around it; no clock.
#pragma once

#include <cstddef>
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

// What can be kept.
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
  // Nothing that is older than `max_age` or the limit. What is found is the last to go.
  std::optional<Found> Find(const AnswerKey& key, TimePoint now, std::optional<Duration> max_age);

  // In place of the one of that key. What had to go, for the caller to free where it holds no lock.
  using Gone = std::vector<std::shared_ptr<const Kept>>;
  Gone Insert(std::shared_ptr<const Kept> answer, TimePoint now);
  Gone Flush(std::string_view tenant);
  Gone FlushAll();
  // Until no more than `bytes` are kept, as where there are too many.
  Gone ShrinkTo(size_t bytes);

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
};

}  // namespace tutti::cache
