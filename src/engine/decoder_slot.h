// DecoderSlot: serves one decoder model on a device. Owns the scheduler, the KV block pool and the
// Work of all its requests, and calls the runner. Step() lists the phases of a step.
//
// Engine thread only, except for the mailbox, the ledger and published statistics, which other
// threads use. Every request ends through EndRequest(), the only place that writes a terminal
// event.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "api/token_stream.h"
#include "engine/device_loop.h"
#include "engine/drafter.h"
#include "engine/engine.h"
#include "engine/mailbox.h"
#include "engine/queue_ledger.h"
#include "engine/scheduler.h"
#include "engine/slot_statistics.h"
#include "engine/wake_list.h"
#include "engine/work.h"
#include "kv/block_pool.h"

namespace tutti::engine {

class DecoderSlot final : public Slot {
 public:
  DecoderSlot(const EngineOptions& options, const EngineDependencies& dependencies,
              std::shared_ptr<Signal> signal);
  ~DecoderSlot() override;

  // --- any thread ---
  const std::shared_ptr<Mailbox>& mailbox() const { return mailbox_; }
  const std::shared_ptr<QueueLedger>& ledger() const { return ledger_; }
  const RunnerLimits& limits() const { return limits_; }
  const TokenText* text() const { return deps_.text; }
  const EngineOptions& options() const { return options_; }
  int max_model_len() const { return max_model_len_; }
  bool drafts() const { return drafter_.has_value(); }  // a second model proposes tokens
  const SlotStatistics& statistics() const { return statistics_; }  // its reading half

  // --- engine thread: Slot ---
  SlotReadiness Prepare(TimePoint now) override;
  bool Step() override;
  void EndAll(const Status& status) override;
  void Beside(const Neighbours& neighbours) override {
    scheduler_.set_in_company(neighbours.ready || neighbours.lately);
  }

  // For invariant checks.
  const Scheduler& scheduler() const { return scheduler_; }
  const kv::KvBlockPool& pool() const { return pool_; }
  kv::KvBlockPool& mutable_pool() { return pool_; }
  const std::vector<std::unique_ptr<Work>>& works() const { return works_; }
  const std::optional<Drafter>& drafter() const { return drafter_; }

 private:
  void TakeInbox(TimePoint now);
  void Accept(std::unique_ptr<Work> work, TimePoint now);
  void ApplyTouch(RequestControl& control, TimePoint now);
  void EndExpired(TimePoint now);
  void WatchReaders(TimePoint now);
  void NoteAdmissions(TimePoint now);
  void Deliver(Outcome& outcome, TimePoint now);
  void DeliverPromptLogprobs(Work& work, const Outcome& outcome);
  void DeliverToken(Work& work, Choice& choice, Outcome& outcome, TimePoint now);
  void EndChoice(Work& work, Choice& choice, api::FinishReason reason,
                 std::variant<std::monostate, TokenId, std::string> stop_reason, std::string rest,
                 TimePoint now);
  void EndRequest(Work& work, Status status, TimePoint now);
  void Leave(Work& work, Choice& choice, bool keep_tail_for_reuse);
  void PauseIfBehind(Work& work, TimePoint now);
  void SetPause(Choice& choice, unsigned bit, bool on);
  void WakeReaders();
  void Publish(TimePoint now);
  TimePoint LaneDeadline(const Work& work) const;
  void NoteExpiry(const Work& work);
  api::Logprob WithBytes(const sampling::TokenLogprob& logprob) const;
  api::TokenLogprobs WithBytes(const sampling::RowLogprobs& logprobs) const;

  const EngineOptions options_;
  const EngineDependencies deps_;
  const RunnerLimits limits_;
  const int max_model_len_;
  const std::shared_ptr<Mailbox> mailbox_;
  const std::shared_ptr<QueueLedger> ledger_;

  kv::KvBlockPool pool_;
  Scheduler scheduler_;
  std::optional<Drafter> drafter_;
  std::vector<std::unique_ptr<Work>> works_;  // alive
  std::vector<std::unique_ptr<Work>>
      finished_;                    // ended in this step; destroyed once their readers are woken
  std::vector<Work*> by_sequence_;  // by Sequence::id; nullptr = free id
  std::vector<uint32_t> free_ids_;
  std::vector<Work*> paused_;  // for their reader
  WakeList wakers_;            // of this step
  std::vector<Work*> to_wake_;
  uint64_t arrivals_ = 0;
  int live_choices_ = 0;
  TimePoint next_expiry_ = TimePoint::max();  // no deadline or age limit passes before
  TimePoint next_reader_check_ = TimePoint::max();
  SlotStatistics statistics_;
};

}  // namespace tutti::engine
