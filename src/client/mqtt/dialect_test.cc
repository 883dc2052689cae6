#include "client/mqtt/dialect.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tutti::client {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

mqtt::Publish Message(const std::string& topic, const std::string& payload,
                      const std::string& correlation = "",
                      std::vector<mqtt::UserProperty> properties = {}) {
  mqtt::Publish message;
  message.topic = topic;
  message.payload = payload;
  if (!correlation.empty()) message.properties.correlation_data = correlation;
  message.properties.user = std::move(properties);
  return message;
}

MqttQuestion Question() {
  MqttQuestion question;
  question.id = "m-1";
  question.text = "Say \"hi\"";
  return question;
}

// --- native ---

class NativeDialectTest : public ::testing::Test {
 protected:
  MqttReply::Update Take(const std::string& payload) {
    return reply_->Take(Message("llm/v1/ada/s/out", payload, "m-1"));
  }
  MqttReply::Update Delta(int first, int last, const std::string& text) {
    return Take(R"({"type":"response.output_text.delta","delta":")" + text +
                R"(","first_sequence_number":)" + std::to_string(first) + R"(,"sequence_number":)" +
                std::to_string(last) + "}");
  }
  MqttReply::Update Accepted() {
    return Take(R"({"type":"accepted","id":"m-1","response_id":"resp_1","sequence_number":0})");
  }
  MqttReply::Update End(int number, const std::string& text) {
    return Take(R"({"type":"response.completed","sequence_number":)" + std::to_string(number) +
                R"(,"response":{"output":[{"content":[{"text":")" + text + R"("}]}]}})");
  }

  std::unique_ptr<MqttDialect> dialect_ = *MakeNativeDialect("llm/v1", "ada", "s");
  std::unique_ptr<MqttReply> reply_ = dialect_->Reply(Question());
};

TEST_F(NativeDialectTest, AQuestionSaysOnlyWhatWasAskedFor) {
  const Result<MqttSend> said = dialect_->Ask(Question());
  ASSERT_TRUE(said.ok());
  EXPECT_EQ(said->topic, "llm/v1/ada/s/in");
  EXPECT_EQ(said->correlation, "m-1");
  EXPECT_EQ(said->payload, R"({"id":"m-1","type":"message","input":"Say \"hi\""})");
  MqttQuestion all = Question();
  all.system = "be brief", all.model = "m", all.temperature = 0, all.top_p = 0.5, all.top_k = 3;
  all.seed = 7, all.max_tokens = 9;
  const std::string payload = dialect_->Ask(all)->payload;
  for (const char* const part :
       {R"("instructions":"be brief")", R"("model":"m")", R"("temperature":0)", R"("top_k":3)",
        R"("seed":7)", R"("max_output_tokens":9)"}) {
    EXPECT_THAT(payload, HasSubstr(part));
  }
}

TEST_F(NativeDialectTest, DeltasAreShownAsTheyComeAndTheEndAddsWhatIsMissing) {
  EXPECT_FALSE(reply_->accepted());
  Accepted();
  EXPECT_TRUE(reply_->accepted());
  EXPECT_EQ(Delta(1, 1, "He").text, "He");
  EXPECT_EQ(Delta(2, 4, "llo").text, "llo");
  EXPECT_EQ(Delta(2, 4, "llo").text, "") << "seen";
  const MqttReply::Update end = End(5, "Hello!");
  EXPECT_TRUE(end.ended);
  EXPECT_TRUE(end.status.ok());
  EXPECT_EQ(end.text, "!");
}

TEST_F(NativeDialectTest, AGapIsAskedForOnceAndWhatFollowsWaits) {
  Accepted();
  Delta(1, 2, "ab");
  const MqttReply::Update gap = Delta(5, 6, "ef");
  EXPECT_EQ(gap.text, "");
  ASSERT_TRUE(gap.send.has_value());
  EXPECT_EQ(gap.send->topic, "llm/v1/ada/s/ctl");
  EXPECT_EQ(gap.send->payload,
            R"({"type":"resume","id":"m-1","response_id":"resp_1","starting_after":2})");
  EXPECT_FALSE(Delta(7, 7, "g").send.has_value()) << "once";
  EXPECT_EQ(Delta(3, 4, "cd").text, "cd");
  EXPECT_EQ(Delta(5, 6, "ef").text, "ef");
  EXPECT_EQ(End(8, "abcdefg").text, "g");
}

TEST_F(NativeDialectTest, TheEndSupersedesWhatWasShown) {
  Accepted();
  Delta(1, 1, "abc");
  EXPECT_EQ(End(9, "other").text, "\nother");
}

TEST_F(NativeDialectTest, ReasoningIsNoPartOfTheAnswer) {
  Accepted();
  const MqttReply::Update thought =
      Take(R"({"type":"response.reasoning_text.delta","delta":"hm","first_sequence_number":1,)"
           R"("sequence_number":3})");
  EXPECT_EQ(thought.text, "");
  EXPECT_EQ(thought.reasoning, "hm");
  EXPECT_FALSE(thought.send.has_value()) << "its numbers leave no gap";
  EXPECT_EQ(Delta(4, 4, "So").text, "So");
  const MqttReply::Update end =
      Take(R"({"type":"response.completed","sequence_number":5,"response":{"output":[)"
           R"({"type":"reasoning","content":[{"type":"reasoning_text","text":"hm"}]},)"
           R"({"type":"message","content":[{"type":"output_text","text":"So "}]},)"
           R"({"type":"function_call","arguments":"{}"},)"
           R"({"type":"message","content":[{"type":"output_text","text":"be it"}]}]}})");
  EXPECT_TRUE(end.ended);
  EXPECT_EQ(end.text, " be it");
}

TEST_F(NativeDialectTest, WhatIsAnothersTellsNothing) {
  const std::string accepted = R"({"type":"accepted","response_id":"r","sequence_number":0})";
  reply_->Take(Message("llm/v1/ada/s/out", accepted, "m-2"));
  reply_->Take(Message("llm/v1/ada/s/out", accepted));
  reply_->Take(Message("llm/v1/ada/t/out", accepted, "m-1"));
  for (const char* const rubbish : {"", "[]", "{", "7", R"({"type":7})"}) Take(rubbish);
  EXPECT_FALSE(reply_->accepted());
}

TEST_F(NativeDialectTest, AnErrorEndsTheTurnWithItsCodeAndItsWait) {
  const MqttReply::Update update =
      Take(R"({"type":"error","code":"rate_limit_exceeded","message":"slow down",
               "retry_after_ms":1200})");
  EXPECT_TRUE(update.ended);
  EXPECT_EQ(update.status.reason(), "rate_limit_exceeded");
  EXPECT_EQ(update.status.message(), "slow down");
  EXPECT_EQ(update.status.retry_after(), std::chrono::milliseconds(1200));
}

TEST_F(NativeDialectTest, EventsThatAreGoneAreNotTheEnd) {
  Accepted();
  EXPECT_FALSE(Take(R"({"type":"error","code":"expired","message":"no longer kept"})").ended);
  EXPECT_EQ(End(9, "whole").text, "whole");
}

TEST_F(NativeDialectTest, ATurnThatFailedHasItsErrorAndOneThatWasCancelledIsCancelled) {
  const MqttReply::Update failed =
      Take(R"({"type":"response.failed","sequence_number":3,"response":{"error":
               {"code":"context_length_exceeded","message":"too long"}}})");
  EXPECT_TRUE(failed.ended);
  EXPECT_EQ(failed.status.reason(), "context_length_exceeded");
  const auto other = dialect_->Reply(Question());
  const MqttReply::Update cancelled = other->Take(
      Message("llm/v1/ada/s/out", R"({"type":"response.cancelled","sequence_number":3})", "m-1"));
  EXPECT_EQ(cancelled.status.reason(), "cancelled");
}

TEST_F(NativeDialectTest, AfterALossTheQuestionIsSaidAgainOrTheRestAskedFor) {
  EXPECT_EQ(reply_->AfterLoss().topic, "llm/v1/ada/s/in");
  Accepted();
  Delta(1, 3, "abc");
  const MqttSend word = reply_->AfterLoss();
  EXPECT_EQ(word.topic, "llm/v1/ada/s/ctl");
  EXPECT_THAT(word.payload, HasSubstr(R"("starting_after":3)"));
  EXPECT_THAT(reply_->Cancel()->payload, HasSubstr(R"("type":"cancel")"));
}

TEST_F(NativeDialectTest, AHistoryIsReadAndAnothersIsNot) {
  const auto message = [](const std::string& id) {
    return Message("llm/v1/ada/s/out",
                   R"({"type":"history","items":[{"role":"user","content":"hi","turn":1},
                      {"role":"assistant","content":"ho","turn":1}]})",
                   id);
  };
  EXPECT_FALSE(dialect_->HistoryIn(message("h-2"), "h-1").has_value());
  const auto history = dialect_->HistoryIn(message("h-1"), "h-1");
  ASSERT_TRUE(history.has_value() && history->ok());
  ASSERT_EQ((*history)->size(), 2u);
  EXPECT_EQ((**history)[1].role + (**history)[1].content, "assistantho");
}

TEST(MqttDialects, NamesThatAreNoLevelOfATopicAreRefused) {
  for (const char* const name : {"", "a/b", "a+", "#", "ü", "a b"}) {
    EXPECT_FALSE(MakeNativeDialect("llm/v1", name, "s").ok()) << name;
    EXPECT_FALSE(MakeNativeDialect("llm/v1", "ada", name).ok()) << name;
    EXPECT_FALSE(MakeProjectDialect(name, "s", "c").ok()) << name;
  }
}

// --- project ---

class ProjectDialectTest : public ::testing::Test {
 protected:
  MqttReply::Update Take(const std::string& payload, const std::string& type,
                         const std::string& content_type = "application/json") {
    std::vector<mqtt::UserProperty> properties;
    if (!type.empty()) properties.emplace_back("type", type);
    mqtt::Publish message = Message("p/assistant_response/s/c/m-1", payload, "", properties);
    if (!content_type.empty()) message.properties.content_type = content_type;
    return reply_->Take(message);
  }

  std::unique_ptr<MqttDialect> dialect_ = *MakeProjectDialect("p", "s", "c");
  std::unique_ptr<MqttReply> reply_ = dialect_->Reply(Question());
};

TEST_F(ProjectDialectTest, AQuestionNamesWhereItsAnswerGoes) {
  const Result<MqttSend> said = dialect_->Ask(Question());
  ASSERT_TRUE(said.ok());
  EXPECT_EQ(said->topic, "p/user_input");
  EXPECT_THAT(said->payload, HasSubstr(R"("replyTopic":"p/assistant_response/s/c/m-1")"));
  EXPECT_EQ(dialect_->replies(), "p/assistant_response/s/c/+");
}

TEST_F(ProjectDialectTest, WhatAProjectCannotBeAskedIsRefused) {
  for (const int which : {0, 1, 2}) {
    MqttQuestion question = Question();
    if (which == 0) question.model = "m";
    if (which == 1) question.seed = 1;
    if (which == 2) question.top_k = 1;
    EXPECT_EQ(dialect_->Ask(question).status().reason(), "invalid_value");
  }
}

TEST_F(ProjectDialectTest, PlainTextIsTheAnswerWhateverItLooksLike) {
  const std::string text = R"({"final":false,"error":{"code":"x"}})";
  const MqttReply::Update update = Take(text, "reply", "text/plain; charset=utf-8");
  EXPECT_TRUE(update.ended);
  EXPECT_EQ(update.text, text);
}

TEST_F(ProjectDialectTest, JsonIsReadForItsText) {
  const MqttReply::Update update = Take(R"({"sessionId":"s","text":"hi","final":true})", "reply");
  EXPECT_TRUE(update.ended);
  EXPECT_EQ(update.text, "hi");
}

TEST_F(ProjectDialectTest, ChunksAreShownAndTheLastAddsWhatWasLost) {
  EXPECT_EQ(Take(R"({"index":0,"text":"a","final":false})", "chunk").text, "a");
  EXPECT_EQ(Take(R"({"index":2,"text":"c","final":false})", "chunk").text, "") << "1 is missing";
  const MqttReply::Update update = Take(R"({"index":3,"text":"abc","final":true})", "reply");
  EXPECT_EQ(update.text, "bc");
}

TEST_F(ProjectDialectTest, AnErrorIsNeverShownAsAnAnswer) {
  const std::string error =
      R"({"error":{"code":"rate_limit_exceeded","message":"slow","retry_after_ms":5}})";
  for (const char* const type : {"error", ""}) {
    const MqttReply::Update update = Take(error, type);
    EXPECT_TRUE(update.ended);
    EXPECT_EQ(update.text, "");
    EXPECT_EQ(update.status.reason(), "rate_limit_exceeded");
    EXPECT_EQ(update.status.retry_after(), std::chrono::milliseconds(5));
  }
  EXPECT_EQ(Take("rubbish", "error").status.reason(), "bad_response");
}

TEST_F(ProjectDialectTest, ClearingIsAcknowledged) {
  const MqttSend word = dialect_->Clear("v-1");
  EXPECT_EQ(word.topic, "p/clear");
  const mqtt::Publish ack =
      Message("p/assistant_response/s/c/v-1", R"({"type":"ack"})", "", {{"type", "ack"}});
  EXPECT_FALSE(dialect_->ClearedIn(ack, "v-2").has_value());
  EXPECT_TRUE(dialect_->ClearedIn(ack, "v-1")->ok());
}

}  // namespace
}  // namespace tutti::client
