// From the text of an expression to a tree of what it matches.
//
// Assertions are resolved here: `^ $ \b \B \A \z \Z`, possessive counts and look-behinds become
// look-aheads, tests of the character before, and alternatives of both. A tree is a value, not for
// two threads at once; Parse is pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <unordered_map>
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

// SyntaxBuilder: makes the nodes of a tree, each set of characters once. A value, not for two
// threads at once.
class SyntaxBuilder {
 public:
  NodeId Empty() { return Add({}); }
  NodeId Set(CodePoints points, bool edge = false);
  NodeId Concat(std::vector<NodeId> children);
  NodeId Alternate(std::vector<NodeId> children);
  NodeId Repeat(NodeId child, uint32_t min, uint32_t max, bool greedy);
  NodeId Look(NodeId child, bool negative);
  NodeId Behind(CodePoints points, bool edge, bool negative);

  NodeId LineStart();                  // ^
  NodeId LineEnd();                    // $
  NodeId TextStart();                  // \A
  NodeId TextEnd();                    // \z
  NodeId TextEndOrLastLineEnd();       // \Z
  NodeId WordBoundary(bool negative);  // \b \B
  NodeId LineBreak();                  // \R

  Node& node(NodeId id) { return syntax_.nodes[id]; }
  const CodePoints& points(NodeId id) const { return syntax_.sets[syntax_.nodes[id].set].points; }
  size_t set_count() const { return syntax_.sets.size(); }
  Syntax Finish(NodeId root) &&;

 private:
  NodeId Add(Node node);
  uint32_t SetId(CodePoints points, bool edge);
  NodeId Assertion(NodeId id);

  Syntax syntax_;
  std::optional<CodePoints> words_;                   // what \b goes by, once it is needed
  std::unordered_multimap<uint32_t, uint32_t> sets_;  // hash to place in syntax_.sets
};

}  // namespace tutti::tokenizer::regex
