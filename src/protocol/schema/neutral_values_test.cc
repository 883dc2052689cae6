#include "protocol/schema/neutral_values.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <set>
#include <string>

#include "protocol/openai/request.h"
#include "protocol/schema/checked_object.h"
#include "protocol/testing/request_kinds.h"

namespace tutti::protocol {
namespace {

// Each request kind accepts every value that requests nothing, whether or not it has the feature,
// also if unknown fields are refused.
TEST(NeutralValuesTest, AreAcceptedByEveryRequestOfEveryServer) {
  int checked = 0;
  for (const Kind& kind : Kinds()) {
    if ((kind.scope & kAsks) == 0) continue;
    for (const NeutralField& field : NeutralFields()) {
      // The documents of a rerank request are not optional.
      const FieldSpec* const row = FindField(kind.scope, field.name);
      if (row != nullptr && row->required) continue;
      for (const std::string_view text : field.values) {
        ++checked;
        const Json value = boost::json::parse(std::string(text));
        for (const bool strict : {false, true}) {
          const Status status = kind.parse(With(kind, field.name, value), {.strict = strict});
          EXPECT_TRUE(status.ok())
              << kind.base << " with " << field.name << " = " << text << ": " << status;
        }
      }
    }
  }
  EXPECT_GT(checked, 500);
}

// With tools in the request the neutral values of these fields have an effect, so they are read.
TEST(NeutralValuesTest, ToolFieldsAreReadOnEachRouteThatHasTools) {
  const Json nested = boost::json::parse(R"([{"type":"function","function":{"name":"f"}}])");
  const Json flat = boost::json::parse(R"([{"type":"function","name":"f"}])");
  int checked = 0;
  for (const Kind& kind : Kinds()) {
    if ((kind.scope & kAnthropic) != 0) continue;  // has a tool_choice of its own form
    const FieldSpec* const row = FindField(kind.scope, "tools");
    if (row == nullptr || row->field_class != FieldClass::kHonoured) continue;
    for (const char* const field : {"tool_choice", "parallel_tool_calls"}) {
      ASSERT_TRUE(FindField(kind.scope, field)->keeps_neutral) << kind.base << field;
      for (const NeutralField& neutral : NeutralFields()) {
        if (neutral.name != field) continue;
        for (const std::string_view text : neutral.values) {
          Json body = With(kind, field, boost::json::parse(std::string(text)));
          body.as_object()["tools"] = (kind.scope & kTurn) != 0 ? flat : nested;
          // These two take a prompt without messages.
          if (body.as_object().contains("prompt")) {
            body.as_object().erase("prompt");
            body.as_object()["messages"] = boost::json::parse(R"([{"role":"user","content":"x"}])");
          }
          const Status status = kind.parse(body, {.strict = true});
          EXPECT_TRUE(status.ok()) << body << ": " << status;
          ++checked;
        }
      }
    }
  }
  EXPECT_GE(checked, 32) << "four values on eight routes";
}

// The values of the schema's own rows, on each kind of object that has the row; null is
// schema_test.cc's.
TEST(NeutralValuesTest, ThoseOfARowAreAcceptedWhereverItStands) {
  int checked = 0;
  for (const Kind& kind : Kinds()) {
    for (const FieldSpec& field : Schema()) {
      if (!field.In(kind.scope)) continue;
      for (const std::string& text : field.neutral) {
        const Json body = With(kind, field.name, boost::json::parse(text));
        for (const bool strict : {false, true}) {
          const Status status = kind.parse(body, {.strict = strict});
          EXPECT_TRUE(status.ok())
              << kind.base << " with " << field.name << " = " << text << ": " << status;
        }
        ++checked;
      }
    }
  }
  EXPECT_GT(checked, 40);
}

// `store` cannot change an answer, so both values are accepted.
TEST(NeutralValuesTest, StoreIsTakenByEveryRouteThatGenerates) {
  for (const Kind& kind : Kinds()) {
    if ((kind.scope & kSampled) == 0 || (kind.scope & kAnthropic) != 0) continue;
    for (const bool value : {false, true})
      EXPECT_TRUE(kind.parse(With(kind, "store", value), {.strict = true}).ok()) << kind.base;
    EXPECT_EQ(kind.parse(With(kind, "store", "yes"), {}).reason(), "invalid_value") << kind.base;
  }
}

TEST(NeutralValuesTest, NumbersAreComparedByValue) {
  EXPECT_TRUE(AsksForNothing("dry_multiplier", 0));
  EXPECT_TRUE(AsksForNothing("dry_multiplier", 0.0));
  EXPECT_TRUE(AsksForNothing("repeat_penalty", 1.0));
  EXPECT_FALSE(AsksForNothing("repeat_penalty", 1.1));
  EXPECT_FALSE(AsksForNothing("dry_multiplier", "0"));
  EXPECT_FALSE(AsksForNothing("no_such_field", 0));
}

TEST(NeutralValuesTest, ValuesThatAskForSomethingAreStillRefused) {
  const auto reason = [](const char* fields) {
    const Json body = boost::json::parse(
        std::string(R"({"model":"m","messages":[{"role":"user","content":"x"}],)") + fields + "}");
    return ParseGeneration(Dialect::kChat, body, {}).status().reason();
  };
  EXPECT_EQ(reason(R"("functions":[{"name":"f"}])"), "unsupported_parameter");
  EXPECT_EQ(reason(R"("verbosity":"high")"), "unsupported_parameter");
  EXPECT_EQ(reason(R"("modalities":["text","audio"])"), "unsupported_parameter");
  EXPECT_EQ(reason(R"("background":true)"), "unsupported_parameter");
  EXPECT_EQ(reason(R"("reasoning_effort":"loud")"), "invalid_value");
}

TEST(NeutralValuesTest, SeedMinusOneAsksForNoSeed) {
  const Json body =
      boost::json::parse(R"({"model":"m","prompt":"x","seed":-1,"logprobs":false,"stop":""})");
  const auto call = ParseGeneration(Dialect::kText, body, {});
  ASSERT_TRUE(call.ok()) << call.status();
  EXPECT_FALSE(call->requests[0].sampling.seed.has_value());
  EXPECT_EQ(call->logprobs, -1);
  EXPECT_TRUE(call->requests[0].sampling.stop.empty());
}

TEST(NeutralValuesTest, EachNameStandsOnce) {
  std::set<std::string_view> names;
  for (const NeutralField& field : NeutralFields())
    EXPECT_TRUE(names.insert(field.name).second) << field.name;
}

}  // namespace
}  // namespace tutti::protocol
