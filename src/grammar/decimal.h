// Decimal: a number exactly as it is written in decimal digits, for bounds and multiples.
//
// A value; any thread.
#pragma once

#include <boost/json/value.hpp>
#include <compare>
#include <optional>
#include <string>
#include <string_view>

namespace tutti::grammar {

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

}  // namespace tutti::grammar
