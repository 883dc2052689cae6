#include "services/cache/embedding_cache.h"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/check.h"

namespace tutti::cache {

class EmbeddingCache::Row final : public Kept {
 public:
  Row(AnswerKey key, std::string tenant, std::vector<float> values, int32_t tokens)
      : key_(std::move(key)),
        tenant_(std::move(tenant)),
        values_(std::move(values)),
        tokens_(tokens) {}
  const AnswerKey& key() const override { return key_; }
  const std::string& tenant() const override { return tenant_; }
  size_t bytes() const override {
    constexpr size_t kRecords = 512;  // of the row, of the tables it is in
    return kRecords + 2 * key_.words.size() + tenant_.size() + values_.size() * sizeof(float);
  }
  const std::vector<float>& values() const { return values_; }
  int32_t tokens() const { return tokens_; }  // read of the input

 private:
  const AnswerKey key_;
  const std::string tenant_;
  const std::vector<float> values_;
  const int32_t tokens_;
};

// Cached and missing rows of one request. Not thread-safe: the gateway makes it and passes it to
// the thread that takes the result.
class EmbeddingCache::Rows final : public api::KnownRows {
 public:
  Rows(std::shared_ptr<EmbeddingCache> cache, std::string tenant, uint64_t era)
      : cache_(std::move(cache)), tenant_(std::move(tenant)), era_(era) {}

  void AddKnown(std::shared_ptr<const Row> row) { inputs_.push_back({std::move(row), 0}); }
  void AddMissing(AnswerKey key) {
    missing_.push_back(inputs_.size());
    inputs_.push_back({nullptr, keys_.size()});
    keys_.push_back(std::move(key));
  }
  void AddEqual(size_t computed) { inputs_.push_back({nullptr, computed}); }
  size_t computed() const { return keys_.size(); }

  const std::vector<size_t>& missing() const override { return missing_; }

  void Complete(api::EncodeResult* result) override {
    CHECK_EQ(result->tokens.size(), keys_.size());
    const auto width = static_cast<size_t>(result->width);
    std::vector<std::shared_ptr<const Row>> fresh;
    for (size_t i = 0; i < keys_.size(); ++i) {
      const auto begin = result->values.begin() + static_cast<std::ptrdiff_t>(i * width);
      fresh.push_back(std::make_shared<Row>(
          std::move(keys_[i]), tenant_,
          std::vector<float>(begin, begin + static_cast<std::ptrdiff_t>(width)),
          result->tokens[i]));
    }
    result->values.clear();
    result->tokens.clear();
    for (const Input& input : inputs_) {
      const Row& row = input.known != nullptr ? *input.known : *fresh[input.computed];
      result->width = static_cast<int>(row.values().size());
      result->values.insert(result->values.end(), row.values().begin(), row.values().end());
      result->tokens.push_back(row.tokens());
    }
    for (auto& row : fresh) cache_->Keep(std::move(row), era_);
  }

 private:
  struct Input {
    std::shared_ptr<const Row> known;  // or
    size_t computed = 0;               // which of those that were
  };
  const std::shared_ptr<EmbeddingCache> cache_;
  const std::string tenant_;
  const uint64_t era_;
  std::vector<Input> inputs_;
  std::vector<size_t> missing_;
  std::vector<AnswerKey> keys_;  // of missing_
};

std::shared_ptr<const EmbeddingCache::Row> EmbeddingCache::Find(const AnswerKey& key,
                                                                const api::CacheControl& control,
                                                                Duration* age) {
  if (control.no_cache) return nullptr;
  const TimePoint now = clock_.Now();
  const MutexLock lock(mutex_);
  auto found = store_.Find(key, now, control.max_age);
  if (!found.has_value()) return nullptr;
  *age = std::max(*age, found->age);
  return std::static_pointer_cast<const Row>(std::move(found->answer));
}

std::shared_ptr<api::KnownRows> EmbeddingCache::Look(const api::RenderedInputs& inputs) {
  const api::EncodeRequest& request = inputs.request;
  const auto tell = [&](api::CacheOutcome outcome, Duration age) {
    if (request.cache_report != nullptr) request.cache_report->Set(outcome, age);
  };
  if (request.output == api::EncodeOutput::kTokens || request.cache.no_store) {
    bypasses_.fetch_add(inputs.lengths.size(), std::memory_order_relaxed);
    tell(api::CacheOutcome::kBypass, Duration(0));
    return nullptr;
  }
  uint64_t era = 0;
  {
    const MutexLock lock(mutex_);
    era = store_.era();
  }
  auto rows = std::make_shared<Rows>(shared_from_this(), request.tenant, era);
  std::unordered_map<AnswerKey, size_t, AnswerKeyHash> computed;  // of this request
  Duration age{0};
  size_t begin = 0;
  for (const int32_t length : inputs.lengths) {
    const auto size = static_cast<size_t>(length);
    AnswerKey key =
        KeyOf(inputs, inputs.tokens.subspan(begin, size),
              inputs.types.empty() ? inputs.types : inputs.types.subspan(begin, size), secret_);
    begin += size;
    if (const auto equal = computed.find(key); equal != computed.end()) {
      rows->AddEqual(equal->second);
    } else if (auto known = Find(key, request.cache, &age)) {
      rows->AddKnown(std::move(known));
    } else {
      computed.emplace(key, rows->computed());
      rows->AddMissing(std::move(key));
    }
  }
  const size_t missing = rows->missing().size();
  if (request.cache.no_cache) {
    bypasses_.fetch_add(inputs.lengths.size(), std::memory_order_relaxed);
  } else {
    misses_.fetch_add(missing, std::memory_order_relaxed);
    hits_.fetch_add(inputs.lengths.size() - missing, std::memory_order_relaxed);
  }
  tell(request.cache.no_cache ? api::CacheOutcome::kBypass
       : missing == 0         ? api::CacheOutcome::kHit
                              : api::CacheOutcome::kMiss,
       age);
  return rows;
}

void EmbeddingCache::Keep(std::shared_ptr<const Row> row, uint64_t era) {
  AnswerStore::Gone gone;  // freed after the lock
  const TimePoint now = clock_.Now();
  const MutexLock lock(mutex_);
  if (era == store_.era()) gone = store_.Insert(std::move(row), now);
}

size_t EmbeddingCache::Flush(std::optional<std::string_view> tenant) {
  AnswerStore::Gone gone;
  const MutexLock lock(mutex_);
  gone = store_.Flush(tenant);
  return gone.size();
}

void EmbeddingCache::Halve() {
  AnswerStore::Gone gone;
  const MutexLock lock(mutex_);
  gone = store_.Halve();
}

RowStats EmbeddingCache::stats() const {
  const MutexLock lock(mutex_);
  return {.hits = hits_.load(std::memory_order_relaxed),
          .misses = misses_.load(std::memory_order_relaxed),
          .bypasses = bypasses_.load(std::memory_order_relaxed),
          .entries = store_.entries(),
          .bytes = store_.bytes()};
}

}  // namespace tutti::cache
