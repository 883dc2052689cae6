#include "tokenizer/regex/char_set.h"

#include <unicode/uchar.h>
#include <unicode/uscript.h>
#include <unicode/usetiter.h>

#include <string>

namespace tutti::tokenizer::regex {
namespace {

// Code points that Unicode 15.1 and 16 assigned, for an older ICU (Debian 12 has Unicode 15).
//
// Source: UnicodeData.txt, Scripts.txt and DerivedCoreProperties.txt of Unicode 16. New scripts are
// listed as unknown, because an older ICU has no name for them.

struct NewerRange {
  char32_t first;
  char32_t last;
  UCharCategory category;
  UScriptCode script;
  bool alphabetic;
};

constexpr NewerRange kNewerRanges[] = {
    {0x00897, 0x00897, U_NON_SPACING_MARK, USCRIPT_ARABIC, true},
    {0x01B4E, 0x01B4F, U_OTHER_PUNCTUATION, USCRIPT_BALINESE, false},
    {0x01B7F, 0x01B7F, U_OTHER_PUNCTUATION, USCRIPT_BALINESE, false},
    {0x01C89, 0x01C89, U_UPPERCASE_LETTER, USCRIPT_CYRILLIC, true},
    {0x01C8A, 0x01C8A, U_LOWERCASE_LETTER, USCRIPT_CYRILLIC, true},
    {0x02427, 0x02429, U_OTHER_SYMBOL, USCRIPT_COMMON, false},
    {0x02FFC, 0x02FFF, U_OTHER_SYMBOL, USCRIPT_COMMON, false},
    {0x031E4, 0x031E5, U_OTHER_SYMBOL, USCRIPT_COMMON, false},
    {0x031EF, 0x031EF, U_OTHER_SYMBOL, USCRIPT_COMMON, false},
    {0x0A7CB, 0x0A7CC, U_UPPERCASE_LETTER, USCRIPT_LATIN, true},
    {0x0A7CD, 0x0A7CD, U_LOWERCASE_LETTER, USCRIPT_LATIN, true},
    {0x0A7DA, 0x0A7DA, U_UPPERCASE_LETTER, USCRIPT_LATIN, true},
    {0x0A7DB, 0x0A7DB, U_LOWERCASE_LETTER, USCRIPT_LATIN, true},
    {0x0A7DC, 0x0A7DC, U_UPPERCASE_LETTER, USCRIPT_LATIN, true},
    {0x105C0, 0x105F3, U_OTHER_LETTER, USCRIPT_UNKNOWN, true},
    {0x10D40, 0x10D49, U_DECIMAL_DIGIT_NUMBER, USCRIPT_UNKNOWN, false},
    {0x10D4A, 0x10D4D, U_OTHER_LETTER, USCRIPT_UNKNOWN, true},
    {0x10D4E, 0x10D4E, U_MODIFIER_LETTER, USCRIPT_UNKNOWN, true},
    {0x10D4F, 0x10D4F, U_OTHER_LETTER, USCRIPT_UNKNOWN, true},
    {0x10D50, 0x10D65, U_UPPERCASE_LETTER, USCRIPT_UNKNOWN, true},
    {0x10D69, 0x10D69, U_NON_SPACING_MARK, USCRIPT_UNKNOWN, true},
    {0x10D6A, 0x10D6D, U_NON_SPACING_MARK, USCRIPT_UNKNOWN, false},
    {0x10D6E, 0x10D6E, U_DASH_PUNCTUATION, USCRIPT_UNKNOWN, false},
    {0x10D6F, 0x10D6F, U_MODIFIER_LETTER, USCRIPT_UNKNOWN, true},
    {0x10D70, 0x10D85, U_LOWERCASE_LETTER, USCRIPT_UNKNOWN, true},
    {0x10D8E, 0x10D8F, U_MATH_SYMBOL, USCRIPT_UNKNOWN, false},
    {0x10EC2, 0x10EC4, U_OTHER_LETTER, USCRIPT_ARABIC, true},
    {0x10EFC, 0x10EFC, U_NON_SPACING_MARK, USCRIPT_ARABIC, true},
    {0x11380, 0x11389, U_OTHER_LETTER, USCRIPT_UNKNOWN, true},
    {0x1138B, 0x1138B, U_OTHER_LETTER, USCRIPT_UNKNOWN, true},
    {0x1138E, 0x1138E, U_OTHER_LETTER, USCRIPT_UNKNOWN, true},
    {0x11390, 0x113B5, U_OTHER_LETTER, USCRIPT_UNKNOWN, true},
    {0x113B7, 0x113B7, U_OTHER_LETTER, USCRIPT_UNKNOWN, true},
    {0x113B8, 0x113BA, U_COMBINING_SPACING_MARK, USCRIPT_UNKNOWN, true},
    {0x113BB, 0x113C0, U_NON_SPACING_MARK, USCRIPT_UNKNOWN, true},
    {0x113C2, 0x113C2, U_COMBINING_SPACING_MARK, USCRIPT_UNKNOWN, true},
    {0x113C5, 0x113C5, U_COMBINING_SPACING_MARK, USCRIPT_UNKNOWN, true},
    {0x113C7, 0x113CA, U_COMBINING_SPACING_MARK, USCRIPT_UNKNOWN, true},
    {0x113CC, 0x113CD, U_COMBINING_SPACING_MARK, USCRIPT_UNKNOWN, true},
    {0x113CE, 0x113CE, U_NON_SPACING_MARK, USCRIPT_UNKNOWN, false},
    {0x113CF, 0x113CF, U_COMBINING_SPACING_MARK, USCRIPT_UNKNOWN, false},
    {0x113D0, 0x113D0, U_NON_SPACING_MARK, USCRIPT_UNKNOWN, false},
    {0x113D1, 0x113D1, U_OTHER_LETTER, USCRIPT_UNKNOWN, true},
    {0x113D2, 0x113D2, U_NON_SPACING_MARK, USCRIPT_UNKNOWN, false},
    {0x113D3, 0x113D3, U_OTHER_LETTER, USCRIPT_UNKNOWN, true},
    {0x113D4, 0x113D5, U_OTHER_PUNCTUATION, USCRIPT_UNKNOWN, false},
    {0x113D7, 0x113D8, U_OTHER_PUNCTUATION, USCRIPT_UNKNOWN, false},
    {0x113E1, 0x113E2, U_NON_SPACING_MARK, USCRIPT_UNKNOWN, false},
    {0x116D0, 0x116E3, U_DECIMAL_DIGIT_NUMBER, USCRIPT_MYANMAR, false},
    {0x1171E, 0x1171E, U_COMBINING_SPACING_MARK, USCRIPT_AHOM, true},
    {0x11BC0, 0x11BE0, U_OTHER_LETTER, USCRIPT_UNKNOWN, true},
    {0x11BE1, 0x11BE1, U_OTHER_PUNCTUATION, USCRIPT_UNKNOWN, false},
    {0x11BF0, 0x11BF9, U_DECIMAL_DIGIT_NUMBER, USCRIPT_UNKNOWN, false},
    {0x11F5A, 0x11F5A, U_NON_SPACING_MARK, USCRIPT_KAWI, false},
    {0x13460, 0x143FA, U_OTHER_LETTER, USCRIPT_EGYPTIAN_HIEROGLYPHS, true},
    {0x16100, 0x1611D, U_OTHER_LETTER, USCRIPT_UNKNOWN, true},
    {0x1611E, 0x16129, U_NON_SPACING_MARK, USCRIPT_UNKNOWN, true},
    {0x1612A, 0x1612C, U_COMBINING_SPACING_MARK, USCRIPT_UNKNOWN, true},
    {0x1612D, 0x1612E, U_NON_SPACING_MARK, USCRIPT_UNKNOWN, true},
    {0x1612F, 0x1612F, U_NON_SPACING_MARK, USCRIPT_UNKNOWN, false},
    {0x16130, 0x16139, U_DECIMAL_DIGIT_NUMBER, USCRIPT_UNKNOWN, false},
    {0x16D40, 0x16D42, U_MODIFIER_LETTER, USCRIPT_UNKNOWN, true},
    {0x16D43, 0x16D6A, U_OTHER_LETTER, USCRIPT_UNKNOWN, true},
    {0x16D6B, 0x16D6C, U_MODIFIER_LETTER, USCRIPT_UNKNOWN, true},
    {0x16D6D, 0x16D6F, U_OTHER_PUNCTUATION, USCRIPT_UNKNOWN, false},
    {0x16D70, 0x16D79, U_DECIMAL_DIGIT_NUMBER, USCRIPT_UNKNOWN, false},
    {0x18CFF, 0x18CFF, U_OTHER_LETTER, USCRIPT_KHITAN_SMALL_SCRIPT, true},
    {0x1CC00, 0x1CCEF, U_OTHER_SYMBOL, USCRIPT_COMMON, false},
    {0x1CCF0, 0x1CCF9, U_DECIMAL_DIGIT_NUMBER, USCRIPT_COMMON, false},
    {0x1CD00, 0x1CEB3, U_OTHER_SYMBOL, USCRIPT_COMMON, false},
    {0x1E5D0, 0x1E5ED, U_OTHER_LETTER, USCRIPT_UNKNOWN, true},
    {0x1E5EE, 0x1E5EF, U_NON_SPACING_MARK, USCRIPT_UNKNOWN, false},
    {0x1E5F0, 0x1E5F0, U_OTHER_LETTER, USCRIPT_UNKNOWN, true},
    {0x1E5F1, 0x1E5FA, U_DECIMAL_DIGIT_NUMBER, USCRIPT_UNKNOWN, false},
    {0x1E5FF, 0x1E5FF, U_OTHER_PUNCTUATION, USCRIPT_UNKNOWN, false},
    {0x1F8B2, 0x1F8BB, U_OTHER_SYMBOL, USCRIPT_COMMON, false},
    {0x1F8C0, 0x1F8C1, U_OTHER_SYMBOL, USCRIPT_COMMON, false},
    {0x1FA89, 0x1FA89, U_OTHER_SYMBOL, USCRIPT_COMMON, false},
    {0x1FA8F, 0x1FA8F, U_OTHER_SYMBOL, USCRIPT_COMMON, false},
    {0x1FABE, 0x1FABE, U_OTHER_SYMBOL, USCRIPT_COMMON, false},
    {0x1FAC6, 0x1FAC6, U_OTHER_SYMBOL, USCRIPT_COMMON, false},
    {0x1FADC, 0x1FADC, U_OTHER_SYMBOL, USCRIPT_COMMON, false},
    {0x1FADF, 0x1FADF, U_OTHER_SYMBOL, USCRIPT_COMMON, false},
    {0x1FAE9, 0x1FAE9, U_OTHER_SYMBOL, USCRIPT_COMMON, false},
    {0x1FBCB, 0x1FBEF, U_OTHER_SYMBOL, USCRIPT_COMMON, false},
    {0x2EBF0, 0x2EE5D, U_OTHER_LETTER, USCRIPT_HAN, true},
};

// Older characters that are alphabetic since Unicode 16.
constexpr char32_t kNewerAlphabetic[][2] = {{0x0363, 0x036F}, {0x1DD3, 0x1DE6}};

std::string Normalized(std::string_view name) {
  std::string folded;
  for (const char c : name) {
    if (c == ' ' || c == '-' || c == '_') continue;
    folded.push_back(c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c);
  }
  return folded;
}

// The ICU at hand is older than the range.
bool IsNewer(const NewerRange& range) {
  return u_charType(static_cast<UChar32>(range.first)) != range.category;
}

CodePoints Categories(uint32_t mask) {
  UErrorCode error = U_ZERO_ERROR;
  CodePoints set;
  set.applyIntPropertyValue(UCHAR_GENERAL_CATEGORY_MASK, static_cast<int32_t>(mask), error);
  for (const NewerRange& range : kNewerRanges) {
    if (!IsNewer(range)) continue;
    if ((U_MASK(range.category) & mask) != 0) {
      set.add(range.first, range.last);
    } else {
      set.remove(range.first, range.last);  // mostly from U_GC_CN_MASK
    }
  }
  return set;
}

CodePoints Binary(UProperty property) {
  UErrorCode error = U_ZERO_ERROR;
  CodePoints set;
  set.applyIntPropertyValue(property, 1, error);
  for (const NewerRange& range : kNewerRanges) {
    const bool has = property == UCHAR_ALPHABETIC  ? range.alphabetic
                     : property == UCHAR_LOWERCASE ? range.category == U_LOWERCASE_LETTER
                     : property == UCHAR_UPPERCASE ? range.category == U_UPPERCASE_LETTER
                                                   : false;
    if (has && IsNewer(range)) set.add(range.first, range.last);
  }
  if (property == UCHAR_ALPHABETIC) {
    for (const auto& [first, last] : kNewerAlphabetic) set.add(first, last);
  }
  return set;
}

CodePoints Script(UScriptCode script) {
  UErrorCode error = U_ZERO_ERROR;
  CodePoints set;
  set.applyIntPropertyValue(UCHAR_SCRIPT, script, error);
  for (const NewerRange& range : kNewerRanges) {
    if (range.script != script || !IsNewer(range)) continue;
    set.add(range.first, range.last);
  }
  return set;
}

CodePoints Range(char32_t first, char32_t last) {
  return CodePoints(static_cast<UChar32>(first), static_cast<UChar32>(last));
}

CodePoints ControlCharacters() { return Categories(U_GC_CC_MASK); }

CodePoints GraphicCharacters() {
  CodePoints set = SpaceCharacters();
  set.addAll(Categories(U_GC_CC_MASK | U_GC_CN_MASK | U_GC_CS_MASK));
  set.complement();
  return set;
}

// Names that POSIX brackets and properties share.
std::optional<CodePoints> FindCommon(const std::string& name) {
  if (name == "alnum") return Binary(UCHAR_ALPHABETIC).addAll(DecimalDigits());
  if (name == "alpha") return Binary(UCHAR_ALPHABETIC);
  if (name == "ascii") return Range(0, 0x7F);
  if (name == "blank") return Categories(U_GC_ZS_MASK).add(0x09);
  if (name == "cntrl") return ControlCharacters();
  if (name == "digit") return DecimalDigits();
  if (name == "graph") return GraphicCharacters();
  if (name == "lower") return Binary(UCHAR_LOWERCASE);
  if (name == "print") return GraphicCharacters().addAll(Categories(U_GC_ZS_MASK));
  if (name == "space") return SpaceCharacters();
  if (name == "upper") return Binary(UCHAR_UPPERCASE);
  if (name == "xdigit") return HexDigits();
  if (name == "word") return WordCharacters(WordRule::kBrackets);
  return std::nullopt;
}

// All that ICU's closure maps to several characters at once, as the strings it closes over.
const CodePoints& MultiCharacterFolds() {
  static const CodePoints kFolds = [] {
    CodePoints all(0, 0x10FFFF);
    all.closeOver(USET_CASE_INSENSITIVE);
    all.remove(0, 0x10FFFF);
    return all;
  }();
  return kFolds;
}

}  // namespace

std::optional<CodePoints> FindPosixClass(std::string_view name) {
  if (name == "punct") return Categories(U_GC_P_MASK | U_GC_S_MASK);
  return FindCommon(std::string(name));
}

std::optional<CodePoints> FindProperty(std::string_view name, WordRule words) {
  const std::string folded = Normalized(name);
  if (folded == "word") return WordCharacters(words);
  if (auto set = FindCommon(folded)) return set;
  if (folded == "punct") return Categories(U_GC_P_MASK);
  if (folded == "any") return Range(0, 0x10FFFF);
  if (folded == "assigned") {
    CodePoints set = Categories(U_GC_CN_MASK);
    set.complement();
    return set;
  }
  const int32_t category = u_getPropertyValueEnum(UCHAR_GENERAL_CATEGORY_MASK, folded.c_str());
  if (category != UCHAR_INVALID_CODE) return Categories(static_cast<uint32_t>(category));
  const int32_t script = u_getPropertyValueEnum(UCHAR_SCRIPT, folded.c_str());
  if (script != UCHAR_INVALID_CODE) return Script(static_cast<UScriptCode>(script));
  const UProperty property = u_getPropertyEnum(folded.c_str());
  if (property >= UCHAR_BINARY_START && property < UCHAR_BINARY_LIMIT) return Binary(property);
  if (folded.starts_with("in")) {
    const int32_t block = u_getPropertyValueEnum(UCHAR_BLOCK, folded.c_str() + 2);
    if (block != UCHAR_INVALID_CODE) {
      UErrorCode error = U_ZERO_ERROR;
      CodePoints set;
      set.applyIntPropertyValue(UCHAR_BLOCK, block, error);
      return set;
    }
  }
  return std::nullopt;
}

CodePoints SpaceCharacters() { return Binary(UCHAR_WHITE_SPACE); }
CodePoints DecimalDigits() { return Categories(U_GC_ND_MASK); }
CodePoints HexDigits() { return Range('0', '9').add('A', 'F').add('a', 'f'); }
CodePoints WordCharacters(WordRule words) {
  CodePoints set = Binary(UCHAR_ALPHABETIC);
  set.addAll(Categories(U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK));
  if (words == WordRule::kLatin1Numbers) set.add(0xB2, 0xB3).add(0xB9).add(0xBC, 0xBE);
  return set;
}

bool CloseOverCase(CodePoints& set) {
  set.closeOver(USET_CASE_INSENSITIVE);
  // Strings are members of their own in ICU's sets.
  CodePoints strings(set);
  strings.remove(0, 0x10FFFF);
  if (strings.isEmpty()) return true;
  set.retain(0, 0x10FFFF);
  return false;
}

bool HoldsMultiCharacterFold(const icu::UnicodeString& text) {
  icu::UnicodeString folded(text);
  folded.foldCase();
  icu::UnicodeSetIterator folds(MultiCharacterFolds());
  while (folds.nextRange()) {
    if (folds.isString() && folded.indexOf(folds.getString()) >= 0) return true;
  }
  return false;
}

}  // namespace tutti::tokenizer::regex
