// PredictedText: a source of draft tokens: the answer that the client expects (`prediction` of
// OpenAI's chat API). The text is followed from its beginning; after a difference the place in it
// is found again by the last tokens drawn.
//
// Part of a Sequence: set up by the submitting thread, then used on the engine thread only.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/types.h"
#include "engine/policy/draft_gain.h"

namespace tutti::engine {

class PredictedText {
 public:
  // Enables drafting from `text`, which is not copied and must outlive the sequence. The first
  // `read` tokens of the sequence are its prompt.
  void Begin(std::span<const TokenId> text, int read);

  // Reads the tokens drawn since the last call, as PromptLookup::Advance. Free without a text.
  void Advance(std::span<const TokenId> tokens, AcceptanceStats& everybody);

  // Predicted tokens after the last token read; empty if the place is unknown or the text has
  // ended.
  std::span<const TokenId> next() const {
    return next_ < 0 ? std::span<const TokenId>() : text_.subspan(static_cast<size_t>(next_));
  }
  int agreed() const { return agreed_; }  // tokens before next() that were predicted right
  const AcceptanceStats& hits() const { return hits_; }

  // Numbers of predicted tokens that the answer contains at the predicted place, and of all others,
  // whether they were used as draft tokens or not.
  int accepted() const { return accepted_; }
  int rejected() const { return static_cast<int>(text_.size()) - accepted_; }

 private:
  uint32_t& PlaceOf(std::span<const TokenId> triple);
  void Count(int begin, int end);  // tokens [begin, end) of the text were generated
  void FindAgain(std::span<const TokenId> tokens);

  std::span<const TokenId> text_;
  std::vector<uint32_t> places_;  // hash of a triple -> index after it, 0 = none
  int read_ = 0;                  // tokens of the sequence
  int next_ = -1;                 // of text_
  int left_at_ = 0;               // where the text was last left
  int counted_ = 0;               // of text_: no token counts twice
  int agreed_ = 0;
  int accepted_ = 0;
  AcceptanceStats hits_;
};

}  // namespace tutti::engine
