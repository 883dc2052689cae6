// DecoderInstance: serves one decoder model on a device. Owns the scheduler, the KV block pool and
// the RequestState of all its requests, and calls the runner. Step() lists the phases of a step.
//
// Engine thread only, except for the mailbox, the admission state and published statistics, which
// other threads use. Every request ends through EndRequest(), the only place that writes a terminal
// event.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "api/token_stream.h"
#include "engine/admission_state.h"
#include "engine/drafter.h"
#include "engine/engine.h"
#include "engine/instance_statistics.h"
#include "engine/model_instance.h"
#include "engine/pinned_prefixes.h"
#include "engine/prefix_transfer.h"
#include "engine/request_state.h"
#include "engine/scheduler.h"
#include "kv/block_pool.h"

namespace tutti::engine {

class DecoderInstance final : public ModelInstance<RequestState> {
 public:
  DecoderInstance(const EngineOptions& options, const EngineDependencies& dependencies,
                  std::shared_ptr<Signal> signal);
  ~DecoderInstance() override;

  // --- any thread ---
  const RunnerLimits& limits() const { return limits_; }
  const TokenText* text() const { return deps_.text; }
  const EngineOptions& options() const { return options_; }
  int max_model_len() const { return max_model_len_; }
  bool drafts() const { return drafter_.has_value(); }  // a second model drafts tokens
  const InstanceStatistics& statistics() const { return statistics_; }  // its reading half
  Duration PredictedWait() const override;
  PinnedPrefixes& pins() { return pins_; }  // what of it any thread may call
  const PinnedPrefixes& pins() const { return pins_; }

  // --- engine thread: Slot ---
  bool Step() override;
  void OnContention(const Contention& contention) override {
    scheduler_.set_contended(contention.ready || contention.lately);
  }

  // For invariant checks.
  const Scheduler& scheduler() const { return scheduler_; }
  const kv::KvBlockPool& pool() const { return pool_; }
  kv::KvBlockPool& mutable_pool() { return pool_; }
  const std::optional<Drafter>& drafter() const { return drafter_; }
  const PrefixTransfer* transfer() const { return transfer_.get(); }

 private:
  // ModelInstance
  void Enter(RequestState& work, TimePoint now) override;
  void EndRequest(RequestState& work, Status status, TimePoint now) override;
  bool MustStartSoon(const RequestState& work) const override;
  TimePoint NextStep(TimePoint now) override { return scheduler_.NextWork(now); }
  void PublishStatistics() override;
  void TakeLive(TimePoint now) override;
  void OnGrant(RequestState& work) override;
  TimePoint CheckReaders(TimePoint now) override;
  TimePoint MovePrefixes(TimePoint now) override;

  // The phases of a step.
  void NoteQueue(TimePoint now);
  void NoteAdmissions(TimePoint now);
  void AddDrafts();
  api::LiveSequence Describe(const RequestState& work, const Sequence& s, TimePoint now) const;
  void DescribeBlocks(api::LiveEngine* out);
  std::shared_ptr<const api::PrefixReport> ReportPrefix(const Sequence& sequence) const;
  StepResult Run(const StepPlan& plan, TimePoint* launched);
  void TraceSlices(const StepPlan& plan, TimePoint begin, TimePoint now);
  void Account(const StepPlan& plan, const StepResult& result, StepEvent event, TimePoint now);
  void Deliver(Outcome& outcome, TimePoint now);
  void DeliverPromptLogprobs(RequestState& work, const Outcome& outcome);
  void DeliverToken(RequestState& work, SequenceOutput& choice, Outcome& outcome, TimePoint now);
  void EndChoice(RequestState& work, SequenceOutput& choice, api::FinishReason reason,
                 std::variant<std::monostate, TokenId, std::string> stop_reason, std::string rest,
                 TimePoint now);
  void Leave(RequestState& work, SequenceOutput& choice, bool keep_tail_for_reuse);
  void PauseIfBehind(RequestState& work, TimePoint now);
  void SetPause(SequenceOutput& choice, unsigned bit, bool on);
  api::Logprob WithBytes(const sampling::TokenLogprob& logprob) const;
  api::TokenLogprobs WithBytes(const sampling::RowLogprobs& logprobs) const;

  const EngineOptions options_;
  const EngineDependencies deps_;
  const RunnerLimits limits_;
  const int max_model_len_;

  kv::KvBlockPool pool_;
  const std::unique_ptr<PrefixTransfer> transfer_;  // null unless prefixes outlive the pool
  PinnedPrefixes pins_;
  Scheduler scheduler_;
  std::optional<Drafter> drafter_;
  std::vector<RequestState*> by_sequence_;  // by Sequence::id; nullptr = free id
  std::vector<uint32_t> free_ids_;
  std::vector<RequestState*> paused_;  // for their reader
  uint64_t arrivals_ = 0;
  int live_choices_ = 0;
  TimePoint next_reader_check_ = TimePoint::max();
  InstanceStatistics statistics_;

  // For operators: the last steps; the next look at the queue; memory of TakeLive() and
  // NoteQueue().
  StepRing steps_;
  TimePoint next_queue_note_{};
  std::vector<Sequence*> waiting_view_;
  std::vector<char> block_view_;
};

}  // namespace tutti::engine
