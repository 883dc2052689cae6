// TextTokens: assigns drawn tokens with their log-probabilities to the pieces of the output text.
// A token may come before its text (an incomplete character, what may become a stop string or a
// tag), and tokens of reasoning, tags and calls have no text at all. Belongs to the strand.
#pragma once

#include <string_view>
#include <vector>

#include "api/types.h"

namespace tutti::responses {

class TextTokens {
 public:
  // The token of an event, if the event has one with log-probabilities; before Take() of its text.
  void Add(const api::StreamEvent& event);
  // The tokens of this piece of text. Tokens before it are dropped, those behind it stay.
  std::vector<api::TokenLogprobs> Take(std::string_view text);
  // What was drawn so far is no text.
  void Drop();

 private:
  std::vector<api::TokenLogprobs> held_;
  bool behind_other_ = false;  // a tag may stand between the last reasoning or call and the text
};

}  // namespace tutti::responses
