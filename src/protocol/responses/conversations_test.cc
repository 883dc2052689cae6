#include "protocol/responses/conversations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "protocol/error.h"

namespace tutti::protocol {
namespace {

Json ReadJson(const std::string& text) {
  const Result<JsonDocument> document = ParseJson(text);
  EXPECT_TRUE(document.ok()) << document.status() << ": " << text;
  return document.ok() ? Json(document->root()) : Json();
}

std::string Items(size_t count) {
  std::string list;
  for (size_t i = 0; i < count; ++i)
    list += std::string(i > 0 ? "," : "") + R"({"role":"user","content":"x"})";
  return "{\"items\":[" + list + "]}";
}

TEST(Conversations, AConversationIsMadeOfNothingOrWithItemsAndMetadata) {
  const ConversationCreate none = ParseConversationCreate(ReadJson("{}"), {}).value();
  EXPECT_TRUE(none.items.empty() && none.metadata.empty());
  EXPECT_TRUE(ParseConversationCreate(ReadJson(R"({"items":null,"metadata":null})"), {}).ok());
  EXPECT_TRUE(ParseConversationCreate(ReadJson(R"({"items":[]})"), {}).ok());
  const ConversationCreate create =
      ParseConversationCreate(
          ReadJson(
              R"({"metadata":{"a":"b"},"items":[{"type":"message","role":"user","content":"Hi"},
                   {"role":"assistant","content":"Ho"}],"x":1})"),
          {})
          .value();
  EXPECT_EQ(create.metadata, (Metadata{{"a", "b"}}));
  EXPECT_EQ(create.items,
            (std::vector<InputItem>{{api::Role::kUser, "Hi"}, {api::Role::kAssistant, "Ho"}}));
  EXPECT_EQ(create.ignored, std::vector<std::string>{"x"});
}

TEST(Conversations, AtMostTwentyItemsComeAtOnce) {
  EXPECT_EQ(ParseConversationCreate(ReadJson(Items(20)), {})->items.size(), 20u);
  EXPECT_EQ(ParseConversationCreate(ReadJson(Items(21)), {}).status().param(), "items");
  EXPECT_EQ(ParseItemsCreate(ReadJson(Items(20)), {})->items.size(), 20u);
  EXPECT_EQ(ParseItemsCreate(ReadJson(Items(21)), {}).status().param(), "items");
  EXPECT_EQ(ParseItemsCreate(ReadJson(Items(0)), {}).status().param(), "items");
  EXPECT_EQ(ParseItemsCreate(ReadJson("{}"), {}).status().reason(), "missing_required_parameter");
}

TEST(Conversations, AFaultyItemIsNamed) {
  const Status status =
      ParseItemsCreate(
          ReadJson(
              R"({"items":[{"role":"user","content":"x"},{"type":"function_call","name":"f"}]})"),
          {})
          .status();
  EXPECT_EQ(status.reason(), "missing_required_parameter");
  EXPECT_EQ(status.param(), "items[1].call_id");
}

TEST(Conversations, CallsAndTheirOutputsAreItems) {
  const ItemsCreate create =
      ParseItemsCreate(
          ReadJson(
              R"({"items":[{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},)"
              R"({"type":"function_call_output","call_id":"c","output":"42"}]})"),
          {})
          .value();
  ASSERT_EQ(create.items.size(), 2u);
  EXPECT_EQ(create.items[0].call, (api::ToolCall{"c", "f", "{}"}));
  EXPECT_EQ(create.items[1].tool_call_id, "c");
  EXPECT_EQ(ItemIdPrefix(MessageOf(create.items[0])), "fc_");
  EXPECT_EQ(ItemIdPrefix(MessageOf(create.items[1])), "fco_");
  EXPECT_EQ(ItemJson({.id = "fc_1",
                      .role = api::Role::kAssistant,
                      .text = {},
                      .incomplete = true,
                      .call = create.items[0].call}),
            R"({"id":"fc_1","type":"function_call","status":"incomplete","arguments":"{}",)"
            R"("call_id":"c","name":"f"})");
  EXPECT_EQ(ItemJson({.id = "fco_1", .role = api::Role::kTool, .text = "42", .tool_call_id = "c"}),
            R"({"id":"fco_1","type":"function_call_output","status":"completed","call_id":"c",)"
            R"("output":"42"})");
}

TEST(Conversations, ReasoningIsAnItem) {
  const ItemsCreate create =
      ParseItemsCreate(
          ReadJson(R"({"items":[{"type":"reasoning","id":"rs_7","status":"completed","summary":[],)"
                   R"("content":[{"type":"reasoning_text","text":"Why?"}]},)"
                   R"({"role":"assistant","content":"So."}]})"),
          {.strict = true})
          .value();
  ASSERT_EQ(create.items.size(), 2u);
  EXPECT_EQ(create.items[0].reasoning, "Why?");
  EXPECT_EQ(create.items[0].text, "");
  EXPECT_EQ(create.items[1].reasoning, "");
  EXPECT_EQ(ItemIdPrefix(MessageOf(create.items[0])), "rs_");
  EXPECT_EQ(ItemIdPrefix(MessageOf(create.items[1])), "msg_");
  EXPECT_EQ(ItemJson({.id = "rs_1",
                      .role = api::Role::kAssistant,
                      .text = {},
                      .incomplete = true,
                      .reasoning = "Why?"}),
            R"({"id":"rs_1","type":"reasoning","status":"incomplete","summary":[],)"
            R"("content":[{"type":"reasoning_text","text":"Why?"}]})");
}

TEST(Conversations, AnUpdateNeedsMetadata) {
  EXPECT_EQ(ParseConversationUpdate(ReadJson(R"({"metadata":{"k":"v"}})"), {})->metadata,
            (Metadata{{"k", "v"}}));
  EXPECT_EQ(ParseConversationUpdate(ReadJson("{}"), {}).status().param(), "metadata");
  EXPECT_EQ(ParseConversationUpdate(ReadJson(R"({"metadata":{"k":5}})"), {}).status().param(),
            "metadata.k");
}

TEST(Conversations, AForkMayNameAVersionAndItsOwnMetadata) {
  const ConversationFork plain = ParseConversationFork(ReadJson("{}"), {}).value();
  EXPECT_FALSE(plain.version.has_value() || plain.metadata.has_value());
  const ConversationFork fork =
      ParseConversationFork(ReadJson(R"({"version":3,"metadata":{}})"), {}).value();
  EXPECT_EQ(fork.version, 3);
  EXPECT_EQ(fork.metadata, Metadata());
  const Status negative = ParseConversationFork(ReadJson(R"({"version":-1})"), {}).status();
  EXPECT_EQ(negative.param(), "version");
  // Regression: the message named a bound that is refused.
  EXPECT_THAT(negative.message(), ::testing::HasSubstr("a 64-bit integer from 0 on"));
  EXPECT_EQ(ParseConversationFork(ReadJson(R"({"before_item":"msg_1"})"), {})->before_item,
            "msg_1");
  EXPECT_EQ(ParseConversationFork(ReadJson(R"({"before_item":"msg_1","version":1})"), {})
                .status()
                .param(),
            "before_item");
}

TEST(EntityTag, AVersionComesBackFromItsTag) {
  for (const int64_t version :
       {int64_t{0}, int64_t{9}, int64_t{17}, std::numeric_limits<int64_t>::max()}) {
    EXPECT_EQ(ParseIfMatch(EntityTag(version)).value(), version);
  }
  EXPECT_EQ(EntityTag(17), "\"v17\"");
  EXPECT_EQ(ParseIfMatch(" \t\"v17\" ").value(), 17);
  EXPECT_FALSE(ParseIfMatch("*")->has_value());
}

TEST(EntityTag, WhatIsNoTagOfOursIsRefused) {
  for (const char* field :
       {"", "v17", "\"17\"", "W/\"v17\"", "\"v\"", "\"v-1\"", "\"v-0\"", "\"v01\"", "\"v1 \"",
        "\"v1\", \"v2\"", "\"v9223372036854775808\"", "\"v+1\"", "\"v1", "v1\"", "**"}) {
    const Status status = ParseIfMatch(field).status();
    EXPECT_EQ(status.reason(), "invalid_value") << field;
    EXPECT_EQ(status.param(), "If-Match");
  }
}

TEST(ConversationJson, HasTheDocumentedShapeAndAVersion) {
  ConversationView view{"conv_1", 1700000000, 17, {{"topic", "demo"}}, "", 0};
  EXPECT_EQ(ConversationJson(view),
            R"({"id":"conv_1","object":"conversation","created_at":1700000000,)"
            R"("metadata":{"topic":"demo"},"version":17})");
  view.parent = "conv_0";
  view.parent_version = 16;
  EXPECT_TRUE(
      ConversationJson(view).ends_with(R"("version":17,"parent":{"id":"conv_0","version":16}})"));
}

TEST(ItemJson, IsAMessageInTheFormOfItsRole) {
  EXPECT_EQ(ItemJson({"msg_1", api::Role::kUser, "Hi", false}),
            R"({"id":"msg_1","type":"message","role":"user","status":"completed",)"
            R"("content":[{"type":"input_text","text":"Hi"}]})");
  EXPECT_EQ(ItemJson({"msg_2", api::Role::kAssistant, "Ho", true}),
            R"({"id":"msg_2","type":"message","role":"assistant","status":"incomplete",)"
            R"("content":[{"type":"output_text","text":"Ho","annotations":[],"logprobs":[]}]})");
}

// A client may send back what it was given.
TEST(ItemJson, IsReadAgainAsTheSameItem) {
  for (const auto role : {api::Role::kSystem, api::Role::kUser, api::Role::kAssistant}) {
    const std::string item = ItemJson({"msg_1", role, "a \"b\"\n", false});
    ParseOptions strict;
    strict.strict = true;
    const Result<ItemsCreate> read =
        ParseItemsCreate(ReadJson("{\"items\":[" + item + "]}"), strict);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(read->items, (std::vector<InputItem>{{role, "a \"b\"\n"}}));
  }
}

TEST(ItemListJson, NamesItsFirstAndItsLast) {
  const std::vector<ItemView> items = {{"msg_1", api::Role::kUser, "a", false},
                                       {"msg_2", api::Role::kAssistant, "b", false}};
  EXPECT_EQ(ItemListJson(items, true), R"({"object":"list","data":[)" + ItemJson(items[0]) + "," +
                                           ItemJson(items[1]) +
                                           R"(],"first_id":"msg_1","last_id":"msg_2",)"
                                           R"("has_more":true})");
  EXPECT_EQ(ItemListJson({}, false),
            R"({"object":"list","data":[],"first_id":"","last_id":"","has_more":false})");
}

TEST(DeletedJson, NamesWhatWasDeleted) {
  EXPECT_EQ(DeletedJson("conv_1", "conversation"),
            R"({"id":"conv_1","object":"conversation.deleted","deleted":true})");
  EXPECT_EQ(DeletedJson("resp_1", "response"),
            R"({"id":"resp_1","object":"response.deleted","deleted":true})");
}

}  // namespace
}  // namespace tutti::protocol
