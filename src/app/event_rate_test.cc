// Throughput of the parts between the device and MQTT clients: chats over sockets of the embedded
// listener, with the real scheduler, dialogs and store, on a device with a fixed time per step.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "amount.h"
#include "api/caller.h"
#include "app/store.h"
#include "app/testing/no_lines.h"
#include "app/testing/timed_model.h"
#include "server/mqtt/chat/profile.h"
#include "server/mqtt/chat/testing/profile_fixture.h"
#include "server/mqtt/listener/listener.h"
#include "server/mqtt/listener/testing/fake_authenticator.h"
#include "server/mqtt/listener/testing/socket_client.h"
#include "temp_folder.h"

namespace tutti::app {
namespace {

using mqtt::listener::testing::SocketClient;
using std::chrono::milliseconds;

constexpr int kUsers = 48;
// Longer than deltas are gathered (30 ms), so that each token is an event.
constexpr Duration kTokenTime = milliseconds(32);
constexpr double kAimed = 20'000;         // events a second
constexpr double kGuarded = kAimed / 10;  // of any machine

std::string UserName(int i) { return "u" + std::to_string(i); }

// A user with one connection and several dialogs, and the received events, by topic.
struct User {
  struct Dialog {
    std::string spoken, answer;  // by its deltas; by its final
    int finals = 0;
  };
  std::unique_ptr<SocketClient> client;
  std::map<std::string, Dialog> dialogs;
  int spoke = 0, events = 0, ended = 0, failed = 0;

  // Takes what has come, and acknowledges it.
  void Take() {
    while (const auto packet = client->NextPacket(0)) {
      const auto* message = std::get_if<mqtt::Publish>(&*packet);
      if (message == nullptr) continue;  // the acknowledgement of a question
      if (message->qos == 1) client->Send(mqtt::Puback{.packet_id = message->packet_id});
      ++events;
      const mqtt::chat::testing::Event event(message->payload);
      const std::string type = event.Text("type");
      Dialog& dialog = dialogs[message->topic];
      if (type == "response.output_text.delta") {
        if (dialog.spoken.empty()) ++spoke;
        dialog.spoken += event.Text("delta");
      } else if (event.Has("response") && !event.Answer().empty()) {
        if (++dialog.finals == 1) ++ended;
        dialog.answer = event.Answer();
      } else if (type == "error" || type == "response.failed") {
        ADD_FAILURE() << message->payload.substr(0, 300);
        ++failed;
      }
    }
  }
};

class EventRateTest : public ::testing::Test {
 protected:
  void Serve(int sessions_per_user) {
    const int streams = kUsers * sessions_per_user;
    engine::EngineOptions options;
    options.scheduler.max_num_seqs = streams;
    options.queue.requests = streams;
    model_ =
        std::make_unique<testing::TimedModel>("timed", testing::TimedLimits(streams * 32, streams),
                                              options, clock_, [](const engine::StepPlan&) {
                                                std::this_thread::sleep_for(kTokenTime);
                                                return kTokenTime;
                                              });
    model_->engine->Start();
    gateway_.AddModel(model_->served);
    ASSERT_TRUE(profile_->Subscribe().ok());
    ASSERT_TRUE(listener_.Start().ok());
  }
  ~EventRateTest() override {
    listener_.Stop();
    if (model_) model_->engine->Drain(clock_.Now());
  }

  static std::function<int64_t()> Unix() {
    return [] { return int64_t{1'000'000}; };
  }
  static mqtt::listener::ListenerOptions AnyPort() {
    mqtt::listener::ListenerOptions options;
    options.port = 0;
    return options;
  }
  mqtt::chat::ProfileOptions Node() {
    mqtt::chat::ProfileOptions options;
    options.node = "n";
    return options;
  }

  SteadyClock clock_;
  support::TempFolder folder_;
  std::unique_ptr<testing::TimedModel> model_;
  gateway::Gateway gateway_{{}, clock_};
  const std::vector<store::Migration> tables_ = StoreTables();
  std::unique_ptr<store::Store> store_ =
      store::Store::Open({.folder = folder_.path()}, tables_).value();
  responses::Responses responses_{{}, gateway_, *store_, clock_, Unix()};
  sessions::Sessions sessions_{{}, gateway_, *store_, responses_, clock_, Unix()};
  mqtt::listener::testing::FakeAuthenticator authenticator_;
  mqtt::listener::Listener listener_{AnyPort(), {&authenticator_, nullptr, &clock_}};
  Logger log_{LogLevel::kError, std::make_shared<testing::NoLines>()};
  std::unique_ptr<mqtt::chat::Profile> profile_ =
      mqtt::chat::Profile::Make(
          Node(), {.port = listener_,
                   .sessions = sessions_,
                   .responses = responses_,
                   .inference = gateway_,
                   .clock = clock_,
                   .unix_ms = [] { return int64_t{1'000'000'000}; },
                   .log = log_,
                   .admit = nullptr,
                   .caller_of =
                       [](const std::string&, const std::string& tenant) {
                         return Result<api::CallerRef>(
                             std::make_shared<const api::Caller>(api::Caller{.tenant = tenant}));
                       }})
          .value();
};

TEST_F(EventRateTest, TwentyThousandEventsASecondLoseNoFinal) {
  // No more than a client may have unacknowledged (20).
  const int sessions = support::Amount(15, 1), tokens = support::Amount(150, 20);
  Serve(sessions);
  std::vector<User> users(kUsers);
  for (int i = 0; i < kUsers; ++i) {
    users[i].client = std::make_unique<SocketClient>(listener_.port(), mqtt::Version::k5);
    ASSERT_EQ(users[i].client->Connect(UserName(i), "c" + UserName(i)), mqtt::ReasonCode::kSuccess);
    users[i].client->Subscribe("llm/v1/" + UserName(i) + "/+/out");
  }
  for (int i = 0; i < kUsers; ++i) {
    for (int n = 0; n < sessions; ++n) {
      users[i].client->Send(mqtt::Publish{
          .topic = "llm/v1/" + UserName(i) + "/s" + std::to_string(n) + "/in",
          .payload = R"({"type":"message","id":"m","input":"hello","ignore_eos":true,)"
                     R"("max_output_tokens":)" +
                     std::to_string(tokens) + "}",
          .qos = 1,
          .packet_id = static_cast<uint16_t>(n + 1)});
    }
  }

  const auto sum = [&users](int User::*what) {
    int all = 0;
    for (const User& user : users) all += user.*what;
    return all;
  };
  const int streams = kUsers * sessions;
  std::vector<pollfd> sockets;
  for (User& user : users)
    sockets.push_back({static_cast<mqtt::listener::testing::TcpWire&>(user.client->wire())
                           .socket()
                           .native_handle(),
                       POLLIN, 0});
  // Counted from when all are being answered to the first that has ended.
  TimePoint all_speak{}, first_end{};
  int before = 0, after = 0;
  const TimePoint end = clock_.Now() + std::chrono::seconds(60);
  while (sum(&User::ended) < streams && sum(&User::failed) == 0 && clock_.Now() < end) {
    poll(sockets.data(), sockets.size(), 100);
    for (size_t i = 0; i < users.size(); ++i)
      if (sockets[i].revents != 0) users[i].Take();
    if (all_speak == TimePoint{} && sum(&User::spoke) == streams) {
      all_speak = clock_.Now();
      before = sum(&User::events);
    }
    if (first_end == TimePoint{} && sum(&User::ended) > 0) {
      first_end = clock_.Now();
      after = sum(&User::events);
    }
  }
  std::this_thread::sleep_for(milliseconds(200));
  int complete = 0;
  for (User& user : users) {
    user.Take();  // nothing comes behind a final
    EXPECT_EQ(user.failed, 0);
    ASSERT_EQ(user.dialogs.size(), static_cast<size_t>(sessions));
    for (const auto& [topic, dialog] : user.dialogs) {
      EXPECT_EQ(dialog.finals, 1) << topic;
      complete += dialog.spoken == dialog.answer;
    }
  }
  ASSERT_LT(all_speak, first_end) << "answers too short to be measured";
  const double rate = (after - before) / ToSeconds(first_end - all_speak);
  std::printf("%d streams: %.0f events/s in %.2f s; %d heard whole by their deltas\n", streams,
              rate, ToSeconds(first_end - all_speak), complete);
  if (!support::ShortRun()) {
    EXPECT_GT(rate, kGuarded);
  }
}

}  // namespace
}  // namespace tutti::app
