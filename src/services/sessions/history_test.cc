#include "services/sessions/history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "services/sessions/dialog_quota.h"
#include "services/sessions/message.h"
#include "services/sessions/versions.h"

namespace tutti::sessions {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class HistoryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const store::Migration tables[] = {kHistoryTables, kBranchTables, kVersionTables,
                                       kFingerprintTables, kOwnerTables};
    ASSERT_TRUE(store::Migrate(tables, &database_).ok());
  }

  static store::Database Opened() {
    Result<store::Database> database = store::Database::Open("");
    CHECK(database.ok()) << database.status();
    return *std::move(database);
  }
  int64_t Create(const SessionKey& key = {"t", "p", "s"}, int64_t now_s = 100) {
    const Result<int64_t> id = CreateDialog(database_, key, now_s);
    EXPECT_TRUE(id.ok()) << id.status();
    return id.ok() ? *id : 0;
  }
  Dialog Load(const SessionKey& key = {"t", "p", "s"}) {
    const Result<std::optional<Dialog>> dialog = LoadDialog(database_, key);
    EXPECT_TRUE(dialog.ok() && dialog->has_value()) << dialog.status();
    return dialog.ok() ? dialog->value_or(Dialog()) : Dialog();
  }
  std::vector<std::string> Texts(const SessionKey& key = {"t", "p", "s"}) {
    std::vector<std::string> said;
    for (const Item& item : Load(key).items) said.push_back(item.content);
    return said;
  }
  static Outcome Answer(int64_t turn, const std::string& user, const std::string& assistant) {
    return {.turn = turn,
            .items = {{turn, api::Role::kUser, user, 5, false},
                      {turn, api::Role::kAssistant, assistant, 7, false}}};
  }
  Status Accept(int64_t dialog, int64_t turn, const std::string& id) {
    return AcceptTurn(database_, dialog, {turn, id, "request of " + id}, 101);
  }

  store::Database database_ = Opened();
};

TEST_F(HistoryTest, CallsAndTheirOutputsAreItems) {
  const int64_t id = Create();
  ASSERT_TRUE(Accept(id, 1, "a").ok());
  Outcome outcome = Answer(1, "x", "");
  outcome.items[0] = ItemOf({api::Role::kTool, "4\"2\"", ""});
  outcome.items[0].tool_call_id = "call_0";
  outcome.items[1].call = api::ToolCall{"call_1", "f", R"({"a":1})"};
  ASSERT_TRUE(EndTurn(database_, id, std::nullopt, outcome, 102).ok());
  const std::vector<Item> items = Load().items;
  ASSERT_EQ(items.size(), 2u);
  EXPECT_EQ(items[0].role, api::Role::kTool);
  EXPECT_EQ(items[0].content, "4\"2\"");
  EXPECT_EQ(items[0].tool_call_id, "call_0");
  EXPECT_EQ(items[1].role, api::Role::kAssistant);
  EXPECT_EQ(items[1].content, "");
  EXPECT_EQ(items[1].call, (api::ToolCall{"call_1", "f", R"({"a":1})"}));
  EXPECT_EQ(CountedText(items[1]), R"(f {"a":1})");
  EXPECT_EQ(MessageOf(items[1]).tool_calls, std::vector<api::ToolCall>({*items[1].call}));
  EXPECT_EQ(MessageOf(items[0]).tool_call_id, "call_0");
}

TEST_F(HistoryTest, ReasoningIsAnItem) {
  const int64_t id = Create();
  ASSERT_TRUE(Accept(id, 1, "a").ok());
  Outcome outcome = Answer(1, "x", "");
  outcome.items[1].reasoning = "{Why?";
  ASSERT_TRUE(EndTurn(database_, id, std::nullopt, outcome, 102).ok());
  const std::vector<Item> items = Load().items;
  ASSERT_EQ(items.size(), 2u);
  EXPECT_EQ(items[1].role, api::Role::kAssistant);
  EXPECT_EQ(items[1].content, "");
  EXPECT_EQ(items[1].reasoning, "{Why?");
  EXPECT_EQ(CountedText(items[1]), "{Why?");
  EXPECT_EQ(ItemOf(MessageOf(items[1])).reasoning, "{Why?");
  Item empty;
  EXPECT_TRUE(Restore("reasoning", "", &empty).ok());
  EXPECT_EQ(StoredRole(empty), "user") << "reasoning is not empty";
}

TEST_F(HistoryTest, AnItemWhoseCallCannotBeReadIsAFaultOfTheStore) {
  Item item;
  EXPECT_EQ(Restore("function_call", "{", &item).reason(), "record_corrupt");
  EXPECT_TRUE(Restore("user", "{", &item).ok());
  EXPECT_EQ(item.content, "{");
}

TEST_F(HistoryTest, TurnsAreReadAsTheyWereCommitted) {
  const int64_t id = Create();
  for (const int64_t turn : {1, 2}) {
    EXPECT_TRUE(Accept(id, turn, std::to_string(turn)).ok());
    const std::string n = std::to_string(turn);
    EXPECT_TRUE(EndTurn(database_, id, turn - 1, Answer(turn, "u" + n, "a" + n), 102).ok());
  }
  const Dialog dialog = Load();
  EXPECT_EQ(dialog.version, 2);
  EXPECT_EQ(dialog.turns, 2);
  EXPECT_THAT(Texts(), ElementsAre("u1", "a1", "u2", "a2"));
  EXPECT_EQ(dialog.items[1].role, api::Role::kAssistant);
  EXPECT_EQ(dialog.items[1].tokens, 7);
  EXPECT_EQ(dialog.used_s, 102);
}

TEST_F(HistoryTest, TheSameSessionOfAnotherProjectOrTenantIsAnotherDialog) {
  const std::vector<SessionKey> keys = {{"t", "p", "s"}, {"t", "q", "s"}, {"u", "p", "s"}};
  for (size_t i = 0; i < keys.size(); ++i) {
    const int64_t id = Create(keys[i]);
    EXPECT_TRUE(Accept(id, 1, "m").ok());
    EXPECT_TRUE(EndTurn(database_, id, 0, Answer(1, std::to_string(i), "a"), 102).ok());
  }
  for (size_t i = 0; i < keys.size(); ++i)
    EXPECT_THAT(Texts(keys[i]), ElementsAre(std::to_string(i), "a"));
  EXPECT_EQ(CreateDialog(database_, keys[0], 1).status().reason(), "store_conflict");
}

TEST_F(HistoryTest, AMessageIsAcceptedOnceAndPendsUntilItsTurnEnds) {
  const int64_t id = Create();
  EXPECT_TRUE(Accept(id, 1, "a").ok());
  EXPECT_TRUE(Accept(id, 2, "b").ok());
  EXPECT_EQ(Accept(id, 3, "a").reason(), "store_conflict");
  EXPECT_EQ(Accept(id, 2, "c").reason(), "store_conflict");
  const auto pending = [&] {
    std::vector<std::string> requests;
    const auto turns = PendingTurns(database_, id);
    EXPECT_TRUE(turns.ok());
    for (const Accepted& each : *turns) requests.push_back(each.request);
    return requests;
  };
  EXPECT_THAT(pending(), ElementsAre("request of a", "request of b"));
  EXPECT_TRUE(EndTurn(database_, id, 0, Answer(1, "u", "a"), 102).ok());
  EXPECT_THAT(pending(), ElementsAre("request of b"));
  EXPECT_EQ(EndTurn(database_, id, 1, Answer(1, "u", "a"), 102).reason(), "turn_ended");
}

TEST_F(HistoryTest, ATurnThatFailsLeavesNoTextAndNoVersion) {
  const int64_t id = Create();
  EXPECT_TRUE(Accept(id, 1, "a").ok());
  EXPECT_TRUE(EndTurn(database_, id, 0, {.turn = 1, .items = {}, .error = "overloaded"}, 102).ok());
  EXPECT_EQ(Load().version, 0);
  EXPECT_THAT(Texts(), IsEmpty());
  EXPECT_EQ(Load().turns, 1) << "its number is used up";
  EXPECT_TRUE(PendingTurns(database_, id)->empty());
}

TEST_F(HistoryTest, ACommitOnAStaleVersionIsRefused) {
  const int64_t id = Create();
  EXPECT_TRUE(Accept(id, 1, "a").ok());
  EXPECT_EQ(EndTurn(database_, id, 3, Answer(1, "u", "a"), 102).reason(), "version_mismatch");
  EXPECT_THAT(Texts(), IsEmpty());
}

TEST_F(HistoryTest, ClearKeepsTheDialogAndItsCountOfTurns) {
  const int64_t id = Create();
  EXPECT_TRUE(Accept(id, 1, "a").ok());
  EXPECT_TRUE(EndTurn(database_, id, 0, Answer(1, "u", "a"), 102).ok());
  EXPECT_TRUE(SetSystemPrompt(database_, id, "be brief", 103).ok());
  EXPECT_TRUE(ClearDialog(database_, id, 104).ok());
  const Dialog dialog = Load();
  EXPECT_THAT(dialog.items, IsEmpty());
  EXPECT_EQ(dialog.system_prompt, "be brief");
  EXPECT_EQ(dialog.turns, 1);
  EXPECT_EQ(dialog.first_place, 1);
  EXPECT_EQ(dialog.next_place, 1);
  EXPECT_TRUE(Accept(id, 2, "a").ok()) << "its ids are forgotten with it";
}

TEST_F(HistoryTest, DeleteLeavesNothing) {
  const int64_t id = Create();
  EXPECT_TRUE(Accept(id, 1, "a").ok());
  EXPECT_TRUE(EndTurn(database_, id, 0, Answer(1, "u", "a"), 102).ok());
  EXPECT_TRUE(DeleteDialog(database_, id).ok());
  EXPECT_FALSE(LoadDialog(database_, {"t", "p", "s"})->has_value());
  for (const char* table : {"dialog", "item", "turn"}) {
    Result<store::Statement> count =
        database_.Prepare(std::string("SELECT count(*) FROM ") + table);
    ASSERT_TRUE(count.ok() && *count->Step());
    EXPECT_EQ(count->Int(0), 0) << table;
  }
}

TEST_F(HistoryTest, UnusedDialogsGoAndThoseWithAMessageThatWaitsStay) {
  Create({"t", "p", "old"}, 100);
  Create({"t", "p", "new"}, 200);
  const int64_t waits = Create({"t", "p", "waits"}, 100);
  EXPECT_TRUE(Accept(waits, 1, "a").ok());
  const Result<int64_t> gone = DeleteUnused(database_, 150);
  ASSERT_TRUE(gone.ok());
  EXPECT_EQ(*gone, 1);
  EXPECT_FALSE(LoadDialog(database_, {"t", "p", "old"})->has_value());
  EXPECT_TRUE(LoadDialog(database_, {"t", "p", "new"})->has_value());
  EXPECT_TRUE(LoadDialog(database_, {"t", "p", "waits"})->has_value());
}

}  // namespace
}  // namespace tutti::sessions
