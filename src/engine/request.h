// Request: a generation request as the engine gets it, in tokens; TokenizedRequest: one to an
// encoder. Two handles belong to either: AdmissionPermit holds the place in the queue from
// acceptance on; RequestControl cancels a request or grants a stepwise one more tokens, from any
// thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/encoding.h"
#include "api/request_trace.h"
#include "api/token_stream.h"
#include "api/types.h"
#include "base/clock.h"
#include "base/status.h"
#include "base/types.h"
#include "engine/adapter.h"
#include "engine/reasoning_budget.h"
#include "grammar/token_masker.h"

namespace tutti::engine {

class Mailbox;
class AdmissionPermit;
struct QueueEntry;
struct AdmissionState;
struct Submission;
template <typename State>
class ModelInstance;

// Moved into the engine by Submit and immutable from then on.
struct Request {
  std::string id;                   // for traces and logs
  std::vector<TokenId> prompt;      // >= 1 token, each inside the vocabulary
  api::SamplingParams sampling;     // already validated (api/validate.h)
  std::vector<TokenId> end_tokens;  // the model's end-of-text ids; ignored with sampling.ignore_eos
  uint64_t seed = 0;                // resolved: sampling.seed, or one the gateway drew
  int n = 1;                        // choices, 1..api::kMaxChoices; share the prompt's blocks
  api::Priority priority = api::Priority::kInteractive;
  TimePoint deadline = TimePoint::max();
  bool detached = false;       // may wait to run beyond QueueLimits::age
  std::string tenant;          // unit of fair share and of prefix reuse
  double tenant_weight = 1.0;  // > 0; of several at once the newest request's holds
  std::string cache_salt;      // further partition of prefix reuse
  bool use_prefix_cache = true;
  bool explain_prefix = false;             // Usage::prefix says why the prompt was found or not
  std::shared_ptr<const Adapter> adapter;  // of the runner's model; null: the model itself
  std::shared_ptr<grammar::TokenMasker> constraint;  // of the answer; null: none
  ReasoningLimit reasoning;                          // only with a constraint
  std::vector<TokenId> prediction;  // the answer as the client expects it; may be empty
  bool score_only = false;          // compute the prompt's log-probabilities, draw nothing
  // Prompt tokens before this one need no log-probabilities; 0: all after the first have some. The
  // first that has some also has those of `alternatives` there.
  int score_from = 0;
  std::vector<TokenId> alternatives;
  std::optional<api::PinOrder> pin;  // with score_only: the prompt's blocks stay cached
  // On-demand stepping: a choice draws its next token only while RequestControl::Grant() has
  // allowed more tokens than it drew. A sequence that waits for a grant does not run and is not a
  // slow reader.
  bool stepwise = false;
  Duration prepare{0};  // time spent on template and tokeniser, for Timings
  std::shared_ptr<api::RequestTrace> trace = nullptr;  // may be null
};

// Shared by the server's Generation and the engine. Any thread; every call is idempotent, lock-free
// and cheap.
class RequestControl final : public api::Cancellable,
                             public std::enable_shared_from_this<RequestControl> {
 public:
  explicit RequestControl(std::shared_ptr<Mailbox> mailbox);
  ~RequestControl() override;

  // The request leaves at the next step boundary; its stream ends with CANCELLED.
  void Cancel() noexcept override;
  bool cancelled() const { return cancelled_.load(std::memory_order_acquire); }
  // For work that looks at it now and then.
  const std::atomic<bool>& cancelled_flag() const { return cancelled_; }

  // Lets every choice of a stepwise request draw `tokens` more tokens.
  void Grant(int64_t tokens) noexcept;
  int64_t granted() const { return granted_.load(std::memory_order_acquire); }

 private:
  friend class Mailbox;
  template <typename State>
  friend class ModelInstance;
  void Notify() noexcept;

  const std::shared_ptr<Mailbox> mailbox_;
  std::atomic<bool> cancelled_{false};
  std::atomic<int64_t> granted_{0};
  // Link of the mailbox's stack of touched controls; `queued_` guards it, `self_` keeps it alive
  // meanwhile.
  std::atomic<bool> queued_{false};
  RequestControl* next_ = nullptr;
  std::shared_ptr<RequestControl> self_;
  Submission* work_ = nullptr;  // engine thread only: the request's state, while it lives
};

// A place in the bounded queue, taken before any work on the prompt and held until the request
// ends, except while the request waits for a slow reader. Movable; destroying one that was never
// submitted gives the place back. Any thread, one at a time.
class AdmissionPermit {
 public:
  AdmissionPermit() = default;
  AdmissionPermit(AdmissionPermit&& other) noexcept;
  AdmissionPermit& operator=(AdmissionPermit&& other) noexcept;
  ~AdmissionPermit();

  explicit operator bool() const { return admission_ != nullptr; }
  const std::shared_ptr<RequestControl>& control() const { return control_; }
  TimePoint accepted_at() const { return accepted_at_; }

 private:
  friend class Engine;
  friend class DecoderInstance;
  friend class EncoderEngine;
  friend class EncoderInstance;
  template <typename State>
  friend class ModelInstance;
  friend Result<AdmissionPermit> EnterQueue(const std::shared_ptr<AdmissionState>& admission,
                                            const std::shared_ptr<Mailbox>& mailbox,
                                            const QueueEntry& entry, TimePoint now);
  void Release();
  void HoldTokens(int64_t tokens,
                  bool small);  // that the admission state has counted; small ones now
  void LeaveQueue();  // the request runs for the first time: its bytes and tokens no longer wait
  void StepAside(int limit);    // gives the place up unless `limit` requests have; engine thread
  void StepBack();              // takes it again, if it was given up; engine thread
  void Served(int64_t tokens);  // `tokens` of its waiting tokens no longer wait; engine thread

  std::shared_ptr<AdmissionState> admission_;
  std::shared_ptr<RequestControl> control_;
  TimePoint accepted_at_{};
  int n_ = 0;
  int64_t bytes_ = 0;
  int64_t tokens_ = 0;  // set by Submit, as:
  int64_t result_bytes_ = 0;
  int64_t items_ = 0;   // inputs of an encoding
  bool small_ = false;  // its tokens count as small_tokens too
  bool submitted_ = false;
  bool aside_ = false;
};

// An api::EncodeRequest after tokenisation. Moved into the engine by EncoderEngine::Submit and
// immutable from then on.
struct TokenizedRequest {
  std::string id;                // for traces and logs
  std::vector<TokenId> tokens;   // of all items, one item after the other, special tokens included
  std::vector<uint8_t> types;    // the kind of each token; none: all 0
  std::vector<int32_t> lengths;  // tokens of each item; 1..api::kMaxEncodeInputs items
  api::EncodeOutput output = api::EncodeOutput::kPooled;
  api::Priority priority = api::Priority::kInteractive;
  TimePoint deadline = TimePoint::max();
  std::string tenant;          // unit of fair share
  double tenant_weight = 1.0;  // > 0; of several at once the newest request's holds
  Duration prepare{0};         // time spent in the tokeniser, for the timings
  std::shared_ptr<api::RequestTrace> trace = nullptr;  // may be null
};

}  // namespace tutti::engine
