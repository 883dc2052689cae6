#include "services/sessions/dialog_quota.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "services/sessions/testing/sessions_fixture.h"

namespace tutti::sessions {
namespace {

using ::testing::HasSubstr;

class DialogQuotaTest : public testing::SessionsFixture {
 protected:
  void Bound(const DialogQuota& limits) {
    session_options_.dialogs = limits;
    Restart();
  }
  // Each call is later than the one before, as the quota sees it.
  void AnswerLater(const SessionKey& key) {
    Pass(std::chrono::seconds(1));
    Answer(key, "u1");
  }
  Result<Conversation> Converse(const std::string& owner) {
    return Ask<Result<Conversation>>(&Sessions::CreateConversation, "t", owner, std::string("{}"),
                                     std::vector<api::ChatMessage>());
  }
  int64_t Count(const std::string& owner) {
    return AskStore("SELECT count(*) FROM dialog WHERE hidden=0 AND owner='" + owner + "'");
  }
};

TEST_F(DialogQuotaTest, SessionsOfOneUserNeverDropAnothers) {
  Bound({.per_owner = 2});
  AnswerLater(Key("ann/a"));
  AnswerLater(Key("s"));
  for (const char* session : {"bob/1", "bob/2", "bob/3", "bob/4"}) AnswerLater(Key(session));
  EXPECT_EQ(HistoryText(Key("ann/a")), "u1 [u1]");
  EXPECT_EQ(HistoryText(Key("s")), "u1 [u1]") << "which is the project's";
  EXPECT_EQ(HistoryText(Key("bob/4")), "u1 [u1]");
  EXPECT_EQ(Count("user:bob"), 2) << "its own oldest went";
  EXPECT_EQ(HistoryText(Key("bob/2")), "");
}

TEST_F(DialogQuotaTest, ConversationsOfOneKeyBarNobodyElse) {
  Bound({.per_owner = 2});
  AnswerLater(Key("ann/a"));
  AnswerLater(Key("ann/b"));
  const Result<Conversation> first = Converse("key:k");
  ASSERT_TRUE(first.ok() && Converse("key:k").ok());
  const Status refused = Converse("key:k").status();
  EXPECT_EQ(refused.reason(), "insufficient_quota") << "it does not pass by waiting";
  EXPECT_THAT(refused.message(), HasSubstr("delete"));
  EXPECT_TRUE(Converse("key:other").ok());
  EXPECT_TRUE(Converse("").ok());
  AnswerLater(Key("bob/a"));
  for (const char* session : {"ann/a", "ann/b", "bob/a"})
    EXPECT_EQ(HistoryText(Key(session)), "u1 [u1]") << session;
  EXPECT_TRUE(Ask<Status>(&Sessions::Delete, Key(first->id, kConversations), std::nullopt).ok());
  EXPECT_TRUE(Converse("key:k").ok());
}

TEST_F(DialogQuotaTest, ATenantThatIsFullRefusesNewcomersAndDropsNobodys) {
  Bound({.per_owner = 2, .per_tenant = 3});
  for (const char* session : {"ann/a", "ann/b", "bob/a"}) AnswerLater(Key(session));
  for (const char* session : {"bob/b", "carl/a"})
    EXPECT_EQ(Submit(Key(session), UserMessage("u1")).status().reason(), "insufficient_quota")
        << session;
  EXPECT_EQ(Converse("key:k").status().reason(), "insufficient_quota");
  for (const char* session : {"ann/a", "ann/b", "bob/a"})
    EXPECT_EQ(HistoryText(Key(session)), "u1 [u1]") << session;
  AnswerLater(Key("bob/a"));
  EXPECT_TRUE(Submit(Key("carl/a", "p", "other"), UserMessage("u1")).ok()) << "another tenant's";
  StepAll();
  AnswerLater(Key("ann/c"));  // in place of its own
  EXPECT_EQ(HistoryText(Key("ann/a")), "");
}

TEST_F(DialogQuotaTest, WhoseSessionsAreAllBeingAnsweredIsToldToComeAgain) {
  Bound({.per_owner = 1});
  const Acceptance slow = Accepted(Key("ann/a"), UserMessage("u1"));
  EXPECT_EQ(Submit(Key("ann/b"), UserMessage("u1")).status().reason(), "tenant_concurrency");
  Accepted(Key("bob/a"), UserMessage("u1"));
  StepAll();
  ASSERT_TRUE(Ended(slow.response));
  AnswerLater(Key("ann/b"));
  EXPECT_EQ(HistoryText(Key("ann/a")), "");
}

TEST_F(DialogQuotaTest, AForkIsItsMakersAndAnImportIsWhoseItWas) {
  const Result<Conversation> made = Converse("key:k");
  ASSERT_TRUE(made.ok());
  EXPECT_TRUE(Ask<Result<Conversation>>(
                  &Sessions::Fork, Key(made->id, kConversations), Key("conv_fork", kConversations),
                  ForkBegin{.version = {}, .expected_version = {}, .owner = "user:ann"})
                  .ok());
  AnswerLater(Key("ann/a"));
  EXPECT_TRUE(
      Ask<Result<Conversation>>(&Sessions::Fork, Key("ann/a"), Key("ann/b"), ForkBegin{}).ok());
  EXPECT_EQ(Count("key:k"), 1);
  EXPECT_EQ(Count("user:ann"), 3);
  const auto lines = Ask<Result<ExportedLines>>(&Sessions::Export, Subject{"t", ""}, ExportPage{});
  ASSERT_TRUE(lines.ok());
  EXPECT_TRUE(Ask<Result<int64_t>>(&Sessions::DeleteAll, Subject{"t", ""}).ok());
  for (std::string line : lines->lines) {
    // An import must not use up another user's quota.
    const size_t named = line.find("\"owner\":\"user:ann\"");
    if (named != std::string::npos && line.find("ann/a") != std::string::npos)
      line.replace(named, 18, "\"owner\":\"user:bob\"");
    EXPECT_TRUE(Ask<Status>(&Sessions::Import, Subject{"t", ""}, line).ok()) << line;
  }
  EXPECT_EQ(Count("key:k"), 1);
  EXPECT_EQ(Count("user:ann"), 3);
}

TEST(OwnerTablesTest, DialogsOfAnEarlierReleaseGetTheOwnerThatTheirKeyNames) {
  Result<store::Database> database = store::Database::Open("");
  ASSERT_TRUE(database.ok()) << database.status();
  const store::Migration tables[] = {kHistoryTables, kBranchTables, kVersionTables, kOwnerTables};
  const auto migrate = [&](size_t known) {
    const Status status = store::Migrate({tables, known}, &*database);
    EXPECT_TRUE(status.ok()) << status;
  };
  migrate(3);
  ASSERT_TRUE(database
                  ->Execute("INSERT INTO dialog(tenant, project, session, used_s) VALUES"
                            "('t','p','ann/a',1), ('t','p','car-1',1), ('t','','conv_1',1)")
                  .ok());
  migrate(4);
  const std::vector<std::pair<SessionKey, std::string>> owners = {
      {{"t", "p", "ann/a"}, "user:ann"},
      {{"t", "p", "car-1"}, "project:p"},
      {{"t", "", "conv_1"}, ""}};
  for (const auto& [key, owner] : owners) {
    const auto dialog = LoadDialog(*database, key);
    ASSERT_TRUE(dialog.ok() && dialog->has_value());
    EXPECT_EQ((*dialog)->owner, owner);
    EXPECT_EQ(OwnerOf(key), owner);
  }
  migrate(3);
  migrate(4);
  const Result<int64_t> there = FindDialog(*database, owners[0].first);
  EXPECT_TRUE(there.ok() && *there != 0);
}

}  // namespace
}  // namespace tutti::sessions
