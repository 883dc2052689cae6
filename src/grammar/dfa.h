// Dfa: a deterministic automaton over bytes, and the operations on languages that need one.
//
// Immutable; any thread. Every state can be reached and can reach an accepting one.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "grammar/limits.h"
#include "grammar/nfa.h"

namespace tutti::grammar {

class Dfa {
 public:
  static constexpr uint32_t kDead = UINT32_MAX;

  // The functions below return null when the budget is exhausted.
  // `nfa` has no calls. Subset construction, then the merging of equal states where that is cheap.
  static std::shared_ptr<const Dfa> FromNfa(const Nfa& nfa, Budget& budget);
  static std::shared_ptr<const Dfa> FromExpr(const Grammar& grammar, ExprId body, Budget& budget);
  // Texts of both; texts of `a` that are not of `b`.
  static std::shared_ptr<const Dfa> Intersect(const Dfa& a, const Dfa& b, Budget& budget);
  static std::shared_ptr<const Dfa> Subtract(const Dfa& a, const Dfa& b, Budget& budget);

  // The texts of `a` between quotes, where no text of `a` goes on with a quote.
  static std::shared_ptr<const Dfa> Quote(const Dfa& a, Budget& budget);

  bool empty() const { return accepts_.empty(); }  // accepts no text, and has no states
  uint32_t states() const { return static_cast<uint32_t>(accepts_.size()); }
  uint32_t start() const { return 0; }
  bool accepts(uint32_t state) const { return accepts_[state]; }
  uint32_t Next(uint32_t state, uint8_t byte) const {
    return next_[size_t{state} * classes_ + class_of_[byte]];
  }
  bool Accepts(std::string_view text) const;

  // Calls visit(first, last, target) for the ranges of bytes that lead on, in ascending order.
  template <class Visit>
  void ForEachRange(uint32_t state, Visit visit) const {
    for (int first = 0; first < 256;) {
      const uint32_t target = Next(state, static_cast<uint8_t>(first));
      int last = first;
      while (last < 255 && Next(state, static_cast<uint8_t>(last + 1)) == target) ++last;
      if (target != kDead) visit(static_cast<uint8_t>(first), static_cast<uint8_t>(last), target);
      first = last + 1;
    }
  }

 private:
  friend class DfaBuilder;
  size_t bytes() const { return next_.size() * sizeof(uint32_t) + accepts_.size(); }

  std::array<uint8_t, 256> class_of_{};  // bytes that no state distinguishes have one class
  uint32_t classes_ = 1;
  std::vector<uint32_t> next_;  // [state][class]
  std::vector<bool> accepts_;   // [state]
};

}  // namespace tutti::grammar
