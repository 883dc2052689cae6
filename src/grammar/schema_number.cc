#include "grammar/schema_number.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "grammar/nfa.h"

namespace tutti::grammar {
namespace {

// m = step / 10^digits in lowest decimal form.
struct Step {
  uint64_t step = 1;
  size_t digits = 0;
};

std::optional<Step> StepOf(const Decimal& multiple) {
  if (multiple.negative || multiple.zero() || multiple.fraction.size() > 9) return std::nullopt;
  std::string text = multiple.whole + multiple.fraction;
  if (text.size() > 18) return std::nullopt;
  const uint64_t step = std::stoull(text);
  if (step > kMaxMultiple) return std::nullopt;
  return Step{step, multiple.fraction.size()};
}

// Expressions over the digits of numbers that are not negative.
class DigitExprs {
 public:
  explicit DigitExprs(Grammar& grammar) : g_(grammar) {}

  ExprId Any() { return Range('0', '9'); }
  ExprId Range(char first, char last) {
    if (first > last) return g_.Never();
    return g_.ByteRange(static_cast<uint8_t>(first), static_cast<uint8_t>(last));
  }
  ExprId AnyMany() { return g_.Repeat(Any(), 0, kUnlimited); }
  ExprId AnyWhole() {
    return g_.Alternate({g_.Bytes("0"), g_.Concat({Range('1', '9'), AnyMany()})});
  }
  ExprId AnyFraction(bool allowed) {
    if (!allowed) return g_.Empty();
    return g_.Optional(g_.Concat({g_.Bytes("."), Any(), AnyMany()}));
  }

  // Whole numbers above (below) `bound`.
  ExprId WholeAbove(const std::string& bound) {
    const auto size = static_cast<uint32_t>(bound.size());
    std::vector<ExprId> ways = {
        g_.Concat({Range('1', '9'), g_.Repeat(Any(), size, kUnlimited)})};  // longer
    for (size_t i = 0; i < bound.size(); ++i) {
      ways.push_back(
          g_.Concat({g_.Bytes(bound.substr(0, i)), Range(static_cast<char>(bound[i] + 1), '9'),
                     g_.Repeat(Any(), size - static_cast<uint32_t>(i) - 1,
                               size - static_cast<uint32_t>(i) - 1)}));
    }
    return g_.Alternate(std::move(ways));
  }
  ExprId WholeBelow(const std::string& bound) {
    if (bound == "0") return g_.Never();
    const auto size = static_cast<uint32_t>(bound.size());
    std::vector<ExprId> ways;
    if (size > 1) {
      ways.push_back(g_.Bytes("0"));
      if (size > 2)
        ways.push_back(g_.Concat({Range('1', '9'), g_.Repeat(Any(), 0, size - 2)}));
      else
        ways.push_back(Range('1', '9'));
    }
    for (size_t i = 0; i < bound.size(); ++i) {
      const char least = i == 0 && size > 1 ? '1' : '0';
      ways.push_back(
          g_.Concat({g_.Bytes(bound.substr(0, i)), Range(least, static_cast<char>(bound[i] - 1)),
                     g_.Repeat(Any(), size - static_cast<uint32_t>(i) - 1,
                               size - static_cast<uint32_t>(i) - 1)}));
    }
    return g_.Alternate(std::move(ways));
  }

  // The texts that may follow the whole part of `bound`, so that the number is above (below) it, or
  // equal.
  ExprId FractionAbove(const std::string& bound, bool or_equal) {
    std::vector<ExprId> ways;
    for (size_t i = 0; i < bound.size(); ++i) {
      ways.push_back(g_.Concat({g_.Bytes("." + bound.substr(0, i)),
                                Range(static_cast<char>(bound[i] + 1), '9'), AnyMany()}));
    }
    // Behind all digits of the bound any other one makes it larger, and zeros leave it equal.
    const ExprId zeros = g_.Repeat(Range('0', '0'), 0, kUnlimited);
    const ExprId larger = g_.Concat({zeros, Range('1', '9'), AnyMany()});
    ways.push_back(g_.Concat({g_.Bytes("." + bound), larger}));
    if (or_equal) ways.push_back(Equal(bound));
    return g_.Alternate(std::move(ways));
  }
  ExprId FractionBelow(const std::string& bound, bool or_equal) {
    std::vector<ExprId> ways;
    for (size_t i = 0; i < bound.size(); ++i) {
      // Fewer digits, all equal: smaller, as the bound does not end in a zero.
      ways.push_back(i == 0 ? g_.Empty() : g_.Bytes("." + bound.substr(0, i)));
      ways.push_back(g_.Concat({g_.Bytes("." + bound.substr(0, i)),
                                Range('0', static_cast<char>(bound[i] - 1)), AnyMany()}));
    }
    if (or_equal) ways.push_back(Equal(bound));
    return g_.Alternate(std::move(ways));
  }
  ExprId Equal(const std::string& fraction) {
    const ExprId zeros = g_.Repeat(Range('0', '0'), 0, kUnlimited);
    if (!fraction.empty()) return g_.Concat({g_.Bytes("." + fraction), zeros});
    return g_.Optional(g_.Concat({g_.Bytes("."), Range('0', '0'), zeros}));
  }

  // Numbers that are not negative, of at least (at most) `bound`.
  ExprId Above(const Decimal& bound, bool or_equal) {
    return g_.Alternate(
        {g_.Concat({WholeAbove(bound.whole), AnyFraction(true)}),
         g_.Concat({g_.Bytes(bound.whole), FractionAbove(bound.fraction, or_equal)})});
  }
  ExprId Below(const Decimal& bound, bool or_equal) {
    return g_.Alternate(
        {g_.Concat({WholeBelow(bound.whole), AnyFraction(true)}),
         g_.Concat({g_.Bytes(bound.whole), FractionBelow(bound.fraction, or_equal)})});
  }

 private:
  Grammar& g_;
};

// Numbers with at most `step.digits` decimal places that are multiples: the state is the remainder
// of the digits so far, scaled in the end.
Nfa MultiplesOf(const Step& step, bool integer, Budget& budget) {
  Nfa nfa;
  const auto modulus = static_cast<uint32_t>(step.step);
  const auto places = static_cast<uint32_t>(step.digits);
  // 0: start; 1: accept; 2: behind the sign; 3 + place * modulus + remainder: behind a digit, of
  // the fraction from place 1 on; then one for each remainder behind the point.
  const uint32_t digits_at = 3, points_at = digits_at + (places + 1) * modulus;
  // Ten edges of each state, in a vector of 16.
  nfa.bytes = (points_at + modulus) * (kNfaStateBytes + 16 * sizeof(NfaEdge));
  if (!budget.Take(40 * (points_at + modulus)) || !budget.TakeBytes(nfa.bytes)) return nfa;
  nfa.states.resize(points_at + modulus);
  nfa.start = 0;
  nfa.accept = 1;
  const auto state = [&](uint32_t place, uint32_t remainder) {
    return digits_at + place * modulus + remainder;
  };
  const auto digit_edges = [&](uint32_t from, uint32_t place, uint32_t remainder) {
    for (uint32_t digit = 0; digit < 10; ++digit) {
      const auto byte = static_cast<uint8_t>('0' + digit);
      nfa.states[from].push_back({.kind = NfaEdge::Kind::kBytes,
                                  .first = byte,
                                  .last = byte,
                                  .to = state(place, (remainder * 10 + digit) % modulus)});
    }
  };
  nfa.states[0].push_back({.kind = NfaEdge::Kind::kBytes, .first = '-', .last = '-', .to = 2});
  digit_edges(0, 0, 0);
  digit_edges(2, 0, 0);
  for (uint32_t remainder = 0; remainder < modulus; ++remainder) {
    for (uint32_t place = 0; place <= places; ++place) {
      const uint32_t from = state(place, remainder);
      uint64_t scaled = remainder;
      for (uint32_t i = place; i < places; ++i) scaled = scaled * 10 % modulus;
      if (scaled == 0) nfa.states[from].push_back({.to = nfa.accept});
      if (place == 0) digit_edges(from, 0, remainder);
      if (place > 0 && place < places) digit_edges(from, place + 1, remainder);
      if (place == 0 && places > 0 && !integer) {
        nfa.states[from].push_back({.kind = NfaEdge::Kind::kBytes,
                                    .first = '.',
                                    .last = '.',
                                    .to = points_at + remainder});
      }
    }
    if (places > 0) digit_edges(points_at + remainder, 1, remainder);
  }
  return nfa;
}

constexpr int kMaxDigits = 400;

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

std::strong_ordering CompareMagnitude(const Decimal& a, const Decimal& b) {
  if (a.whole.size() != b.whole.size()) return a.whole.size() <=> b.whole.size();
  if (const int by_whole = a.whole.compare(b.whole); by_whole != 0) return by_whole <=> 0;
  return a.fraction.compare(b.fraction) <=> 0;
}

}  // namespace

std::optional<Decimal> Decimal::Parse(std::string_view text) {
  Decimal out;
  size_t i = 0;
  if (i < text.size() && text[i] == '-') {
    out.negative = true;
    ++i;
  }
  std::string digits;
  int point = -1;
  for (; i < text.size() && (IsDigit(text[i]) || text[i] == '.'); ++i) {
    if (text[i] == '.') {
      point = static_cast<int>(digits.size());
    } else {
      digits.push_back(text[i]);
    }
  }
  if (point < 0) point = static_cast<int>(digits.size());
  if (i < text.size() && (text[i] == 'e' || text[i] == 'E')) {
    ++i;
    if (i < text.size() && text[i] == '+') ++i;
    int exponent = 0;
    const auto [end, error] = std::from_chars(text.data() + i, text.data() + text.size(), exponent);
    if (error != std::errc() || std::abs(exponent) > kMaxDigits) return std::nullopt;
    i = static_cast<size_t>(end - text.data());
    point += exponent;
  }
  if (i != text.size() || digits.empty() || digits.size() > size_t{kMaxDigits}) return std::nullopt;
  if (point < 0) {
    digits.insert(0, static_cast<size_t>(-point), '0');
    point = 0;
  }
  if (static_cast<size_t>(point) > digits.size())
    digits.append(static_cast<size_t>(point) - digits.size(), '0');
  out.whole = digits.substr(0, static_cast<size_t>(point));
  out.fraction = digits.substr(static_cast<size_t>(point));
  out.whole.erase(0, std::min(out.whole.find_first_not_of('0'), out.whole.size()));
  if (out.whole.empty()) out.whole = "0";
  out.fraction.erase(out.fraction.find_last_not_of('0') + 1);
  if (out.zero()) out.negative = false;
  return out;
}

std::optional<Decimal> Decimal::From(const boost::json::value& number) {
  if (number.is_int64()) return Parse(std::to_string(number.get_int64()));
  if (number.is_uint64()) return Parse(std::to_string(number.get_uint64()));
  if (!number.is_double() || !std::isfinite(number.get_double())) return std::nullopt;
  char buffer[64];
  const auto [end, error] = std::to_chars(buffer, buffer + sizeof(buffer), number.get_double());
  if (error != std::errc()) return std::nullopt;
  return Parse({buffer, static_cast<size_t>(end - buffer)});
}

Decimal Decimal::Negated() const { return {!zero() && !negative, whole, fraction}; }

Decimal Decimal::Plus(int one) const {
  // Towards zero or away from it, by schoolbook carrying.
  Decimal out = *this;
  const bool away = negative == (one < 0) || zero();
  if (zero()) return {one < 0, "1", ""};
  if (away) {
    size_t i = out.whole.size();
    while (i > 0 && out.whole[i - 1] == '9') out.whole[--i] = '0';
    if (i == 0) {
      out.whole.insert(0, 1, '1');
    } else {
      ++out.whole[i - 1];
    }
  } else {
    size_t i = out.whole.size();
    while (out.whole[i - 1] == '0') out.whole[--i] = '9';
    --out.whole[i - 1];
    out.whole.erase(0, std::min(out.whole.find_first_not_of('0'), out.whole.size() - 1));
  }
  if (out.zero()) out.negative = false;
  return out;
}

Decimal Decimal::Floor() const {
  Decimal out{negative, whole, ""};
  if (out.zero()) out.negative = false;
  return !fraction.empty() && negative ? out.Plus(-1) : out;
}

Decimal Decimal::Ceiling() const {
  Decimal out{negative, whole, ""};
  if (out.zero()) out.negative = false;
  return !fraction.empty() && !negative ? out.Plus(1) : out;
}

std::string Decimal::Text() const {
  return (negative ? "-" : "") + whole + (fraction.empty() ? "" : "." + fraction);
}

std::strong_ordering operator<=>(const Decimal& a, const Decimal& b) {
  if (a.negative != b.negative) return b.negative <=> a.negative;
  const std::strong_ordering magnitude = CompareMagnitude(a, b);
  return a.negative ? 0 <=> magnitude : magnitude;
}

void NumberBounds::RaiseLow(const Decimal& to, bool exclusive) {
  if (!low || *low < to) {
    low = to;
    low_exclusive = exclusive;
  } else if (*low == to) {
    low_exclusive = low_exclusive || exclusive;
  }
}

void NumberBounds::LowerHigh(const Decimal& to, bool exclusive) {
  if (!high || to < *high) {
    high = to;
    high_exclusive = exclusive;
  } else if (*high == to) {
    high_exclusive = high_exclusive || exclusive;
  }
}

bool NumberBounds::Contains(const Decimal& value) const {
  if (integer && !value.integral()) return false;
  if (low && (value < *low || (low_exclusive && value == *low))) return false;
  if (high && (*high < value || (high_exclusive && value == *high))) return false;
  for (const Decimal& multiple : multiples) {
    const std::optional<Step> step = StepOf(multiple);
    if (!step || value.fraction.size() > step->digits) return false;
    uint64_t remainder = 0;
    for (const char digit : value.whole + value.fraction)
      remainder = (remainder * 10 + static_cast<uint64_t>(digit - '0')) % step->step;
    for (size_t i = value.fraction.size(); i < step->digits; ++i)
      remainder = remainder * 10 % step->step;
    if (remainder != 0) return false;
  }
  return true;
}

bool CanKeepMultiple(const Decimal& multiple) { return StepOf(multiple).has_value(); }

std::shared_ptr<const Dfa> MakeNumbers(const NumberBounds& bounds, Budget& budget) {
  Grammar grammar(budget);
  DigitExprs digits(grammar);
  std::optional<Decimal> low = bounds.low, high = bounds.high;
  bool low_exclusive = bounds.low_exclusive, high_exclusive = bounds.high_exclusive;
  if (bounds.integer) {
    if (low) low = low_exclusive ? low->Floor().Plus(1) : low->Ceiling();
    if (high) high = high_exclusive ? high->Ceiling().Plus(-1) : high->Floor();
    low_exclusive = high_exclusive = false;
  }
  const auto zero = Decimal();
  // The numbers of one sign whose magnitude lies between two bounds.
  const auto between = [&](const std::optional<Decimal>& from, bool from_exclusive,
                           const std::optional<Decimal>& to, bool to_exclusive,
                           bool negative) -> std::shared_ptr<const Dfa> {
    const auto with_sign = [&](ExprId magnitude) {
      return negative ? grammar.Concat({grammar.Bytes("-"), magnitude}) : magnitude;
    };
    const ExprId any = grammar.Concat({digits.AnyWhole(), digits.AnyFraction(!bounds.integer)});
    std::shared_ptr<const Dfa> numbers = Dfa::FromExpr(grammar, with_sign(any), budget);
    if (numbers != nullptr && from) {
      const auto above =
          Dfa::FromExpr(grammar, with_sign(digits.Above(*from, !from_exclusive)), budget);
      numbers = above == nullptr ? nullptr : Dfa::Intersect(*numbers, *above, budget);
    }
    if (numbers != nullptr && to) {
      const auto below =
          Dfa::FromExpr(grammar, with_sign(digits.Below(*to, !to_exclusive)), budget);
      numbers = below == nullptr ? nullptr : Dfa::Intersect(*numbers, *below, budget);
    }
    return numbers;
  };
  std::vector<std::shared_ptr<const Dfa>> parts;
  if (!high || !high->negative) {  // from 0 on
    const bool bounded = low && !low->negative;
    parts.push_back(between(bounded ? low : std::nullopt, bounded && low_exclusive, high,
                            high_exclusive, /*negative=*/false));
  }
  if (!low || low->negative) {  // below 0
    const bool bounded = high && high->negative;
    parts.push_back(between(bounded ? high->Negated() : zero, bounded ? high_exclusive : true,
                            low ? std::optional(low->Negated()) : std::nullopt, low_exclusive,
                            /*negative=*/true));
  }
  std::vector<ExprId> ways;
  for (const auto& part : parts) {
    if (part == nullptr) return nullptr;
    ways.push_back(grammar.Embed(part));
  }
  std::shared_ptr<const Dfa> numbers =
      Dfa::FromExpr(grammar, grammar.Alternate(std::move(ways)), budget);
  for (const Decimal& multiple : bounds.multiples) {
    const std::optional<Step> step = StepOf(multiple);
    if (numbers == nullptr || !step) return nullptr;
    const Nfa nfa = MultiplesOf(*step, bounds.integer, budget);
    const auto multiples = Dfa::FromNfa(nfa, budget);
    budget.ReturnBytes(nfa.bytes);
    numbers = multiples == nullptr ? nullptr : Dfa::Intersect(*numbers, *multiples, budget);
  }
  return numbers;
}

}  // namespace tutti::grammar
