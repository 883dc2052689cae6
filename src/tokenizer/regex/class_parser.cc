#include "tokenizer/regex/class_parser.h"

#include <algorithm>
#include <utility>

#include "base/quote.h"
#include "tokenizer/regex/syntax.h"

namespace tutti::tokenizer::regex {

bool PatternReader::Take(char c) {
  if (at_end() || text_[at_] != c) return false;
  ++at_;
  return true;
}

std::optional<uint32_t> PatternReader::TakeNumber() {
  std::optional<uint32_t> number;
  for (char c = Peek(); c >= '0' && c <= '9'; c = Peek()) {
    number =
        std::min<uint32_t>(number.value_or(0) * 10 + static_cast<uint32_t>(c - '0'), 1'000'000);
    Skip(1);
  }
  return number;
}

Status PatternReader::Refuse(std::string_view what, size_t begin, size_t length) const {
  return InvalidArgument("tokenizer_regex", "split expression has " + std::string(what) + ": " +
                                                Quote(text_.substr(begin, length), 32) + " at " +
                                                std::to_string(begin) + ", not supported");
}

Status PatternReader::TooDeep() const {
  return InvalidArgument("tokenizer_limit", "split expression nests deeper than " +
                                                std::to_string(kMaxNesting) + " at " +
                                                std::to_string(at_));
}

// One item of a bracket class: a character, which may begin or end a range, or a set.
struct ClassParser::Item {
  std::optional<char32_t> character;
  CodePoints set;
};

class ClassParser::Brackets {
 public:
  Brackets(ClassParser& classes, size_t depth)
      : classes_(classes), in_(classes.in_), depth_(depth) {}

  // Behind [ and ^, up to the closing bracket.
  Result<CodePoints> Run(size_t begin) {
    std::optional<CodePoints> all_before;  // of the parts before the last &&
    CodePoints part;
    for (bool first = true;; first = false) {
      if (in_.at_end()) return in_.Refuse("an open bracket", begin, 2);
      // A bracket closed at once holds the closing bracket.
      if (!first && in_.Take(']')) break;
      if (in_.TakeAll("&&")) {
        if (all_before) part.retainAll(*all_before);
        all_before = std::exchange(part, CodePoints());
        continue;
      }
      RETURN_IF_ERROR(AddNext(part));
      RETURN_IF_ERROR(classes_.Charge(static_cast<size_t>(part.getRangeCount()) / 16 + 1));
    }
    if (all_before) part.retainAll(*all_before);
    return part;
  }

 private:
  Status AddNext(CodePoints& part) {
    const size_t begin = in_.position();
    ASSIGN_OR_RETURN(Item item, TakeItem());
    const bool range = in_.Peek() == '-' && in_.PeekAt(1) != ']' &&
                       !(in_.PeekAt(1) == '&' && in_.PeekAt(2) == '&') &&
                       !(in_.PeekAt(1) == '[' && IsPosix(1));
    if (!item.character) {
      part.addAll(item.set);
      // Behind \\d a hyphen is refused by Oniguruma as well; behind a nested bracket it is a
      // character.
      if (range && item_was_escape_)
        return in_.Refuse("a range that begins with a class", begin, in_.position() - begin + 2);
      return OkStatus();
    }
    const auto first = static_cast<UChar32>(*item.character);
    const bool literal_hyphen = item_was_hyphen_ && after_range_;
    after_range_ = false;
    if (!range || literal_hyphen) {
      part.add(first);
      return OkStatus();
    }
    in_.Skip(1);
    ASSIGN_OR_RETURN(const Item last, TakeItem());
    if (!last.character || static_cast<UChar32>(*last.character) < first)
      return in_.Refuse("a range without an end", begin, in_.position() - begin);
    part.add(first, static_cast<UChar32>(*last.character));
    after_range_ = true;
    return OkStatus();
  }

  bool IsPosix(ptrdiff_t ahead) const {
    if (in_.PeekAt(ahead) != '[' || in_.PeekAt(ahead + 1) != ':') return false;
    // No name is longer than that, so that a look is cheap.
    const std::string_view rest = in_.rest().substr(static_cast<size_t>(ahead) + 2, 20);
    const size_t close = rest.find(":]");
    return close != std::string_view::npos && close < rest.find(']');
  }

  Result<Item> TakeItem() {
    const size_t begin = in_.position();
    item_was_escape_ = item_was_hyphen_ = false;
    if (in_.at_end()) return in_.Refuse("an open bracket", begin, 1);
    if (IsPosix(0)) {
      in_.Skip(2);
      const bool negative = in_.Take('^');
      const std::string_view name = in_.rest().substr(0, in_.rest().find(":]"));
      RETURN_IF_ERROR(classes_.Charge(1'000));
      std::optional<CodePoints> set = FindPosixClass(name);
      in_.Skip(name.size() + 2);
      if (!set) return in_.Refuse("an unknown class", begin, in_.position() - begin);
      if (negative) set->complement();
      item_was_escape_ = true;
      return Item{std::nullopt, *std::move(set)};
    }
    if (in_.Take('[')) {
      ASSIGN_OR_RETURN(CodePoints nested, classes_.TakeBrackets(depth_ + 1, false));
      after_range_ = true;
      return Item{std::nullopt, std::move(nested)};
    }
    if (in_.Peek() != '\\') {
      item_was_hyphen_ = in_.Peek() == '-';
      return Item{in_.TakeCodePoint(), {}};
    }
    ASSIGN_OR_RETURN(std::optional<CodePoints> set, classes_.TakeClassEscape(WordRule::kBrackets));
    if (set) {
      item_was_escape_ = true;
      return Item{std::nullopt, *std::move(set)};
    }
    ASSIGN_OR_RETURN(const char32_t c, TakeCharacterEscape(in_, /*in_brackets=*/true));
    return Item{c, {}};
  }

  ClassParser& classes_;
  PatternReader& in_;
  const size_t depth_;
  bool item_was_escape_ = false;
  bool item_was_hyphen_ = false;
  bool after_range_ = false;  // a hyphen behind a range or a nested bracket is a character
};

Status ClassParser::Charge(size_t ranges) {
  set_work_ += ranges;
  if (set_work_ <= kMaxSetWork) return OkStatus();
  return InvalidArgument("tokenizer_limit", "split expression names too many large sets, up to " +
                                                std::to_string(in_.position()));
}

Status ClassParser::IgnoreCase(CodePoints& set, bool negative, size_t begin) {
  RETURN_IF_ERROR(Charge(10 + static_cast<size_t>(set.size()) / 4));
  if (CloseOverCase(set) || negative) return OkStatus();
  return in_.Refuse("ignored case of a character that equals several", begin,
                    in_.position() - begin);
}

Result<CodePoints> ClassParser::OneCharacter(char32_t c, bool ignore_case, size_t begin) {
  CodePoints one(static_cast<UChar32>(c), static_cast<UChar32>(c));
  if (ignore_case) RETURN_IF_ERROR(IgnoreCase(one, false, begin));
  return one;
}

Result<CodePoints> ClassParser::TakeBrackets(size_t depth, bool ignore_case) {
  if (depth > kMaxNesting) return in_.TooDeep();
  const size_t begin = in_.position() - 1;
  const bool negative = in_.Take('^');
  ASSIGN_OR_RETURN(CodePoints set, Brackets(*this, depth).Run(begin));
  // [^...] is every character that equals no member in any case.
  if (ignore_case) RETURN_IF_ERROR(IgnoreCase(set, negative, begin));
  if (negative) set.complement();
  return set;
}

Result<std::optional<CodePoints>> ClassParser::TakeClassEscape(WordRule words) {
  const size_t begin = in_.position();
  if (std::string_view("wWsSdDhHpP").find(in_.PeekAt(1)) == std::string_view::npos ||
      in_.PeekAt(1) == '\0') {
    return std::optional<CodePoints>();
  }
  const std::string_view all = in_.rest();
  const bool property = in_.PeekAt(1) == 'p' || in_.PeekAt(1) == 'P';
  const size_t length = property ? std::min(all.size(), all.find('}')) + 1 : 2;
  std::string key(all.substr(0, length));
  key += words == WordRule::kBrackets ? 'b' : ' ';
  if (const auto it = known_.find(key); it != known_.end()) {
    in_.Skip(length);
    return std::optional<CodePoints>(it->second);
  }
  RETURN_IF_ERROR(Charge(1'000));
  ASSIGN_OR_RETURN(CodePoints set, MakeClassEscape(words));
  if (in_.position() - begin == length) known_.emplace(std::move(key), set);
  return std::optional<CodePoints>(std::move(set));
}

Result<CodePoints> ClassParser::MakeClassEscape(WordRule words) {
  const char c = in_.PeekAt(1);
  if (c == 'p' || c == 'P') return TakeProperty(words);
  in_.Skip(2);
  CodePoints set = (c | 0x20) == 'w'   ? WordCharacters(words)
                   : (c | 0x20) == 's' ? SpaceCharacters()
                   : (c | 0x20) == 'd' ? DecimalDigits()
                                       : HexDigits();
  if (c >= 'A' && c <= 'Z') set.complement();
  return set;
}

Result<CodePoints> ClassParser::TakeProperty(WordRule words) {
  const size_t begin = in_.position();
  bool negative = in_.PeekAt(1) == 'P';
  in_.Skip(2);
  if (!in_.Take('{')) return in_.Refuse("a property without braces", begin, 3);
  if (in_.Take('^')) negative = !negative;
  const std::string_view name = in_.rest().substr(0, in_.rest().find('}'));
  in_.Skip(name.size());
  if (!in_.Take('}')) return in_.Refuse("an open property", begin, in_.position() - begin);
  std::optional<CodePoints> set = FindProperty(name, words);
  if (!set) return in_.Refuse("an unknown property", begin, in_.position() - begin);
  if (negative) set->complement();
  return *std::move(set);
}

Result<char32_t> TakeCharacterEscape(PatternReader& in, bool in_brackets) {
  const size_t begin = in.position();
  in.Skip(1);
  if (in.at_end()) return in.Refuse("a backslash at its end", begin, 1);
  const char c = in.Peek();
  const auto refuse = [&](std::string_view what) {
    return in.Refuse(what, begin, in.position() - begin);
  };
  const auto checked = [&](std::optional<char32_t> value) -> Result<char32_t> {
    if (!value || *value > 0x10FFFF || (*value >= 0xD800 && *value <= 0xDFFF))
      return refuse("an escape that is no character");
    return *value;
  };
  if (static_cast<unsigned char>(c) >= 0x80) return in.TakeCodePoint();
  in.Skip(1);
  constexpr std::string_view kLetters = "tvnrfae", kControls = "\t\v\n\r\f\a\x1B";
  if (const size_t at = kLetters.find(c); at != std::string_view::npos)
    return static_cast<char32_t>(kControls[at]);
  switch (c) {
    case 'b':
      if (in_brackets) return U'\b';
      break;
    case 'u':
      return checked(in.TakeHex(4, 4));
    case 'x': {
      if (in.Take('{')) {
        const std::optional<char32_t> value = in.TakeHex(1, 8);
        if (!in.Take('}')) return refuse("an escape that is no character");
        return checked(value);
      }
      const std::optional<char32_t> value = in.TakeHex(1, 2);
      if (value && *value > 0x7F) return refuse("an escape of one byte of a character");
      return checked(value);
    }
    case '0': {
      char32_t value = 0;
      for (int i = 0; i < 2 && in.Peek() >= '0' && in.Peek() <= '7'; ++i) {
        value = value * 8 + static_cast<char32_t>(in.Peek() - '0');
        in.Skip(1);
      }
      return value;
    }
    case 'c':
    case 'C':
    case 'M':
      return refuse("a control character");
    case 'G':
      return refuse("the place where the search began");
    case 'K':
      return refuse("a start of the match that is kept");
    case 'k':
      return refuse("a back reference");
    case 'g':
      return refuse("a call of a group");
    case 'X':
    case 'y':
    case 'Y':
      return refuse("a text segment");
    case 'o':
      return refuse("an octal character");
    default:
      break;
  }
  if (c >= '1' && c <= '9') return refuse(in_brackets ? "an octal character" : "a back reference");
  return static_cast<char32_t>(c);
}

}  // namespace tutti::tokenizer::regex
