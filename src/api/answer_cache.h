// The port between the gateway and whoever keeps answers (services/cache): asked when a prompt has
// become token ids and before anything is submitted, so that the ids themselves are what answers
// are known by. docs/decisions/0019-answer-cache-port.md.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "api/reasoning_filter.h"
#include "api/token_stream.h"
#include "api/types.h"
#include "base/clock.h"
#include "base/status.h"
#include "base/types.h"

namespace tutti::api {

// What became of a request at the cache of answers.
enum class CacheOutcome : uint8_t {
  kNone,    // there is no cache, or the request was refused before it was asked
  kMiss,    // computed for this request
  kHit,     // an answer that was kept
  kJoin,    // the answer that is being computed for an equal request
  kBypass,  // the cache was not asked: no answer is bound to be the same twice, or nobody wanted it
};

// Told of one request by its cache; read by the door that writes the answer's head. Any thread.
class CacheReport {
 public:
  void Set(CacheOutcome outcome, Duration age) {
    age_ns_.store(age.count(), std::memory_order_relaxed);
    outcome_.store(outcome, std::memory_order_release);
  }
  // A hit by the sense of a question: how near, and whose answer.
  void SetSemantic(Duration age, double similarity, std::string source) {
    similarity_ = similarity;
    source_ = std::move(source);
    Set(CacheOutcome::kHit, age);
  }
  // Of such a hit, after its outcome was seen; 0 and empty of any other.
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

// A request whose prompt is tokens: all that can change its answer. References hold for one call.
struct RenderedRequest {
  const GenerateRequest& request;  // but for its prompt
  std::span<const TokenId> prompt;
  const ModelInfo& model;
  uint64_t model_instance = 0;  // of this load of the model; never used again by the process
  ReasoningMode reasoning = ReasoningMode::kKeep;  // kKeep too where the prompt is no chat
  bool begins_inside = false;                      // the prompt ends in an open tag of thoughts
  // What decides the bits of its answers wherever it is loaded: all of the weights file, the
  // arithmetic, the version. Empty: not known.
  std::string_view model_identity = {};
  bool may_wait = false;  // Resolve() may wait some milliseconds for another machine
};

// One request's part in an answer: what its Generation reads (StreamSource) and cancels.
// Made for one request, shared by the gateway and the Generation. Any thread.
class CachedAnswer : public Cancellable, public StreamSource {
 public:
  // What the request's Generation reads.
  virtual const std::shared_ptr<TokenStream>& stream() const = 0;
  // Once, when the prompt is tokens. The stream that whoever computes the answer writes; null: it
  // comes from elsewhere, nothing is to be computed, and the caller's part is over.
  virtual std::shared_ptr<TokenStream> Resolve(const RenderedRequest& rendered) = 0;
  // Nothing will be computed: what reads this answer ends so. At most once, before anything was
  // written to what Resolve() gave, and instead of Withdraw().
  virtual void Refuse(Status status, const Usage& usage) = 0;
  // As Refuse, but the request's own caller is given the status itself: it never was.
  virtual void Withdraw(const Status& status) = 0;
};

// Any thread; nothing waits, but for Resolve() where RenderedRequest::may_wait lets it.
class AnswerCache {
 public:
  virtual ~AnswerCache() = default;
  // The part of an accepted request. `control` cancels what is computed for it. Takes the request's
  // observer. Null: the request is computed by itself (bypass), and nothing of it was taken.
  virtual std::shared_ptr<CachedAnswer> Open(GenerateRequest* request,
                                             std::shared_ptr<StreamWaker> waker,
                                             std::shared_ptr<Cancellable> control) = 0;
  // Whether Resolve() would ask another machine now, and is to be called where that may be waited
  // for.
  virtual bool waits() const { return false; }
};

}  // namespace tutti::api
