// Unicode's four normal forms, as Hugging Face tokenizers apply them; the ends of grapheme
// clusters; and the places that follow a text while it is rewritten.
//
// Pure functions; any thread; any bytes: a byte that is not UTF-8 stays as it is and ends a
// combining sequence. Time is O(n log n) in the text, also for a text of combining marks alone.
// Source of the forms: Unicode Standard Annex 15; data by ICU, cut down to Unicode 9, which is what
// the reference implementation's tables hold: a character assigned later has no decomposition, no
// combining class and no part in a composition.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace tutti::tokenizer {

// TextMarks: maps places in a text to the corresponding places after the text was rewritten.
//
// A value; not for two threads at once. A rewriting reads the old text from left to right and calls
// Reach() at each boundary of both texts.
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

enum class NormalForm : uint8_t { kNfc, kNfd, kNfkc, kNfkd };

// Appends the normal form of `text` to `out`. `marks` are moved from places in `text` to places in
// `out`; a mark inside of a combining sequence goes to the sequence's begin.
void AppendNormalForm(NormalForm form, std::string_view text, std::string& out, TextMarks& marks);

// Whether `c` is a combining mark (general category M) in those tables.
bool IsCombiningMark(char32_t c);

// The end of a short user-perceived character (grapheme cluster).
//
// Source: Unicode Standard Annex 29, rules GB3 to GB9b over ICU's properties. The rules of emoji
// sequences, of flags and of Indic conjuncts (GB9c to GB13) are left out: the clusters that they
// join take six bytes and more, and callers treat the characters of such a cluster one by one.
//
// Needs at < text.size() to be where a character begins. A byte that is no UTF-8 is a cluster of
// its own. Linear in the cluster.
size_t GraphemeEnd(std::string_view text, size_t at);

}  // namespace tutti::tokenizer
