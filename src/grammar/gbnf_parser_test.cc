#include "grammar/gbnf_parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "grammar/testing/accepts.h"

namespace tutti::grammar {
namespace {

Structure Gbnf(std::string_view text) {
  return {.kind = Structure::Kind::kGbnf, .text = std::string(text)};
}

// llama.cpp's own example of arithmetic, shortened.
constexpr std::string_view kArithmetic = R"x(root  ::= (expr "=" ws term "\n")+
expr  ::= term ([-+*/] term)*
term  ::= ident | num | "(" ws expr ")" ws
ident ::= [a-z] [a-z0-9_]* ws
num   ::= [0-9]+ ws
ws    ::= [ \t\n]*
)x";

TEST(GbnfParser, ReadsRulesThatCallEachOther) {
  EXPECT_TRUE(testing::Accepts(Gbnf(kArithmetic), "1 +(b*2)=7\n"));
  EXPECT_TRUE(testing::Accepts(Gbnf(kArithmetic), "((((a))))=a\nb=b\n"));
  EXPECT_FALSE(testing::Accepts(Gbnf(kArithmetic), "1 +(b*2=7\n"));
  EXPECT_FALSE(testing::Accepts(Gbnf(kArithmetic), "=7\n"));
}

TEST(GbnfParser, ReadsCountsGroupsAndComments) {
  const Structure source = Gbnf(R"x(# a comment
root ::= ("a" | "b"){2,3} [^"\\]? .  # another
       | 'single' "\x41\u00e9\U0001F600"
)x");
  EXPECT_TRUE(testing::Accepts(source, "abax"));
  EXPECT_TRUE(testing::Accepts(source, "abx"));
  EXPECT_FALSE(testing::Accepts(source, "ax"));
  EXPECT_TRUE(testing::Accepts(source, "singleAé😀"));
}

TEST(GbnfParser, RefusesLeftRecursion) {
  const Status status = Compile(Gbnf("root ::= sum\nsum ::= sum \"+\" \"1\" | \"1\"\n")).status();
  EXPECT_EQ(status.reason(), "grammar_left_recursion");
  EXPECT_NE(status.message().find("rule sum"), std::string::npos) << status;
  // Hidden behind a rule that may be empty.
  EXPECT_EQ(Compile(Gbnf("root ::= e root \"a\" | \"b\"\ne ::= \"x\"?\n")).status().reason(),
            "grammar_left_recursion");
}

TEST(GbnfParser, RefusesBadTextsByLine) {
  const auto error = [](std::string_view text) { return Compile(Gbnf(text)).status().ToString(); };
  EXPECT_NE(error("root ::= \"a\"\nb ::= [z").find("line 2"), std::string::npos);
  EXPECT_NE(error("root ::= missing").find("missing is used but not defined"), std::string::npos);
  EXPECT_NE(error("a ::= \"a\"").find("no rule root"), std::string::npos);
  EXPECT_NE(error("root ::= \"a\"\nroot ::= \"b\"").find("defined twice"), std::string::npos);
  EXPECT_NE(error("root ::= (\"a\"").find("expected )"), std::string::npos);
  EXPECT_NE(error("").find("no rule root"), std::string::npos);
  EXPECT_NE(error("root ::= \"\\q\"").find("unknown escape"), std::string::npos);
  EXPECT_NE(error("root ::= root2\nroot2 ::= \"a\" root2").find("matches no text"),
            std::string::npos);
}

TEST(GbnfParser, RefusesWhatIsTooLarge) {
  EXPECT_EQ(Compile(Gbnf("root ::= (\"a\" | \"b\"){100000}{100000}")).status().reason(),
            "grammar_too_complex");
  EXPECT_EQ(Compile(Gbnf("root ::= \"a\"" + std::string(500'000, '?'))).status().reason(),
            "grammar_syntax");
}

// Such a grammar compiled, and each of its answers ended with an error.
TEST(GbnfParser, RefusesMoreAlternativesThanRunAtOnce) {
  const auto grammar = [](int alternatives) {
    std::string text = "root ::= \"<\" ( r0";
    for (int i = 1; i < alternatives; ++i) text += " | r" + std::to_string(i);
    text += " )\n";
    for (int i = 0; i < alternatives; ++i)
      text += "r" + std::to_string(i) + " ::= \"a" + std::to_string(i) + "\"\n";
    return Structure{.kind = Structure::Kind::kGbnf, .text = text};
  };
  const Status status = Compile(grammar(2'100)).status();
  EXPECT_EQ(status.reason(), "grammar_too_complex");
  EXPECT_THAT(status.message(), ::testing::HasSubstr("too many alternatives"));
  EXPECT_TRUE(testing::Accepts(grammar(1'900), "<a1899"));
}

}  // namespace
}  // namespace tutti::grammar
