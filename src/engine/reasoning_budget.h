// ReasoningBudget: bounds the tokens that a sequence spends on reasoning. When they are spent, the
// tokens that end the reasoning are forced, and the model continues with its answer.
//
// Owned by a Sequence; the engine's thread. The sequence is under a grammar that allows reasoning
// between the model's tags at the beginning of its output.
//
//   kBefore --opening tag--> kInside --budget spent--> kClosing --last forced token--> kDone
//      |                        |
//      +--any other text--------+--closing tag--> kDone
#pragma once

#include <climits>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.h"

namespace tutti::engine {

// Constant; of a request.
struct ReasoningLimit {
  int tokens = -1;                  // of reasoning, at most; -1: no limit
  bool inside = false;              // the prompt ends within reasoning
  std::vector<TokenId> close = {};  // tokens of the closing tag and what follows it; not empty
  // The tags in the bytes of the grammar's tokens (grammar::TokenTrie). Not empty.
  std::string open_tag = "<think>", close_tag = "</think>";

  bool limited() const { return tokens >= 0 && !close.empty(); }
};

class ReasoningBudget {
 public:
  ReasoningBudget() = default;  // without a limit
  // `limit` outlives it.
  explicit ReasoningBudget(const ReasoningLimit& limit);

  // The only token that may come next; kNoToken: any that the grammar allows.
  TokenId Forced() const;
  // Tokens that may be drawn before Forced() is asked again, at least 1.
  int Unchecked() const;
  // A token was drawn whose text is `bytes`.
  void Take(std::string_view bytes);

 private:
  enum class Phase : unsigned char { kBefore, kInside, kClosing, kDone };

  const ReasoningLimit* limit_ = nullptr;
  Phase phase_ = Phase::kDone;
  int used_ = 0;       // tokens of reasoning
  size_t forced_ = 0;  // of limit_->close
  std::string tail_;   // the end of the output, long enough to find a tag in
};

}  // namespace tutti::engine
