#include "grammar/structure.h"

#include <gtest/gtest.h>

#include "grammar/testing/accepts.h"

namespace tutti::grammar {
namespace {

using testing::Accepts;
using Kind = Structure::Kind;

TEST(Structure, FreeTextEndsWhereAStopBegins) {
  const Structure free{.kind = Kind::kFreeText, .texts = {"<call>", "[["}};
  EXPECT_TRUE(Accepts(free, ""));
  EXPECT_TRUE(Accepts(free, "a < b <call [x]"));
  EXPECT_FALSE(Accepts(free, "a <call>"));
  EXPECT_FALSE(Accepts(free, "a [[ b"));
  const Structure then =
      Structure::Sequence({free, Structure::Optional(Structure::Text("<call>now"))});
  EXPECT_TRUE(Accepts(then, "<<call>now"));
  EXPECT_TRUE(Accepts(then, "<cal"));
  EXPECT_FALSE(Accepts(then, "<call>later"));
}

TEST(Structure, OtherStartLooksAtTheBeginningAlone) {
  const Structure other{.kind = Kind::kOtherStart, .texts = {"{\"name\""}};
  EXPECT_TRUE(Accepts(other, "{\"na"));
  EXPECT_TRUE(Accepts(other, "a {\"name\": 1}"));
  EXPECT_FALSE(Accepts(other, "{\"name\": 1}"));
}

TEST(Structure, PlainTextHoldsNoSpecialToken) {
  const Structure plain{.kind = Kind::kPlainText, .texts = {"</v>"}};
  const Structure free{.kind = Kind::kFreeText, .texts = {"</v>"}};
  EXPECT_TRUE(Accepts(plain, "é</"));
  EXPECT_FALSE(Accepts(plain, "a</v>"));
  const std::string special = "a" + SpecialTokenBytes(7);
  EXPECT_FALSE(Accepts(plain, special));
  EXPECT_TRUE(Accepts(free, special));
  EXPECT_FALSE(Accepts(Structure{.kind = Kind::kFreeText, .tokens = {7}}, special));
}

// Counts that exclude each other ended the process.
TEST(Structure, RefusesCountsThatExcludeEachOther) {
  for (const uint32_t max : {0u, 1u}) {
    const Structure never{.kind = Kind::kRepeat,
                          .min = 2,
                          .max = max,
                          .parts = {Structure::Text("a"), Structure::Text(",")}};
    EXPECT_EQ(Compile(never).status().reason(), "schema_invalid");
  }
}

TEST(Structure, RepeatsWithSeparators) {
  const auto repeat = [](uint32_t min, uint32_t max) {
    return Structure{.kind = Kind::kRepeat,
                     .min = min,
                     .max = max,
                     .parts = {Structure::Text("a"), Structure::Text(", ")}};
  };
  EXPECT_TRUE(Accepts(repeat(0, 2), ""));
  EXPECT_TRUE(Accepts(repeat(1, 2), "a"));
  EXPECT_TRUE(Accepts(repeat(1, 2), "a, a"));
  EXPECT_FALSE(Accepts(repeat(1, 2), ""));
  EXPECT_FALSE(Accepts(repeat(1, 2), "a, a, a"));
  EXPECT_FALSE(Accepts(repeat(1, 2), "a, "));
  EXPECT_TRUE(Accepts(repeat(2, kUnlimited), "a, a, a"));
  EXPECT_FALSE(Accepts(repeat(2, kUnlimited), "a"));
}

TEST(Structure, MembersKeepTheirOrderAndSeparators) {
  const Structure members{.kind = Kind::kMembers,
                          .text = ", ",
                          .parts = {Structure::Optional(Structure::Text("a")), Structure::Text("b"),
                                    Structure::Optional(Structure::Text("c")),
                                    Structure::Optional(Structure::Text("d"))}};
  for (const char* const text :
       {"b", "a, b", "b, c", "b, d", "a, b, c", "a, b, d", "b, c, d", "a, b, c, d"})
    EXPECT_TRUE(Accepts(members, text)) << text;
  for (const char* const text :
       {"", "a", "a, c", "b, a", "a, b, ", ", b", "b, d, c", "ab", "a, a, b"})
    EXPECT_FALSE(Accepts(members, text)) << text;
  Structure optional{.kind = Kind::kMembers, .text = ","};
  EXPECT_TRUE(Accepts(optional, ""));
  EXPECT_FALSE(Accepts(optional, ","));
  for (int i = 0; i < 200; ++i)
    optional.parts.push_back(Structure::Optional(Structure::Text("k" + std::to_string(i))));
  const auto automaton = Compile(optional);
  ASSERT_TRUE(automaton.ok()) << automaton.status();
  EXPECT_TRUE(Accepts(*automaton, ""));
  EXPECT_TRUE(Accepts(*automaton, "k0,k7,k199"));
  EXPECT_TRUE(Accepts(*automaton, "k199"));
  EXPECT_FALSE(Accepts(*automaton, "k7,k0"));
  EXPECT_FALSE(Accepts(*automaton, "k7,"));
}

TEST(Structure, ErrorsNameThePart) {
  const Structure broken = Structure::Sequence(
      {Structure::Text("x"),
       Structure::Schema(R"({"properties":{"a":{"not":{"type":"null"}}}})", "tools[3]")});
  const Status status = Compile(broken).status();
  EXPECT_EQ(status.reason(), "schema_unsupported");
  EXPECT_EQ(status.param(), "tools[3].properties.a.not");
}

TEST(Structure, KeysTellStructuresApart) {
  const Structure a = Structure::Sequence({Structure::Text("a"), Structure::Text("b")});
  const Structure b = Structure::Sequence({Structure::Text("ab"), Structure::Text("")});
  EXPECT_NE(a.Key(), b.Key());
  EXPECT_EQ(a.Key(), Structure(a).Key());
}

TEST(StructuralTag, IsFreeUntilATrigger) {
  const auto tag = ParseStructuralTag(
      R"({"triggers":["<f="],"structures":[
          {"begin":"<f=a>","schema":{"type":"object","properties":{"x":{"type":"integer"}},
           "required":["x"],"additionalProperties":false},"end":"</f>"},
          {"begin":"<f=b>","schema":{"type":"null"},"end":"</f>"}]})",
      "response_format");
  ASSERT_TRUE(tag.ok()) << tag.status();
  EXPECT_TRUE(Accepts(*tag, "just < text"));
  EXPECT_TRUE(Accepts(*tag, R"(so: <f=a>{"x": 3}</f> and <f=b>null</f>.)"));
  EXPECT_FALSE(Accepts(*tag, "<f=c>"));
  EXPECT_FALSE(Accepts(*tag, "<f=a>{}</f>"));
  EXPECT_FALSE(Accepts(*tag, R"(<f=a>{"x": 3})"));
}

TEST(StructuralTag, RefusesWhatIsIncomplete) {
  const auto refuse = [](const char* json) {
    return ParseStructuralTag(json, "response_format").status();
  };
  EXPECT_EQ(refuse("[]").param(), "response_format");
  EXPECT_EQ(refuse(R"({"structures":[]})").param(), "response_format.triggers");
  EXPECT_EQ(
      refuse(R"({"triggers":["<"],"structures":[{"begin":"x","schema":{},"end":""}]})").param(),
      "response_format.structures[0].begin");
  EXPECT_EQ(refuse(R"({"triggers":["<"],"structures":[{"begin":"<","end":""}]})").param(),
            "response_format.structures[0].schema");
}

}  // namespace
}  // namespace tutti::grammar
