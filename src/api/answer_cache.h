// Interfaces between the gateway and the caches of services/cache. The gateway consults them after
// tokenization and before it submits a request to an engine, so that cache keys are made of token
// ids. docs/decisions/0019-answer-cache-port.md.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/encoding.h"
#include "api/reasoning_filter.h"
#include "api/token_stream.h"
#include "api/types.h"
#include "base/clock.h"
#include "base/status.h"
#include "base/types.h"

namespace tutti::api {

// Outcome of a request in the response cache.
enum class CacheOutcome : uint8_t {
  kNone,    // there is no cache, or the request was refused before the lookup
  kMiss,    // computed for this request
  kHit,     // answered from the cache
  kJoin,    // shares the computation of an equal request
  kBypass,  // not looked up: the answer is not deterministic, or the client disabled caching
};

// Cache outcome of one request. The cache sets it; the server that writes the response headers
// reads it. Any thread.
class CacheReport {
 public:
  void Set(CacheOutcome outcome, Duration age) {
    age_ns_.store(age.count(), std::memory_order_relaxed);
    outcome_.store(outcome, std::memory_order_release);
  }
  // Records a hit of the semantic cache: cosine similarity and id of the answer that is returned.
  void SetSemantic(Duration age, double similarity, std::string source) {
    similarity_ = similarity;
    source_ = std::move(source);
    Set(CacheOutcome::kHit, age);
  }
  // Similarity and source of a semantic hit; 0 and empty for other outcomes. Call outcome() first:
  // its acquire load makes both values visible.
  double similarity() const { return similarity_; }
  const std::string& source() const { return source_; }
  CacheOutcome outcome() const { return outcome_.load(std::memory_order_acquire); }
  Duration age() const { return Duration(age_ns_.load(std::memory_order_relaxed)); }  // of a hit

 private:
  std::atomic<CacheOutcome> outcome_{CacheOutcome::kNone};
  std::atomic<int64_t> age_ns_{0};
  double similarity_ = 0;  // written before the outcome
  std::string source_;
};

// A tokenized request with everything that can change its answer. The references are valid during
// one call.
struct RenderedRequest {
  const GenerateRequest& request;  // its prompt is not used
  std::span<const TokenId> prompt;
  const ModelInfo& model;
  uint64_t model_instance = 0;                     // ServedModel::instance
  ReasoningMode reasoning = ReasoningMode::kKeep;  // kKeep also for prompts that are not chats
  bool begins_inside = false;                      // the prompt ends with an open reasoning tag
  // Identifies everything that determines the bits of an answer on any machine: the whole weights
  // file, the arithmetic, the version. Empty: not known.
  std::string_view model_identity = {};
  bool may_wait = false;  // Resolve() may block some milliseconds for a shared cache
};

// One request's view of an answer that may be shared: the source that its Generation reads
// (StreamSource) and cancels. Made for one request; shared by the gateway and the Generation. Any
// thread.
class CachedAnswer : public Cancellable, public StreamSource {
 public:
  // The stream that the request's Generation reads.
  virtual const std::shared_ptr<TokenStream>& stream() const = 0;
  // Called once, when the prompt has been tokenized. Returns the stream into which the engine
  // writes the answer. Returns null when the answer comes from the cache or from another request:
  // the gateway then submits nothing.
  virtual std::shared_ptr<TokenStream> Resolve(const RenderedRequest& rendered) = 0;
  // Ends every reader of this answer with `status`, because nothing will be computed. Called at
  // most once, before the first write to the stream of Resolve(); excludes Withdraw().
  virtual void Refuse(Status status, const Usage& usage) = 0;
  // Like Refuse, except that Generate() returns the status to the request's own caller.
  virtual void Withdraw(const Status& status) = 0;
};

// Any thread. No call blocks, except Resolve() if RenderedRequest::may_wait is set.
class AnswerCache {
 public:
  virtual ~AnswerCache() = default;
  // Opens an accepted request and takes its observer. `control` cancels the request's computation.
  // Null: the request bypasses the cache, and its observer was not taken.
  virtual std::shared_ptr<CachedAnswer> Open(GenerateRequest* request, std::shared_ptr<Waker> waker,
                                             std::shared_ptr<Cancellable> control) = 0;
  // True if Resolve() would query a shared cache now, and should be called on a thread that may
  // block.
  virtual bool waits() const { return false; }
};

// The embedding cache stores one row for each input, and the gateway computes only the missing
// ones.
//
// All inputs of a request, as tokens. References hold for one call.
struct RenderedInputs {
  const EncodeRequest& request;      // its inputs are not used
  std::span<const TokenId> tokens;   // of all inputs, one after the other
  std::span<const uint8_t> types;    // kind of each token; none: all 0
  std::span<const int32_t> lengths;  // tokens of each input
  const ModelInfo& model;
  uint64_t model_instance = 0;  // of this load of the model
};

// One request's part: which of its inputs are to be computed, and all of its rows from those.
class KnownRows {
 public:
  virtual ~KnownRows() = default;
  // Indices of the inputs that are to be computed, ascending; of equal ones the first.
  virtual const std::vector<size_t>& missing() const = 0;
  // On entry `result` holds the raw rows of missing(), in that order; on return it holds the rows
  // of all inputs, in the order of the inputs. New rows are added to the cache. Called once, on the
  // thread that takes the result.
  virtual void Complete(EncodeResult* result) = 0;
};

// Any thread; nothing waits.
class EncodingCache {
 public:
  virtual ~EncodingCache() = default;
  // Null: the request is computed whole, and nothing of it is kept.
  virtual std::shared_ptr<KnownRows> Look(const RenderedInputs& inputs) = 0;
};

}  // namespace tutti::api
