// CodePoints: a set of Unicode scalar values, as sorted, disjoint, non-adjacent ranges.
//
// A value; any thread. Surrogates are never members: every set can be written as UTF-8.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace tutti::grammar {

struct CodeRange {
  char32_t first = 0;
  char32_t last = 0;  // inclusive
  friend bool operator==(const CodeRange&, const CodeRange&) = default;
};

class CodePoints {
 public:
  CodePoints() = default;
  CodePoints(char32_t first, char32_t last) { Add(first, last); }
  static CodePoints All();
  // The characters of an ASCII text.
  static CodePoints Of(std::string_view ascii);

  void Add(char32_t first, char32_t last);
  void Add(const CodePoints& other);
  CodePoints Intersect(const CodePoints& other) const;
  CodePoints Complement() const;
  CodePoints Without(const CodePoints& other) const { return Intersect(other.Complement()); }

  bool Contains(char32_t c) const;
  bool empty() const { return ranges_.empty(); }
  const std::vector<CodeRange>& ranges() const { return ranges_; }
  friend bool operator==(const CodePoints&, const CodePoints&) = default;

 private:
  void Normalise();

  std::vector<CodeRange> ranges_;
};

}  // namespace tutti::grammar
