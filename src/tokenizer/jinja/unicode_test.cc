#include "tokenizer/jinja/unicode.h"

#include <gtest/gtest.h>

#include "tokenizer/jinja/format.h"
#include "tokenizer/jinja/value.h"

namespace tutti::tokenizer::jinja {
namespace {

TEST(JinjaUnicode, DecodesForwardsAndBackwardsAlikeAlsoInvalidBytes) {
  const std::string texts[] = {"",
                               "abc",
                               "aé世🙂z",
                               "\x80",
                               "a\xC3",
                               "\xE4\xB8",
                               "\xF0\x9F\x99",
                               "\xC0\x80",
                               "\xED\xA0\x80x",
                               "\xF5\x80\x80\x80",
                               "\xEF\xBF\xBD",
                               "é\xC3é"};
  for (const std::string& text : texts) {
    std::vector<size_t> forward{0};
    for (size_t pos = 0; pos < text.size(); pos += DecodeAt(text, pos).length)
      forward.push_back(pos + DecodeAt(text, pos).length);
    std::vector<size_t> backward{text.size()};
    for (size_t pos = text.size(); pos > 0;)
      backward.insert(backward.begin(), pos -= DecodeBefore(text, pos).length);
    EXPECT_EQ(forward, backward);
    EXPECT_EQ(CountCodePoints(text), forward.size() - 1);
  }
}

TEST(JinjaUnicode, EncodingADecodedTextGivesItBack) {
  const std::string text = "a\x7F é ߿ ࠀ 世 \uFFFD 🙂 \U0010FFFF";
  std::string again;
  for (const char32_t c : Decode(text)) AppendUtf8(c, again);
  EXPECT_EQ(again, text);
}

TEST(JinjaUnicode, StripsWhatPythonCallsWhiteSpace) {
  const std::string text = "\u3000\x1c\t x\u00a0y \u2003\n";
  const Span span = Strip(text, true, true);
  EXPECT_EQ(text.substr(span.begin, span.end - span.begin), "x\u00a0y");
  const Span all = Strip(" \n ", true, true);
  EXPECT_EQ(all.begin, all.end);
}

TEST(JinjaUnicode, MapsCaseByTheFullRules) {
  EXPECT_EQ(ToUpper("straße ŉ"), "STRASSE ʼN");
  EXPECT_EQ(ToLower("ΑΣ İ"), "ας i̇");
  EXPECT_EQ(ToUpper("abc\x80"), "ABC\x80");
}

TEST(JinjaFormat, FloatsReadAsInPython) {
  EXPECT_EQ(FormatFloat(0), "0.0");
  EXPECT_EQ(FormatFloat(-0.0), "-0.0");
  EXPECT_EQ(FormatFloat(1e15), "1000000000000000.0");
  EXPECT_EQ(FormatFloat(1e16), "1e+16");
  EXPECT_EQ(FormatFloat(123456789012345680.0), "1.2345678901234568e+17");
  EXPECT_EQ(FormatFloat(0.0001), "0.0001");
  EXPECT_EQ(FormatFloat(0.00001234), "1.234e-05");
  EXPECT_EQ(FormatFloat(5e-324), "5e-324");
  EXPECT_EQ(FormatFloat(1.7976931348623157e308), "1.7976931348623157e+308");
  EXPECT_EQ(FormatFloat(1.0 / 0.0), "inf");
  EXPECT_EQ(FormatFloat(0.1), "0.1");
}

TEST(JinjaFormat, TimesAreUtcInTheCLocale) {
  EXPECT_EQ(FormatTime("%d %B %Y %H:%M:%S", 951782400), "29 February 2000 00:00:00");
  EXPECT_EQ(FormatTime("%a %A %j %p %I %-d %q %", 1735732800), "Wed Wednesday 001 PM 12 1 %q %");
  EXPECT_EQ(FormatTime("%Y", -1), "1969");
}

TEST(JinjaJson, ParsesStrictlyAndBoundsTheDepth) {
  EXPECT_TRUE(ParseJson(R"({"a": [1, 2.5, "x", null, true, 18446744073709551615]})").ok());
  EXPECT_EQ(ParseJson("{").status().reason(), "invalid_json");
  EXPECT_EQ(ParseJson("[1,]").status().reason(), "invalid_json");
  EXPECT_EQ(ParseJson("").status().reason(), "invalid_json");
  EXPECT_EQ(ParseJson(std::string(1000000, '[')).status().reason(), "invalid_json");
  const std::string deep = std::string(64, '[') + std::string(64, ']');
  EXPECT_EQ(ParseJson(deep)->depth(), 64);
  EXPECT_FALSE(ParseJson("[" + deep + "]").ok());
}

TEST(JinjaValue, DictsKeepTheirOrderAndTheLastOfEqualKeys) {
  std::vector<Value::Member> members;
  for (int i = 0; i < 100; ++i) members.emplace_back("k" + std::to_string(i % 50), Value::Int(i));
  const Value dict = Value::Dict(std::move(members));
  ASSERT_EQ(dict.members().size(), 50U);
  EXPECT_EQ(dict.members()[0].first.text().bytes(), "k0");
  EXPECT_EQ(dict.members()[0].second.int_value(), 50);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(dict.Find("k" + std::to_string(i))->int_value(), i + 50);
  EXPECT_EQ(dict.Find("k50"), nullptr);
  EXPECT_EQ(dict.Find(""), nullptr);
  EXPECT_EQ(Value::Int(1).Find("x"), nullptr);
}

}  // namespace
}  // namespace tutti::tokenizer::jinja
