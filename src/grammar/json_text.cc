#include "grammar/json_text.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "base/utf8.h"

namespace tutti::grammar {
namespace {

// RFC 8259, section 7: what a string must not hold as it is.
CodePoints MustBeEscaped() {
  CodePoints set(0, 0x1F);
  set.Add('"', '"');
  set.Add('\\', '\\');
  return set;
}

constexpr std::array<std::pair<char, char>, 7> kShortEscapes = {
    {{'"', '"'}, {'\\', '\\'}, {'\b', 'b'}, {'\f', 'f'}, {'\n', 'n'}, {'\r', 'r'}, {'\t', 't'}}};

ExprId HexDigit(Grammar& grammar, uint32_t digit) {
  if (digit < 10) {
    const auto byte = static_cast<uint8_t>('0' + digit);
    return grammar.ByteRange(byte, byte);
  }
  const auto lower = static_cast<uint8_t>('a' + digit - 10),
             upper = static_cast<uint8_t>('A' + digit - 10);
  return grammar.Alternate({grammar.ByteRange(lower, lower), grammar.ByteRange(upper, upper)});
}

ExprId HexDigits(Grammar& grammar, uint32_t first, uint32_t last) {
  std::vector<ExprId> digits;
  for (uint32_t digit = first; digit <= last; ++digit) digits.push_back(HexDigit(grammar, digit));
  return grammar.Alternate(std::move(digits));
}

}  // namespace

ExprId Characters(Grammar& grammar, const CodePoints& set, Spelling spelling) {
  const bool escapes = !set.ranges().empty() &&
                       (set.ranges()[0].first < 0x20 || set.Contains('"') || set.Contains('\\'));
  if (spelling == Spelling::kPlain || !escapes) return grammar.Chars(set);
  std::vector<ExprId> ways = {grammar.Chars(set.Without(MustBeEscaped()))};
  CodePoints named;
  for (const auto& [character, letter] : kShortEscapes) {
    const auto code = static_cast<unsigned char>(character);
    named.Add(code, code);
    if (set.Contains(code)) ways.push_back(grammar.Bytes(std::string{'\\', letter}));
  }
  const CodePoints rest = set.Intersect(MustBeEscaped()).Without(named);
  for (const CodeRange& range : rest.ranges()) {
    for (char32_t c = range.first; c <= range.last; ++c) {
      ways.push_back(grammar.Concat(
          {grammar.Bytes("\\u00"), HexDigit(grammar, c / 16), HexDigit(grammar, c % 16)}));
    }
  }
  return grammar.Alternate(std::move(ways));
}

ExprId Spell(Grammar& grammar, std::string_view text, Spelling spelling) {
  if (spelling == Spelling::kPlain) return grammar.Bytes(text);
  std::vector<ExprId> parts;
  std::string plain;
  std::array<ExprId, 16> digits{};
  for (size_t i = 0; i < text.size();) {
    const CodePoint at = DecodeAt(text, i);
    const auto escape =
        std::find_if(kShortEscapes.begin(), kShortEscapes.end(), [&](const auto& known) {
          return at.code_point == static_cast<unsigned char>(known.first);
        });
    if (escape != kShortEscapes.end()) {
      plain += {'\\', escape->second};
    } else if (at.code_point < 0x20) {
      // The case of the last digit is free.
      plain += at.code_point < 0x10 ? "\\u000" : "\\u001";
      parts.push_back(grammar.Bytes(plain));
      plain.clear();
      ExprId& digit = digits[at.code_point % 16];
      if (digit == grammar.Never()) digit = HexDigit(grammar, at.code_point % 16);
      parts.push_back(digit);
    } else {
      plain += text.substr(i, at.length);
    }
    i += at.length;
  }
  parts.push_back(grammar.Bytes(plain));
  return grammar.Concat(std::move(parts));
}

ExprId AnyJsonCharacter(Grammar& grammar) {
  const ExprId hex = HexDigits(grammar, 0, 15);
  const ExprId hex_3 = grammar.Repeat(hex, 3, 3), hex_2 = grammar.Repeat(hex, 2, 2);
  const ExprId d = HexDigit(grammar, 0xD);
  std::vector<ExprId> firsts;  // of a unit that is no surrogate
  for (uint32_t digit = 0; digit < 16; ++digit) {
    if (digit != 0xD) firsts.push_back(HexDigit(grammar, digit));
  }
  const ExprId unit =
      grammar.Alternate({grammar.Concat({grammar.Alternate(std::move(firsts)), hex_3}),
                         grammar.Concat({d, HexDigits(grammar, 0, 7), hex_2}),
                         grammar.Concat({d, HexDigits(grammar, 8, 0xB), hex_2, grammar.Bytes("\\u"),
                                         d, HexDigits(grammar, 0xC, 0xF), hex_2})});
  return grammar.Alternate(
      {grammar.Chars(MustBeEscaped().Complement()),
       grammar.Concat({grammar.Bytes("\\"),
                       grammar.Alternate({grammar.Chars(CodePoints::Of("\"\\/bfnrt")),
                                          grammar.Concat({grammar.Bytes("u"), unit})})})});
}

ExprId AnyJsonNumber(Grammar& grammar) {
  const ExprId digit = grammar.ByteRange('0', '9');
  const ExprId digits = grammar.Repeat(digit, 1, kUnlimited);
  const ExprId whole = grammar.Alternate(
      {grammar.Bytes("0"),
       grammar.Concat({grammar.ByteRange('1', '9'), grammar.Repeat(digit, 0, kUnlimited)})});
  // Three digits of an exponent reach all doubles.
  const ExprId exponent = grammar.Concat({grammar.Chars(CodePoints::Of("eE")),
                                          grammar.Optional(grammar.Chars(CodePoints::Of("+-"))),
                                          grammar.Repeat(digit, 1, 3)});
  return grammar.Concat({grammar.Optional(grammar.Bytes("-")), whole,
                         grammar.Optional(grammar.Concat({grammar.Bytes("."), digits})),
                         grammar.Optional(exponent)});
}

RuleId JsonRules::Make(RuleId& known, const char* name, ExprId body, RuleKind kind) {
  known = grammar_.AddRule(name, kind, body);
  return known;
}

ExprId JsonRules::Space() {
  if (space_ == 0) return grammar_.Empty();
  if (space_rule_ == kNone) {
    // A blank, or line ends with the indentation of the next line.
    const ExprId blank = grammar_.Chars(CodePoints::Of(" \t"));
    const ExprId line_end =
        grammar_.Concat({grammar_.Optional(grammar_.Bytes("\r")), grammar_.Bytes("\n")});
    Make(space_rule_, "whitespace",
         grammar_.Alternate(
             {grammar_.Repeat(blank, 0, 1), grammar_.Concat({grammar_.Repeat(line_end, 1, 2),
                                                             grammar_.Repeat(blank, 0, space_)})}),
         RuleKind::kRegular);
  }
  return grammar_.Call(space_rule_);
}

RuleId JsonRules::String() {
  if (string_ != kNone) return string_;
  return Make(string_, "string",
              grammar_.Concat({grammar_.Bytes("\""),
                               grammar_.Repeat(AnyJsonCharacter(grammar_), 0, kUnlimited),
                               grammar_.Bytes("\"")}),
              RuleKind::kRegular);
}

RuleId JsonRules::Number() {
  if (number_ != kNone) return number_;
  return Make(number_, "number", AnyJsonNumber(grammar_), RuleKind::kRegular);
}

RuleId JsonRules::Integer() {
  if (integer_ != kNone) return integer_;
  const ExprId digit = grammar_.ByteRange('0', '9');
  return Make(integer_, "integer",
              grammar_.Concat(
                  {grammar_.Optional(grammar_.Bytes("-")),
                   grammar_.Alternate({grammar_.Bytes("0"),
                                       grammar_.Concat({grammar_.ByteRange('1', '9'),
                                                        grammar_.Repeat(digit, 0, kUnlimited)})})}),
              RuleKind::kRegular);
}

RuleId JsonRules::Value() {
  if (value_ != kNone) return value_;
  value_ = grammar_.AddRule("value");
  grammar_.SetBody(value_, grammar_.Alternate({grammar_.Call(String()), grammar_.Call(Number()),
                                               grammar_.Call(Object()), grammar_.Call(Array()),
                                               grammar_.Bytes("true"), grammar_.Bytes("false"),
                                               grammar_.Bytes("null")}));
  return value_;
}

RuleId JsonRules::Object() {
  if (object_ != kNone) return object_;
  object_ = grammar_.AddRule("object");
  const ExprId member = grammar_.Concat({grammar_.Call(String()), Space(), grammar_.Bytes(":"),
                                         Space(), grammar_.Call(Value()), Space()});
  const ExprId more =
      grammar_.Repeat(grammar_.Concat({grammar_.Bytes(","), Space(), member}), 0, kUnlimited);
  grammar_.SetBody(object_, grammar_.Concat({grammar_.Bytes("{"), Space(),
                                             grammar_.Optional(grammar_.Concat({member, more})),
                                             grammar_.Bytes("}")}));
  return object_;
}

RuleId JsonRules::Array() {
  if (array_ != kNone) return array_;
  array_ = grammar_.AddRule("array");
  const ExprId item = grammar_.Concat({grammar_.Call(Value()), Space()});
  const ExprId more =
      grammar_.Repeat(grammar_.Concat({grammar_.Bytes(","), Space(), item}), 0, kUnlimited);
  grammar_.SetBody(array_, grammar_.Concat({grammar_.Bytes("["), Space(),
                                            grammar_.Optional(grammar_.Concat({item, more})),
                                            grammar_.Bytes("]")}));
  return array_;
}

}  // namespace tutti::grammar
