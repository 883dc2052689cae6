#include "client/mqtt/chat.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/mqtt/testing/scripted_server.h"

namespace tutti::client {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::ScriptedServer;

constexpr char kOut[] = "llm/v1/ada/s/out", kStatus[] = "llm/v1/server/+/status";

class MqttChatTest : public ::testing::Test {
 protected:
  void Begin() {
    options_.connection.session.login.client_id = "c";
    auto chat = MqttChat::Begin(
        options_, *MakeNativeDialect("llm/v1", "ada", "s"),
        {.clock = &server_.clock,
         .sleep = [this](Duration time) { server_.clock.Advance(time); },
         .dial = [this](const MqttOptions& options, const MqttChat::Stopped& stopped)
             -> Result<std::unique_ptr<MqttConnection>> {
           if (unreachable_-- > 0) return Unavailable("unreachable", "nobody is there");
           return MqttConnection::Over(server_.NewTransport(), options, server_.clock, stopped);
         }});
    ASSERT_TRUE(chat.ok()) << chat.status();
    chat_ = *std::move(chat);
  }
  Status Ask(const MqttChat::Stopped& stopped = nullptr) {
    MqttQuestion question;
    question.text = "hello";
    return chat_->Ask(
        question, {.on_text = [this](std::string_view text) { text_ += text; },
                   .on_hold = [this](Duration hold) { holds_.push_back(hold); },
                   .stopped = stopped,
                   .on_notice = [this](const std::string& notice) { notices_.push_back(notice); }});
  }
  // Publishes the server's retained status.
  void SendStatus(bool online) {
    server_.Send("llm/v1/server/n1/status",
                 online ? R"({"online":true,"models":["m"]})" : R"({"online":false})", "");
  }
  // Answers like the server.
  void Accept(const mqtt::Publish& message) {
    Send(message, R"({"type":"accepted","response_id":"resp_1","sequence_number":0})");
  }
  void Delta(const mqtt::Publish& message, int number, const std::string& text) {
    Send(message, R"({"type":"response.output_text.delta","delta":")" + text +
                      R"(","sequence_number":)" + std::to_string(number) + "}");
  }
  void End(const mqtt::Publish& message, int number, const std::string& text) {
    Send(message, R"({"type":"response.completed","sequence_number":)" + std::to_string(number) +
                      R"(,"response":{"output":[{"content":[{"text":")" + text + R"("}]}]}})");
  }
  void Send(const mqtt::Publish& message, const std::string& payload) {
    server_.Send(kOut, payload, *message.properties.correlation_data);
  }

  ScriptedServer server_;
  MqttChatOptions options_;
  std::unique_ptr<MqttChat> chat_;
  int unreachable_ = 0;  // number of next connections that fail
  std::string text_;
  std::vector<Duration> holds_;
  std::vector<std::string> notices_;
};

TEST_F(MqttChatTest, AnAnswerIsGivenAsItStreams) {
  server_.on_message = [this](const mqtt::Publish& message) {
    Accept(message);
    Delta(message, 1, "a");
    Delta(message, 2, "b");
    End(message, 3, "abc");
  };
  Begin();
  const Status status = Ask();
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(text_, "abc");
}

TEST_F(MqttChatTest, ItWaitsAsTheServerSaysAndSaysTheSameAgain) {
  int times = 0;
  server_.on_message = [&](const mqtt::Publish& message) {
    if (++times < 3) {
      Send(message, R"({"type":"error","code":"rate_limit_exceeded","message":"slow down",)"
                    R"("retry_after_ms":12000})");
      return;
    }
    Accept(message);
    End(message, 1, "at last");
  };
  Begin();
  ASSERT_TRUE(Ask().ok());
  EXPECT_EQ(text_, "at last");
  EXPECT_EQ(holds_, (std::vector<Duration>{seconds(12), seconds(12)}));
  ASSERT_EQ(server_.heard.size(), 3u);
  for (size_t i = 1; i < 3; ++i) {
    EXPECT_EQ(server_.heard[i].message.payload, server_.heard[0].message.payload);
    EXPECT_GE(server_.heard[i].at - server_.heard[i - 1].at, seconds(12));
    EXPECT_LE(server_.heard[i].at - server_.heard[i - 1].at, milliseconds(12'200));
  }
}

TEST_F(MqttChatTest, AWaitThatIsTooLongOrOtherErrorsAreTold) {
  std::string error;
  server_.on_message = [&](const mqtt::Publish& message) { Send(message, error); };
  Begin();
  error = R"({"type":"error","code":"rate_limit_exceeded","message":"x","retry_after_ms":9999999})";
  EXPECT_EQ(Ask().reason(), "rate_limit_exceeded");
  error = R"({"type":"error","code":"overloaded","message":"full","retry_after_ms":1})";
  EXPECT_EQ(Ask().message(), "full");
  EXPECT_EQ(server_.heard.size(), 2u);
}

TEST_F(MqttChatTest, ALossInTheMiddleIsRepairedByAskingForTheRest) {
  Begin();
  unreachable_ = 2;  // and the server is away for a while
  server_.on_message = [this](const mqtt::Publish& message) {
    if (message.topic.ends_with("/in")) {
      Accept(message);
      Delta(message, 1, "a");
      server_.HangUp();
      return;
    }
    EXPECT_THAT(message.payload, HasSubstr(R"("type":"resume")"));
    EXPECT_THAT(message.payload, HasSubstr(R"("starting_after":1)"));
    Delta(message, 2, "b");
    End(message, 3, "ab");
  };
  const Status status = Ask();
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(text_, "ab");
  EXPECT_EQ(server_.connections, 2);
}

TEST_F(MqttChatTest, AQuestionThatWasLostIsSaidAgainUnderTheSameId) {
  Begin();
  server_.on_message = [this](const mqtt::Publish& message) {
    if (server_.connections == 1) return server_.HangUp();
    Accept(message);
    End(message, 1, "ok");
  };
  ASSERT_TRUE(Ask().ok());
  ASSERT_EQ(server_.heard.size(), 2u);
  EXPECT_EQ(server_.heard[0].message.payload, server_.heard[1].message.payload);
}

TEST_F(MqttChatTest, AConnectionThatIdledAwayIsMadeAgain) {
  Begin();
  server_.HangUp();
  server_.on_message = [this](const mqtt::Publish& message) {
    Accept(message);
    End(message, 1, "ok");
  };
  EXPECT_TRUE(Ask().ok());
  EXPECT_EQ(text_, "ok");
}

TEST_F(MqttChatTest, AServerThatStaysAwayIsGivenUp) {
  Begin();
  unreachable_ = 1000;
  server_.HangUp();
  const TimePoint start = server_.clock.Now();
  EXPECT_EQ(Ask().reason(), "unreachable");
  EXPECT_LE(server_.clock.Now() - start, options_.reconnect);
  unreachable_ = 0;
  server_.on_message = [this](const mqtt::Publish& message) { End(message, 1, "ok"); };
  EXPECT_TRUE(Ask().ok()) << "and found again";
}

TEST_F(MqttChatTest, WhereNobodyListensThatIsSaidSoon) {
  Begin();
  server_.acknowledges_as = mqtt::ReasonCode::kNoMatchingSubscribers;
  const TimePoint start = server_.clock.Now();
  const Status status = Ask();
  EXPECT_THAT(status.message(), HasSubstr("no server listens to llm/v1/ada/s/in"));
  EXPECT_LE(server_.clock.Now() - start, options_.absence + seconds(1));
}

TEST_F(MqttChatTest, ABrokerThatSaysSoWronglyIsBorne) {
  Begin();
  server_.acknowledges_as = mqtt::ReasonCode::kNoMatchingSubscribers;
  server_.on_message = [this](const mqtt::Publish& message) {
    Accept(message);
    End(message, 1, "here");
  };
  EXPECT_TRUE(Ask().ok());
}

TEST_F(MqttChatTest, ASilentServerIsGivenUpAfterItsTime) {
  server_.on_message = [this](const mqtt::Publish& message) { Accept(message); };
  Begin();
  const TimePoint start = server_.clock.Now();
  EXPECT_THAT(Ask().message(), HasSubstr("silent for 600 s"));
  EXPECT_GE(server_.clock.Now() - start, options_.silence);
}

TEST_F(MqttChatTest, AServerThatLetsInAndNeverAnswersIsGivenUpToo) {
  options_.acceptance = options_.silence;
  server_.answers_pings = false;
  Begin();
  const TimePoint start = server_.clock.Now();
  EXPECT_THAT(Ask().message(), HasSubstr("silent for 600 s"));
  EXPECT_GT(server_.connections, 2) << "it was tried again";
  EXPECT_LE(server_.clock.Now() - start, options_.silence + seconds(60));
}

TEST_F(MqttChatTest, AQuestionThatNobodyTakesIsGivenUpSoonAndDoubtedSooner) {
  Begin();
  const TimePoint start = server_.clock.Now();
  EXPECT_THAT(Ask().message(), HasSubstr("no server has taken the question for 30 s"));
  EXPECT_LE(server_.clock.Now() - start, options_.acceptance + seconds(1));
  EXPECT_THAT(notices_, ElementsAre(HasSubstr("no server has taken the question yet")));
}

TEST_F(MqttChatTest, AServerThatSaysItIsOfflineIsAskedNothing) {
  server_.on_subscribe = [this](const mqtt::Subscribe& packet) {
    if (packet.subscriptions[0].filter == kStatus) SendStatus(false);
  };
  Begin();
  const TimePoint start = server_.clock.Now();
  EXPECT_THAT(Ask().message(), HasSubstr("the server is offline, as llm/v1/server/n1/status says"));
  EXPECT_LE(server_.clock.Now() - start, seconds(1));
  EXPECT_TRUE(server_.heard.empty());
  SendStatus(true);
  server_.on_message = [this](const mqtt::Publish& message) { End(message, 1, "back"); };
  EXPECT_TRUE(Ask().ok()) << "and found again";
  EXPECT_EQ(text_, "back");
}

TEST_F(MqttChatTest, AServerThatGoesOfflineBeforeItTakesTheQuestionEndsTheWait) {
  Begin();
  server_.on_message = [this](const mqtt::Publish&) { SendStatus(false); };
  const TimePoint start = server_.clock.Now();
  EXPECT_THAT(Ask().message(), HasSubstr("offline"));
  EXPECT_LE(server_.clock.Now() - start, options_.absence + seconds(1));
}

TEST_F(MqttChatTest, AServerThatWasStartedAnewWhileNobodyReadIsFoundAgain) {
  Begin();
  SendStatus(false);
  server_.HangUp();
  server_.on_message = [this](const mqtt::Publish& message) { End(message, 1, "ok"); };
  EXPECT_TRUE(Ask().ok());
}

TEST_F(MqttChatTest, AServerThatGoesOfflineInMidAnswerIsAwaited) {
  Begin();
  server_.on_message = [this](const mqtt::Publish& message) {
    Accept(message);
    SendStatus(false);
    SendStatus(true);
    End(message, 1, "ok");
  };
  EXPECT_TRUE(Ask().ok());
  EXPECT_THAT(notices_, ElementsAre(HasSubstr("gone offline")));
}

TEST_F(MqttChatTest, ALostConnectionIsTold) {
  Begin();
  server_.HangUp();
  server_.on_message = [this](const mqtt::Publish& message) { End(message, 1, "ok"); };
  EXPECT_TRUE(Ask().ok());
  EXPECT_THAT(notices_, ElementsAre(HasSubstr("the connection is lost")));
}

TEST_F(MqttChatTest, WhatIsSaidExpires) {
  Begin();
  server_.on_message = [this](const mqtt::Publish& message) { End(message, 1, "ok"); };
  ASSERT_TRUE(Ask().ok());
  EXPECT_TRUE(server_.heard.at(0).message.properties.message_expiry_s.has_value());
}

TEST_F(MqttChatTest, StoppingTellsTheServer) {
  Begin();
  bool stop = false;
  server_.on_message = [&](const mqtt::Publish& message) {
    if (message.topic.ends_with("/in")) {
      Accept(message);
      Delta(message, 1, "a");
      stop = true;
      return;
    }
    EXPECT_THAT(message.payload, HasSubstr(R"("type":"cancel")"));
    Send(message, R"({"type":"response.cancelled","sequence_number":2})");
  };
  EXPECT_EQ(Ask([&] { return stop; }).reason(), "cancelled");
  EXPECT_EQ(server_.heard.size(), 2u);
}

TEST_F(MqttChatTest, StoppingWhileItWaitsSaysNothingMore) {
  Begin();
  bool stop = false;
  server_.on_message = [&](const mqtt::Publish& message) {
    Send(message, R"({"type":"error","code":"rate_limit_exceeded","message":"x",)"
                  R"("retry_after_ms":60000})");
    stop = true;
  };
  const TimePoint start = server_.clock.Now();
  EXPECT_EQ(Ask([&] { return stop && server_.clock.Now() > start + seconds(1); }).reason(),
            "cancelled");
  EXPECT_LE(server_.clock.Now() - start, seconds(2));
  EXPECT_EQ(server_.heard.size(), 1u);
}

TEST_F(MqttChatTest, AHistoryIsTold) {
  Begin();
  server_.on_message = [this](const mqtt::Publish& message) {
    Send(message, R"({"type":"history","items":[{"role":"user","content":"hi","turn":1}]})");
  };
  const auto items = chat_->History();
  ASSERT_TRUE(items.ok()) << items.status();
  EXPECT_EQ(items->at(0).content, "hi");
}

TEST_F(MqttChatTest, AClearIsToldOnceItIsDoneOrWhyNot) {
  Begin();
  server_.on_message = [this](const mqtt::Publish& message) {
    Send(message, R"({"type":"cleared","session":"s"})");
  };
  EXPECT_TRUE(chat_->Clear().ok());
  EXPECT_THAT(server_.heard.back().message.payload, ::testing::HasSubstr(R"("type":"clear")"));
  server_.on_message = [this](const mqtt::Publish& message) {
    Send(message, R"({"type":"error","code":"storage_full","message":"no room"})");
  };
  EXPECT_EQ(chat_->Clear().reason(), "storage_full");
}

TEST(RandomNames, DifferAndMayBeLevelsOfTopics) {
  EXPECT_NE(RandomName("x-"), RandomName("x-"));
  EXPECT_TRUE(MakeNativeDialect("llm/v1", "ada", RandomName("chat-")).ok());
}

}  // namespace
}  // namespace tutti::client
