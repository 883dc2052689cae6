// Collector: the record of what a generation has yielded, event by event. One thread at a time.
#pragma once

#include <optional>

#include "api/types.h"
#include "tutti/types.h"

namespace tutti::library {

class Collector {
 public:
  explicit Collector(int choices) { completion_.choices.resize(static_cast<size_t>(choices)); }

  // Notes the event. A piece that the caller should see comes back: each token, and what text was
  // held back.
  std::optional<Token> Take(const api::StreamEvent& event);
  // The caller cancelled: choices that had not ended by then end so, and the usage counts what was
  // yielded.
  void MarkCancelled();

  bool ended() const { return ended_; }  // the terminal event was taken
  const Completion& completion() const { return completion_; }

 private:
  Completion completion_;
  uint32_t ended_choices_ = 0;  // bit per choice; api::kMaxChoices fit
  bool ended_ = false;
};

}  // namespace tutti::library
