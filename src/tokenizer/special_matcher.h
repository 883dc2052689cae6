// SpecialMatcher: finds added tokens in a text, which are cut out before any other processing.
//
// Immutable after Create(); any thread. At each place the longest spelling wins, and the leftmost
// place first, as in Hugging Face's added vocabulary. Two kinds of spelling:
//   structure: control and unknown tokens, and user-defined ones that are spelled as markup
//   ("<...>", "[...]").
//              Found only inside trusted text, so that no client can forge a turn.
//   words:     the other user-defined tokens (runs of spaces, elements of HTML and the like). Found
//              everywhere.
// Rules of a token (AddedTokenRule) widen a match by white space or drop it. Tokens that are looked
// for in the text as it is and those looked for in the normalized text are two matchers.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "tokenizer/flat_table.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/tokenizer_spec.h"
#include "tokenizer/vocabulary.h"

namespace tutti::tokenizer {

// Bytes [begin, end) of a text.
struct TextRange {
  size_t begin = 0;
  size_t end = 0;
};

class SpecialMatcher {
 public:
  // Matches nothing.
  SpecialMatcher() = default;
  // If `normalized`, makes a matcher of the tokens whose rule applies to normalized text, in their
  // normalized form; else of all other tokens. Errors: tokenizer_limit (spellings beyond
  // kMaxSpecialBytes, or made to collide).
  static Result<SpecialMatcher> Create(const Vocabulary& vocabulary,
                                       std::span<const AddedTokenRule> rules, bool normalized,
                                       const Normalizer& normalizer);

  bool empty() const { return nodes_.size() == 1; }

  struct Match {
    size_t begin = 0;
    size_t end = 0;
    TokenId id = kNoToken;  // kNoToken: there is no further match
  };
  // The position of a pass over one text among its trusted ranges; keeps the pass linear.
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
    bool single_word = false;
    bool lstrip = false;
    bool rstrip = false;
  };

  Status Insert(std::string_view spelling, const Node& token);
  // The node of the longest spelling at `at`; `*end` is where it ends. nullptr: none.
  const Node* LongestAt(std::string_view text, size_t at, size_t trusted_end, size_t* end) const;

  std::vector<Node> nodes_ = std::vector<Node>(1);
  PairTable children_;              // (node, byte) -> (node, unused)
  std::array<bool, 256> begins_{};  // by first byte of any spelling
};

}  // namespace tutti::tokenizer
