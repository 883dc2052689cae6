// Sources of draft tokens in the text of one sequence: text that the grammar forces, the answer
// that the client expects, and earlier text after the same tokens.
//
// Each is a part of a Sequence: set up by the submitting thread, then used on the engine thread
// only. Guesses are compared with the tokens that were drawn, whether they were used as draft
// tokens or not, so that the acceptance rate is known.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/types.h"
#include "engine/policy/draft_gain.h"
#include "grammar/token_masker.h"

namespace tutti::engine {

// The tokens of text that a request's grammar forces.
class ForcedDrafts {
 public:
  // Enables guessing; without this call there are no guesses. The first `read` tokens of the
  // sequence are its prompt.
  void Begin(int read);

  // Reads the tokens drawn since the last call and guesses the next ones. `matcher` is the
  // grammar's state after the last token.
  void Advance(std::span<const TokenId> tokens, grammar::Matcher& matcher,
               AcceptanceStats& everybody);

  std::span<const TokenId> next() const { return next_; }
  int agreed() const { return agreed_; }  // right guesses before next()
  const AcceptanceStats& hits() const { return hits_; }

 private:
  grammar::ForcedText text_;
  std::vector<TokenId> next_;
  int read_ = -1;  // tokens of the sequence; below 0: not begun
  int agreed_ = 0;
  AcceptanceStats hits_;
};

// The answer that the client expects (`prediction` of OpenAI's chat API). The text is followed from
// its beginning; after a difference the place in it is found again by the last tokens drawn.
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

// Finds an earlier place in the prompt or output with the same last tokens, and drafts the tokens
// that followed there ("prompt lookup decoding", A. Saxena 2023).
//
// An index holds the last place of every pair and triple of tokens, so that the cost per token does
// not depend on the length of the text. A place is followed as long as its tokens are accepted.
class PromptLookup {
 public:
  // Allocates memory for a sequence of up to `target_tokens` and reads `prompt`. Without this call
  // no place is ever found.
  void Begin(int target_tokens, std::span<const TokenId> prompt);

  // Reads the tokens drawn since the last call; `tokens` is the whole sequence. Correct and wrong
  // draft tokens, used or not, are counted in hits() and in `everybody`, the counts of all
  // sequences.
  void Advance(std::span<const TokenId> tokens, AcceptanceStats& everybody);

  // Index of the token proposed to follow the last one read, or -1. The one at the next index
  // follows it, and so on: past the end of the text into what was proposed before.
  int source() const { return source_; }
  // Tokens before source() that equal the text's last ones, as far as they were compared; >= 2.
  int agreed() const { return agreed_; }
  const AcceptanceStats& hits() const { return hits_; }

 private:
  void Find(std::span<const TokenId> tokens);
  void Enter(std::span<const TokenId> tokens);

  std::vector<uint32_t> places_;  // hash of a pair or triple -> index after it, 0 = none
  int read_ = 0;                  // tokens
  int source_ = -1;
  int agreed_ = 0;
  AcceptanceStats hits_;
};

}  // namespace tutti::engine
