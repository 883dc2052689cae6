// DecoderSlot: the slot of a device that serves one decoder model: scheduler, KV pool and runner,
// and the records of the requests in it. One step is a list of verbs; see Step().
//
// Engine thread only, but for what mailbox, ledger and published statistics offer to others. Every
// request ends through EndRequest(), the one place that writes a terminal event.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "api/token_stream.h"
#include "engine/device_loop.h"
#include "engine/engine.h"
#include "engine/mailbox.h"
#include "engine/scheduler.h"
#include "engine/text_output.h"
#include "kv/block_pool.h"

namespace tutti::engine {

// Reasons for which a choice may be paused; bits.
inline constexpr unsigned kPausedForReader = 1;
inline constexpr unsigned kPausedForGrant = 2;

struct Choice {
  Sequence sequence;
  TextOutput text;
  bool ended = false;
  unsigned pause = 0;
  TimePoint last_token{};
};

// One request in the engine. Made, with all its memory, by the thread that submits; then the
// decoder's.
struct Work {
  Request request;
  std::shared_ptr<api::TokenStream> stream;
  std::shared_ptr<RequestControl> control;
  Ticket ticket;
  sampling::StopSet stops;
  std::vector<std::unique_ptr<Choice>> choices;
  std::vector<Sequence*> sequences;  // of the choices
  Utf8Repair prompt_text;            // of kPromptToken events
  Work* next_submission = nullptr;   // mailbox

  // Progress.
  size_t index = 0;  // in the decoder's list
  int live_choices = 0;
  Phase phase = Phase::kQueued;
  TimePoint first_lane = TimePoint::max(), first_token = TimePoint::max(), last_token{};
  api::Usage usage;
  api::FinishReason finish_reason = api::FinishReason::kStop;  // of choice 0
  int computed_tokens = 0;                                     // whose KV it held at its end
  int preemptions = 0;
  bool reader_paused = false;
  TimePoint reader_since{};  // last sign of life of the reader while paused
  size_t reader_unread = 0;  // unread bytes at that time
  bool woken = false;        // its waker is in the list of this step
};

class DecoderSlot final : public Slot {
 public:
  DecoderSlot(const EngineOptions& options, const EngineDependencies& dependencies,
              std::shared_ptr<Signal> signal);
  ~DecoderSlot() override;

  // --- any thread ---
  const std::shared_ptr<Mailbox>& mailbox() const { return mailbox_; }
  const std::shared_ptr<QueueLedger>& ledger() const { return ledger_; }
  const RunnerLimits& limits() const { return limits_; }
  const EngineOptions& options() const { return options_; }
  int max_model_len() const { return max_model_len_; }
  EngineStats stats(TimePoint now) const;
  api::LoadSnapshot Load() const;
  Heartbeat heartbeat() const;
  // Builds the record of a request on the caller's thread.
  std::unique_ptr<Work> MakeWork(Ticket ticket, Request request,
                                 std::shared_ptr<api::TokenStream> stream) const;

  // --- engine thread: Slot ---
  SlotReadiness Prepare(TimePoint now) override;
  bool Step() override;
  void EndAll(const Status& status) override;

  // For invariant checks.
  const Scheduler& scheduler() const { return scheduler_; }
  const kv::KvBlockPool& pool() const { return pool_; }
  kv::KvBlockPool& mutable_pool() { return pool_; }
  const std::vector<std::unique_ptr<Work>>& works() const { return works_; }

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
  void PauseIfBehind(Work& work, TimePoint now);
  void SetPause(Choice& choice, unsigned bit, bool on);
  void WakeReaders();
  void Publish(TimePoint now);
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
  std::vector<std::unique_ptr<Work>> works_;  // alive
  std::vector<std::unique_ptr<Work>>
      finished_;                    // ended in this step; destroyed once their readers are woken
  std::vector<Work*> by_sequence_;  // by Sequence::id; nullptr = free id
  std::vector<uint32_t> free_ids_;
  std::vector<Work*> paused_;              // for their reader
  std::vector<api::StreamWaker*> wakers_;  // distinct, of this step
  std::vector<Work*> to_wake_;
  uint64_t arrivals_ = 0;
  int live_choices_ = 0;
  TimePoint next_expiry_ = TimePoint::max();  // no deadline or age limit passes before
  TimePoint next_reader_check_ = TimePoint::max();
  double service_ns_ = 0, step_ns_ = 0;  // moving averages
  struct Counters {
    uint64_t steps = 0, prompt_tokens = 0, output_tokens = 0, prefix_queried = 0, prefix_hits = 0,
             wasted = 0;
    uint64_t reader_pauses = 0, reader_cancels = 0, finished = 0;
  } count_;

  // Published after each step; read by any thread.
  struct Published {
    std::atomic<int> running{0}, waiting{0}, deferred{0}, kv_free{0}, kv_cached{0};
    std::atomic<int64_t> kv_waste{0}, oldest_ns{0}, beat_ns{0}, step_ns{0};
    std::atomic<uint64_t> steps{0}, prompt_tokens{0}, output_tokens{0}, preemptions{0},
        prefix_queried{0}, prefix_hits{0}, evicted{0}, wasted{0}, reader_pauses{0},
        reader_cancels{0}, finished{0};
    std::atomic<bool> alive{false};  // has requests
  } published_;
};

}  // namespace tutti::engine
