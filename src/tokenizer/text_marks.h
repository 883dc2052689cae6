// TextMarks: maps places in a text to the corresponding places after the text was rewritten.
//
// A value; not for two threads at once. A rewriting reads the old text from left to right and calls
// Reach() at each boundary of both texts.
#pragma once

#include <cstddef>
#include <span>

namespace tutti::tokenizer {

class TextMarks {
 public:
  TextMarks() = default;
  // `places`: ascending byte offsets into the old text, replaced by offsets into the new one.
  explicit TextMarks(std::span<size_t> places) : places_(places) {}

  // Everything of the old text before `old_at` makes up the new text before `new_at`. Marks at or
  // before `old_at` that are not placed yet are placed at `new_at`.
  void Reach(size_t old_at, size_t new_at) {
    while (next_ < places_.size() && places_[next_] <= old_at) places_[next_++] = new_at;
  }
  bool done() const { return next_ == places_.size(); }

 private:
  std::span<size_t> places_;
  size_t next_ = 0;  // the first mark that is not placed
};

}  // namespace tutti::tokenizer
