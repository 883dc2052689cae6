// AnswerReader: one request's view of a SharedAnswer. The reader itself writes its stream: when the
// Generation has read all events, it copies a few more from the shared log.
//
// Shared by the gateway, until the prompt is prepared, and the request's Generation. Any thread.
#pragma once

#include <memory>
#include <optional>

#include "api/answer_cache.h"
#include "base/mutex.h"
#include "services/cache/shared_answer.h"

namespace tutti::cache {

// Interface of the cache for its readers; ExactCache implements it.
class AnswerDesk {
 public:
  virtual ~AnswerDesk() = default;
  struct Seat {
    std::shared_ptr<const SharedAnswer> kept = {};  // whole; or
    std::shared_ptr<SharedAnswer> shared = {};      // being computed
    bool leads = false;                             // by this request
  };
  // Looks up the shared tier; called before SeatFor(), without a lock. A found answer is added to
  // this cache. Otherwise returns where to store the computed answer (may be null). May block if
  // RenderedRequest::may_wait is set.
  virtual std::shared_ptr<const TierPlace> Fetch(const api::RenderedRequest& rendered) = 0;
  // Finds a cached or running answer, or makes a new one that this request leads; a new one takes
  // `observer`.
  virtual Seat SeatFor(const api::RenderedRequest& rendered,
                       const std::shared_ptr<api::Cancellable>& control,
                       std::shared_ptr<api::RequestObserver>* observer,
                       std::shared_ptr<const TierPlace> place) = 0;
  // Called by each reader that has read the whole answer.
  virtual void Complete(const std::shared_ptr<SharedAnswer>& answer) = 0;
  // No further request may join this answer.
  virtual void Forget(const SharedAnswer& answer) = 0;
};

class AnswerReader final : public api::CachedAnswer {
 public:
  // `control` cancels the request's own computation.
  AnswerReader(std::shared_ptr<AnswerDesk> desk, std::shared_ptr<Waker> waker,
               std::shared_ptr<api::Cancellable> control,
               std::shared_ptr<api::RequestObserver> observer);

  const std::shared_ptr<api::TokenStream>& stream() const override { return stream_; }
  std::shared_ptr<api::TokenStream> Resolve(const api::RenderedRequest& rendered) override;
  void Refuse(Status status, const api::Usage& usage) override;
  void Withdraw(const Status& status) override;
  bool Fill(size_t read) override;
  void Cancel() noexcept override;

 private:
  enum class State { kPreparing, kReading, kEnded };
  const SharedAnswer& answer() const REQUIRES(mutex_) {
    return seat_.kept != nullptr ? *seat_.kept : *seat_.shared;
  }
  void Copy(const api::StreamEvent& event) REQUIRES(mutex_);
  void End(Status status, api::Usage usage, const api::Timings& timings) REQUIRES(mutex_);
  // Leaves the answer. Returns the computation to cancel if this was the last reader of an
  // unfinished answer, else null.
  std::shared_ptr<api::Cancellable> Leave() REQUIRES(mutex_);

  const std::shared_ptr<AnswerDesk> desk_;
  const std::shared_ptr<api::Cancellable> control_;
  const std::shared_ptr<api::TokenStream> stream_;
  Mutex mutex_;
  State state_ GUARDED_BY(mutex_) = State::kPreparing;
  bool cancelled_ GUARDED_BY(mutex_) = false;
  bool has_token_ GUARDED_BY(mutex_) = false;
  AnswerDesk::Seat seat_ GUARDED_BY(mutex_);
  api::TokenStream::Cursor cursor_ GUARDED_BY(mutex_);
  api::Usage usage_ GUARDED_BY(mutex_);  // so far
  // Null if this request leads: its observer then belongs to the shared log, which the engine
  // writes.
  std::shared_ptr<api::RequestObserver> observer_ GUARDED_BY(mutex_);
};

}  // namespace tutti::cache
