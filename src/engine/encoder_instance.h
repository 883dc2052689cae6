// EncoderInstance: serves one encoder model on a device. Owns the queue of items and the
// EncodeRequestState of all its requests, and calls the runner. One step is one batch; see Step().
//
// Engine thread only, except for the mailbox, the ledger and published statistics, which other
// threads use. Every request ends through EndRequest(), the only place that finishes an encoding.
#pragma once

#include <memory>
#include <vector>

#include "engine/admission_state.h"
#include "engine/device_loop.h"
#include "engine/encode_queue.h"
#include "engine/encode_request_state.h"
#include "engine/encoder_engine.h"
#include "engine/encoder_observer.h"
#include "engine/encoder_runner.h"
#include "engine/encoder_statistics.h"
#include "engine/mailbox.h"
#include "engine/options.h"
#include "engine/policy/batch_cost.h"
#include "engine/policy/recent_load.h"
#include "engine/wake_list.h"

namespace tutti::engine {

class EncoderInstance final : public Slot {
 public:
  EncoderInstance(const EncoderOptions& options, const EncoderDependencies& dependencies,
                  std::shared_ptr<Signal> signal);
  ~EncoderInstance() override;

  // --- any thread ---
  const std::shared_ptr<Mailbox>& mailbox() const { return mailbox_; }
  const std::shared_ptr<AdmissionState>& ledger() const { return ledger_; }
  const EncoderLimits& limits() const { return limits_; }
  const EncoderOptions& options() const { return options_; }
  const EncoderStatistics& statistics() const { return statistics_; }  // its reading half

  // --- engine thread: Slot ---
  InstanceReadiness Prepare(TimePoint now) override;
  void OnContention(const Contention& contention) override { contention_ = contention; }
  bool Step() override;
  void EndAll(const Status& status) override;
  double weight() const override { return options_.share / (1 - options_.share); }
  bool yields() const override { return true; }

  // For invariant checks.
  const std::vector<std::unique_ptr<EncodeRequestState>>& works() const { return works_; }
  const EncodeQueue& queue() const { return queue_; }
  const BatchCost& cost() const { return cost_; }

 private:
  void TakeInbox(TimePoint now);
  void Accept(std::unique_ptr<EncodeRequestState> work, TimePoint now);
  TimePoint StartDeadline(const EncodeRequestState& work) const;
  void NoteExpiry(const EncodeRequestState& work);
  void EndExpired(TimePoint now);
  TimePoint NextBatchAt(TimePoint now);
  BatchLimits LimitsNow() const;
  bool Choose(BatchEvent& event);
  void Assemble(BatchEvent& event);
  TimePoint Run(BatchEvent& event);
  void Account(const BatchEvent& event, TimePoint now);
  void Deliver(WorkItem& item, TimePoint now);
  void FailItem(WorkItem& item, const Status& status, TimePoint now);
  void EndRequest(EncodeRequestState& work, Status status, TimePoint now);
  void Publish(TimePoint now);

  const EncoderOptions options_;
  const EncoderDependencies deps_;
  const EncoderLimits limits_;
  const std::shared_ptr<Mailbox> mailbox_;
  const std::shared_ptr<AdmissionState> ledger_;

  EncodeQueue queue_;
  ItemList alone_;  // of failed batches: each is run once more, by itself
  std::vector<std::unique_ptr<EncodeRequestState>> works_;  // alive
  std::vector<std::unique_ptr<EncodeRequestState>>
      finished_;                              // ended; destroyed once readers are woken
  TimePoint next_expiry_ = TimePoint::max();  // no deadline or age limit passes before
  WakeList wakers_;

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
  int piled_up_ = 0;  // items that came before last_end_ and wait still, about
  Contention contention_;
  TimePoint last_end_ = TimePoint::min();  // of the last batch
  bool backlog_ = false;                   // items waited when it ended
  bool held_ = false;                      // the next batch was held back
  bool alone_next_ = true;                 // whose turn it is, where items wait in both ways
  EncoderStatistics statistics_;
};

}  // namespace tutti::engine
