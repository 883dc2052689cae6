// SemanticReader: state machine of one request in the semantic cache: compute the vector, find
// candidates, verify one, then return the cached answer or compute a new one.
//
//   kEmbedding -> kScoring or kJudging (if verified) -> kComputing (unless it is a hit) -> kEnded
//
// Made for one request and shared with its Generation. It advances when the reader of the
// Generation asks for more events (StreamSource), on the reader's thread; any thread may call
// Cancel().
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/encoding.h"
#include "api/token_stream.h"
#include "base/mutex.h"
#include "services/cache/semantic_cache.h"

namespace tutti::cache {

class SemanticReader final : public api::Cancellable, public api::StreamSource {
 public:
  SemanticReader(SemanticCache& cache, api::GenerateRequest request, std::shared_ptr<Waker> waker,
                 SemanticCache::Question question, api::Encoding encoding);

  const std::shared_ptr<api::TokenStream>& stream() const { return stream_; }

  bool Fill(size_t read) override;
  void Cancel() noexcept override;

 private:
  enum class State { kEmbedding, kScoring, kJudging, kComputing, kEnded };

  // Each true if it has changed the state.
  bool TakeVector() REQUIRES(mutex_);
  bool TakeScores() REQUIRES(mutex_);
  bool TakeJudgement() REQUIRES(mutex_);
  bool CopyEvents() REQUIRES(mutex_);
  void Verify() REQUIRES(mutex_);
  bool AskCrossEncoder() REQUIRES(mutex_);
  bool AskModel() REQUIRES(mutex_);
  void OnVerified(bool same) REQUIRES(mutex_);
  void Hit() REQUIRES(mutex_);
  void Compute() REQUIRES(mutex_);
  void Copy(const api::StreamEvent& event) REQUIRES(mutex_);
  void End(Status status, const api::Usage& usage, const api::Timings& timings) REQUIRES(mutex_);

  SemanticCache& cache_;
  const std::shared_ptr<Waker> waker_;
  const std::shared_ptr<api::TokenStream> stream_;
  Mutex mutex_;
  State state_ GUARDED_BY(mutex_) = State::kEmbedding;
  api::GenerateRequest request_ GUARDED_BY(mutex_);
  const SemanticCache::Question question_;
  api::Encoding encoding_ GUARDED_BY(mutex_);  // of the question, then of the pair
  api::Generation judgement_ GUARDED_BY(mutex_);
  std::string judged_ GUARDED_BY(mutex_);
  api::Generation computed_ GUARDED_BY(mutex_);
  std::vector<float> vector_ GUARDED_BY(mutex_);  // empty: none was given, and nothing is kept
  std::optional<SemanticCache::Candidate> candidate_ GUARDED_BY(mutex_);  // also one to compare
  SemanticCache::Entry made_ GUARDED_BY(mutex_);                          // of what is computed
  bool whole_ GUARDED_BY(mutex_) = false;                                 // its kChoiceEnd has come
};

}  // namespace tutti::cache
