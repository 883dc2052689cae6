#include <gtest/gtest.h>

#include <string>

#include "grammar/structure.h"

namespace tutti::grammar {
namespace {

using Kind = Structure::Kind;

bool OfRegex(const std::string& text) {
  return MayHaveOuterSpace({.kind = Kind::kRegex, .text = text});
}
bool OfGrammar(const std::string& text) {
  return MayHaveOuterSpace({.kind = Kind::kGbnf, .text = text});
}
bool OfChoice(const std::vector<std::string>& texts) {
  return MayHaveOuterSpace({.kind = Kind::kChoice, .texts = texts});
}

TEST(OuterSpace, OfChoices) {
  EXPECT_FALSE(OfChoice({"a", "b c", ""}));
  EXPECT_TRUE(OfChoice({"a", " b"}));
  EXPECT_TRUE(OfChoice({"a\n", "b"}));
}

TEST(OuterSpace, OfExpressions) {
  for (const char* const text : {"[a-z]+", "^a b$", "(a|b c){2,}", "\\d+( \\d+)*", "\\S+", "(?:)"})
    EXPECT_FALSE(OfRegex(text)) << text;
  for (const char* const text :
       {" a", "a ", "^ ?a", "(a|b\\s)", "x*\\sy", "a(b|)( c?)?", ".*", "[^a]", "(a|\\n)b"})
    EXPECT_TRUE(OfRegex(text)) << text;
  EXPECT_FALSE(OfRegex("(")) << "cannot be parsed";
}

TEST(OuterSpace, OfGrammars) {
  EXPECT_FALSE(OfGrammar("root ::= \"a\" ws \"b\"\nws ::= [ \\t]*"));
  EXPECT_TRUE(OfGrammar("root ::= \"a\" ws\nws ::= [ \\t]*"));
  EXPECT_TRUE(OfGrammar("root ::= ws \"a\"\nws ::= \"\" | \" \" ws"));
  // Each text ends with the space before the last, empty call.
  EXPECT_TRUE(OfGrammar("root ::= \"a \" root | \"\""));
  EXPECT_FALSE(OfGrammar("root ::= \"a b\" root | \"\""));
  std::string chain = "root ::= r0\n";
  for (int i = 0; i < 20'000; ++i)
    chain += "r" + std::to_string(i) + " ::= r" + std::to_string(i + 1) + "\n";
  EXPECT_TRUE(OfGrammar(chain + "r20000 ::= \"a\"")) << "too many rules to be examined";
}

TEST(OuterSpace, JsonAndFreeTextHaveNone) {
  EXPECT_FALSE(MayHaveOuterSpace({.kind = Kind::kJsonObject}));
  EXPECT_FALSE(MayHaveOuterSpace({.kind = Kind::kJsonSchema, .text = R"({"enum":[" a"]})"}));
  EXPECT_FALSE(MayHaveOuterSpace({.kind = Kind::kFreeText}));
}

}  // namespace
}  // namespace tutti::grammar
