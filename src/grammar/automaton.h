// Automaton: a compiled grammar: states over bytes, and calls of rules with a stack.
//
// Immutable; any thread. Every state can be reached and can reach the end of its rule, so that a
// text that was begun can always be ended. No rule calls itself without reading a byte first.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "grammar/expression.h"
#include "grammar/limits.h"

namespace tutti::grammar {

class Automaton {
 public:
  struct ByteEdge {
    uint8_t first = 0, last = 0;
    uint32_t to = 0;
  };
  struct CallEdge {
    RuleId rule = 0;
    uint32_t to = 0;
  };
  struct State {
    uint32_t bytes_begin = 0, bytes_end = 0;
    uint32_t calls_begin = 0, calls_end = 0;
    uint32_t empties_begin = 0, empties_end = 0;
    RuleId rule = 0;
    bool accepts = false;    // a match of the rule may end here
    bool only_ends = false;  // accepts, and has no edges
    // In limited rules: whether a character ends where the state is entered, and the fewest
    // characters from there to a match.
    bool counts = false;
    uint32_t least = 0;
  };
  struct Rule {
    uint32_t start = 0;
    // The rule's states match one item, and the rule is `min` to `max` items.
    bool counted = false;
    // The rule's matches have at most `max` characters; no state has a larger `least` than `spare`.
    bool limited = false;
    uint32_t min = 0, max = 0;
    uint32_t spare = 0;
  };

  // Errors: grammar_too_complex (the budget), grammar_left_recursion and grammar_empty (no text
  // matches), cancelled.
  static Result<std::shared_ptr<const Automaton>> Create(const Grammar& grammar, Budget& budget);

  const State& state(uint32_t id) const { return states_[id]; }
  const Rule& rule(RuleId id) const { return rules_[id]; }
  RuleId root() const { return root_; }
  std::span<const ByteEdge> bytes(const State& s) const {
    return std::span(bytes_).subspan(s.bytes_begin, s.bytes_end - s.bytes_begin);
  }
  std::span<const CallEdge> calls(const State& s) const {
    return std::span(calls_).subspan(s.calls_begin, s.calls_end - s.calls_begin);
  }
  std::span<const uint32_t> empties(const State& s) const {
    return std::span(empties_).subspan(s.empties_begin, s.empties_end - s.empties_begin);
  }
  size_t states() const { return states_.size(); }
  size_t rules() const { return rules_.size(); }
  // Bytes that no state distinguishes have one class; classes are numbered from 0.
  uint8_t ClassOf(uint8_t byte) const { return class_of_[byte]; }
  uint32_t classes() const { return classes_; }
  size_t memory_bytes() const;

 private:
  friend class AutomatonBuilder;
  std::vector<State> states_;
  std::vector<Rule> rules_;
  std::vector<ByteEdge> bytes_;
  std::vector<CallEdge> calls_;
  std::vector<uint32_t> empties_;
  std::array<uint8_t, 256> class_of_{};
  uint32_t classes_ = 1;
  RuleId root_ = 0;
};

}  // namespace tutti::grammar
