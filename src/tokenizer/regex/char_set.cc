#include "tokenizer/regex/char_set.h"

#include <unicode/uchar.h>
#include <unicode/uscript.h>
#include <unicode/usetiter.h>

#include <array>
#include <span>
#include <string>

#include "tokenizer/regex/newer_unicode.h"

namespace tutti::tokenizer::regex {
namespace {

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
