// The numbers that a schema allows, as an automaton over their decimal digits.
//
// Numbers under a bound or a multiple are written without an exponent. Pure.
#pragma once

#include <boost/json/value.hpp>
#include <compare>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "grammar/dfa.h"

namespace tutti::grammar {

// A number exactly as it is written in decimal digits, for bounds and multiples.
//
// A value; any thread.
struct Decimal {
  bool negative = false;    // never of 0
  std::string whole = "0";  // digits, no leading zeros
  std::string fraction;     // digits, no trailing zeros

  // The value of a JSON number; empty where it has more than 400 digits or is not finite.
  static std::optional<Decimal> From(const boost::json::value& number);
  // "12", "-0.5", "1e21"
  static std::optional<Decimal> Parse(std::string_view text);

  bool zero() const { return whole == "0" && fraction.empty(); }
  bool integral() const { return fraction.empty(); }
  Decimal Negated() const;
  Decimal Magnitude() const { return {false, whole, fraction}; }
  // The largest integer that is not above it; the smallest that is not below it.
  Decimal Floor() const;
  Decimal Ceiling() const;
  Decimal Plus(int one) const;  // of an integer: + 1 or - 1
  std::string Text() const;

  friend std::strong_ordering operator<=>(const Decimal& a, const Decimal& b);
  friend bool operator==(const Decimal&, const Decimal&) = default;
};

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
