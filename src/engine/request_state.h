// RequestState: state of one generation request in the engine, with its choices.
//
// Created by the submitting thread, with all the memory that the request will ever need. Once the
// mailbox has it, the DecoderInstance owns it and only the engine thread uses it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/token_stream.h"
#include "api/types.h"
#include "base/clock.h"
#include "base/types.h"
#include "base/utf8.h"
#include "engine/mailbox.h"
#include "engine/model_runner.h"
#include "engine/observer.h"
#include "engine/request.h"
#include "engine/sequence.h"
#include "engine/token_text.h"
#include "sampling/stop_matcher.h"

namespace tutti::engine {

// Turns the tokens of one choice into text that can be sent: whole characters only, and no part of
// a stop string or of text that may still become one.
class TextOutput {
 public:
  TextOutput() = default;
  // `text` and `stops` must outlive it. Stop strings count from token number `min_tokens` on.
  TextOutput(const TokenText* text, const sampling::StopSet* stops, bool include_stop,
             bool skip_special, int min_tokens)
      : text_(text),
        matcher_(stops, include_stop),
        skip_special_(skip_special),
        min_tokens_(min_tokens) {}

  // Appends to `out` the text that can be sent after `token`. Returns the index of the stop string
  // that ended the text, if any.
  std::optional<size_t> Push(TokenId token, std::string& out);
  // Ends the text: appends the text held back so far (an incomplete character as U+FFFD).
  void Finish(std::string& out);

 private:
  const TokenText* text_ = nullptr;
  sampling::StopMatcher matcher_;
  Utf8Repair repair_;
  bool skip_special_ = true;
  int min_tokens_ = 0;
  int tokens_ = 0;
  std::string bytes_, characters_;  // scratch
};

// Reasons for which a choice may be paused; bits.
inline constexpr unsigned kPausedForReader = 1;
inline constexpr unsigned kPausedForGrant = 2;

struct SequenceOutput {
  Sequence sequence;
  TextOutput text;
  bool ended = false;
  int delivered = 0;  // tokens that were appended to the stream
  unsigned pause = 0;
  TimePoint last_token{};
};

struct RequestState final : Submission {
  Request request;
  std::shared_ptr<api::TokenStream> stream;
  std::shared_ptr<RequestControl> control;
  AdmissionPermit permit;
  sampling::StopSet stops;
  std::vector<std::unique_ptr<SequenceOutput>> choices;
  std::vector<Sequence*> sequences;  // of the choices
  Utf8Repair prompt_text;            // of kPromptToken events

  // Progress.
  size_t index = 0;  // in the decoder's list
  int live_choices = 0;
  Phase phase = Phase::kQueued;
  TimePoint first_run = TimePoint::max(), first_token = TimePoint::max(), last_token{};
  api::Usage usage;
  api::FinishReason finish_reason = api::FinishReason::kStop;  // of choice 0
  int computed_tokens = 0;                                     // whose KV it held at its end
  int preemptions = 0;
  bool reader_paused = false;
  TimePoint reader_since{};  // last sign of life of the reader while paused
  size_t reader_unread = 0;  // unread bytes at that time
};

// Called on the submitting thread. `request` was already checked against the limits; `text` must
// outlive the RequestState. `speculate`: allocates the state for draft tokens; `draft`: also that
// of a draft model.
std::unique_ptr<RequestState> MakeRequestState(AdmissionPermit permit, Request request,
                                               std::shared_ptr<api::TokenStream> stream,
                                               const RunnerLimits& limits, const TokenText* text,
                                               bool speculate, bool draft);

}  // namespace tutti::engine
