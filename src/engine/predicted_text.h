// PredictedText: what a client expects its answer to be (`prediction` of OpenAI's chat), as a
// source of proposals: followed from its beginning, and found again behind a difference by the
// tokens there.
//
// Part of a Sequence: set up by the thread that submits, then the engine thread's.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/types.h"
#include "engine/policy/draft_gain.h"

namespace tutti::engine {

class PredictedText {
 public:
  // `text` stays where it is; without it nothing is ever proposed. The first `read` tokens of the
  // sequence are its prompt.
  void Begin(std::span<const TokenId> text, int read);

  // Reads the tokens that came since; as PromptLookup::Advance. Costs nothing where there is no
  // text.
  void Advance(std::span<const TokenId> tokens, DraftHits& everybody);

  // What may follow the last token read; empty where that is unknown, or the text has ended.
  std::span<const TokenId> next() const {
    return next_ < 0 ? std::span<const TokenId>() : text_.subspan(static_cast<size_t>(next_));
  }
  int agreed() const { return agreed_; }  // tokens before next() that came as predicted
  const DraftHits& hits() const { return hits_; }

  // Tokens of the text that came where it has them, and the others; whether a step proposed them
  // makes no difference.
  int accepted() const { return accepted_; }
  int rejected() const { return static_cast<int>(text_.size()) - accepted_; }

 private:
  uint32_t& PlaceOf(std::span<const TokenId> triple);
  void Count(int begin, int end);  // tokens [begin, end) of the text were said
  void FindAgain(std::span<const TokenId> tokens);

  std::span<const TokenId> text_;
  std::vector<uint32_t> places_;  // hash of a triple -> index after it, 0 = none
  int read_ = 0;                  // tokens of the sequence
  int next_ = -1;                 // of text_
  int left_at_ = 0;               // where the text was last left
  int counted_ = 0;               // of text_: no token counts twice
  int agreed_ = 0;
  int accepted_ = 0;
  DraftHits hits_;
};

}  // namespace tutti::engine
