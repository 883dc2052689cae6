// Tests the dialects of src/client against the profiles: each reads what the other writes, in every
// answer format of a project.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/mqtt/dialect.h"
#include "mqtt/packet.h"
#include "server/mqtt/chat/testing/profile_fixture.h"

namespace tutti::mqtt::chat {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

// The message as an MQTT 5 client receives it.
Publish Arrived(const Message& message) {
  Publish publish;
  publish.topic = message.topic;
  publish.payload = message.payload;
  publish.properties.content_type = message.content_type;
  publish.properties.correlation_data = message.correlation_data;
  publish.properties.user = message.user_properties;
  return publish;
}

class ClientTest : public testing::ProfileFixture {
 protected:
  // One turn of the client: the shown text and the final status.
  struct Turn {
    std::string text;
    int pieces = 0;
    bool ended = false;
    Status status;
  };
  Turn Ask(const client::MqttDialect& dialect, const client::MqttQuestion& question) {
    const auto said = dialect.Ask(question);
    EXPECT_TRUE(said.ok()) << said.status();
    const auto reply = dialect.Reply(question);
    Deliver(said->topic, said->payload, "", said->correlation);
    Work(milliseconds(40));
    Settle();
    Turn turn;
    // Requested repetitions are sent, and read after the messages that came before.
    for (size_t read = 0; read < port_.sent().size() && !turn.ended; ++read) {
      const client::MqttReply::Update update = reply->Take(Arrived(port_.sent()[read].message));
      turn.text += update.text;
      turn.pieces += !update.text.empty();
      turn.ended = update.ended;
      turn.status = update.status;
      if (update.send.has_value())
        Deliver(update.send->topic, update.send->payload, "", update.send->correlation);
    }
    return turn;
  }
  void AddProject(ReplyFormat format, bool stream) {
    ProjectSettings project;
    project.name = "p";
    project.reply_format = format;
    project.stream = stream;
    profile_options_.projects = {project};
    Again();
  }
  static client::MqttQuestion Question(const std::string& text, const std::string& id) {
    client::MqttQuestion question;
    question.text = text;
    question.id = id;
    return question;
  }
  const std::unique_ptr<client::MqttDialect> project_ = *client::MakeProjectDialect("p", "s", "c");
  const std::unique_ptr<client::MqttDialect> native_ =
      *client::MakeNativeDialect("llm/v1", "alice", "s");
};

TEST_F(ClientTest, AProjectsAnswerIsReadInEveryFormAndOnceInParts) {
  for (const auto& [format, stream] :
       {std::pair(ReplyFormat::kText, false), std::pair(ReplyFormat::kJson, false),
        std::pair(ReplyFormat::kJson, true)}) {
    AddProject(format, stream);
    const Turn turn = Ask(*project_, Question("hello", "m-1"));
    EXPECT_TRUE(turn.ended);
    EXPECT_TRUE(turn.status.ok()) << turn.status;
    EXPECT_THAT(turn.text, HasSubstr("hello"));
    EXPECT_EQ(turn.pieces > 1, stream);
    const Turn again = Ask(*project_, Question("hello", "m-1"));
    EXPECT_EQ(again.text, turn.text) << "the same request has the same answer";
  }
}

TEST_F(ClientTest, AProjectsErrorIsAnErrorAndItsWaitIsRead) {
  AddProject(ReplyFormat::kText, false);
  admit_ = [](const sessions::SessionKey&) {
    return ResourceExhausted("rate_limit_exceeded", "20 requests in 60 s")
        .WithRetryAfter(milliseconds(1500));
  };
  const Turn turn = Ask(*project_, Question("hello", "m-1"));
  EXPECT_TRUE(turn.ended);
  EXPECT_EQ(turn.text, "");
  EXPECT_EQ(turn.status.reason(), "rate_limit_exceeded");
  EXPECT_EQ(turn.status.retry_after(), milliseconds(1500));
}

TEST_F(ClientTest, EverythingThatAProjectCanBeAskedIsTaken) {
  profile_options_.strict = true;
  AddProject(ReplyFormat::kJson, false);
  client::MqttQuestion question = Question("hello", "m-1");
  question.system = "be brief", question.temperature = 0, question.top_p = 0.5;
  question.max_tokens = 9;
  EXPECT_TRUE(Ask(*project_, question).status.ok());
  const client::MqttSend clear = project_->Clear("v-1");
  Deliver(clear.topic, clear.payload);
  std::optional<Status> cleared;
  for (const testing::Sent& each : port_.sent()) {
    if (!cleared.has_value()) cleared = project_->ClearedIn(Arrived(each.message), "v-1");
  }
  ASSERT_TRUE(cleared.has_value());
  EXPECT_TRUE(cleared->ok()) << *cleared;
}

TEST_F(ClientTest, EverythingThatTheNativeProfileCanBeAskedIsTaken) {
  profile_options_.strict = true;
  Again();
  client::MqttQuestion question = Question("hello", "m-1");
  question.system = "be brief", question.temperature = 0.5, question.top_p = 0.5;
  question.top_k = 3, question.seed = 7, question.max_tokens = 9;
  const Turn turn = Ask(*native_, question);
  EXPECT_TRUE(turn.ended);
  EXPECT_TRUE(turn.status.ok()) << turn.status;
  const client::MqttSend history = *native_->AskHistory("h-1");
  Deliver(history.topic, history.payload, "", history.correlation);
  std::optional<Result<std::vector<client::MqttItem>>> items;
  for (const testing::Sent& each : port_.sent()) {
    if (!items.has_value()) items = native_->HistoryIn(Arrived(each.message), "h-1");
  }
  ASSERT_TRUE(items.has_value() && items->ok());
  ASSERT_EQ((*items)->size(), 2u);
  EXPECT_EQ((**items)[1].content, turn.text);
}

TEST_F(ClientTest, OfANativeAnswerWhoseDeltasAreLostNothingIsMissing) {
  int deltas = 0;
  port_.lose = [&](const Message&) { return ++deltas % 3 == 2; };
  for (int i = 0; i < 20; ++i) {
    const std::string id = "m-" + std::to_string(i);
    const Turn turn = Ask(*native_, Question("hello " + id, id));
    EXPECT_TRUE(turn.ended);
    EXPECT_TRUE(turn.status.ok()) << turn.status;
    EXPECT_EQ(turn.text.find('\n'), std::string::npos) << "shown once: " << turn.text;
    EXPECT_THAT(turn.text, HasSubstr(id));
    port_.Forget();
  }
  EXPECT_GT(deltas, 20);
}

}  // namespace
}  // namespace tutti::mqtt::chat
