// Stop strings, matched on text as it is decoded, across token borders.
//
// StopSet is compiled once per request and immutable; StopMatcher is the state of one choice. Time
// is linear in the text for each stop string (Knuth, Morris, Pratt 1977). Text that could still
// become a stop string is held back; at most the longest string's length minus one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::sampling {

class StopSet {
 public:
  StopSet() = default;
  explicit StopSet(const std::vector<std::string>& stops);  // empty strings are left out
  bool empty() const { return stops_.empty(); }
  const std::string& text(size_t i) const { return stops_[i].text; }

 private:
  friend class StopMatcher;
  struct Stop {
    std::string text;
    std::vector<uint16_t> fallback;  // [i]: longest proper border of text[0..i]
  };
  std::vector<Stop> stops_;
};

class StopMatcher {
 public:
  StopMatcher() = default;
  // `set` must outlive the matcher. With `include`, the matched string itself is output too.
  StopMatcher(const StopSet* set, bool include)
      : set_(set), include_(include), matched_(set->stops_.size(), 0) {}

  // Takes a piece of text and appends the text that can be sent. Returns the index of the stop
  // string that ended the text (the match that ends first; of those, the longest), if any. Must not
  // be called after a match.
  std::optional<size_t> Push(std::string_view text, std::string& out);
  // The text has ended without a match: appends the text that was held back.
  void Finish(std::string& out);

 private:
  const StopSet* set_ = nullptr;
  bool include_ = false;
  std::vector<uint16_t> matched_;  // by stop string: how much of it the text ends with
  std::string held_;
};

}  // namespace tutti::sampling
