#include "protocol/json/json.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <cmath>
#include <string>

#include "cpu_time.h"
#include "protocol/json/field_error.h"
#include "protocol/json/json_writer.h"

namespace tutti::protocol {
namespace {

std::string Nested(int depth) {
  return std::string(static_cast<size_t>(depth), '[') +
         std::string(static_cast<size_t>(depth), ']');
}

std::string ReasonOf(const std::string& text) { return ParseJson(text).status().reason(); }

TEST(Json, NestingIsLimitedTo64Levels) {
  EXPECT_TRUE(ParseJson(Nested(64)).ok());
  EXPECT_EQ(ReasonOf(Nested(65)), "json_depth");
  std::string objects;
  for (int i = 0; i < 65; ++i) objects += "{\"a\":";
  EXPECT_EQ(ReasonOf(objects), "json_depth");
  EXPECT_EQ(ReasonOf(std::string(1'000'000, '[')), "json_depth");
}

TEST(Json, NumbersHaveAtMost64SignificantCharacters) {
  EXPECT_TRUE(ParseJson(std::string(64, '9')).ok());
  EXPECT_EQ(ReasonOf(std::string(65, '9')), "invalid_json");
  EXPECT_TRUE(ParseJson("0." + std::string(300, '0') + std::string(64, '1')).ok())
      << "leading zeros do not count";
  EXPECT_EQ(ReasonOf("0." + std::string(65, '1')), "invalid_json");
  EXPECT_EQ(ReasonOf(std::string(1 << 20, '7')), "invalid_json");
}

TEST(Json, ANumberBeyondADoubleIsRefusedAndOneBelowIsZero) {
  EXPECT_EQ(ReasonOf("1e309"), "invalid_json");
  EXPECT_EQ(ReasonOf("-1e400"), "invalid_json");
  EXPECT_EQ(ReasonOf("1e999999999999"), "invalid_json");
  EXPECT_EQ(ParseJson("1e-400")->root().get_double(), 0.0);
  EXPECT_EQ(ParseJson("-1e-99999")->root().get_double(), 0.0);
}

TEST(Json, NumbersReadBackAsTheNearestDouble) {
  for (const double number : {0.1, 0.7, 1e23, 8.5, 123.456e78, 2.2250738585072014e-308, 5e-324,
                              1.7976931348623157e308, 0.30000000000000004, 9007199254740993.0}) {
    std::string text;
    JsonWriter(&text).Double(number);
    EXPECT_EQ(ParseJson(text)->root().to_number<double>(), number) << text;
  }
  EXPECT_EQ(ParseJson("9007199254740993")->root().get_int64(), 9007199254740993);
  EXPECT_EQ(ParseJson("-9223372036854775808")->root().get_int64(), INT64_MIN);
  EXPECT_EQ(ParseJson("18446744073709551615")->root().get_uint64(), UINT64_MAX);
}

TEST(Json, AnObjectHasAtMost4096Members) {
  const auto members = [](int count) {
    std::string text = "{";
    for (int i = 0; i < count; ++i) text += (i > 0 ? ",\"" : "\"") + std::to_string(i) + "\":0";
    return text + "}";
  };
  EXPECT_TRUE(ParseJson(members(4096)).ok());
  EXPECT_EQ(ReasonOf(members(4097)), "invalid_json");
}

TEST(Json, NulIsACharacterLikeAnyOther) {
  const JsonDocument document = ParseJson(R"({"a\u0000b":"x\u0000y"})").value();
  EXPECT_EQ(document.root().get_object().begin()->key().size(), 3u);
  EXPECT_EQ(document.root().get_object().begin()->value().get_string().size(), 3u);
}

TEST(Json, TimeIsLinearInTheInput) {
  const auto parse_s = [](const std::string& text) {
    const double start = support::ThreadSeconds();
    (void)ParseJson(text).ok();
    return support::ThreadSeconds() - start;
  };
  const auto ids = [](int count) {
    std::string text = "[1";
    for (int i = 1; i < count; ++i) text += ",1";
    return text + "]";
  };
  const std::string half = ids(1'000'000), whole = ids(2'000'000);
  const std::string escapes = "\"" + std::string(4'000'000, 'a') + std::string("\\n") + "\"";
  parse_s(half);  // warm
  EXPECT_LT(parse_s(whole), support::kSlower);
  EXPECT_LT(parse_s(escapes), support::kSlower);
}

void* ParseHostile(void*) {
  for (const char* unit : {"[", "{\"a\":", "[{\"\":"}) {
    std::string text;
    while (text.size() < 1'000'000) text += unit;
    if (ParseJson(text).ok()) return nullptr;
  }
  static int done;
  return &done;
}

TEST(Json, DeepNestingFitsA256KiBStack) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 256 << 10);
  pthread_t thread;
  ASSERT_EQ(pthread_create(&thread, &attributes, ParseHostile, nullptr), 0);
  void* result = nullptr;
  pthread_join(thread, &result);
  EXPECT_NE(result, nullptr);
}

TEST(JsonWriter, WritesCompactJsonThatReadsBackEqual) {
  std::string out;
  JsonWriter(&out)
      .BeginObject()
      .Member("text", "a\"b\\c\n\t\x01\x7f\xc3\xa9")
      .Member("n", int64_t{-5})
      .Member("half", 0.5)
      .Member("one", 1.0)
      .Member("yes", true)
      .Member("none", nullptr)
      .Key("list")
      .BeginArray()
      .Int(1)
      .Int(2)
      .BeginObject()
      .EndObject()
      .EndArray()
      .EndObject();
  EXPECT_EQ(out,
            "{\"text\":\"a\\\"b\\\\c\\n\\t\\u0001\\u007f\xc3\xa9\",\"n\":-5,\"half\":0.5,\"one\":1."
            "0,\"yes\":true,"
            "\"none\":null,\"list\":[1,2,{}]}");
  EXPECT_EQ(ParseJson(out)->root().at("text").get_string(), "a\"b\\c\n\t\x01\x7f\xc3\xa9");
}

TEST(JsonWriter, MalformedBytesBecomeReplacementCharacters) {
  std::string out;
  AppendJsonString(
      "a\xff"
      "b\xe2\x82",
      &out);
  EXPECT_EQ(out,
            "\"a\xef\xbf\xbd"
            "b\xef\xbf\xbd\xef\xbf\xbd\"");
  EXPECT_TRUE(ParseJson(out).ok());
}

TEST(JsonWriter, NumbersThatJsonCannotSayAreNull) {
  std::string out;
  JsonWriter(&out)
      .BeginArray()
      .Double(INFINITY)
      .Double(NAN)
      .Float(-INFINITY)
      .Float(0.1f)
      .EndArray();
  EXPECT_EQ(out, "[null,null,null,0.1]");
}

TEST(Json, PrintedItReadsBackTheSame) {
  const std::string text =
      R"({"a":[1,-2,18446744073709551615,45.64,1e+300,2.0,true,null],"\"b\n":{},"c":[],"d":"é"})";
  const Result<JsonDocument> document = ParseJson(text);
  ASSERT_TRUE(document.ok());
  EXPECT_EQ(PrintJson(document->root()), text);
}

TEST(Utf8, AnExcerptIsShortPrintableAndWellFormed) {
  EXPECT_EQ(Excerpt("plain"), "plain");
  EXPECT_EQ(Excerpt("a\n\x1b[31m\x7f\xff"), "a??[31m??");
  EXPECT_EQ(Excerpt("\xc2\x85x"), "?x");
  const std::string cut = Excerpt(std::string(1000, 'x'));
  EXPECT_EQ(cut.size(), 64u);
  EXPECT_TRUE(cut.ends_with("..."));
  std::string wide;
  for (int i = 0; i < 100; ++i) wide += "\xe2\x82\xac";
  EXPECT_LE(Excerpt(wide).size(), 64u);
  EXPECT_TRUE(IsValidUtf8(Excerpt(wide)));
}

TEST(Utf8, CharactersAreCounted) {
  EXPECT_EQ(CountCharacters(""), 0u);
  EXPECT_EQ(CountCharacters("a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"), 4u);
}

TEST(Json, ValuesOfAllKindsCountAgainstTheBoundThatIsGiven) {
  const std::string text = R"([1,2.5,"text",true,null,{"a":[]}])";
  EXPECT_TRUE(ParseJson(text, 8).ok()) << "five, an object, a list in it, the list around";
  const Status status = ParseJson(text, 7).status();
  EXPECT_EQ(status.reason(), "invalid_json");
  EXPECT_EQ(status.message(), "the body holds more than 7 values");
  EXPECT_TRUE(ParseJson("1", 1).ok());
  EXPECT_FALSE(ParseJson("1", 0).ok());
}

}  // namespace
}  // namespace tutti::protocol
