// Conformance with RFC 8259: texts that every parser must refuse and texts that every parser must take, written
// from the grammar of the RFC, production by production, in the classes that public suites use.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "wire/json.h"
#include "wire/utf8.h"

namespace tutti::wire {
namespace {

using std::string_literals::operator""s;

std::string Repeat(const std::string& text, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += text;
  return out;
}

std::vector<std::string> Refused() {
  std::vector<std::string> cases = {
      // --- array = [ value *( , value ) ] ---
      "[1 true]", "[\"\": 1]", "[\"\"],", "[,1]", "[1,,2]", "[\"x\",,]", "[\"x\"]]", "[\"\",]", "[\"x\"", "[x",
      "[3[4]]", "[1:2]", "[,]", "[-]", "[   , \"\"]", "[\"a\",\n4\n,1,", "[1,]", "[1,,]", "[\"\va\"\\f]", "[*]",
      "[\"\"", "[1,", "[1,\n1\n,1", "[{}", "[1;2]", "[", "[[", "[null", "[true", "[false,", "[\"a\" \"b\"]",
      "[1 2]", "[{} {}]", "[[] []]", "[1]1", "[1][2]", "[}", "[\"a\"}", "[1}", "[[]", "[\"\\\"]", "[+]", "[=]",
      // --- literals ---
      "[fals]", "[nul]", "[tru]", "[True]", "[FALSE]", "[Null]", "nul", "tru", "fals", "truefalse", "nulll", "[truth]",
      "[undefined]", "[None]", "[nil]",
      // --- number = [ minus ] int [ frac ] [ exp ] ---
      "123\0"s, "[++1234]", "[+1]", "[+Inf]", "[-01]", "[-1.0.]", "[-2.]", "[-NaN]", "[.-1]", "[.2e-3]", "[0.1.2]",
      "[0.3e+]", "[0.3e]", "[0.e1]", "[0E+]", "[0E]", "[0e+]", "[0e]", "[1.0e+]", "[1.0e-]", "[1.0e]", "[1 000.0]",
      "[1eE2]", "[2.e+3]", "[2.e-3]", "[2.e3]", "[9.e+]", "[1+2]", "[0x1]", "[0x42]", "[Infinity]", "[0e+-1]",
      "[-123.123foo]", "[123\xe5]", "[1e1\xe5]", "[0\xe5]", "[-Infinity]", "[-foo]", "[- 1]", "[-012]", "[-.123]",
      "[-1x]", "[1ea]", "[1e\xe5]", "[1.]", "[.123]", "[\xef\xbc\x91]", "[1.2a-3]", "[1.8011670033376514H-308]",
      "[012]", "[NaN]", "[Inf]", "[nan]", "[00]", "[0123]", "[1_000]", "[1,000.]", "[--1]", "[1e1.5]", "[1e]", "[e1]",
      "[1.e]", "[-]1", "[0b1]", "[0o7]", "[1f]", "[1L]", "[\"1\"1]", "[1e+ 1]", "[1 e1]", "[1. 5]",
      // --- object = { member *( , member ) } ---
      "[\"x\", truth]", "{[: \"x\"}\n", "{\"x\", null}", "{\"x\"::\"b\"}", "{\xf0\x9f\x87\xa8\xf0\x9f\x87\xad}",
      "{\"a\":\"a\" 123}", "{'a': 0}", "{key: 'value'}", "{\"\xb9\":\"0\",}", "{\"a\" b}", "{:\"b\"}", "{\"a\" \"b\"}",
      "{\"a\":", "{\"a\"", "{1:1}", "{9999E9999:1}", "{null:null,null:null}", "{\"id\":0,,,,,}", "{'a':0}",
      "{\"id\":0,}", "{\"a\":\"b\"}/**/", "{\"a\":\"b\"}/**//", "{\"a\":\"b\"}//", "{\"a\":\"b\"}/", "{\"a\":\"b\",,\"c\":\"d\"}",
      "{a: \"b\"}", "{\"a\":\"a", "{ \"foo\" : \"bar\", \"a\" }", "{\"a\":\"b\"}#", "{", "{\"", "{,", "{,}", "{\"a\":1",
      "{\"a\":1,", "{\"a\":1,\"b\"}", "{\"a\":}", "{\"a\"}", "{\"a\":1 \"b\":2}", "{\"a\":1;\"b\":2}", "{true:1}", "{{}:1}",
      "{[]:1}", "{\"a\":1}}", "{\"a\":1]", "{\"a\"=1}", "{\"a\"=>1}", "{{}}", "{[]}", "{1}", "{\"a\":1}{\"b\":2}",
      // --- string ---
      "[\xc3\xa9]", "[\"\\\0\"]"s, "[\"\\\\\\\"]", "[\"\\\t\"]", "[\"\\\xf0\x9f\x8c\x80\"]", "[\"\\x00\"]", "[\"\\\"]",
      "[\"\\u00A\"]", "[\"\\uD834\\uDd\"]", "[\"\\uD800\\uD800\\x\"]", "[\"\\a\"]", "[\"\\uqqqq\"]", "[\"\\\xe5\"]",
      "[\"\\u\xe5\"]", "[\\u0020\"asd\"]", "[\\n]", "\"", "['single quote']", "abc", "[\"\\", "[\"a\0a\"]"s,
      "[\"new\nline\"]", "[\"\t\"]", "\"\\UA66D\"", "\"\"x", "[\"\\u1\"]", "[\"\\u12\"]", "[\"\\u123\"]", "[\"\\u\"]",
      "[\"\\uD800\\\"]", "[\"\\uD800\\u\"]", "[\"\\uD800\\u1\"]", "[\"\\uD800\\u1x\"]", "[\"\\uG000\"]", "[\"\\'\"]",
      "[\"\\v\"]", "[\"\\0\"]", "[\"\\ \"]", "[\"\x1f\"]", "[\"a\r\"]", "[\"\x01\"]", "[\"unterminated]", "\"\\u00",
      "`a`", "[`a`]", "\"\"\"\"", "\"a\" \"b\"",
      // --- document = ws value ws ---
      "", " ", "\n", "<.>", "[<null>]", "[1]x", "[1]]", "[\"asd]", "a\xc3\xa5", "[True]", "1]", "{\"x\": true,", "[][]",
      "]", "\xef\xbb{}", "\xe5", "[\0]"s, "2@", "{}}", "{\"\":", "{\"a\":/*comment*/\"b\"}", "{\"a\": true} \"x\"", "['",
      "[,", "[{", "[\"a", "[\"a\"", "{\"a\":\"a\"]", "{'a'", "[\"\\{[\"\\{[\"\\{[\"\\{", "\xc3\xa9", "*",
      "{\"a\":\"b\"}#{}", "[\xe2\x81\xa0]", "[\\u000A\"\"]", "[1", "[ false, nul", "[ true, fals", "[ false, tru",
      "{\"asd\":\"asd\"", "\xef\xbb\xbf", "[\f]", "\f[]", "\v[]", "\xe2\x81\xa0[]", "[]\0"s, "\0[]"s, "// c\n1",
      "/* c */1", "1 // c", "1 /* c */", "# c\n1", "1,2", "1 2", "{} []", "\xef\xbb\xbf{}", "\xc2\xa0[]", "[]\xc2\xa0",
  };
  cases.push_back(Repeat("[", 100000));
  cases.push_back(Repeat("[{\"\":", 50000) + "\n");
  return cases;
}

std::vector<std::string> Accepted() {
  return {
      // --- arrays ---
      "[[]   ]", "[\"\"]", "[]", "[\"a\"]\n", "[false]", "[null, 1, \"1\", {}]", "[null]", "[1\n]", " [1]",
      "[1,null,null,null,2]", "[2] ", "[[[[]]]]", "[[],[],{}]", "[ ]", "[\n]", "[true,false,null]", "[\t1\r,\n2 ]",
      // --- numbers ---
      "[123e65]", "[0e+1]", "[0e1]", "[ 4]",
      "[-0.000000000000000000000000000000000000000000000000000000000000000000000000000001]\n", "[20e1]", "[-0]",
      "[-123]", "[-1]", "[-0]", "[1E22]", "[1E-2]", "[1E+2]", "[123e45]", "[123.456e78]", "[1e-2]", "[1e+2]", "[123]",
      "[123.456789]", "[0]", "[0.5]", "[-0.0]", "[1e0]", "[0.0e0]", "[9223372036854775807]", "[-9223372036854775808]",
      "[18446744073709551615]", "[18446744073709551616]", "[1.7976931348623157e308]", "[5e-324]", "[1e-400]",
      // --- objects ---
      "{\"asd\":\"sdf\", \"dfg\":\"fgh\"}", "{\"asd\":\"sdf\"}", "{}", "{\"\":0}", "{\"foo\\u0000bar\": 42}",
      "{ \"min\": -1.0e+28, \"max\": 1.0e+28 }",
      "{\"x\":[{\"id\": \"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}], \"id\": \"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}",
      "{\"a\":[]}", "{\"title\":\"\\u041f\\u043e\\u043b\\u0442\\u043e\\u0440\\u0430\"}", "{\n\"a\": \"b\"\n}",
      "{\"a\":{\"a\":{\"a\":1}}}", "{\"a\":1,\"A\":2}", "{\"__proto__\":1}", "{ }", "{\"\\u0061\":1,\"b\":2}",
      // --- strings ---
      "[\"\\u0060\\u012a\\u12AB\"]", "[\"\\uD801\\udc37\"]", "[\"\\ud83d\\ude39\\ud83d\\udc8d\"]",
      "[\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"]", "[\"\\\\u0000\"]", "[\"\\\"\"]", "[\"a/*b*/c/*d//e\"]", "[\"\\\\a\"]", "[\"\\\\n\"]",
      "[\"\\u0012\"]", "[\"\\uFFFF\"]", "[\"asd\"]", "[ \"asd\"]", "[\"\\uDBFF\\uDFFF\"]", "[\"new\\u00A0line\"]",
      "[\"\xf4\x8f\xbf\xbf\"]", "[\"\xef\xbf\xbf\"]", "[\"\\u0000\"]", "[\"\\u002c\"]", "[\"\xcf\x80\"]",
      "[\"\xf0\x9b\xbf\xbf\"]", "[\"asd \"]", "\" \"", "[\"\\uD834\\uDd1e\"]", "[\"\\u0821\"]", "[\"\\u0123\"]",
      "[\"\xe2\x80\xa8\"]", "[\"\xe2\x80\xa9\"]", "[\"\\u0061\\u30af\\u30EA\\u30b9\"]", "[\"new\\u000Aline\"]",
      "[\"\x7f\"]", "[\"\\uA66D\"]", "[\"\\u005C\"]", "[\"\xe2\x8d\x82\xe3\x88\xb4\xe2\x8d\x82\"]",
      "[\"\\uDBFF\\uDFFE\"]", "[\"\\uD83F\\uDFFE\"]", "[\"\\u200B\"]", "[\"\\u2064\"]", "[\"\\uFDD0\"]", "[\"\\uFFFE\"]",
      "[\"\\u0022\"]", "[\"\xe2\x82\xac\xf0\x9d\x84\x9e\"]", "[\"a\x7f" "a\"]", "[\"\xf0\x9f\x8c\x80\"]", "[\"\\/\"]",
      "[\"\\u000a\\u000D\"]", "[\"\xed\x9f\xbf\xee\x80\x80\"]",
      // --- documents ---
      "false", "42", "-0.1", "null", "\"asd\"", "true", "\"\"", "[\"a\"]\n", "[true]", " [] ", "\t\n\r 1 \r\n\t", "0",
      "\n{\"a\" :\t1 }\n",
  };
}

TEST(JsonConformance, EveryTextThatIsNotJsonIsRefusedWithACodeOfTheContract) {
  const std::set<std::string> codes = {"invalid_json", "json_depth", "invalid_utf8"};
  const std::vector<std::string> cases = Refused();
  EXPECT_GE(cases.size(), 188u);
  for (const std::string& text : cases) {
    const Result<JsonDocument> result = ParseJson(text);
    ASSERT_FALSE(result.ok()) << "accepted: " << Excerpt(text);
    EXPECT_TRUE(codes.contains(result.status().reason())) << result.status();
    EXPECT_TRUE(IsValidUtf8(result.status().message()));
  }
}

TEST(JsonConformance, EveryTextThatIsJsonIsTaken) {
  const std::vector<std::string> cases = Accepted();
  EXPECT_GE(cases.size(), 95u);
  for (const std::string& text : cases) {
    const Result<JsonDocument> result = ParseJson(text);
    EXPECT_TRUE(result.ok()) << Excerpt(text) << ": " << result.status();
  }
}

TEST(JsonConformance, RepeatedKeysAreSyntaxButRefusedByTheContract) {
  for (const char* text : {"{\"a\":\"b\",\"a\":\"c\"}", "{\"a\":\"b\",\"a\":\"b\"}", "{\"a\":1,\"\\u0061\":2}",
                           "{\"x\":{\"b\":1,\"c\":2,\"b\":3}}", "[{\"k\":null,\"k\":null}]"}) {
    EXPECT_EQ(ParseJson(text).status().reason(), "duplicate_key") << text;
  }
}

TEST(JsonConformance, EveryPrefixOfAnObjectIsRefused) {
  const std::string text = R"({"model":"a","messages":[{"role":"user","content":"\u00e9\ud83d\ude00x"}],"n":-1.5e+3,"s":true,"z":null})";
  ASSERT_TRUE(ParseJson(text).ok());
  for (size_t cut = 0; cut < text.size(); ++cut) EXPECT_FALSE(ParseJson(text.substr(0, cut)).ok()) << cut;
}

TEST(JsonConformance, MalformedUtf8IsNamedAsSuch) {
  // Unicode 15, table 3-7: every class of ill-formed sequence.
  for (const char* bytes : {"\x80", "\xbf", "\xc0\x80", "\xc1\xbf", "\xc2", "\xc2\x41", "\xe0\x80\x80", "\xe0\x9f\xbf",
                            "\xe1\x80", "\xe1\x80\x41", "\xed\xa0\x80", "\xed\xbf\xbf", "\xf0\x80\x80\x80",
                            "\xf0\x8f\xbf\xbf", "\xf1\x80\x80", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xf8\x88\x80\x80\x80",
                            "\xfe", "\xff"}) {
    const std::string inside = "{\"a\":\"x" + std::string(bytes) + "\"}";
    EXPECT_EQ(ParseJson(inside).status().reason(), "invalid_utf8") << Excerpt(inside);
    const std::string key = "{\"x" + std::string(bytes) + "\":1}";
    EXPECT_EQ(ParseJson(key).status().reason(), "invalid_utf8");
  }
}

TEST(JsonConformance, UnpairedSurrogateEscapesAreRefused) {
  for (const char* escape : {"\\ud800", "\\udc00", "\\udfff\\ud800", "\\ud800\\u0041", "\\ud800x", "\\ud800\\n",
                             "\\ud800\\ud800", "\\udbff", "a\\udc00b"}) {
    EXPECT_EQ(ParseJson("[\"" + std::string(escape) + "\"]").status().reason(), "invalid_utf8") << escape;
  }
}

}  // namespace
}  // namespace tutti::wire
