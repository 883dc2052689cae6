// From the text of an expression to a tree of what it matches.
//
// Assertions are resolved here: `^ $ \b \B \A \z \Z`, possessive counts and look-behinds become
// look-aheads, tests of the character before, and alternatives of both. A tree is a value, not for
// two threads at once; Parse is pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "tokenizer/regex/char_set.h"

namespace tutti::tokenizer::regex {

inline constexpr size_t kMaxPatternBytes = 64 << 10;
inline constexpr size_t kMaxNesting = 100;     // groups and brackets inside each other
inline constexpr uint32_t kMaxRepeat = 1'000;  // n and m of {n,m}
inline constexpr uint32_t kUnlimited = UINT32_MAX;
inline constexpr size_t kMaxSets = 1'024;  // different ones

struct CharSet {
  CodePoints points;
  bool edge = false;  // holds the end of the text as well; of a kBehind node its start

  friend bool operator==(const CharSet&, const CharSet&) = default;
};

using NodeId = uint32_t;

struct Node {
  enum class Kind : uint8_t {
    kEmpty,
    kSet,        // one character of sets[set]
    kConcat,     // children, one after the other
    kAlternate,  // children, the first preferred
    kRepeat,     // the child min to max times
    kLook,       // the following text matches the child, or (negative) does not
    kBehind,     // the character before is in sets[set], or (negative) is not
  };
  Kind kind = Kind::kEmpty;
  bool greedy = true;      // kRepeat: as often as possible
  bool negative = false;   // kLook, kBehind
  bool assertion = false;  // matches no character, so that a count behind it is refused
  bool nullable = false;   // may match no character
  uint32_t set = 0;
  uint32_t min = 0, max = 0;
  std::vector<NodeId> children = {};
};

struct Syntax {
  std::vector<Node> nodes;
  std::vector<CharSet> sets;  // all different
  NodeId root = 0;
};

// Errors: tokenizer_regex, tokenizer_limit (Regex::Compile).
Result<Syntax> Parse(std::string_view pattern);

}  // namespace tutti::tokenizer::regex
