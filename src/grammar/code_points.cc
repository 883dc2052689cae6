#include "grammar/code_points.h"

#include <algorithm>

namespace tutti::grammar {
namespace {

constexpr char32_t kFirstSurrogate = 0xD800, kLastSurrogate = 0xDFFF, kLast = 0x10FFFF;

}  // namespace

CodePoints CodePoints::All() { return CodePoints(0, kLast); }

CodePoints CodePoints::Of(std::string_view ascii) {
  CodePoints set;
  for (const char c : ascii) {
    const auto code = static_cast<unsigned char>(c);
    set.ranges_.push_back({code, code});
  }
  set.Normalise();
  return set;
}

void CodePoints::Add(char32_t first, char32_t last) {
  last = std::min(last, kLast);
  if (first < kFirstSurrogate && last >= first)
    ranges_.push_back({first, std::min<char32_t>(last, kFirstSurrogate - 1)});
  if (last > kLastSurrogate)
    ranges_.push_back({std::max<char32_t>(first, kLastSurrogate + 1), last});
  Normalise();
}

void CodePoints::Add(const CodePoints& other) {
  ranges_.insert(ranges_.end(), other.ranges_.begin(), other.ranges_.end());
  Normalise();
}

CodePoints CodePoints::Intersect(const CodePoints& other) const {
  CodePoints both;
  size_t i = 0, j = 0;
  while (i < ranges_.size() && j < other.ranges_.size()) {
    const CodeRange& a = ranges_[i];
    const CodeRange& b = other.ranges_[j];
    const char32_t first = std::max(a.first, b.first), last = std::min(a.last, b.last);
    if (first <= last) both.ranges_.push_back({first, last});
    if (a.last < b.last) {
      ++i;
    } else {
      ++j;
    }
  }
  return both;
}

CodePoints CodePoints::Complement() const {
  CodePoints rest;
  char32_t next = 0;
  for (const CodeRange& range : ranges_) {
    if (range.first > next) rest.ranges_.push_back({next, range.first - 1});
    next = range.last + 1;
  }
  if (next <= kLast) rest.ranges_.push_back({next, kLast});
  CodePoints scalars;
  for (const CodeRange& range : rest.ranges_) scalars.Add(range.first, range.last);
  return scalars;
}

bool CodePoints::Contains(char32_t c) const {
  const auto behind =
      std::upper_bound(ranges_.begin(), ranges_.end(), c,
                       [](char32_t value, const CodeRange& range) { return value < range.first; });
  return behind != ranges_.begin() && std::prev(behind)->last >= c;
}

void CodePoints::Normalise() {
  std::sort(ranges_.begin(), ranges_.end(),
            [](const CodeRange& a, const CodeRange& b) { return a.first < b.first; });
  size_t kept = 0;
  for (const CodeRange& range : ranges_) {
    if (kept > 0 && range.first <= ranges_[kept - 1].last + 1) {
      ranges_[kept - 1].last = std::max(ranges_[kept - 1].last, range.last);
    } else {
      ranges_[kept++] = range;
    }
  }
  ranges_.resize(kept);
}

}  // namespace tutti::grammar
