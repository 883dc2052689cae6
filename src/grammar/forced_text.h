// ForcedText: guesses the tokens that a grammar forces, as draft tokens for speculative decoding:
// as long as only one byte can follow, it is appended, and the bytes are cut into the longest
// tokens.
//
// A guess never decides an answer: each token is drawn under its mask, and the model may cut the
// same bytes into other tokens, or write whitespace where the grammar allows it. Whitespace that
// the text had after an earlier brace, colon or comma is guessed again. One for each sequence;
// engine thread.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.h"
#include "grammar/token_masker.h"

namespace tutti::grammar {

class ForcedText {
 public:
  // Bytes that came, for the habits of whitespace.
  void Read(std::string_view bytes);
  // At most `max_tokens` tokens that follow `state`, written to `tokens`.
  void Guess(TokenMasker& masker, SetId state, size_t max_tokens, std::vector<TokenId>& tokens);

 private:
  static constexpr size_t kMaxSpace = 32;  // bytes of one run

  // The forced bytes behind `state`, about as many as `max_tokens` tokens have.
  void FindBytes(StateSets& sets, SetId state, size_t max_bytes);
  // Where whitespace behind `byte` is remembered; kHabits: nowhere.
  static size_t HabitOf(char byte);

  static constexpr size_t kHabits = 3;       // behind an opening bracket, a colon, a comma
  std::array<std::string, kHabits> habits_;  // the last run of whitespace there
  char last_ = '\0';                         // the last byte that is no whitespace
  std::string space_;                        // whitespace since then
  std::string bytes_;                        // of a guess
};

}  // namespace tutti::grammar
