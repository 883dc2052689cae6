// Conversions between the public types (include/tutti) and those of api/. Pure, except that a
// timeout reads the clock.
#pragma once

#include <optional>
#include <vector>

#include "api/types.h"
#include "base/status.h"
#include "tutti/error.h"
#include "tutti/types.h"

namespace tutti::library {

Error ToError(const Status& status);  // of a status that is not OK
api::Prompt ToApi(Prompt prompt);
api::GenerateRequest ToApi(Request request);
TokenLogprobs FromApi(const api::TokenLogprobs& logprobs);
FinishReason FromApi(api::FinishReason reason);
std::vector<ToolCallDelta> FromApi(const std::vector<api::ToolCallDelta>& deltas);
Usage FromApi(const api::Usage& usage);
Timings FromApi(const api::Timings& timings);

// Assembles a Completion from the events of a generation. One thread at a time.
class Collector {
 public:
  explicit Collector(int choices) { completion_.choices.resize(static_cast<size_t>(choices)); }

  // Adds an event. Returns the piece for the caller, if there is one: a token, or text that had
  // been held back.
  std::optional<Token> Take(const api::StreamEvent& event);
  // Called when the caller cancels: unfinished choices end as cancelled, and the usage counts the
  // pieces returned so far.
  void MarkCancelled();

  bool ended() const { return ended_; }  // the terminal event was taken
  const Completion& completion() const { return completion_; }

 private:
  Completion completion_;
  uint32_t ended_choices_ = 0;  // bit per choice; api::kMaxChoices fit
  bool ended_ = false;
};

}  // namespace tutti::library
