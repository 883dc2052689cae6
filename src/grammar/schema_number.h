// The numbers that a schema allows, as an automaton over their decimal digits.
//
// Numbers under a bound or a multiple are written without an exponent. Pure.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "base/status.h"
#include "grammar/decimal.h"
#include "grammar/dfa.h"

namespace tutti::grammar {

struct NumberBounds {
  bool integer = false;
  std::optional<Decimal> low, high;
  bool low_exclusive = false, high_exclusive = false;
  std::vector<Decimal> multiples;  // each above 0

  bool plain() const { return !low && !high && multiples.empty(); }
  // low, unless the bound there is tighter.
  void RaiseLow(const Decimal& to, bool exclusive);
  void LowerHigh(const Decimal& to, bool exclusive);
  bool Contains(const Decimal& value) const;
};

// `multiples` of which the least common denominator and numerator are beyond this are refused.
inline constexpr uint64_t kMaxMultiple = 10'000;

// Whether MakeNumbers() can keep a multiple.
bool CanKeepMultiple(const Decimal& multiple);
// Null when the budget is exhausted. Every multiple can be kept.
std::shared_ptr<const Dfa> MakeNumbers(const NumberBounds& bounds, Budget& budget);

}  // namespace tutti::grammar
