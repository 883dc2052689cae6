#include "grammar/decimal.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

namespace tutti::grammar {
namespace {

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

}  // namespace tutti::grammar
