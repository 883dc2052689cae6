// QueueRunner: base of Jobs and Batches, which run a queue of the store on a strand of their own.
//
//   created -> running -> stopped
//
// The derived class begins to run in its Start(). ReleaseLeases(), called before a drain, stops it
// for good: what runs is cancelled and waits in the store for the next process.
//
// All state of a derived class belongs to the strand. Only ReleaseLeases() blocks. The store and
// the clock must outlive it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "base/strand.h"
#include "services/background/retry.h"
#include "store/ask_store.h"
#include "store/store.h"

namespace tutti::background {

// The order in which owners are served, one item each in turn. Pure.
//
// `waiting`: items of each owner, in the order of their turns. Returns the owner of each item that
// is served next, as an index of `waiting`, at most `room` items.
inline std::vector<size_t> FairOrder(std::span<const int64_t> waiting, int64_t room) {
  std::vector<size_t> order;
  for (int64_t round = 0, served = -1; served != std::ssize(order); ++round) {
    served = std::ssize(order);
    for (size_t i = 0; i < waiting.size() && std::ssize(order) < room; ++i) {
      if (round < waiting[i]) order.push_back(i);
    }
  }
  return order;
}

class QueueRunner {
 public:
  QueueRunner(const QueueRunner&) = delete;
  QueueRunner& operator=(const QueueRunner&) = delete;

  // Called before a drain: durably requeues running work without counting an attempt, and begins no
  // more. Blocks until it is stored. Not to be called on the strand.
  void ReleaseLeases();

  const std::shared_ptr<Strand>& strand() const { return strand_; }

 protected:
  static constexpr Duration kSweepInterval = std::chrono::minutes(1);

  // `unix_ms`: the wall clock. `thread`: name of the strand's thread, a literal.
  QueueRunner(store::Store& store, const Clock& clock, std::function<int64_t()> unix_ms,
              const char* thread);
  virtual ~QueueRunner() = default;  // of a derived class that has called Close()
  // Stops the strand and waits for work of the store that refers to this. For the destructors of
  // derived classes, whose members that work uses.
  void Close();

  // --- the queue; called on the strand ---
  virtual void Pump() = 0;  // reads what the running calls have produced
  virtual void Tick() = 0;  // at the time of TickIn(), until the runner is stopped
  // Cancels what runs. Returns the write that requeues it.
  virtual store::Store::Work Release() = 0;

  // --- for the queue, on the strand ---
  // Calls Tick() after `wait`, unless an earlier call is due before that.
  void TickIn(Duration wait);
  // True once in each kSweepInterval; for deletions that need not be prompt.
  bool TakeSweep();
  // Like AskStore::Write, but retries until the store has the write. `work` may run several times
  // and has no effect outside the database. `then` takes the value of a Result, and nothing of a
  // Status.
  template <typename Work, typename Then>
  void WriteUntilStored(Work work, Then then,
                        store::Store::Undo undo = store::Store::Undo::kAlone) {
    using Answer = std::invoke_result_t<Work&, store::Database&>;
    ask_.Write(
        work,
        [this, work, then, undo](const Answer& answer) {
          if constexpr (std::is_same_v<Answer, Status>) {
            if (answer.ok()) return then();
            RetryWrite(answer, [this, work, then, undo] { WriteUntilStored(work, then, undo); });
          } else {
            if (answer.ok()) return then(*answer);
            RetryWrite(answer.status(),
                       [this, work, then, undo] { WriteUntilStored(work, then, undo); });
          }
        },
        undo);
  }

  store::Store& store_;
  const Clock& clock_;
  const std::function<int64_t()> unix_ms_;
  std::atomic<bool> releasing_{false};  // ReleaseLeases() was called
  // Used on the strand only.
  bool started_ = false;
  bool stopped_ = false;  // nothing may begin any more
  const std::shared_ptr<Strand> strand_;
  const store::AskStore ask_;

 private:
  void RetryWrite(const Status& refusal, Strand::Task again);

  TimePoint next_tick_ = TimePoint::max(), next_sweep_ = TimePoint::min();
};

}  // namespace tutti::background
