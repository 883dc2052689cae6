// Collector: assembles a Completion from the events of a generation. One thread at a time.
#pragma once

#include <optional>

#include "api/types.h"
#include "tutti/types.h"

namespace tutti::library {

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
