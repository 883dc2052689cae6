#include "grammar/regex_parser.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/ascii.h"
#include "base/text_cursor.h"
#include "base/utf8.h"
#include "tokenizer/regex/char_set.h"

namespace tutti::grammar {
namespace {

constexpr uint32_t kMaxCount = 100'000;

CodePoints LineEnds() {
  CodePoints set = CodePoints::Of("\n\r");
  set.Add(0x2028, 0x2029);
  return set;
}

// ECMA-262, section 22.2.2.9: WhiteSpace and LineTerminator.
CodePoints Spaces() {
  CodePoints set = CodePoints::Of("\t\n\v\f\r ");
  for (const char32_t c : {0xA0, 0x1680, 0x202F, 0x205F, 0x3000, 0xFEFF}) set.Add(c, c);
  set.Add(0x2000, 0x200A);
  set.Add(LineEnds());
  return set;
}

CodePoints Digits() { return CodePoints('0', '9'); }

CodePoints WordCharacters() {
  CodePoints set = Digits();
  set.Add('A', 'Z');
  set.Add('a', 'z');
  set.Add('_', '_');
  return set;
}

class RegexParser : private TextCursor {
 public:
  RegexParser(Grammar& grammar, std::string_view text, Spelling spelling, Budget& budget)
      : TextCursor(text), grammar_(grammar), spelling_(spelling), budget_(budget) {}

  Result<ExprId> Parse() {
    if (text_.size() > budget_.limits().text_bytes)
      return InvalidArgument("grammar_regex", "regular expression is longer than 1 MiB");
    if (!IsValidUtf8(text_))
      return InvalidArgument("grammar_regex", "regular expression is not valid UTF-8");
    ASSIGN_OR_RETURN(const ExprId body, TakeAlternatives(0));
    if (!AtEnd()) return Refuse("an unmatched )", 1);
    return body;
  }

 private:
  Status Refuse(std::string_view what, size_t length = 0) const {
    std::string message = "regular expression has " + std::string(what);
    if (length > 0) {
      std::string_view quoted = text_.substr(at_, std::min<size_t>(length, 24));
      quoted = quoted.substr(0, ValidUtf8Prefix(quoted));
      message += " \"" + std::string(quoted) + "\"";
    }
    return InvalidArgument("grammar_regex", message + " at byte " + std::to_string(at_));
  }

  Result<ExprId> TakeAlternatives(size_t depth) {
    if (depth > budget_.limits().depth) return Refuse("groups nested too deep");
    std::vector<ExprId> ways;
    do {
      std::vector<ExprId> parts;
      while (!AtEnd() && Peek() != '|' && Peek() != ')') {
        if (!budget_.Take(16)) return budget_.status();
        ASSIGN_OR_RETURN(const ExprId part, TakeTerm(depth));
        parts.push_back(part);
      }
      ways.push_back(grammar_.Concat(std::move(parts)));
    } while (Take("|"));
    return grammar_.Alternate(std::move(ways));
  }

  Result<ExprId> TakeTerm(size_t depth) {
    if (Take("^")) return NoCount(grammar_.TextStart());
    if (Take("$")) return NoCount(grammar_.TextEnd());
    if (const std::string literal = TakeLiteral(); !literal.empty()) {
      if (!budget_.Take(literal.size())) return budget_.status();
      return Spell(grammar_, literal, spelling_);
    }
    ASSIGN_OR_RETURN(const ExprId atom, TakeAtom(depth));
    return TakeCount(atom);
  }

  // Characters that stand for themselves, up to one that a count follows: one expression instead of
  // many.
  std::string TakeLiteral() {
    constexpr std::string_view kSpecial = "^$([.\\*+?{|)";
    std::string literal;
    while (!AtEnd() && kSpecial.find(Peek()) == std::string_view::npos) {
      const size_t begin = at_;
      const char32_t c = TakeCodePoint();
      if (Peek() == '*' || Peek() == '+' || Peek() == '?' || (Peek() == '{' && IsCount())) {
        at_ = begin;
        break;
      }
      AppendUtf8(c, literal);
    }
    return literal;
  }

  Result<ExprId> NoCount(ExprId assertion) {
    if (Peek() == '*' || Peek() == '+' || Peek() == '?')
      return Refuse("a count behind an assertion", 1);
    return assertion;
  }

  Result<ExprId> TakeAtom(size_t depth) {
    switch (Peek()) {
      case '(':
        return TakeGroup(depth);
      case '[':
        ++at_;
        return TakeClass();
      case '.':
        ++at_;
        return Write(LineEnds().Complement());
      case '\\':
        return TakeEscape();
      case '*':
      case '+':
      case '?':
        return Refuse("a count without anything to repeat", 1);
      case '{':
        // A brace that begins no count stands for itself, as browsers read it.
        if (IsCount()) return Refuse("a count without anything to repeat", 1);
        [[fallthrough]];
      default: {
        const char32_t c = TakeCodePoint();
        return Write(CodePoints(c, c));
      }
    }
  }

  Result<ExprId> TakeGroup(size_t depth) {
    for (const auto& [begin, what] :
         std::initializer_list<std::pair<std::string_view, std::string_view>>{
             {"(?=", "look-ahead"},
             {"(?!", "negative look-ahead"},
             {"(?<=", "look-behind"},
             {"(?<!", "negative look-behind"}}) {
      if (text_.substr(at_).starts_with(begin)) return Refuse(what, begin.size());
    }
    if (Take("(?<") || Take("(?P<")) {
      const size_t end = text_.find('>', at_);
      if (end == std::string_view::npos) return Refuse("a group name without >");
      at_ = end + 1;
    } else if (!Take("(?:")) {
      if (Peek(1) == '?') return Refuse("an unknown group", 3);
      ++at_;
    }
    ASSIGN_OR_RETURN(const ExprId body, TakeAlternatives(depth + 1));
    if (!Take(")")) return Refuse("a group without )");
    return body;
  }

  // {n}, {n,} or {n,m} begins here.
  bool IsCount() const {
    size_t i = at_ + 1;
    const auto digits = [&] {
      const size_t begin = i;
      while (i < text_.size() && text_[i] >= '0' && text_[i] <= '9') ++i;
      return i > begin;
    };
    if (!digits()) return false;
    if (i < text_.size() && text_[i] == ',') {
      ++i;
      digits();
    }
    return i < text_.size() && text_[i] == '}';
  }

  uint32_t TakeNumber() {
    uint32_t value = 0;
    while (Peek() >= '0' && Peek() <= '9')
      value =
          std::min<uint32_t>(value * 10 + static_cast<uint32_t>(text_[at_++] - '0'), kMaxCount + 1);
    return value;
  }

  Result<ExprId> TakeCount(ExprId atom) {
    uint32_t min = 1, max = 1;
    if (Take("*")) {
      min = 0;
      max = kUnlimited;
    } else if (Take("+")) {
      max = kUnlimited;
    } else if (Take("?")) {
      min = 0;
    } else if (Peek() == '{' && IsCount()) {
      ++at_;
      min = max = TakeNumber();
      if (Take(",")) max = Peek() == '}' ? kUnlimited : TakeNumber();
      ++at_;
      if (min > kMaxCount || (max > kMaxCount && max != kUnlimited))
        return Refuse("a count above 100,000");
      if (min > max) return Refuse("a count whose limits are out of order");
    } else {
      return atom;
    }
    Take("?");  // lazy: the same texts
    if (Peek() == '*' || Peek() == '+' || Peek() == '?' || (Peek() == '{' && IsCount()))
      return Refuse("two counts in a row", 1);
    return grammar_.Repeat(atom, min, max);
  }

  Result<ExprId> TakeEscape() {
    const char kind = Peek(1);
    if (kind == 'b' || kind == 'B') return Refuse("a word boundary", 2);
    if (kind == 'k') return Refuse("a back reference", 2);
    if (kind >= '1' && kind <= '9') return Refuse("a back reference", 2);
    ASSIGN_OR_RETURN(const CodePoints set, TakeSet(/*in_class=*/false));
    return Write(set);
  }

  // The set behind a backslash: a class of characters, or one character.
  Result<CodePoints> TakeSet(bool in_class) {
    if (at_ + 1 >= text_.size()) return Refuse("a \\ at its end");
    const char kind = Peek(1);
    const char lower = AsciiLower(kind);
    if (lower == 'p') return TakeProperty();
    if (lower == 'd' || lower == 'w' || lower == 's') {
      at_ += 2;
      const CodePoints set = lower == 'd' ? Digits() : lower == 'w' ? WordCharacters() : Spaces();
      return kind == lower ? set : set.Complement();
    }
    ASSIGN_OR_RETURN(const char32_t c, TakeCharacterEscape(in_class));
    return CodePoints(c, c);
  }

  Result<CodePoints> TakeProperty() {
    const bool negative = Peek(1) == 'P';
    const size_t end = text_.find('}', at_);
    if (Peek(2) != '{' || end == std::string_view::npos)
      return Refuse("a character property without {name}", 2);
    std::string_view name = text_.substr(at_ + 3, end - at_ - 3);
    for (const std::string_view prefix :
         {"General_Category=", "gc=", "Script=", "sc=", "Script_Extensions=", "scx="}) {
      if (name.starts_with(prefix)) name.remove_prefix(prefix.size());
    }
    const std::optional<tokenizer::regex::CodePoints> known =
        tokenizer::regex::FindProperty(name, tokenizer::regex::WordRule::kBrackets);
    if (!known) return Refuse("an unknown character property", end + 1 - at_);
    at_ = end + 1;
    CodePoints set;
    CodePoints part;
    for (int32_t i = 0; i < known->getRangeCount(); ++i) {
      part = CodePoints(static_cast<char32_t>(known->getRangeStart(i)),
                        static_cast<char32_t>(known->getRangeEnd(i)));
      set.Add(part);
      if (!budget_.Take(set.ranges().size())) return budget_.status();
    }
    return negative ? set.Complement() : set;
  }

  Result<char32_t> TakeCharacterEscape(bool in_class) {
    const size_t begin = at_;
    ++at_;
    const char kind = Peek();
    if (static_cast<unsigned char>(kind) >= 0x80) return TakeCodePoint();
    ++at_;
    constexpr std::string_view kLetters = "tnrvf", kControls = "\t\n\r\v\f";
    if (const size_t known = kLetters.find(kind); known != std::string_view::npos)
      return static_cast<char32_t>(kControls[known]);
    switch (kind) {
      case '0':
        if (Peek() < '0' || Peek() > '9') return char32_t{0};
        break;
      case 'b':
        if (in_class) return char32_t{'\b'};
        break;
      case 'c': {
        const char letter = Peek();
        if ((letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z')) {
          ++at_;
          return static_cast<char32_t>(letter % 32);
        }
        break;
      }
      case 'x':
        if (const std::optional<char32_t> c = TakeHex(2, 2)) return *c;
        break;
      case 'u': {
        const bool braces = Take("{");
        std::optional<char32_t> c = braces ? TakeHex(1, 8) : TakeHex(4, 4);
        if (!c || *c > 0x10FFFF || (braces && !Take("}"))) break;
        if (*c >= 0xD800 && *c <= 0xDBFF && Take("\\u")) {
          const std::optional<char32_t> low = TakeHex(4, 4);
          if (!low || *low < 0xDC00 || *low > 0xDFFF) break;
          c = 0x10000 + ((*c - 0xD800) << 10) + (*low - 0xDC00);
        }
        if (*c >= 0xD800 && *c <= 0xDFFF) break;  // half a character
        return *c;
      }
      default: {
        const bool letter_or_digit = (kind >= 'a' && kind <= 'z') || (kind >= 'A' && kind <= 'Z') ||
                                     (kind >= '0' && kind <= '9');
        if (!letter_or_digit) return static_cast<char32_t>(kind);
      }
    }
    at_ = begin;
    return Refuse("an unknown escape", 2);
  }

  Result<ExprId> TakeClass() {
    const bool negative = Take("^");
    CodePoints set;
    while (!Take("]")) {
      if (AtEnd()) return Refuse("a character class without ]");
      if (!budget_.Take(16 + set.ranges().size())) return budget_.status();
      ASSIGN_OR_RETURN(const CodePoints first, TakeClassItem());
      if (Peek() == '-' && Peek(1) != ']' && at_ + 1 < text_.size()) {
        ++at_;
        ASSIGN_OR_RETURN(const CodePoints last, TakeClassItem());
        if (!IsOne(first) || !IsOne(last)) {
          set.Add(first);
          set.Add(last);
          set.Add('-', '-');
          continue;
        }
        const char32_t low = first.ranges()[0].first, high = last.ranges()[0].first;
        if (low > high) return Refuse("a range of characters out of order");
        set.Add(low, high);
      } else {
        set.Add(first);
      }
    }
    return Write(negative ? set.Complement() : set);
  }

  static bool IsOne(const CodePoints& set) {
    return set.ranges().size() == 1 && set.ranges()[0].first == set.ranges()[0].last;
  }

  Result<CodePoints> TakeClassItem() {
    if (Peek() == '\\') return TakeSet(/*in_class=*/true);
    const char32_t c = TakeCodePoint();
    return CodePoints(c, c);
  }

  ExprId Write(const CodePoints& set) { return Characters(grammar_, set, spelling_); }

  Grammar& grammar_;
  const Spelling spelling_;
  Budget& budget_;
};

}  // namespace

Result<ExprId> ParseRegex(Grammar& grammar, std::string_view pattern, Spelling spelling,
                          RegexMatch match, Budget& budget) {
  grammar.ChargeTo(budget);
  ASSIGN_OR_RETURN(const ExprId body, RegexParser(grammar, pattern, spelling, budget).Parse());
  if (match == RegexMatch::kWhole) return body;
  const ExprId any =
      grammar.Repeat(Characters(grammar, CodePoints::All(), spelling), 0, kUnlimited);
  return grammar.Concat({any, body, any});
}

}  // namespace tutti::grammar
