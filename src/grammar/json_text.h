// The parts of JSON texts as expressions: characters of strings, values, whitespace.
//
// Pure functions over the grammar that is being made. Texts are JSON by RFC 8259, and valid UTF-8.
// Whitespace is bounded, because some models would write it forever.
#pragma once

#include <string_view>

#include "grammar/expression.h"

namespace tutti::grammar {

// White space of JSON (RFC 8259, section 2), which is also what is dropped around tags.
inline constexpr std::string_view kJsonSpace = " \t\r\n";
inline bool IsJsonSpace(char c) { return kJsonSpace.find(c) != std::string_view::npos; }

// How a character of a string may be written.
enum class Spelling : uint8_t {
  kPlain,  // as itself: not JSON
  // A character stands for itself if JSON allows that; else it is \" \\ \b \f \n \r \t, and \u00XX
  // for the other control characters. Each character has one spelling, except for the case of hex
  // digits, so that languages of such texts can be intersected and subtracted.
  kJson,
};

// One character of the set.
ExprId Characters(Grammar& grammar, const CodePoints& set, Spelling spelling);
// A whole text, character by character. `text` is UTF-8.
ExprId Spell(Grammar& grammar, std::string_view text, Spelling spelling);
// One character of a JSON string in any spelling: also \/ and \uXXXX, surrogates in pairs.
ExprId AnyJsonCharacter(Grammar& grammar);
// Any JSON number.
ExprId AnyJsonNumber(Grammar& grammar);

// Rules that many values share; each is made once.
class JsonRules {
 public:
  // `space`: most blanks that indent a line, 0 for no whitespace at all between tokens.
  JsonRules(Grammar& grammar, uint32_t space) : grammar_(grammar), space_(space) {}

  // Optional whitespace: one blank, or at most two line ends and the indentation behind them.
  // Models that draw at random else fill their answers with it.
  ExprId Space();
  RuleId String();   // any string, with its quotes
  RuleId Number();   // any number
  RuleId Integer();  // a number without fraction and exponent
  RuleId Value();    // anything
  RuleId Object();   // any object
  RuleId Array();    // any array

 private:
  RuleId Make(RuleId& known, const char* name, ExprId body, RuleKind kind);

  static constexpr RuleId kNone = UINT32_MAX;
  Grammar& grammar_;
  const uint32_t space_;
  RuleId space_rule_ = kNone, string_ = kNone, number_ = kNone, integer_ = kNone, value_ = kNone,
         object_ = kNone, array_ = kNone;
};

}  // namespace tutti::grammar
