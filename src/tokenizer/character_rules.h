// What the published tokenizers say about characters: Unicode's classes \p{L}, \p{N}, \p{P}, \s,
// which pre-tokenizers use; the text rules of BERT; and the byte alphabet of byte-level BPE. Pure
// functions over ICU's data; any thread.
//
// A byte that is no UTF-8 is a symbol of its own with no class, like any other character that is
// neither letter, number nor space.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/utf8.h"

namespace tutti::tokenizer {

// A set of bits.
enum CharClass : uint8_t {
  kLetter = 1,        // \p{L}
  kNumber = 2,        // \p{N}
  kSpace = 4,         // \s: Unicode's White_Space
  kLineEnd = 8,       // CR or LF; also kSpace
  kPunctuation = 16,  // \p{P}
};

uint8_t ClassOfWide(char32_t code_point);  // any code point, through ICU

// \w: letters, marks, digits, connector punctuation and joiners.
bool IsWordCharacter(char32_t code_point);

// Hugging Face's own character tests (BERT, Falcon's punctuation) use the tables of Unicode 8:
// later characters have no category there.
bool IsPunctuationInUnicode8(char32_t code_point);

namespace internal {
constexpr std::array<uint8_t, 128> MakeAsciiClasses() {
  std::array<uint8_t, 128> t{};
  for (size_t c = 0; c < 128; ++c) {
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) {
      t[c] = kLetter;
    } else if (c >= '0' && c <= '9') {
      t[c] = kNumber;
    } else if (c == ' ' || (c >= 0x09 && c <= 0x0D)) {
      t[c] = static_cast<uint8_t>(kSpace | (c == '\r' || c == '\n' ? kLineEnd : 0));
    } else if (c > 0x20 && c < 0x7F &&
               std::string_view("$+<=>^`|~").find(static_cast<char>(c)) == std::string_view::npos) {
      t[c] = kPunctuation;  // the nine left out are symbols (\p{S})
    }
  }
  return t;
}
inline constexpr std::array<uint8_t, 128> kAsciiClasses = MakeAsciiClasses();
}  // namespace internal

// One step over a text, classified.
struct Symbol {
  char32_t code_point;
  uint8_t length;   // bytes
  uint8_t classes;  // bits of CharClass
  bool Is(uint8_t any_of) const { return (classes & any_of) != 0; }
  // Neither space, letter nor number: what [^\s\p{L}\p{N}] matches.
  bool IsOther() const { return !Is(kSpace | kLetter | kNumber); }
};

// Needs position < text.size().
inline Symbol SymbolAt(std::string_view text, size_t position) {
  const auto byte = static_cast<unsigned char>(text[position]);
  if (byte < 0x80) return {byte, 1, internal::kAsciiClasses[byte]};
  const CodePoint c = DecodeMultibyte(text, position);
  return {c.code_point, c.length, c.valid ? ClassOfWide(c.code_point) : uint8_t{0}};
}

// Where the last character of text[from, end) begins, at most four bytes back. Needs from < end.
// Bytes that are not UTF-8 give a place whose character does not reach `end`.
size_t LastCharacter(std::string_view text, size_t from, size_t end);

// White space (kSpace) at the beginning of text[at, ...): where it ends.
size_t EndOfSpace(std::string_view text, size_t at);
// White space at the end of text[from, end): where it begins.
size_t BeginOfSpace(std::string_view text, size_t from, size_t end);

// --- BERT: cleaning, ideographs, accents, case, and what ends a word ---
//
// Source: BertNormalizer and BertPreTokenizer of Hugging Face's tokenizers 0.23, equal to them on
// every code point (unicode_test.cc). They mix Unicode versions: categories of 8, decompositions of
// 12, case of 17; so do these.

// Control, format and private characters, U+0000 and U+FFFD: they leave no trace in the text.
bool IsBertRemoved(char32_t c);
// Everything that becomes a space; tab, LF and CR among them.
bool IsBertSpace(char32_t c);
// CJK ideographs, each a word of its own. Neither kana nor hangul.
bool IsBertIdeograph(char32_t c);
// ASCII punctuation with the ASCII symbols, and Unicode's \p{P}.
bool IsBertPunctuation(char32_t c);

// Accents, which strip_accents drops after decomposing: \p{Mn}.
bool IsBertAccent(char32_t c);

// Full, unconditional lower case, as char::to_lowercase of Rust has it: one character or two.
void AppendLowercase(char32_t c, std::u32string& out);

// Appends the characters that `c` is written with after the options: none, one or several.
void AppendBertFolded(char32_t c, bool strip_accents, bool lowercase, std::u32string& out);

// --- the byte alphabet: 256 printable characters that stand for the 256 bytes in token spellings
// ("Ġthe" is " the"). Source: bytes_to_unicode() of OpenAI's GPT-2 encoder. ---

// The character that stands for `byte`.
char32_t ByteSymbol(unsigned char byte);

// The bytes that a spelling stands for; nothing if one of its characters is not in the alphabet.
std::optional<std::string> BytesOfSpelling(std::string_view spelling);

}  // namespace tutti::tokenizer
