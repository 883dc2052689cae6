// EncoderInstance: serves one encoder model on a device. Owns the queue of items and the
// EncodeRequestState of all its requests, and calls the runner. One step is one batch; see Step().
//
// Engine thread only, except for the mailbox, the admission state and published statistics, which
// other threads use. Every request ends through EndRequest(), the only place that finishes an
// encoding.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "engine/admission_state.h"
#include "engine/encode_queue.h"
#include "engine/encoder_engine.h"
#include "engine/encoder_runner.h"
#include "engine/model_instance.h"
#include "engine/observer.h"
#include "engine/options.h"
#include "engine/policy/dispatch.h"
#include "engine/policy/pick_batch.h"
#include "engine/stats.h"

namespace tutti::engine {

// Counters of an encoder's work.
//
// Owned by an EncoderInstance. Only the engine thread changes the counters; Publish() copies them
// to where any thread reads them without a lock.
class EncoderStatistics {
 public:
  explicit EncoderStatistics(std::shared_ptr<AdmissionState> admission)
      : admission_(std::move(admission)) {}

  // --- engine thread ---
  EncoderStats& count() { return count_; }  // its counters, and waiting_*
  // Records the time of a batch of this many tokens, and updates the pace in the admission state.
  void Served(int64_t tokens, Duration took);
  // `oldest`: since when the oldest item waits.
  void Publish(TimePoint oldest) { published_.Store({.stats = count_, .oldest_waiting = oldest}); }

  // --- any thread ---
  EncoderStats Snapshot(TimePoint now) const;

 private:
  const std::shared_ptr<AdmissionState> admission_;
  EncoderStats count_;                        // engine thread
  double served_ns_ = 0, served_tokens_ = 0;  // decayed; engine thread

  struct Figures {
    EncoderStats stats;
    TimePoint oldest_waiting = TimePoint::max();
  };
  Published<Figures> published_;
};

// Predicted device time of `tokens` waiting tokens, at `per_kilotoken` for 1,024 tokens.
inline Duration PredictEncodeWait(int64_t tokens, Duration per_kilotoken) {
  return Duration(static_cast<int64_t>(static_cast<double>(per_kilotoken.count()) / 1024.0 *
                                       static_cast<double>(tokens)));
}

class EncoderInstance final : public ModelInstance<EncodeRequestState> {
 public:
  EncoderInstance(const EncoderOptions& options, const EncoderDependencies& dependencies,
                  std::shared_ptr<Signal> signal);
  ~EncoderInstance() override;

  // --- any thread ---
  const EncoderLimits& limits() const { return limits_; }
  const EncoderOptions& options() const { return options_; }
  const EncoderStatistics& statistics() const { return statistics_; }  // its reading half
  Duration PredictedWait() const override;

  // --- engine thread: Slot ---
  void OnContention(const Contention& contention) override { contention_ = contention; }
  bool Step() override;
  double weight() const override { return options_.share / (1 - options_.share); }
  bool yields() const override { return true; }

  // For invariant checks.
  const EncodeQueue& queue() const { return queue_; }
  const BatchCost& cost() const { return cost_; }

 private:
  // ModelInstance
  void Enter(EncodeRequestState& work, TimePoint now) override;
  void EndRequest(EncodeRequestState& work, Status status, TimePoint now) override;
  bool MustStartSoon(const EncodeRequestState& work) const override;
  TimePoint NextStep(TimePoint now) override;
  void PublishStatistics() override;
  void TakeLive(TimePoint now) override;

  // The phases of a batch.
  BatchLimits LimitsNow() const;
  bool Choose(BatchEvent& event);
  void Assemble(BatchEvent& event);
  TimePoint Run(BatchEvent& event);
  void Account(const BatchEvent& event, TimePoint now);
  void Deliver(WorkItem& item, TimePoint now);
  void FailItem(WorkItem& item, const Status& status, TimePoint now);

  const EncoderOptions options_;
  const EncoderDependencies deps_;
  const EncoderLimits limits_;

  EncodeQueue queue_;
  ItemList alone_;  // of failed batches: each is run once more, by itself

  // The batch in progress; its memory is reused.
  std::vector<WorkItem*> chosen_;
  std::vector<EncodeItem> items_;
  std::vector<TokenId> tokens_;
  std::vector<uint8_t> types_;
  std::vector<int32_t> offsets_;
  BatchShape shape_;
  uint64_t batches_ = 0;

  BatchCost cost_;
  RecentBusy busy_;
  ReturnRate returns_;
  int piled_up_ = 0;  // about how many waiting items arrived before last_end_
  Contention contention_;
  TimePoint last_end_ = TimePoint::min();  // of the last batch
  bool backlog_ = false;                   // items waited when it ended
  bool held_ = false;                      // the next batch was held back
  bool alone_next_ = true;                 // whose turn it is, where items wait in both ways
  EncoderStatistics statistics_;
  StepRing steps_;  // batches, for operators
};

}  // namespace tutti::engine
