// Two hundred sessions of fifty rapid turns each, with random policies, cancels and failures,
// compared with a simple model of the possible dialogs; all from one seed except the timing.
#include <gtest/gtest.h>

#include <map>

#include "base/random.h"
#include "services/sessions/testing/sessions_fixture.h"

namespace tutti::sessions {
namespace {

using protocol::ResponseStatus;
using support::Eventually;

class SessionsModelTest : public testing::SessionsFixture {
 protected:
  struct Sent {
    std::string text;
    BusyPolicy policy;
    Acceptance acceptance;
    bool cancelled = false;  // by its sender
  };

  // The items that a turn leaves in its dialog, by the end of its response.
  static void CheckSession(const std::vector<Sent>& sent, const std::vector<Item>& items) {
    std::map<int64_t, std::vector<const Item*>> turns;
    for (const Item& item : items) turns[item.turn].push_back(&item);
    size_t kept = 0;
    for (const Sent& each : sent) {
      const protocol::ResponseState end = each.acceptance.response->State();
      const auto found = turns.find(each.acceptance.turn);
      const bool answered = end.status == ResponseStatus::kCompleted;
      if (answered) {
        EXPECT_EQ(end.text, "[" + each.text + "]");
        ASSERT_NE(found, turns.end()) << each.text;
      }
      if (end.status == ResponseStatus::kFailed || each.cancelled) {
        EXPECT_TRUE(answered || found == turns.end()) << each.text;
      }
      if (found == turns.end()) continue;
      ++kept;
      EXPECT_EQ(found->second[0]->role, api::Role::kUser);
      EXPECT_EQ(found->second[0]->content, each.text);
      if (end.incomplete_reason == responses::kSteered && end.text.empty()) {
        ASSERT_EQ(found->second.size(), 1u) << "a question that was not answered";
        continue;
      }
      ASSERT_EQ(found->second.size(), 2u);
      EXPECT_EQ(found->second[1]->role, api::Role::kAssistant);
      EXPECT_EQ(found->second[1]->content, end.text);
      EXPECT_EQ(found->second[1]->incomplete, !answered) << "an interrupted answer says so";
    }
    EXPECT_EQ(kept, turns.size()) << "a turn that nobody sent";
    for (size_t i = 0; i < items.size(); ++i) {
      if (items[i].role != api::Role::kAssistant) continue;
      ASSERT_GT(i, 0u);
      EXPECT_EQ(items[i - 1].role, api::Role::kUser);
    }
  }
};

TEST_F(SessionsModelTest, EveryDialogIsWhatItsTurnsMadeOfIt) {
  constexpr int kSessions = 200, kTurns = 50;
  options_.memory.per_owner = 10'000;
  session_options_.queue.waiting = 64;
  session_options_.window.limit = 1 << 20;
  Restart();
  inference_->keeps = false;
  std::mutex mutex;
  std::map<std::string, std::string> broken;  // malformed prompts, by last message
  inference_->script = [&](const api::GenerateRequest& request) {
    const auto& messages = std::get<api::ChatPrompt>(request.prompt).messages;
    bool alternates = messages.back().role == api::Role::kUser;
    for (size_t i = 0; i < messages.size(); ++i) {
      const bool answer = messages[i].role == api::Role::kAssistant;
      alternates = alternates && (!answer || (i > 0 && messages[i - 1].role == api::Role::kUser));
      // The session of a text, which begins with its number.
      const auto session = [](const std::string& text) {
        return text.substr(0, text.find(':')).substr(text[0] == '[' ? 1 : 0);
      };
      if (!messages[i].content.empty() && messages[i].content.find(':') != std::string::npos &&
          session(messages[i].content) != session(messages.back().content))
        alternates = false;
    }
    responses::testing::Script script = responses::testing::EchoScript(request);
    if (messages.back().content.find("fails") != std::string::npos)
      script.end = Unavailable("overloaded", "as the test wants");
    const std::lock_guard lock(mutex);
    if (!alternates) broken[messages.back().content] = "";
    return script;
  };
  inference_->Run();
  Random random(20261122);
  std::vector<std::vector<Sent>> sent(kSessions);
  std::vector<std::pair<size_t, std::unique_ptr<Told>>> told;
  // Ten turns of each session at once: the store queues some thousands.
  const auto collect = [&] {
    for (auto& [index, call] : told) {
      const Result<Acceptance> acceptance = call->Get();
      Sent& each = sent[index / kTurns][index % kTurns];
      if (!acceptance.ok()) {
        EXPECT_EQ(acceptance.status().reason(), "conversation_busy");
        EXPECT_EQ(each.policy, BusyPolicy::kReject);
        continue;
      }
      if (each.acceptance.response != nullptr) {
        EXPECT_TRUE(acceptance->repeated) << "one turn for one id";
        EXPECT_EQ(acceptance->response_id, each.acceptance.response_id);
      }
      if (acceptance->response != nullptr) each.acceptance = *acceptance;
    }
    told.clear();
  };
  for (int turn = 0; turn < kTurns; ++turn) {
    for (size_t s = 0; s < kSessions; ++s) {
      const double kind = random.Uniform();
      const BusyPolicy policy = kind < 0.75   ? BusyPolicy::kEnqueue
                                : kind < 0.82 ? BusyPolicy::kInterrupt
                                : kind < 0.88 ? BusyPolicy::kRollback
                                : kind < 0.94 ? BusyPolicy::kSteer
                                              : BusyPolicy::kReject;
      const std::string id = "m" + std::to_string(turn);
      std::string text = std::to_string(s) + ":" + std::to_string(turn);
      if (random.Chance(0.1)) text += " fails";
      sent[s].push_back({text, policy, {}, random.Chance(0.05)});
      const SessionKey key = Key("s" + std::to_string(s));
      const int copies = random.Chance(0.1) ? 2 : 1;  // a client that sends it again
      for (int copy = 0; copy < copies; ++copy) {
        told.emplace_back(s * kTurns + static_cast<size_t>(turn), std::make_unique<Told>());
        sessions_->Submit(key, UserMessage(text, id, policy), told.back().second->done());
      }
      if (sent[s].back().cancelled) sessions_->Cancel(key, id, [](const Status&) {});
    }
    if (turn % 10 == 9) collect();
  }
  for (size_t s = 0; s < kSessions; ++s) {
    std::erase_if(sent[s], [](const Sent& each) { return each.acceptance.response == nullptr; });
    int64_t last = 0;
    for (const Sent& each : sent[s]) {
      ASSERT_TRUE(Ended(each.acceptance.response));
      EXPECT_GT(each.acceptance.turn, last) << "numbers are in the order of acceptance";
      last = each.acceptance.turn;
    }
  }
  Settle();
  EXPECT_TRUE(broken.empty()) << broken.begin()->first;
  const responses::HoldTimes& held = sessions_->hold_times();
  RecordProperty("sections", std::to_string(held.count()));
  RecordProperty("held_p99_us", std::to_string(held.Quantile(0.99).count() / 1000));
#ifndef TUTTI_SANITIZED  // a sanitizer's time is not the program's
  EXPECT_LE(held.Quantile(0.99), std::chrono::milliseconds(12));  // row U21
#endif
  RecordProperty("held_most_us", std::to_string(held.most().count() / 1000));
  for (const bool after_restart : {false, true}) {
    for (size_t s = 0; s < kSessions; ++s) {
      CheckSession(sent[s], History(Key("s" + std::to_string(s))).items);
      if (HasFatalFailure()) return;
    }
    if (!after_restart) Restart();
  }
  EXPECT_EQ(AskStore("SELECT count(*) FROM turn WHERE ended=0"), 0);
}

}  // namespace
}  // namespace tutti::sessions
