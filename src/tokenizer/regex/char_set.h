// Sets of code points by the names that expressions use for them. Pure functions over ICU's data,
// completed to Unicode 16, which Oniguruma knows. Any thread.
#pragma once

#include <unicode/uniset.h>

#include <optional>
#include <string_view>

namespace tutti::tokenizer::regex {

using CodePoints = icu::UnicodeSet;

// Word characters inside of brackets are [:word:]. Outside, for \w and \b, Oniguruma counts the
// superscripts and fractions of Latin-1 as well.
enum class WordRule : bool { kBrackets, kLatin1Numbers };

// \p{name}: general categories, scripts, binary properties, blocks ("In..."), POSIX names. Case,
// spaces, hyphens and underscores of a name do not count. Empty when there is no such name.
std::optional<CodePoints> FindProperty(std::string_view name, WordRule words);
// [:name:]
std::optional<CodePoints> FindPosixClass(std::string_view name);

CodePoints SpaceCharacters();               // \s
CodePoints DecimalDigits();                 // \d
CodePoints HexDigits();                     // \h
CodePoints WordCharacters(WordRule words);  // \w

// Adds what differs in case only, one character for one. False when a member also equals several
// characters at once (U+00DF and "ss"): the set does not hold those.
bool CloseOverCase(CodePoints& set);
// `text` holds several characters that together equal a single one if case is ignored ("ss" and
// U+00DF).
bool HoldsMultiCharacterFold(const icu::UnicodeString& text);

}  // namespace tutti::tokenizer::regex
