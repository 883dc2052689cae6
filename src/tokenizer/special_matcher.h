// SpecialMatcher: finds the tokens that are cut out of a text before anything else looks at it.
//
// Immutable after Create(); any thread. At each place the longest spelling wins, and the leftmost
// place first, as in Hugging Face's added vocabulary. Two kinds of spelling:
//   structure: control and unknown tokens, and user-defined ones that are spelled as markup
//   ("<...>", "[...]").
//              Found only inside trusted text, so that nobody can type a turn.
//   words:     the other user-defined tokens (runs of spaces, elements of HTML and the like). Found
//              everywhere.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "tokenizer/flat_table.h"
#include "tokenizer/vocabulary.h"

namespace tutti::tokenizer {

// Bytes [begin, end) of a text.
struct TextRange {
  size_t begin = 0;
  size_t end = 0;
};

class SpecialMatcher {
 public:
  // Errors: tokenizer_limit (spellings beyond kMaxSpecialBytes, or made to collide).
  static Result<SpecialMatcher> Create(const Vocabulary& vocabulary);

  struct Match {
    size_t begin = 0;
    size_t end = 0;
    TokenId id = kNoToken;  // kNoToken: there is no further match
  };
  // Where a pass over one text stands among its trusted ranges; keeps the pass linear.
  struct Cursor {
    size_t range = 0;
  };
  // The first match at or behind `from`, which only grows over the calls with one cursor. `trusted`
  // are disjoint, ascending and not adjacent.
  Match Next(std::string_view text, const std::vector<TextRange>& trusted, size_t from,
             Cursor& cursor) const;

 private:
  // A node of the trie of spellings.
  struct Node {
    TokenId id = kNoToken;  // the token spelled by the path to here
    bool structure = false;
  };

  Status Insert(std::string_view spelling, TokenId id, bool structure);
  Match LongestAt(std::string_view text, size_t at, size_t trusted_end) const;

  std::vector<Node> nodes_ = std::vector<Node>(1);
  PairTable children_;              // (node, byte) -> (node, unused)
  std::array<bool, 256> begins_{};  // by first byte of any spelling
};

}  // namespace tutti::tokenizer
