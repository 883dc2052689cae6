// Tests generated from the schema table: every field at every kind of value and at its limits, each
// request kind through its real parser.
#include "protocol/schema/schema.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <cmath>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <set>

#include "protocol/error.h"
#include "protocol/json/field_error.h"
#include "protocol/openai/request.h"
#include "protocol/schema/checked_object.h"
#include "protocol/schema/field_check.h"
#include "protocol/schema/neutral_values.h"
#include "protocol/testing/request_kinds.h"
#include "test_paths.h"

namespace tutti::protocol {
namespace {

using ::testing::EndsWith;

Status CheckIn(const Kind& kind, std::string_view field, const Json& value) {
  IgnoredFields ignored;
  return CheckedObject::Check(kind.scope, With(kind, field, value), "", true, &ignored).status();
}

// Whether a number fits the table's limits, computed independently of the tested code.
bool NumberFits(const FieldSpec& field, double value) {
  if (field.type == FieldType::kInteger && value != std::floor(value)) return false;
  return (field.above_low ? value > field.low : value >= field.low) && value <= field.high;
}

// Whether the value counts as absent for this kind, regardless of the row's range.
bool IsNeutral(const Kind& kind, const FieldSpec& field, const Json& value) {
  return (kAsks & kind.scope) != 0 && !field.required && !field.keeps_neutral &&
         AsksForNothing(field.name, value);
}

void ForEachField(const std::function<void(const Kind&, const FieldSpec&)>& visit) {
  for (const Kind& kind : Kinds()) {
    for (const FieldSpec& field : Schema()) {
      if (field.In(kind.scope)) visit(kind, field);
    }
  }
}

std::string Page(const char* path) {
  std::ifstream file(support::SourcePath(path));
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(Schema, ThePageOfTheServerNamesEveryFieldThatIsTaken) {
  const std::string http = Page("docs/http.md"), dialogs = Page("docs/dialogs.md"),
                    sockets = Page("docs/websocket.md"), batches = Page("docs/batches.md"),
                    messages = Page("docs/messages.md");
  ASSERT_FALSE(http.empty() || dialogs.empty() || sockets.empty() || batches.empty() ||
               messages.empty());
  constexpr ScopeSet kOfTools = kTool | kToolFunction | kResponseTool | kToolCall | kCalledFunction;
  constexpr ScopeSet kOfItems = kCallItem | kCallOutputItem | kReasoningItem;
  constexpr ScopeSet kInSockets = kSocketEnvelope | kSocketControl | kChatMessage | kChatControl;
  for (const FieldSpec& field : Schema()) {
    if (field.field_class == FieldClass::kRefused ||
        !(field.scopes & ~(kMessage | kPart | kDocument)))
      continue;
    // Fields that dialogs share with other routes are documented on the other routes' page.
    const bool in_http = (field.scopes & ((kResponses - 1) | kOfTools | kInfill)) != 0;
    const bool in_dialogs = (field.scopes & ((kSocketEnvelope - 1) | kOfItems)) != 0;
    const std::string& page = in_http                                 ? http
                              : in_dialogs                            ? dialogs
                              : (field.scopes & kInSockets) != 0      ? sockets
                              : (field.scopes & (kMessages - 1)) != 0 ? batches
                                                                      : messages;
    EXPECT_NE(page.find("`" + std::string(field.name) + "`"), std::string::npos) << field.name;
  }
}

TEST(Schema, ABaseRequestOfEachKindPasses) {
  for (const Kind& kind : Kinds()) {
    EXPECT_TRUE(kind.parse(boost::json::parse(kind.base), {}).ok()) << kind.base;
  }
}

TEST(Schema, NoFieldHasTwoRowsInOneScope) {
  std::set<std::pair<std::string_view, ScopeSet>> seen;
  for (const FieldSpec& field : Schema()) {
    for (ScopeSet bit = 1; bit != 0 && bit <= kLastScope; bit <<= 1) {
      if ((field.scopes & bit) != 0) {
        EXPECT_TRUE(seen.emplace(field.name, bit).second)
            << field.name << " twice in scope " << bit;
      }
    }
  }
}

TEST(Schema, NullMeansAbsentForEveryField) {
  ForEachField([](const Kind& kind, const FieldSpec& field) {
    Json without = boost::json::parse(kind.base);
    without.as_object().erase(boost::json::string_view(field.name.data(), field.name.size()));
    EXPECT_EQ(kind.parse(With(kind, field.name, nullptr), {}), kind.parse(without, {}))
        << field.name;
  });
}

TEST(Schema, EveryNumericFieldTakesWhatItsRowSaysAndNothingElse) {
  int checked = 0;
  ForEachField([&](const Kind& kind, const FieldSpec& field) {
    if (field.type != FieldType::kInteger && field.type != FieldType::kNumber) return;
    if (field.field_class == FieldClass::kRefused) return;
    const std::string name(field.name);
    for (const char* text : {"-9223372036854775808",
                             "-2147483649",
                             "-101",
                             "-2",
                             "-1",
                             "-0.5",
                             "0",
                             "0.0",
                             "1",
                             "1.0",
                             "1.5",
                             "2",
                             "8",
                             "9",
                             "20",
                             "21",
                             "2147483647",
                             "2147483648",
                             "9007199254740993",
                             "9223372036854775807",
                             "9223372036854775808",
                             "18446744073709551615",
                             "18446744073709551616",
                             "1e308",
                             "-1e308",
                             "5e-324"}) {
      const Json value = ParseJson(text)->root();
      bool expected = NumberFits(field, value.to_number<double>());
      if (field.type == FieldType::kInteger && !AsInteger(value).has_value()) expected = false;
      expected = expected || IsNeutral(kind, field, value);
      const Status status = CheckIn(kind, field.name, value);
      EXPECT_EQ(status.ok(), expected) << name << " = " << text << ": " << status;
      if (!expected) {
        EXPECT_EQ(status.reason(), "invalid_value") << name << " = " << text;
        EXPECT_EQ(status.param(), name);
        EXPECT_EQ(kind.parse(With(kind, field.name, value), {}).param(), name)
            << "the parser names the field too";
      }
      ++checked;
    }
    for (const char* text : {"\"1\"", "[]", "true", "false", "{}", "[1]", "\"\"", "\"NaN\""}) {
      const Json value = ParseJson(text)->root();
      if (IsNeutral(kind, field, value)) continue;
      const Status status = CheckIn(kind, field.name, value);
      EXPECT_EQ(status.reason(), "invalid_value") << name << " = " << text;
      EXPECT_EQ(status.param(), name);
      ++checked;
    }
  });
  EXPECT_GT(checked, 1500);
}

std::string Decimal(__int128 number) {
  const bool negative = number < 0;
  std::string digits;
  for (__int128 rest = negative ? -number : number; rest > 0 || digits.empty(); rest /= 10)
    digits.insert(digits.begin(), static_cast<char>('0' + static_cast<int>(rest % 10)));
  return negative ? "-" + digits : digits;
}

// Regression: a seed of -9223372036854775809 was accepted, because as a double it is -2^63, the
// lowest of the range.
TEST(Schema, IntegersAreExactAtTheirLimitsAndOneBeyond) {
  int checked = 0;
  ForEachField([&](const Kind& kind, const FieldSpec& field) {
    if (field.type != FieldType::kInteger || field.field_class == FieldClass::kRefused) return;
    // 2^63 - 1 has no double: the row's bound is 2^63.
    const __int128 high =
        field.high >= kInt64High ? __int128{INT64_MAX} : static_cast<__int128>(field.high);
    const auto low = static_cast<__int128>(field.low);
    for (const __int128 number : {low - 1, low, high, high + 1}) {
      std::vector<std::string> spellings = {Decimal(number)};
      if (std::abs(static_cast<double>(number)) < 1e15) spellings.push_back(Decimal(number) + ".0");
      for (const std::string& text : spellings) {
        const Json value = ParseJson(text)->root();
        const bool fits = number >= low && number <= high;
        EXPECT_EQ(CheckIn(kind, field.name, value).ok(), fits || IsNeutral(kind, field, value))
            << field.name << " = " << text;
        ++checked;
      }
    }
  });
  EXPECT_GT(checked, 300);
}

TEST(Schema, ANumberWithAPointThatMayHaveBeenRoundedIsNoInteger) {
  for (const char* text : {"9007199254740993.0", "-9007199254740993.0", "-9223372036854775808.0",
                           "1e18", "-9223372036854775809", "9223372036854775808"})
    EXPECT_EQ(AsInteger(ParseJson(text)->root()), std::nullopt) << text;
  EXPECT_EQ(AsInteger(ParseJson("9007199254740993")->root()), 9007199254740993);
  EXPECT_EQ(AsInteger(ParseJson("9007199254740991.0")->root()), 9007199254740991);
  EXPECT_EQ(AsInteger(ParseJson("-9223372036854775808")->root()), INT64_MIN);
}

TEST(Schema, EveryFieldRefusesTheWrongTypeByName) {
  ForEachField([](const Kind& kind, const FieldSpec& field) {
    if (field.field_class == FieldClass::kRefused || field.type == FieldType::kAny) return;
    std::vector<const char*> wrong;
    switch (field.type) {
      case FieldType::kBool:
        wrong = {"0", "1", "\"true\"", "\"yes\"", "[]", "{}", "1.0"};
        break;
      case FieldType::kString:
      case FieldType::kChoice:
        wrong = {"0", "true", "[]", "{}", "[\"a\"]"};
        break;
      case FieldType::kStrings:
        wrong = {"0", "true", "{}", "[1]", "[\"a\",null]", "[[\"a\"]]", "\"\"", "[\"\"]"};
        break;
      case FieldType::kTokenIds:
        wrong = {"0",
                 "\"1\"",
                 "true",
                 "{}",
                 "[\"1\"]",
                 "[null]",
                 "[true]",
                 "[1.5]",
                 "[[1]]",
                 "[-1]",
                 "[2147483648]",
                 "[1e300]",
                 "[9223372036854775808]"};
        break;
      case FieldType::kBias:
        wrong = {"0",
                 "[]",
                 "\"\"",
                 "true",
                 "{\"abc\":1}",
                 "{\"1\":\"1\"}",
                 "{\"1\":true}",
                 "{\"1\":null}",
                 "{\"1\":101}",
                 "{\"1\":-100.5}",
                 "{\"\":1}",
                 "{\"-1\":1}",
                 "{\"01\":1}",
                 "{\"1.0\":1}",
                 "{\"2147483648\":1}",
                 "{\" 1\":1}",
                 "{\"99999999999999999999\":1}",
                 "{\"+1\":1}"};
        break;
      case FieldType::kArray:
        wrong = {"0", "\"\"", "true", "{}", "[]"};
        break;
      case FieldType::kObject:
        wrong = {"0", "\"\"", "true", "[]"};
        break;
      default:
        return;
    }
    for (const char* text : wrong) {
      const Json value = ParseJson(text)->root();
      if (IsNeutral(kind, field, value)) continue;
      const Status status = CheckIn(kind, field.name, value);
      EXPECT_FALSE(status.ok()) << field.name << " = " << text;
      EXPECT_TRUE(status.reason() == "invalid_value" || status.reason() == "token_out_of_range")
          << status;
      EXPECT_TRUE(status.param().starts_with(field.name)) << status;
    }
  });
}

// A message of a wrong value once gave the rule alone, so that a client had to look up what it had
// sent.
TEST(Schema, ARefusalNamesWhatWasSent) {
  const auto message = [](std::string_view field, const char* text) {
    const Status status = CheckIn(Kinds().front(), field, ParseJson(text)->root());
    EXPECT_FALSE(status.ok()) << field << " = " << text;
    return status.message();
  };
  EXPECT_EQ(message("temperature", "2.5"), "temperature must be a number from 0 to 2, not 2.5");
  EXPECT_EQ(message("temperature", "\"hot\""),
            "temperature must be a number from 0 to 2, not \"hot\"");
  EXPECT_THAT(message("top_p", "1e300"), EndsWith(", not 1e+300"));
  EXPECT_THAT(message("max_tokens", "0"), EndsWith(", not 0"));
  EXPECT_THAT(message("max_tokens", "1.5"), EndsWith(", not 1.5"));
  EXPECT_THAT(message("max_tokens", "18446744073709551615"),
              EndsWith(", not 18446744073709551615"));
  EXPECT_EQ(message("stream", "\"yes\""), "stream must be true or false, not \"yes\"");
  EXPECT_THAT(message("stream", "[1]"), EndsWith(", not a list"));
  EXPECT_THAT(message("stream", "{}"), EndsWith(", not an object"));
  EXPECT_THAT(message("model", "true"), EndsWith("a string, not true"));
  // What may be anything, of any length, is not repeated.
  EXPECT_EQ(message("stream", ("\"" + std::string(41, 'x') + "\"").c_str()),
            "stream must be true or false, not a string of 41 bytes");
  EXPECT_THAT(message("stream", "\"a\\nb\""), EndsWith(R"(, not "a\nb")"));
}

TEST(Schema, EveryLengthIsTestedAtItsLimitAndOneBeyond) {
  int checked = 0;
  ForEachField([&](const Kind& kind, const FieldSpec& field) {
    const auto expect = [&](const Json& value, bool ok, const char* what) {
      EXPECT_EQ(CheckIn(kind, field.name, value).ok(), ok || IsNeutral(kind, field, value))
          << field.name << ": " << what;
      ++checked;
    };
    const auto text = [](double size) { return Json(std::string(static_cast<size_t>(size), 'a')); };
    const auto list = [](double size, const Json& element) {
      return Json(JsonArray(static_cast<size_t>(size), element));
    };
    if (field.field_class == FieldClass::kRefused) return;
    switch (field.type) {
      case FieldType::kString:
        if (field.low > 0) expect(text(field.low - 1), false, "too short");
        expect(text(field.low), true, "shortest");
        if (field.high > 1e6) return;
        expect(text(field.high), true, "longest");
        expect(text(field.high + 1), false, "too long");
        return;
      case FieldType::kStrings:
        expect(list(static_cast<double>(field.count), "a"), true, "most");
        expect(list(static_cast<double>(field.count) + 1, "a"), false, "too many");
        expect(text(field.high), true, "longest");
        expect(text(field.high + 1), false, "too long");
        return;
      case FieldType::kTokenIds:
        if (field.low > 0) expect(list(field.low - 1, 1), false, "too few");
        if (field.count > 1000000) return;
        expect(list(static_cast<double>(field.count), 1), true, "most");
        expect(list(static_cast<double>(field.count) + 1, 1), false, "too many");
        return;
      case FieldType::kArray:
        expect(list(field.high, JsonObject()), true, "most");
        expect(list(field.high + 1, JsonObject()), false, "too many");
        return;
      case FieldType::kBias: {
        JsonObject bias;
        for (size_t i = 0; i < field.count; ++i)
          bias[std::to_string(i)] = i % 2 == 0 ? field.low : field.high;
        expect(bias, true, "most");
        bias[std::to_string(field.count)] = 0;
        expect(bias, false, "too many");
        return;
      }
      case FieldType::kObject: {
        const auto object = [](size_t bytes) {
          return JsonObject{{"k", std::string(bytes - 8, 'v')}};
        };
        expect(object(static_cast<size_t>(field.high)), true, "largest");
        expect(object(static_cast<size_t>(field.high) + 1), false, "too large");
        return;
      }
      default:
        return;
    }
  });
  EXPECT_GT(checked, 100);
}

TEST(Schema, ARefusedFieldIsNamedUnlessItAsksForNothing) {
  int refused = 0;
  ForEachField([&](const Kind& kind, const FieldSpec& field) {
    if (field.field_class != FieldClass::kRefused) return;
    ++refused;
    const Status status = kind.parse(With(kind, field.name, "something"), {});
    EXPECT_EQ(status.reason(), "unsupported_parameter") << field.name;
    EXPECT_EQ(status.param(), field.name);
    EXPECT_EQ(ViewError(status).http, 400);
    EXPECT_EQ(kind.parse(With(kind, field.name, boost::json::parse("[{\"a\":1}]")), {}).reason(),
              "unsupported_parameter");
    for (const std::string& neutral : field.neutral) {
      EXPECT_TRUE(kind.parse(With(kind, field.name, boost::json::parse(neutral)), {}).ok())
          << field.name << " = " << neutral;
    }
  });
  EXPECT_GT(refused, 60);
}

// Regression: these fields were ignored: n = 4 gave one answer, and max_completion_tokens the
// default length.
TEST(Schema, GenerateRefusesWhatOnlyTheOtherGenerationRoutesHave) {
  const Kind& generate = Kinds()[2];
  ASSERT_EQ(generate.scope, kGenerate);
  for (const char* field :
       {"n", "best_of", "logprobs", "top_logprobs", "prompt_logprobs", "max_completion_tokens"}) {
    const Status status = generate.parse(With(generate, field, 4), {});
    EXPECT_EQ(status.reason(), "unsupported_parameter") << field;
    EXPECT_EQ(status.param(), field);
  }
  EXPECT_EQ(generate.parse(With(generate, "echo", true), {}).param(), "echo");
  // Each field that another generation route honours is honoured or refused here. The exceptions
  // cannot change the answer.
  for (const FieldSpec& field : Schema()) {
    if ((field.scopes & kAnyGeneration) == 0 || field.name == "stream_options") continue;
    EXPECT_NE(FindField(kGenerate, field.name), nullptr) << field.name;
  }
}

TEST(Schema, FieldsWithoutEffectChangeNothingInTheRequest) {
  const Json plain = boost::json::parse(Kinds()[0].base);
  Json with = plain;
  for (const FieldSpec& field : Schema()) {
    if (field.field_class != FieldClass::kNoEffect || !field.In(kChat)) continue;
    const boost::json::string_view name(field.name.data(), field.name.size());
    with.as_object()[name] = field.type == FieldType::kObject ? Json(JsonObject{{"a", "b"}})
                             : field.type == FieldType::kBool ? Json(true)
                                                              : Json("value");
  }
  ASSERT_GT(with.as_object().size(), plain.as_object().size() + 3);
  const GenerationCall a = ParseGeneration(Dialect::kChat, plain, {}).value();
  const GenerationCall b = ParseGeneration(Dialect::kChat, with, {}).value();
  EXPECT_TRUE(b.ignored.empty());
  EXPECT_EQ(a.requests.front().sampling.temperature, b.requests.front().sampling.temperature);
  EXPECT_EQ(a.requests.front().cache_salt, b.requests.front().cache_salt);
  EXPECT_EQ(a.requests.front().tenant, b.requests.front().tenant);
  EXPECT_EQ(std::get<api::ChatPrompt>(a.requests.front().prompt).messages.size(),
            std::get<api::ChatPrompt>(b.requests.front().prompt).messages.size());
}

TEST(Schema, UnknownFieldsAreReportedAndInStrictModeRefused) {
  for (const Kind& kind : Kinds()) {
    for (const char* name : {"n_discard", "__proto__", "constructor", "frequencyPenalty", "MODEL",
                             "model ", "top-p", "x\x01y"}) {
      const Json body = With(kind, name, -1);
      EXPECT_TRUE(kind.parse(body, {}).ok()) << name;
      ParseOptions strict;
      strict.strict = true;
      const Status status = kind.parse(body, strict);
      EXPECT_EQ(status.reason(), "unknown_parameter") << name;
      EXPECT_EQ(status.param(), Excerpt(name));
    }
  }
  Json body = boost::json::parse(Kinds()[0].base);
  for (int i = 0; i < 40; ++i) body.as_object()["field_" + std::to_string(i)] = 1;
  body.as_object()["evil\r\nheader: x"] = 1;
  const GenerationCall call = ParseGeneration(Dialect::kChat, body, {}).value();
  EXPECT_EQ(call.ignored.size(), 32u) << "bounded";
  IgnoredFields ignored;
  ignored.Add("evil\r\nheader: x");
  ignored.Add("evil\r\nheader: x");
  EXPECT_EQ(ignored.names(), std::vector<std::string>{"evil??header??x"});
}

TEST(Schema, NestedUnknownFieldsCarryTheirPath) {
  const Json body = boost::json::parse(
      R"({"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"a","x":1}],"y":2}],"stream":true,"stream_options":{"z":3}})");
  const GenerationCall call = ParseGeneration(Dialect::kChat, body, {}).value();
  EXPECT_EQ(call.ignored, (std::vector<std::string>{"stream_options.z", "messages[0].y",
                                                    "messages[0].content[0].x"}));
}

TEST(Schema, NoErrorRepeatsMoreThan64BytesOfTheInput) {
  const std::string secret(200, 'S');
  const auto longest_run = [](const std::string& text) {
    size_t best = 0, run = 0;
    for (const char c : text) best = std::max(best, run = c == 'S' ? run + 1 : 0);
    return best;
  };
  ForEachField([&](const Kind& kind, const FieldSpec& field) {
    for (const Json& value :
         {Json(secret), Json(JsonArray{secret}), Json(JsonObject{{secret, secret}}),
          Json(JsonArray{JsonObject{{"type", secret}}}),
          Json(JsonArray{JsonObject{{"role", secret}, {"content", "x"}}})}) {
      const Status status = kind.parse(With(kind, field.name, value), {});
      if (status.ok()) continue;
      EXPECT_LE(longest_run(status.message()), 64u) << status;
      EXPECT_LE(longest_run(status.param()), 64u) << status;
      EXPECT_EQ(ViewError(status).http, 400) << status;
    }
  });
}

}  // namespace
}  // namespace tutti::protocol
