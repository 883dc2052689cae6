// Regex: the split expressions that tokenizer files bring, compiled from the file.
//
// Immutable after Compile(); any thread. Matches are those of Oniguruma (default syntax, UTF-8) as
// Hugging Face `tokenizers` iterates them, for the constructs in README.md; every other construct
// is refused by name. Time is linear in the text for every expression and every text: no expression
// backtracks. A byte that is not UTF-8 counts as one unassigned code point.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

#include "base/status.h"

namespace tutti::tokenizer {

// Takes matches as byte offsets, in ascending order. begin == end for an empty match.
class MatchSink {
 public:
  virtual void OnMatch(size_t begin, size_t end) = 0;

 protected:
  ~MatchSink() = default;
};

namespace regex {
class Automaton;
}

class Regex {
 public:
  // Errors: tokenizer_regex (not an expression, or a construct that is not supported, quoted with
  // its byte offset), tokenizer_limit (bytes, nesting, counts, states, classes, work).
  static Result<std::shared_ptr<const Regex>> Compile(std::string_view pattern);
  ~Regex();

  // Finds all matches from left to right: at each place the match of the first alternative, as
  // backtracking would find it. An empty match directly behind the last match is skipped, and the
  // search continues one character further. An empty text has no match. Needs 2 bytes of memory for
  // each byte of `text`.
  void FindAll(std::string_view text, MatchSink& sink) const;

  // Whether some match may be empty.
  bool matches_empty() const { return matches_empty_; }

 private:
  Regex(std::unique_ptr<const regex::Automaton> automaton, bool matches_empty);

  const std::unique_ptr<const regex::Automaton> automaton_;
  const bool matches_empty_;
};

}  // namespace tutti::tokenizer
