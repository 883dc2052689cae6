// AnswerReader: one request's part in a SharedAnswer. Its stream has no writer but the reader
// itself: when the Generation has read all, a few events more are copied from the log.
//
// Shared by the gateway, until the prompt is prepared, and the request's Generation. Any thread.
#pragma once

#include <memory>
#include <optional>

#include "api/answer_cache.h"
#include "base/mutex.h"
#include "services/cache/shared_answer.h"

namespace tutti::cache {

// What the readers ask of their cache (exact_cache.h).
class AnswerDesk {
 public:
  virtual ~AnswerDesk() = default;
  struct Seat {
    std::shared_ptr<const SharedAnswer> kept = {};  // whole; or
    std::shared_ptr<SharedAnswer> shared = {};      // being computed
    bool leads = false;                             // by this request
  };
  // Before SeatFor(), without a lock: looks where other servers keep answers. What it finds is then
  // kept here; where it finds none, where what is computed will be kept (may be null). May wait as
  // the request says.
  virtual std::shared_ptr<const TierPlace> Fetch(const api::RenderedRequest& rendered) = 0;
  // `observer` is taken by an answer that this request leads.
  virtual Seat SeatFor(const api::RenderedRequest& rendered,
                       const std::shared_ptr<api::Cancellable>& control,
                       std::shared_ptr<api::RequestObserver>* observer,
                       std::shared_ptr<const TierPlace> place) = 0;
  // A reader has read all of it. Called by each.
  virtual void Complete(const std::shared_ptr<SharedAnswer>& answer) = 0;
  // Nobody may join it any more.
  virtual void Forget(const SharedAnswer& answer) = 0;
};

class AnswerReader final : public api::CachedAnswer {
 public:
  // `control` cancels what is computed for this request by itself.
  AnswerReader(std::shared_ptr<AnswerDesk> desk, std::shared_ptr<api::StreamWaker> waker,
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
  // What is to be cancelled: nobody is left who reads it. Null: somebody is, or it is whole.
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
  // Null where the request leads: its observer is the log's, and told by whoever computes.
  std::shared_ptr<api::RequestObserver> observer_ GUARDED_BY(mutex_);
};

}  // namespace tutti::cache
