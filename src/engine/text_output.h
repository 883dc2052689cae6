// TextOutput: turns the tokens of one choice into text that can be sent: whole characters only, and
// no part of a stop string or of text that may still become one. Part of a SequenceOutput (work.h);
// engine thread.
#pragma once

#include <optional>
#include <string>

#include "base/types.h"
#include "base/utf8.h"
#include "engine/token_text.h"
#include "sampling/stop_matcher.h"

namespace tutti::engine {

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

}  // namespace tutti::engine
