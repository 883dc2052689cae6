// The text rules of BERT tokenizers: cleaning, ideographs, accents, case, and what ends a word.
//
// Pure functions over code points; any thread. Source: BertNormalizer and BertPreTokenizer of
// Hugging Face's tokenizers 0.23, equal to them on every code point (unicode_test.cc). They mix
// Unicode versions: categories of 8, decompositions of 12, case of 17; so do these.
#pragma once

#include <string>

namespace tutti::tokenizer {

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

}  // namespace tutti::tokenizer
