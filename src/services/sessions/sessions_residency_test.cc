// Eviction of sessions from memory, and their lifetime in the store.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "services/sessions/testing/sessions_fixture.h"

namespace tutti::sessions {
namespace {

using support::Eventually;

using SessionsResidencyTest = testing::SessionsFixture;

TEST_F(SessionsResidencyTest, TheOldestIdleSessionIsUnloadedAndGoesOnWhereItWas) {
  session_options_.resident = 3;
  Restart();
  for (const char* session : {"a", "b", "c", "d", "e"}) Answer(Key(session), "u1");
  Settle();
  EXPECT_EQ(Counts().resident, 3u);
  EXPECT_EQ(Counts().idle, 3u);
  Answer(Key("a"), "u2");
  EXPECT_EQ(LastPrompt(), "u1 [u1] u2");
  EXPECT_EQ(Counts().resident, 3u);
}

TEST_F(SessionsResidencyTest, AnActiveSessionIsNeverUnloaded) {
  session_options_.resident = 2;
  Restart();
  std::vector<Acceptance> active;
  for (int i = 0; i < 6; ++i)
    active.push_back(Accepted(Key("s" + std::to_string(i)), UserMessage("u1")));
  Settle();
  EXPECT_EQ(Counts().resident, 6u);
  EXPECT_EQ(Counts().idle, 0u);
  StepAll();
  for (const Acceptance& each : active) EXPECT_EQ(each.response->State().text, "[u1]");
  Settle();
  EXPECT_EQ(Counts().resident, 2u);
}

TEST_F(SessionsResidencyTest, ExpiredSessionsAreGoneFromMemoryAndStore) {
  Answer(Key("old"), "u1");
  Pass(std::chrono::seconds(3000));
  Answer(Key("new"), "u1");
  const auto conversation = Ask<Result<Conversation>>(
      &Sessions::CreateConversation, "t", "", std::string("{}"), std::vector<api::ChatMessage>());
  ASSERT_TRUE(conversation.ok());
  Pass(std::chrono::seconds(590));  // 3,590 s after the old one's last use
  Settle();
  EXPECT_EQ(Counts().resident, 2u);
  Pass(std::chrono::seconds(310));
  EXPECT_TRUE(Eventually([&] { return Counts().resident == 1; }));
  Settle();
  EXPECT_EQ(AskStore("SELECT count(*) FROM dialog WHERE project<>''"), 1);
  EXPECT_EQ(AskStore("SELECT count(*) FROM item"), 2);
  Answer(Key("old"), "u2");
  EXPECT_EQ(LastPrompt(), "u2") << "it begins anew";
  Pass(std::chrono::seconds(4000));
  EXPECT_TRUE(Eventually([&] { return Counts().resident == 0; }));
  Settle();
  EXPECT_EQ(AskStore("SELECT count(*) FROM dialog"), 1) << "a conversation lives longer";
  Pass(std::chrono::hours(24 * 31));
  EXPECT_TRUE(Eventually([&] { return AskStore("SELECT count(*) FROM dialog") == 0; }));
}

TEST_F(SessionsResidencyTest, ASessionThatIsAnsweredDoesNotExpire) {
  const Acceptance slow = Accepted(Key(), UserMessage("u1"));
  Settle();
  Pass(std::chrono::hours(2));
  Settle();
  EXPECT_EQ(Counts().resident, 1u);
  StepAll();
  ASSERT_TRUE(Ended(slow.response));
  EXPECT_EQ(HistoryText(Key()), "u1 [u1]");
}

TEST_F(SessionsResidencyTest, TenThousandSessionsOfOneClientStayBoundedAndTouchNobodyElses) {
  session_options_.dialogs.per_owner = 50;
  Restart();
  inference_->Run();
  Acceptance others = Accepted(Key("s", "p", "other"), UserMessage("u1"));
  ASSERT_TRUE(Ended(others.response));
  std::vector<Told> told(10'000);
  size_t ended = 0;
  for (size_t i = 0; i < told.size(); ++i) {
    sessions_->Submit(Key("s" + std::to_string(i)), UserMessage("hello"), told[i].done());
    if (i % 32 != 31 && i + 1 < told.size()) continue;
    for (; ended <= i; ++ended) {
      const Result<Acceptance> accepted = told[ended].Get();
      ASSERT_TRUE(accepted.ok()) << accepted.status();
      ASSERT_TRUE(Ended(accepted->response));
    }
  }
  Settle();
  EXPECT_LE(AskStore("SELECT count(*) FROM dialog WHERE tenant='t'"), 50);
  EXPECT_LE(Counts().resident, 100u);
  EXPECT_LE(responses_->in_memory(), 1001u);
  EXPECT_EQ(HistoryText(Key("s", "p", "other")), "u1 [u1]");
  EXPECT_EQ(HistoryText(Key("s9999")), "hello [hello]");
}

TEST_F(SessionsResidencyTest, SessionsThatWaitForAnswersAreBoundedForEachTenant) {
  session_options_.active_per_tenant = 4;
  Restart();
  for (int i = 0; i < 4; ++i) Accepted(Key("s" + std::to_string(i)), UserMessage("u1"));
  EXPECT_EQ(Submit(Key("s4"), UserMessage("u1")).status().reason(), "tenant_concurrency");
  EXPECT_TRUE(Submit(Key("s0"), UserMessage("u2")).ok());
  EXPECT_TRUE(Submit(Key("s4", "p", "other"), UserMessage("u1")).ok());
  StepAll();
  Settle();
  EXPECT_TRUE(Submit(Key("s4"), UserMessage("u1")).ok());
  StepAll();
}

TEST_F(SessionsResidencyTest, ADialogThatTheStoreDroppedWhileItWasInMemoryBeginsAnew) {
  session_options_.dialogs.per_owner = 2;
  Restart();
  Answer(Key("a"), "u1");
  Pass(std::chrono::seconds(1));
  Answer(Key("b"), "u1");
  Pass(std::chrono::seconds(1));
  Answer(Key("c"), "u1");  // "a" goes
  EXPECT_EQ(Answer(Key("a"), "u2").status, protocol::ResponseStatus::kCompleted);
  EXPECT_EQ(LastPrompt(), "u2") << "what had begun with the old history begins anew";
  EXPECT_EQ(HistoryText(Key("a")), "u2 [u2]");
  Answer(Key("a"), "u3");
  EXPECT_EQ(LastPrompt(), "u2 [u2] u3");
}

// Regression: the store reused the row number of a dropped dialog, so that clearing or deleting the
// dropped dialog affected the new one.
TEST_F(SessionsResidencyTest, ClearingADroppedDialogKeepsTheOneThatReplacedIt) {
  for (const bool whole : {false, true}) {
    session_options_.dialogs.per_owner = 2;
    folder_ = std::make_unique<responses::testing::TemporaryFolder>();
    Restart();
    for (const char* session : {"a", "b", "a", "c"}) {  // "b" goes
      Answer(Key(session), "u1");
      Pass(std::chrono::seconds(1));
    }
    ASSERT_EQ(AskStore("SELECT count(*) FROM dialog WHERE session='b'"), 0);
    EXPECT_TRUE((whole ? Ask<Status>(&Sessions::Delete, Key("b"), std::nullopt)
                       : Ask<Status>(&Sessions::Clear, Key("b")))
                    .ok());
    EXPECT_EQ(HistoryText(Key("c")), "u1 [u1]") << whole;
    Answer(Key("b"), "u2");  // "a" goes
    EXPECT_EQ(LastPrompt(), "u2");
    EXPECT_EQ(HistoryText(Key("b")), "u2 [u2]");
  }
}

TEST_F(SessionsResidencyTest, ListsActiveSessions) {
  const auto list = [&](size_t max) {
    support::Call<Sessions::ActiveList> call;
    sessions_->ListActive(max, call.done());
    return call.Get();
  };
  EXPECT_TRUE(list(10).sessions.empty());
  Answer(Key("idle"), "u1");
  const Acceptance first = Accepted(Key("ann/a"), UserMessage("u1"));
  Accepted(Key("ann/a"), UserMessage("u2"));
  Accepted(Key("b"), UserMessage("u1"));
  const Sessions::ActiveList all = list(10);
  ASSERT_EQ(all.sessions.size(), 2u);
  EXPECT_EQ(all.left_out, 0u);
  const api::LiveSession& of_user = all.sessions[0];
  EXPECT_EQ(of_user.tenant, "t");
  EXPECT_EQ(of_user.project, "p");
  EXPECT_EQ(of_user.user, "ann");
  EXPECT_EQ(of_user.session, "a");
  EXPECT_EQ(of_user.response, first.response_id);
  EXPECT_EQ(of_user.running, 1);
  EXPECT_EQ(of_user.waiting, 1);
  EXPECT_EQ(all.sessions[1].user, "");
  EXPECT_EQ(all.sessions[1].session, "b");
  ASSERT_EQ(list(1).sessions.size(), 1u);
  EXPECT_EQ(list(1).sessions[0].running, 1);
  EXPECT_EQ(list(1).left_out, 1u);
  StepAll();
  Settle();
  EXPECT_TRUE(Eventually([&] { return list(10).sessions.empty(); }));
}

}  // namespace
}  // namespace tutti::sessions
