#include "grammar/json_schema.h"

#include <gtest/gtest.h>

#include "grammar/testing/accepts.h"

namespace tutti::grammar {
namespace {

Structure Schema(std::string_view text, bool open_objects = true) {
  return {.kind = Structure::Kind::kJsonSchema,
          .text = std::string(text),
          .open_objects = open_objects};
}

class Accepted {
 public:
  explicit Accepted(std::string_view schema, bool open_objects = true) {
    auto automaton = Compile(Schema(schema, open_objects));
    EXPECT_TRUE(automaton.ok()) << automaton.status();
    if (automaton.ok()) automaton_ = *std::move(automaton);
  }
  bool operator()(std::string_view text) const {
    return automaton_ != nullptr && testing::Accepts(automaton_, text);
  }

 private:
  std::shared_ptr<const Automaton> automaton_;
};

void ExpectRefused(std::string_view schema, std::string_view reason, std::string_view param) {
  const Status status = Compile(Schema(schema)).status();
  EXPECT_EQ(status.reason(), reason) << schema << " " << status;
  EXPECT_EQ(status.param(), param) << schema << " " << status;
}

TEST(JsonSchema, PropertiesComeInTheirOrder) {
  const Accepted accepts(R"({"type":"object","properties":{"a":{"type":"integer"},
      "b":{"type":"string"}},"required":["a"],"additionalProperties":false})");
  EXPECT_TRUE(accepts(R"({"a":1})"));
  EXPECT_TRUE(accepts(R"({ "a": 1, "b": "x" })"));
  EXPECT_TRUE(accepts("{\n  \"a\": 1,\n  \"b\": \"x\"\n}"));
  EXPECT_FALSE(accepts(R"({"b":"x","a":1})"));
  EXPECT_FALSE(accepts(R"({"b":"x"})"));
  EXPECT_FALSE(accepts(R"({"a":1,"c":2})"));
  EXPECT_FALSE(accepts(R"({"a":1,})"));
  EXPECT_FALSE(accepts(R"({"a":1,"a":2})"));
}

TEST(JsonSchema, OtherPropertiesDoNotRepeatDeclaredNames) {
  const Accepted accepts(R"({"properties":{"a":{"type":"integer"}}})");
  EXPECT_TRUE(accepts(R"({"a":1,"other":[{}],"more":null})"));
  EXPECT_TRUE(accepts(R"({"other":"x"})"));
  EXPECT_FALSE(accepts(R"({"other":1,"a":"x"})"));
  EXPECT_FALSE(accepts(R"({"\u0061":"x"})"));
  EXPECT_TRUE(accepts("12"));  // no type: only objects are restricted
}

// Small models invented members until the answer's length ended it.
TEST(JsonSchema, ObjectsWithPropertiesHaveNoOthersUnlessOpen) {
  const auto accepts = [](std::string_view schema, std::string_view text) {
    return Accepted(schema, /*open_objects=*/false)(text);
  };
  constexpr std::string_view kPlain = R"({"properties":{"a":{"type":"integer"}}})";
  EXPECT_TRUE(accepts(kPlain, R"({"a":1})"));
  EXPECT_TRUE(accepts(kPlain, "{}"));
  EXPECT_FALSE(accepts(kPlain, R"({"a":1,"b":2})"));
  EXPECT_FALSE(accepts(R"({"type":"object","properties":{}})", R"({"b":2})"));
  // Properties of all merged schemas are declared, and so are required ones.
  constexpr std::string_view kAll =
      R"({"allOf":[{"properties":{"a":{}}},{"properties":{"b":{}}}],"required":["c"]})";
  EXPECT_TRUE(accepts(kAll, R"({"a":1,"b":2,"c":3})"));
  EXPECT_FALSE(accepts(kAll, R"({"a":1,"b":2,"c":3,"d":4})"));
  // A keyword about other members, or a count that only they can reach, opens the object.
  for (const std::string_view schema :
       {R"({"properties":{"a":{}},"additionalProperties":true})",
        R"({"properties":{"a":{}},"patternProperties":{"^b":{}}})",
        R"({"properties":{"a":{}},"propertyNames":{"maxLength":3}})", R"({"type":"object"})",
        R"({"required":["a"]})"})
    EXPECT_TRUE(accepts(schema, R"({"a":1,"b":2})")) << schema;
}

TEST(JsonSchema, BoundsWhitespace) {
  const Accepted accepts(R"({"type":"array"})");
  EXPECT_TRUE(accepts("[ 1\t, 2]"));
  EXPECT_FALSE(accepts("[  1]"));
  EXPECT_FALSE(accepts("[ \n1]"));
  EXPECT_TRUE(accepts("[\n" + std::string(32, ' ') + "1\r\n]"));
  EXPECT_FALSE(accepts("[\n" + std::string(33, ' ') + "1]"));
  EXPECT_TRUE(accepts("[\n\n1]"));
  EXPECT_FALSE(accepts("[\n\n\n1]"));
  EXPECT_FALSE(accepts("[\r1]"));
}

TEST(JsonSchema, KeepsLengthsOfStrings) {
  const Accepted accepts(R"({"type":"string","minLength":2,"maxLength":4})");
  EXPECT_FALSE(accepts(R"("a")"));
  EXPECT_TRUE(accepts(R"("äöü€")"));
  EXPECT_FALSE(accepts(R"("abcde")"));
  EXPECT_TRUE(accepts(R"("\ud83d\ude00\n")"));  // two characters
  EXPECT_FALSE(accepts(R"("\ud83d")"));         // half a character
  EXPECT_FALSE(accepts("\"a\nb\""));            // a control character as it is
  const Accepted large(R"({"type":"string","maxLength":100000})");
  EXPECT_TRUE(large("\"" + std::string(100'000, 'x') + "\""));
  EXPECT_FALSE(large("\"" + std::string(100'001, 'x') + "\""));
}

TEST(JsonSchema, KeepsPatternAndLengthTogether) {
  const Accepted accepts(R"({"type":"string","pattern":"^[a-z]+$","maxLength":3})");
  EXPECT_TRUE(accepts(R"("abc")"));
  EXPECT_FALSE(accepts(R"("abcd")"));
  EXPECT_FALSE(accepts(R"("ab1")"));
  const Accepted anywhere(R"({"type":"string","pattern":"\"\\d"})");
  EXPECT_TRUE(anywhere(R"("say \"5\"")"));
  EXPECT_FALSE(anywhere(R"("say \"x\"")"));
}

// Each number of characters had states of its own, so that pydantic's HttpUrl and an e-mail address
// of 254 characters were refused.
TEST(JsonSchema, CountsTheCharactersOfLongStrings) {
  const auto word = [](size_t length) { return "\"" + std::string(length, 'a') + "\""; };
  const Accepted words(R"({"type":"string","pattern":"^([a-z]{2})+$","maxLength":2083})");
  EXPECT_TRUE(words(word(2)));
  EXPECT_TRUE(words(word(2'082)));
  EXPECT_FALSE(words(word(2'083))) << "no pair begins where none can end";
  EXPECT_FALSE(words(word(2'084)));
  EXPECT_FALSE(words(word(3)));
  EXPECT_FALSE(words("\"\""));
  const Accepted url(R"({"type":"string","format":"uri","minLength":1,"maxLength":2083})");
  EXPECT_TRUE(url(R"("https://example.org/a?b=c#d")"));
  EXPECT_FALSE(url(R"("not a uri")"));
  const std::string begin = R"("https://example.org/)";
  EXPECT_TRUE(url(begin + std::string(2'083 - 20, 'x') + "\""));
  EXPECT_FALSE(url(begin + std::string(2'084 - 20, 'x') + "\""));
  const Accepted email(R"({"type":"string","format":"email","maxLength":254})");
  EXPECT_TRUE(email(R"("ann@example.org")"));
  EXPECT_FALSE(email("\"" + std::string(251, 'a') + "@b.c\""));
  // Length counts characters, not bytes, and an escape is one character. A pattern whose shortest
  // match is too long leaves nothing.
  const Accepted wide(R"({"type":"string","pattern":"^[é\\n\\u{1F600}]*$","maxLength":20})");
  std::string text = "\"";
  for (int i = 0; i < 10; ++i) text += "é\\n";
  EXPECT_TRUE(wide(text + "\""));
  EXPECT_FALSE(wide(text + "é\""));
  ExpectRefused(R"({"type":"string","pattern":"^a{30}$","maxLength":20})", "grammar_empty", "");
}

TEST(JsonSchema, KeepsBoundsOfNumbers) {
  const Accepted whole(R"({"type":"integer","minimum":-12,"exclusiveMaximum":105})");
  for (const char* in : {"-12", "-9", "0", "7", "99", "104"}) EXPECT_TRUE(whole(in)) << in;
  for (const char* out : {"-13", "105", "1000", "007", "1.5", "-0", "1e1"})
    EXPECT_FALSE(whole(out)) << out;
  const Accepted real(R"({"type":"number","exclusiveMinimum":-0.5,"maximum":2.25})");
  for (const char* in : {"-0.4999", "0", "0.1", "2.25", "2.2500", "1.999"})
    EXPECT_TRUE(real(in)) << in;
  for (const char* out : {"-0.5", "-0.50", "2.251", "3", "-1"}) EXPECT_FALSE(real(out)) << out;
  const Accepted step(R"({"type":"number","multipleOf":0.25,"minimum":0,"maximum":10})");
  for (const char* in : {"0.25", "0.5", "9.75", "3"}) EXPECT_TRUE(step(in)) << in;
  for (const char* out : {"0.3", "0.125", "10.25"}) EXPECT_FALSE(step(out)) << out;
}

TEST(JsonSchema, MergesAllOf) {
  const Accepted accepts(R"({"allOf":[{"properties":{"a":{"minimum":1}},"required":["a"]},
      {"properties":{"a":{"maximum":3}},"additionalProperties":{"type":"boolean"}}],
      "type":"object"})");
  EXPECT_TRUE(accepts(R"({"a":2,"x":true})"));
  EXPECT_FALSE(accepts(R"({"a":4})"));
  EXPECT_FALSE(accepts(R"({"a":2,"x":1})"));
}

// The branches of allOf were merged from the last to the first.
TEST(JsonSchema, PropertiesComeInTheOrderOfAllOf) {
  const Accepted accepts(R"({"properties":{"a":{}},"allOf":[{"properties":{"b":{}}},
      {"allOf":[{"properties":{"c":{}}},{"properties":{"d":{}}}]},{"properties":{"e":{}}}]})");
  EXPECT_TRUE(accepts(R"({"a":1,"b":2,"c":3,"d":4,"e":5})"));
  EXPECT_FALSE(accepts(R"({"a":1,"b":2,"d":4,"c":3})"));
}

TEST(JsonSchema, KeepsPatternProperties) {
  const Accepted accepts(R"({"type":"object","properties":{"x1":{"maximum":5}},
      "patternProperties":{"^x":{"type":"integer"},"1$":{"minimum":3}},
      "additionalProperties":false})");
  EXPECT_TRUE(accepts(R"({"x1":4,"x2":0,"y1":3.5,"x11":7})"));
  EXPECT_FALSE(accepts(R"({"x1":2})"));
  EXPECT_FALSE(accepts(R"({"x2":0.5})"));
  EXPECT_FALSE(accepts(R"({"z":1})"));
}

TEST(JsonSchema, FollowsReferencesThatRecur) {
  const Accepted accepts(R"({"$defs":{"tree":{"type":"object","properties":{"v":{"type":"integer"},
      "children":{"type":"array","items":{"$ref":"#/$defs/tree"}}},"required":["v"],
      "additionalProperties":false}},"$ref":"#/$defs/tree"})");
  EXPECT_TRUE(accepts(R"({"v":1,"children":[{"v":2},{"v":3,"children":[]}]})"));
  EXPECT_FALSE(accepts(R"({"v":1,"children":[{}]})"));
}

TEST(JsonSchema, TellsBranchesOfOneOfApart) {
  const Accepted accepts(R"({"oneOf":[
      {"type":"object","properties":{"kind":{"const":"a"},"x":{"type":"integer"}},
       "required":["kind","x"],"additionalProperties":false},
      {"type":"object","properties":{"kind":{"const":"b"}},"required":["kind"],
       "additionalProperties":false}]})");
  EXPECT_TRUE(accepts(R"({"kind":"a","x":1})"));
  EXPECT_TRUE(accepts(R"({"kind":"b"})"));
  EXPECT_FALSE(accepts(R"({"kind":"b","x":1})"));
  ExpectRefused(R"({"properties":{"p":{"oneOf":[{"minimum":1},{"maximum":3}]}}})",
                "schema_unsupported", "properties.p.oneOf");
}

TEST(JsonSchema, APropertyThatNeedsOthersComesWithThem) {
  const Accepted accepts(R"({"type":"object","properties":{"card":{"type":"integer"},
      "address":{"type":"string"}},"dependentRequired":{"card":["address"]},
      "additionalProperties":false})");
  EXPECT_TRUE(accepts(R"({"card":1,"address":"x"})"));
  EXPECT_TRUE(accepts(R"({"address":"x"})"));
  EXPECT_TRUE(accepts("{}"));
  EXPECT_FALSE(accepts(R"({"card":1})"));
  ExpectRefused(R"({"dependencies":{"a":{"required":["b"]}}})", "schema_unsupported",
                "dependencies");
  ExpectRefused(R"({"$schema":"https://example.org/own","type":"null"})", "schema_unsupported",
                "$schema");
}

TEST(JsonSchema, EnumKeepsWhatElseIsAsked) {
  const Accepted accepts(R"({"enum":["a",1,1.5,null,[1,{"b":2}],"long"],"maxLength":3,
      "minimum":1.2})");
  EXPECT_TRUE(accepts(R"("a")"));
  EXPECT_TRUE(accepts("1.5"));
  EXPECT_TRUE(accepts("null"));
  EXPECT_TRUE(accepts(R"([1, {"b": 2}])"));
  EXPECT_FALSE(accepts("1"));
  EXPECT_FALSE(accepts(R"("long")"));
}

TEST(JsonSchema, KeepsFormats) {
  const auto accepts = [](std::string_view format, std::string_view text) {
    return testing::Accepts(
        Schema("{\"type\":\"string\",\"format\":\"" + std::string(format) + "\"}"),
        "\"" + std::string(text) + "\"");
  };
  EXPECT_TRUE(accepts("date", "2024-02-29"));
  EXPECT_FALSE(accepts("date", "2023-02-29"));
  EXPECT_TRUE(accepts("date-time", "2023-12-31T23:59:60Z"));
  EXPECT_FALSE(accepts("time", "24:00:00Z"));
  EXPECT_TRUE(accepts("ipv6", "::ffff:192.168.0.1"));
  EXPECT_FALSE(accepts("ipv6", "1::2::3"));
  EXPECT_TRUE(accepts("uuid", "2EB8AA08-aa98-11ea-b4aa-73b441d16380"));
  EXPECT_TRUE(accepts("email", "a.b+c@example.org"));
  EXPECT_FALSE(accepts("email", "a b@example.org"));
  EXPECT_TRUE(accepts("uri", "https://example.org/a?b=c#d"));
  EXPECT_FALSE(accepts("hostname", "-a.example"));
  EXPECT_TRUE(accepts("int32", "anything"));  // not a format of the specification
  ExpectRefused(R"({"items":{"format":"idn-email"}})", "schema_unsupported", "items.format");
}

TEST(JsonSchema, RefusesKeywordsByPath) {
  ExpectRefused(R"({"properties":{"a":{"uniqueItems":true}}})", "schema_unsupported",
                "properties.a.uniqueItems");
  ExpectRefused(R"({"items":{"not":{"type":"string"}}})", "schema_unsupported", "items.not");
  ExpectRefused(R"({"if":{},"then":{}})", "schema_unsupported", "if");
  ExpectRefused(R"x({"properties":{"a":{"pattern":"(?=x)"}}})x", "grammar_regex",
                "properties.a.pattern");
  ExpectRefused(R"({"$ref":"https://example.org/schema"})", "schema_reference", "$ref");
  ExpectRefused(R"({"properties":{"a":{"type":"text"}}})", "schema_invalid", "properties.a.type");
  ExpectRefused(R"({"anyOf":[]})", "schema_invalid", "anyOf");
  ExpectRefused(R"({"minProperties":2})", "schema_unsupported", "minProperties");
  ExpectRefused("[]", "schema_invalid", "");
  ExpectRefused("{", "schema_invalid", "");
  // Keywords about other types than the value's have no effect, and notes are no keywords.
  EXPECT_TRUE(
      Compile(Schema(R"({"type":"string","uniqueItems":true,"title":1,"x-order":2})")).ok());
}

TEST(JsonSchema, RefusesWhatIsTooLarge) {
  std::string deep;
  for (int i = 0; i < 100; ++i) deep += R"({"items":)";
  deep += "{}" + std::string(100, '}');
  ExpectRefused(deep, "grammar_too_complex", "");
  std::string wide = R"({"allOf":[)";
  for (int i = 0; i < 12; ++i)
    wide += std::string(i == 0 ? "" : ",") + R"({"anyOf":[{"minimum":1},{"maximum":2}]})";
  ExpectRefused(wide + "]}", "grammar_too_complex", "allOf.8");
}

TEST(JsonSchema, NamesTheSchemaThatIsTooComplex) {
  ExpectRefused(R"({"properties":{"a":{"type":"integer"},
      "url":{"type":"string","format":"uri","minLength":100000}}})",
                "grammar_too_complex", "properties.url");
}

TEST(JsonSchema, RefusesNamesThatReferToThemselves) {
  ExpectRefused(R"({"propertyNames":{"$ref":"#/$defs/a"},"$defs":{"a":{"anyOf":[{
      "$ref":"#/$defs/a"},{"pattern":"x"}]}}})",
                "grammar_too_complex", "");
}

TEST(JsonSchema, NamesTheSchemaThatNothingSatisfies) {
  const auto message = [](std::string_view schema) {
    return Compile(Schema(schema)).status().message();
  };
  EXPECT_EQ(message(R"({"type":"object","required":["a"],
      "properties":{"a":{"type":"integer","minimum":5,"maximum":3}}})"),
            "grammar matches no text: nothing satisfies schema properties.a");
  EXPECT_EQ(message(R"({"type":"string","minLength":5,"maxLength":3})"),
            "grammar matches no text: nothing satisfies the schema");
}

TEST(JsonSchema, ASchemaThatNothingSatisfiesIsRefused) {
  ExpectRefused(R"({"type":"string","enum":[1]})", "grammar_empty", "");
  ExpectRefused(R"({"$ref":"#/$defs/a","$defs":{"a":{"type":"object","properties":{"a":{
      "$ref":"#/$defs/a"}},"required":["a"]}}})",
                "grammar_empty", "");
}

}  // namespace
}  // namespace tutti::grammar
