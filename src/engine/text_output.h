// TextOutput: from the tokens of one choice to text that may leave: whole characters only, nothing
// of a stop string, nothing that may still become one. Part of the decoder's record of a choice;
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
  // `text` and `stops` outlive it. Stop strings are looked for from the token number `min_tokens`
  // on.
  TextOutput(const TokenText* text, const sampling::StopSet* stops, bool include_stop,
             bool skip_special, int min_tokens)
      : text_(text),
        matcher_(stops, include_stop),
        skip_special_(skip_special),
        min_tokens_(min_tokens) {}

  // Appends to `out` what `token` sets free. The index of the stop string that ended the text, or
  // nothing.
  std::optional<size_t> Push(TokenId token, std::string& out);
  // The text has ended: appends what was held back (a broken character as U+FFFD).
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
