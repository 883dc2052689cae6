// Unicode's four normal forms, as Hugging Face tokenizers apply them.
//
// Pure functions; any thread; any bytes: a byte that is not UTF-8 stays as it is and ends a
// combining sequence. Time is O(n log n) in the text, also for a text of combining marks alone.
// Source: Unicode Standard Annex 15; data by ICU, cut down to Unicode 9, which is what the
// reference implementation's tables hold: a character assigned later has no decomposition, no
// combining class and no part in a composition.
#pragma once

#include <string>
#include <string_view>

#include "tokenizer/text_marks.h"

namespace tutti::tokenizer {

enum class NormalForm : uint8_t { kNfc, kNfd, kNfkc, kNfkd };

// Appends the normal form of `text` to `out`. `marks` are moved from places in `text` to places in
// `out`; a mark inside of a combining sequence goes to the sequence's begin.
void AppendNormalForm(NormalForm form, std::string_view text, std::string& out, TextMarks& marks);

// Whether `c` is a combining mark (general category M) in those tables.
bool IsCombiningMark(char32_t c);

}  // namespace tutti::tokenizer
