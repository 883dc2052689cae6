// SemanticCache: answers a question with the cached answer to an equivalent question. It implements
// api::Inference and wraps the models; off by default.
//
// A hit needs an equal partition (tenant, model, parameters, system prompt and earlier messages)
// and a minimum cosine similarity. Then the words decide (lexical_form.h): equal words are a hit,
// words that contradict each other a miss, and all other pairs are left to the verifier. The
// comparisons run on the reader's thread when the encoder's result has arrived; no thread blocks.
// Any thread; the inference and clock must outlive the cache and every Generation.
//
// Gates, shadow mode and the bound of false hits: docs/decisions/0024-semantic-cache.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "api/inference.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "services/cache/answer_key.h"
#include "services/cache/answer_store.h"
#include "services/cache/lexical_form.h"
#include "services/cache/semantic_index.h"

namespace tutti::cache {

enum class SemanticMode : uint8_t {
  kShadow,  // never answers; compares would-be hits with computed answers
  kOn,      // answers
  kAuto,    // like kShadow until enough hits are right; then answers and samples
};

// Decides when the words of two questions differ, but in nothing that is known to matter.
enum class Verifier : uint8_t {
  kLexical,       // no verifier: no hit
  kCrossEncoder,  // a served model of one score for two texts
  kModel,         // the requested model, in one word
};

struct SemanticOptions {
  SemanticMode mode = SemanticMode::kShadow;
  std::string encoder;  // name of a served model; empty: the first that gives vectors
  double threshold = 0.98;
  Verifier verifier = Verifier::kLexical;
  std::string cross_encoder;         // name; empty: the first that scores pairs
  double cross_threshold = 0.9;      // minimum score in both orders
  std::set<std::string> routes;      // as GenerateRequest::route has them
  double max_false_hit_rate = 0.01;  // kAuto
  AnswerLimits limits;               // bytes of all, of a tenant; age
};

struct SemanticStats {
  // Looked-up requests, by result.
  uint64_t hits = 0, misses = 0;
  uint64_t guarded = 0;     // near enough, but the words differ
  uint64_t unverified = 0;  // near enough, but the verifier refused
  uint64_t failed = 0;      // the encoder gave no vector
  uint64_t bypasses = 0;    // of a supported route, not looked up
  // Would-be hits that were computed anyway.
  uint64_t right = 0, wrong = 0;
  double false_hit_rate = 0;   // wrong of those
  double false_hit_bound = 1;  // upper end of its interval, 95 %
  bool answers = false;        // whether hits are given now
  size_t entries = 0, bytes = 0;
};

class SemanticCache final : public api::Inference {
 public:
  SemanticCache(SemanticOptions options, api::Inference& inner, const Clock& clock);
  ~SemanticCache() override;

  // api::Inference; only generations are cached.
  Result<api::Generation> Generate(api::GenerateRequest request,
                                   std::shared_ptr<Waker> waker) override;
  Result<api::Encoding> Encode(api::EncodeRequest request, std::shared_ptr<Waker> waker) override {
    return inner_.Encode(std::move(request), std::move(waker));
  }
  Result<api::TokenizeResult> Tokenize(const api::TokenizeRequest& request) override {
    return inner_.Tokenize(request);
  }
  Result<std::string> Detokenize(const api::DetokenizeRequest& request) override {
    return inner_.Detokenize(request);
  }
  void TokenizeLater(api::TokenizeRequest request, Done<api::TokenizeResult> done) override {
    inner_.TokenizeLater(std::move(request), std::move(done));
  }
  void DetokenizeLater(api::DetokenizeRequest request, Done<std::string> done) override {
    inner_.DetokenizeLater(std::move(request), std::move(done));
  }
  Result<std::vector<api::PinnedPrefix>> Pins(const std::string& tenant) const override {
    return inner_.Pins(tenant);
  }
  Status Unpin(const std::string& tenant, const std::string& id) override {
    return inner_.Unpin(tenant, id);
  }
  api::ModelList Models() const override { return inner_.Models(); }
  api::LoadSnapshot Load() const override { return inner_.Load(); }
  Result<api::ModelStatistics> Statistics(const std::string& model) const override {
    return inner_.Statistics(model);
  }

  // As ExactCache's.
  size_t Flush(std::optional<std::string_view> tenant);
  void Halve();
  SemanticStats stats() const;

 private:
  friend class SemanticReader;
  // An answer and its question.
  struct Entry final : public Kept {
    uint64_t tag = 0;
    AnswerKey own;      // key in the store
    std::string id;     // "sem_...", as shown to clients
    std::string owner;  // tenant
    AnswerKey partition;
    LexicalForm form;
    std::string question, text, reasoning;
    api::StreamEvent end;  // its kChoiceEnd
    api::Usage usage;
    size_t size = 0;

    const AnswerKey& key() const override { return own; }
    const std::string& tenant() const override { return owner; }
    size_t bytes() const override { return size; }
  };
  using EntryRef = std::shared_ptr<const Entry>;
  struct Partition {
    explicit Partition(size_t width) : index(width) {}
    SemanticIndex index;
    std::unordered_map<uint64_t, EntryRef> entries;  // by tag
  };
  struct Candidate {
    EntryRef entry;
    Duration age{0};
    double similarity = 0;
    Likeness likeness = Likeness::kSame;
  };
  // The parts of a request that its reader needs.
  struct Question {
    AnswerKey partition;
    std::string tenant, text;
    LexicalForm form;
    double threshold = 0;
    std::optional<Duration> max_age;
    bool may_hit = true;
    uint64_t era = 0;
  };

  // The request as a question; nullopt if it may not be looked up.
  std::optional<Question> QuestionOf(const api::GenerateRequest& request);
  // The nearest entry whose words do not contradict. Counts the result.
  std::optional<Candidate> Look(const Question& question, const std::vector<float>& vector);
  void Keep(const Question& question, const std::vector<float>& vector, Entry entry);
  bool Answers() const REQUIRES(mutex_);
  // Whether to compute a would-be hit anyway, for comparison.
  bool Samples();
  void Observe(bool right);
  // Removes entries that the store has evicted.
  void Forget(const AnswerStore::Gone& gone) REQUIRES(mutex_);
  template <typename Change>
  void Count(const Change& change) {
    const MutexLock lock(mutex_);
    change(stats_);
  }

  const SemanticOptions options_;
  api::Inference& inner_;
  const Clock& clock_;
  const HashKey secret_ = DrawHashKey();
  mutable Mutex mutex_;
  AnswerStore store_ GUARDED_BY(mutex_);
  std::unordered_map<AnswerKey, std::unique_ptr<Partition>, AnswerKeyHash> partitions_
      GUARDED_BY(mutex_);
  uint64_t next_tag_ GUARDED_BY(mutex_) = 1;
  uint64_t sampled_ GUARDED_BY(mutex_) = 0;
  SemanticStats stats_ GUARDED_BY(mutex_);
};

// Upper end of the 95 % interval of a rate with `wrong` of `all` observed (Wilson 1927, one-sided);
// 1 for no observations.
double FalseHitBound(uint64_t wrong, uint64_t all);

}  // namespace tutti::cache
