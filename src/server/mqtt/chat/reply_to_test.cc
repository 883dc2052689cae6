#include <gtest/gtest.h>

#include "server/mqtt/chat/answering.h"

namespace tutti::mqtt::chat {
namespace {

TEST(ReplyToTest, WhatIsWrittenIsReadBack) {
  const std::string bytes("\x00\xff\"\\c", 5);
  for (const ReplyTo& each :
       {ReplyTo{"broker", true, "llm/v1/a/s/out", bytes, "", ""},
        ReplyTo{"listener", false, "p/assistant_response/s/\"c\"/r", "", "\"c\"", "r"}}) {
    const std::optional<ReplyTo> read = DecodeReplyTo(EncodeReplyTo(each));
    ASSERT_TRUE(read.has_value()) << EncodeReplyTo(each);
    EXPECT_EQ(read->server, each.server);
    EXPECT_EQ(read->native, each.native);
    EXPECT_EQ(read->topic, each.topic);
    EXPECT_EQ(read->correlation, each.correlation);
    EXPECT_EQ(read->client, each.client);
    EXPECT_EQ(read->request_id, each.request_id);
  }
}

TEST(ReplyToTest, CorrelationDataWithoutMeasureIsNotKept) {
  const ReplyTo large{"d", false, "t", std::string(4097, 'x'), "", ""};
  EXPECT_LT(EncodeReplyTo(large).size(), 100u);
  EXPECT_FALSE(DecodeReplyTo(EncodeReplyTo(large))->correlation.has_value());
}

TEST(ReplyToTest, TheOlderNameOfTheServerIsRead) {
  const auto read = DecodeReplyTo(R"({"door":"broker","native":true,"topic":"t"})");
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->server, "broker");
}

TEST(ReplyToTest, WhatAnotherWroteIsNone) {
  for (const char* const text : {"", "x", "[]", "{}", R"({"server":"d","topic":"t"})",
                                 R"({"server":1,"native":true,"topic":"t"})",
                                 R"({"server":"d","native":true,"topic":"t","correlation":"xyz"})",
                                 R"({"server":"d","native":true,"topic":"t","correlation":"0g"})"})
    EXPECT_FALSE(DecodeReplyTo(text).has_value()) << text;
}

}  // namespace
}  // namespace tutti::mqtt::chat
