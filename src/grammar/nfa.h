// Nfa: an expression as states and edges (Thompson's construction). Intermediate form: rules that
// call others are run from it, regular ones are made deterministic first (dfa.h).
//
// A value; one thread.
#pragma once

#include <cstdint>
#include <vector>

#include "grammar/expression.h"
#include "grammar/limits.h"

namespace tutti::grammar {

struct NfaEdge {
  enum class Kind : uint8_t {
    kBytes,      // one byte, first to last
    kEmpty,      // nothing
    kTextStart,  // nothing, before the first byte
    kTextEnd,    // nothing, behind the last byte
    kCall,       // a match of `rule`
  };
  Kind kind = Kind::kEmpty;
  uint8_t first = 0, last = 0;
  RuleId rule = 0;
  uint32_t to = 0;
};

struct Nfa {
  std::vector<std::vector<NfaEdge>> states;
  uint32_t start = 0;
  uint32_t accept = 0;  // has no edges
  bool has_anchors = false;
  bool has_calls = false;
  size_t bytes = 0;  // charged to the budget; returned when the NFA is dropped
};

// A state without its edges, in a vector that grows by doubling, with what the heap adds.
inline constexpr size_t kNfaStateBytes = 80;

// Counts are unrolled. Check budget.exhausted() afterwards: the result is then incomplete.
Nfa MakeNfa(const Grammar& grammar, ExprId body, Budget& budget);

}  // namespace tutti::grammar
