// Chats over MQTT on the timing device: the real scheduler, gateway and dialogs over a runner whose
// step takes a scripted tenth of a second; an answer of 35 tokens is 3.5 s of service. Exact: what
// it proves is order, overlap and waiting, and nothing of speed. Prompts are prepared where they
// came in, or all by threads for that, one or twelve (row U23).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "api/caller.h"
#include "app/store.h"
#include "app/testing/no_lines.h"
#include "app/testing/timed_model.h"
#include "client/mqtt/dialect.h"
#include "server/mqtt/chat/profile.h"
#include "server/mqtt/chat/testing/scripted_port.h"
#include "waiting.h"

namespace tutti::app {
namespace {

using mqtt::chat::testing::Sent;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kStepTime = milliseconds(100);
constexpr int kAnswerTokens = 35;
constexpr Duration kService = kStepTime * kAnswerTokens;
Result<api::CallerRef> CallerOf(const std::string&, const std::string& tenant) {
  return std::make_shared<const api::Caller>(api::Caller{.tenant = tenant});
}

struct Prep {
  const char* name;
  gateway::GatewayOptions options;
};

class ChatTimingTest : public ::testing::TestWithParam<Prep> {
 protected:
  ChatTimingTest() {
    gateway_.AddModel(model_.served);
    sessions::SessionOptions options;
    options.dialogs = {.per_owner = 100'000, .per_tenant = 100'000};
    sessions_ = std::make_unique<sessions::Sessions>(options, gateway_, *store_, *responses_,
                                                     clock_, Unix());
    mqtt::chat::ProfileOptions profile;
    for (const char* const name : {"driving", "general"}) {
      mqtt::chat::ProjectSettings project;
      project.name = name;
      project.tenant = "t";
      project.reply_format = mqtt::chat::ReplyFormat::kJson;
      profile.projects.push_back(project);
    }
    profile.node = "n";
    profile_ =
        mqtt::chat::Profile::Make(profile, {.port = port_,
                                            .sessions = *sessions_,
                                            .responses = *responses_,
                                            .inference = gateway_,
                                            .clock = clock_,
                                            .unix_ms = [unix = Unix()] { return unix() * 1000; },
                                            .log = log_,
                                            .admit = nullptr,
                                            .caller_of = &CallerOf})
            .value();
    EXPECT_TRUE(profile_->Subscribe().ok());
  }

  std::function<int64_t()> Unix() {
    return [this] { return clock_.Now().time_since_epoch() / seconds(1) + 1'000'000; };
  }

  // A client of the library's says something; its reply comes on a topic of its own.
  struct SentMessage {
    std::unique_ptr<client::MqttReply> reply;
    TimePoint at;
    bool ended = false;
    TimePoint ended_at{};
    std::string text;
    Status status;
  };
  SentMessage SendMessage(const std::string& project, const std::string& session,
                          const std::string& text, int max_tokens = kAnswerTokens) {
    const auto dialect = *client::MakeProjectDialect(project, session, "c");
    client::MqttQuestion question;
    question.id = "q-" + std::to_string(++asked_);
    question.text = text;
    question.temperature = 0;
    question.max_tokens = max_tokens;
    const client::MqttSend said = *dialect->Ask(question);
    mqtt::Message message;
    message.topic = said.topic;
    message.payload = said.payload;
    message.qos = 1;
    port_.Deliver(message);
    Settle();
    return {dialect->Reply(question), clock_.Now(), false, {}, "", OkStatus()};
  }
  void Settle() {
    for (int i = 0; i < 8; ++i) {
      support::Call<int> barrier;
      responses_->strand()->Post([done = barrier.done()] { done(0); });
      barrier.Get();
      EXPECT_TRUE(store_->ReadNow([](store::Database&) { return OkStatus(); }).ok());
      while (gateway_.preparing() > 0) std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  }
  // Runs until no work is left.
  void Run() {
    Settle();
    while (true) {
      const bool stepped = model_.engine->RunOneStep();
      max_running_ = std::max(max_running_, model_.engine->stats().running);
      Settle();
      if (!stepped && model_.engine->stats().running == 0 &&
          model_.engine->stats().waiting_capacity == 0)
        return;
    }
  }
  // Reads what was published for it.
  void Read(SentMessage& asked) {
    for (const Sent& sent : port_.sent()) {
      mqtt::Publish message;
      message.topic = sent.message.topic;
      message.payload = sent.message.payload;
      message.properties.user = sent.message.user_properties;
      message.properties.content_type = sent.message.content_type;
      const client::MqttReply::Update update = asked.reply->Take(message);
      asked.text += update.text;
      if (!update.ended) continue;
      EXPECT_FALSE(asked.ended) << "one reply each";
      asked.ended = true;
      asked.ended_at = sent.at;
      asked.status = update.status;
    }
    EXPECT_TRUE(asked.ended);
    EXPECT_TRUE(asked.status.ok()) << asked.status;
  }

  ManualClock clock_;
  testing::TimedModel model_{
      "timed", testing::TimedLimits(1024, 64), {}, clock_, [this](const engine::StepPlan&) {
        clock_.Advance(kStepTime);
        return kStepTime;
      }};
  gateway::Gateway gateway_{GetParam().options, clock_};
  Logger log_{LogLevel::kError, std::make_shared<testing::NoLines>()};
  const std::vector<store::Migration> tables_ = StoreTables();
  std::unique_ptr<store::Store> store_ = store::Store::Open({}, tables_).value();
  std::unique_ptr<responses::Responses> responses_ = std::make_unique<responses::Responses>(
      responses::Responses::Options{}, gateway_, *store_, clock_, Unix());
  std::unique_ptr<sessions::Sessions> sessions_;
  mqtt::chat::testing::ScriptedPort port_{clock_};
  std::unique_ptr<mqtt::chat::Profile> profile_;
  int asked_ = 0, max_running_ = 0;
};

TEST_P(ChatTimingTest, TwoSessionsInTwoProjectsAreAnsweredTogether) {
  for (int repeat = 0; repeat < 20; ++repeat) {
    const std::string session = "s" + std::to_string(repeat);
    SentMessage a = SendMessage("driving", session, "left or right?");
    clock_.Advance(milliseconds(50));
    SentMessage b = SendMessage("general", session, "hello");
    Run();
    Read(a);
    Read(b);
    EXPECT_LE(a.ended_at - a.at, kService * 11 / 10);
    EXPECT_LE(b.ended_at - b.at, kService * 11 / 10);
    EXPECT_GE(a.ended_at - a.at, kService) << "the device takes its time";
    EXPECT_LE(std::chrono::abs(a.ended_at - b.ended_at), milliseconds(500));
    port_.Forget();
  }
}

TEST_P(ChatTimingTest, ThreeRapidMessagesOfOneSessionAreAnsweredInOrder) {
  for (int repeat = 0; repeat < 200; ++repeat) {
    const std::string session = "s" + std::to_string(repeat);
    std::vector<SentMessage> asked;
    for (const char* const text : {"msg1", "msg2", "msg3"}) {
      asked.push_back(SendMessage("driving", session, text, 3));
      clock_.Advance(milliseconds(100));
    }
    Run();
    for (SentMessage& each : asked) Read(each);
    ASSERT_LT(asked[0].ended_at, asked[1].ended_at);
    ASSERT_LT(asked[1].ended_at, asked[2].ended_at);
    port_.Forget();
  }
}

TEST_P(ChatTimingTest, EightOfTenClientsRunTogetherAndTwoWaitOneServiceTime) {
  std::vector<SentMessage> asked;
  for (int i = 0; i < 10; ++i)
    asked.push_back(SendMessage("driving", "test-session-" + std::to_string(i), "Hello!"));
  Run();
  int waited = 0;
  for (SentMessage& each : asked) {
    Read(each);
    const Duration took = each.ended_at - each.at;
    EXPECT_GE(took, kService);
    EXPECT_LE(took, kService * 2 + kStepTime * 2);
    if (took > kService + kStepTime * 2) {
      ++waited;
      EXPECT_GE(took, kService * 2);
    }
  }
  EXPECT_EQ(waited, 2);
  EXPECT_EQ(max_running_, 8);
}

// The last of them run after more than the 30 s that a request without a dialog may wait.
TEST_P(ChatTimingTest, AHundredClientsAreAllAnsweredByEightSequences) {
  std::vector<SentMessage> asked;
  for (int i = 0; i < 100; ++i)
    asked.push_back(SendMessage("general", "c" + std::to_string(i), "Hello " + std::to_string(i)));
  const TimePoint start = clock_.Now();
  Run();
  for (SentMessage& each : asked) Read(each);
  EXPECT_EQ(max_running_, 8);
  EXPECT_LE(clock_.Now() - start, kStepTime * (kAnswerTokens * 13 + 30))
      << "thirteen rounds of eight";
  EXPECT_THAT(model_.runner.violations(), ::testing::IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(
    , ChatTimingTest,
    ::testing::Values(Prep{"InPlace", {}},
                      Prep{"ByOneThread", {.prep = 1, .prep_threads = 1, .inline_prompt_bytes = 0}},
                      Prep{"ByTwelveThreads",
                           {.prep = 12, .prep_threads = 12, .inline_prompt_bytes = 0}}),
    [](const auto& each) { return std::string(each.param.name); });

}  // namespace
}  // namespace tutti::app
