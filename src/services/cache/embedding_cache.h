// EmbeddingCache: embedding cache with one raw row per input, so that only the unknown inputs of a
// call are computed, and equal inputs once. Implements api::EncodingCache for pooled vectors and
// scores; per-token vectors are not cached.
//
// Made by app::Caches; shared by the gateway and its running requests. Any thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "api/answer_cache.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "services/cache/answer_key.h"
#include "services/cache/answer_store.h"

namespace tutti::cache {

struct RowStats {
  uint64_t hits = 0, misses = 0, bypasses = 0;  // inputs
  size_t entries = 0, bytes = 0;                // kept now
};

class EmbeddingCache final : public api::EncodingCache,
                             public std::enable_shared_from_this<EmbeddingCache> {
 public:
  // `clock` must outlive it. Must be owned by a shared_ptr.
  EmbeddingCache(const AnswerLimits& limits, const Clock& clock) : clock_(clock), store_(limits) {}

  std::shared_ptr<api::KnownRows> Look(const api::RenderedInputs& inputs) override;

  // Drops all rows of a tenant (nullopt: of all); running computations are not kept. Returns the
  // number of rows.
  size_t Flush(std::optional<std::string_view> tenant);
  // Evicts half of the cache; called when memory is short.
  void Halve();
  RowStats stats() const;

 private:
  class Rows;
  class Row;
  std::shared_ptr<const Row> Find(const AnswerKey& key, const api::CacheControl& control,
                                  Duration* age);
  void Keep(std::shared_ptr<const Row> row, uint64_t era);

  const HashKey secret_ = DrawHashKey();
  const Clock& clock_;
  std::atomic<uint64_t> hits_{0}, misses_{0}, bypasses_{0};
  mutable Mutex mutex_;
  AnswerStore store_ GUARDED_BY(mutex_);
};

}  // namespace tutti::cache
