#include "tokenizer/normal_form.h"

#include <unicode/uchar.h>
#include <unicode/unorm2.h>

#include <algorithm>
#include <array>
#include <vector>

#include "base/check.h"
#include "base/utf8.h"

namespace tutti::tokenizer {
namespace {

UChar32 Icu(char32_t c) { return static_cast<UChar32>(c); }

const UNormalizer2* Instance(bool compatible) {
  UErrorCode error = U_ZERO_ERROR;
  const UNormalizer2* normalizer =
      compatible ? unorm2_getNFKCInstance(&error) : unorm2_getNFCInstance(&error);
  CHECK(U_SUCCESS(error) != 0) << "ICU has no normalization data";
  return normalizer;
}

bool IsInTables(char32_t c) {
  if (c < 0x300) return true;
  UVersionInfo age;
  u_charAge(Icu(c), age);
  return age[0] > 0 && age[0] <= 9;
}

uint8_t CombiningClass(char32_t c) {
  const uint8_t value = c < 0x300 ? uint8_t{0} : u_getCombiningClass(Icu(c));
  return value != 0 && IsInTables(c) ? value : uint8_t{0};
}

// One code point of a combining sequence.
struct Part {
  char32_t code_point = 0;
  uint8_t combining_class = 0;
};

class Sequence {
 public:
  Sequence(NormalForm form, const UNormalizer2* data)
      : composes_(form == NormalForm::kNfc || form == NormalForm::kNfkc), data_(data) {}

  void Add(char32_t c) {
    if (c < 0x80) {
      parts_.push_back({c, 0});
      return;
    }
    // The longest decomposition of a character (U+FDFA, compatible) has 18 code points.
    std::array<UChar, 40> units{};
    UErrorCode error = U_ZERO_ERROR;
    const int32_t length = unorm2_getDecomposition(data_, Icu(c), units.data(),
                                                   static_cast<int32_t>(units.size()), &error);
    if (length < 0 || U_FAILURE(error) != 0 || !IsInTables(c)) {
      parts_.push_back({c, CombiningClass(c)});
      return;
    }
    for (int32_t i = 0; i < length;) {
      UChar32 part = 0;
      U16_NEXT(units.data(), i, length, part);
      const auto code_point = static_cast<char32_t>(part);
      parts_.push_back({code_point, CombiningClass(code_point)});
    }
  }

  // Appends the sequence in its normal form and empties it.
  void Flush(std::string& out) {
    if (parts_.size() > 1) {
      Reorder();
      if (composes_) Compose();
    }
    for (const Part& part : parts_) AppendUtf8(part.code_point, out);
    parts_.clear();
  }

  // Decomposing a character and composing its parts again gives it back, unless it is excluded
  // from composition: a sequence of one character takes the same way as longer ones.
  bool empty() const { return parts_.empty(); }

 private:
  // Each run of characters with a combining class is sorted by it. A stable sort of the run keeps
  // this n log n where inserting one by one would be quadratic.
  void Reorder() {
    for (size_t begin = 0; begin < parts_.size();) {
      if (parts_[begin].combining_class == 0) {
        ++begin;
        continue;
      }
      size_t end = begin;
      while (end < parts_.size() && parts_[end].combining_class != 0) ++end;
      std::stable_sort(
          parts_.begin() + static_cast<ptrdiff_t>(begin),
          parts_.begin() + static_cast<ptrdiff_t>(end),
          [](const Part& a, const Part& b) { return a.combining_class < b.combining_class; });
      begin = end;
    }
  }

  void Compose() {
    constexpr size_t kNone = ~size_t{0};
    size_t starter = kNone;
    int last_class = -1;  // of the part kept last behind the starter; -1: none stands between
    size_t kept = 0;
    for (const Part part : parts_) {
      const bool blocked =
          starter == kNone || (last_class >= 0 && last_class >= part.combining_class);
      if (!blocked) {
        const UChar32 whole =
            unorm2_composePair(data_, Icu(parts_[starter].code_point), Icu(part.code_point));
        if (whole >= 0 && IsInTables(static_cast<char32_t>(whole))) {
          parts_[starter].code_point = static_cast<char32_t>(whole);
          continue;
        }
      }
      if (part.combining_class == 0) {
        starter = kept;
        last_class = -1;
      } else {
        last_class = part.combining_class;
      }
      parts_[kept++] = part;
    }
    parts_.resize(kept);
  }

  const bool composes_;
  const UNormalizer2* const data_;
  std::vector<Part> parts_;
};

bool IsAscii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return (c & 0x80) == 0; });
}

// Most texts are composed already: no character that may compose or decompose, and marks in order.
// ICU's own check takes quadratic time where marks are out of order. What its newer tables leave
// alone, those of Unicode 9 leave alone too: they know fewer marks, so they reorder and compose
// less.
bool IsComposed(std::string_view text) {
  uint8_t last_class = 0;
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = DecodeAt(text, at);
    at += c.length;
    if (c.code_point < 0x300 || !c.valid) {
      last_class = 0;
      continue;
    }
    if (u_getIntPropertyValue(Icu(c.code_point), UCHAR_NFC_QUICK_CHECK) != UNORM_YES) return false;
    const uint8_t combining_class = u_getCombiningClass(Icu(c.code_point));
    if (combining_class != 0 && combining_class < last_class) return false;
    last_class = combining_class;
  }
  return true;
}

int BreakClass(char32_t c) {
  return u_getIntPropertyValue(static_cast<UChar32>(c), UCHAR_GRAPHEME_CLUSTER_BREAK);
}

bool IsControl(int c) { return c == U_GCB_CONTROL || c == U_GCB_CR || c == U_GCB_LF; }

// Whether characters of these classes stay together.
bool Joins(int left, int right) {
  if (left == U_GCB_CR && right == U_GCB_LF) return true;        // GB3
  if (IsControl(left) || IsControl(right)) return false;         // GB4, GB5
  if (right == U_GCB_EXTEND || right == U_GCB_ZWJ) return true;  // GB9
  if (right == U_GCB_SPACING_MARK) return true;                  // GB9a
  if (left == U_GCB_PREPEND) return true;                        // GB9b
  switch (left) {                                                // GB6 to GB8: Hangul syllables
    case U_GCB_L:
      return right == U_GCB_L || right == U_GCB_V || right == U_GCB_LV || right == U_GCB_LVT;
    case U_GCB_LV:
    case U_GCB_V:
      return right == U_GCB_V || right == U_GCB_T;
    case U_GCB_LVT:
    case U_GCB_T:
      return right == U_GCB_T;
    default:
      return false;
  }
}

}  // namespace

bool IsCombiningMark(char32_t c) {
  if (c == 0x1CF2 || c == 0x1CF3) return true;  // marks until Unicode 12
  if (c == 0x111C9) return false;               // a mark since Unicode 11
  return c >= 0x300 && (U_GET_GC_MASK(Icu(c)) & U_GC_M_MASK) != 0 && IsInTables(c);
}

void AppendNormalForm(NormalForm form, std::string_view text, std::string& out, TextMarks& marks) {
  if (IsAscii(text) || (form == NormalForm::kNfc && IsComposed(text))) {
    const size_t begin = out.size();
    out.append(text);
    for (size_t at = 0; at <= text.size() && !marks.done(); ++at) marks.Reach(at, begin + at);
    return;
  }
  const bool compatible = form == NormalForm::kNfkc || form == NormalForm::kNfkd;
  const UNormalizer2* const data = Instance(compatible);
  Sequence sequence(form, data);
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = DecodeAt(text, at);
    if (c.code_point < 0x80 || !c.valid || unorm2_hasBoundaryBefore(data, Icu(c.code_point)) != 0) {
      sequence.Flush(out);
      marks.Reach(at, out.size());
    }
    if (!c.valid) {
      out.push_back(text[at]);
    } else {
      sequence.Add(c.code_point);
    }
    at += c.length;
  }
  sequence.Flush(out);
  marks.Reach(text.size(), out.size());
}

size_t GraphemeEnd(std::string_view text, size_t at) {
  const CodePoint first = DecodeAt(text, at);
  size_t end = at + first.length;
  if (!first.valid) return end;
  // Two ASCII characters stay together only as CR LF.
  if (end < text.size() && first.code_point < 0x80 && first.code_point != '\r' &&
      static_cast<unsigned char>(text[end]) < 0x80)
    return end;
  int left = BreakClass(first.code_point);
  while (end < text.size()) {
    const CodePoint next = DecodeAt(text, end);
    if (!next.valid) return end;
    const int right = BreakClass(next.code_point);
    if (!Joins(left, right)) return end;
    end += next.length;
    left = right;
  }
  return end;
}

}  // namespace tutti::tokenizer
