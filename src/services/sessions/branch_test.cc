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

const store::Migration kTables[] = {kHistoryTables, kBranchTables, kVersionTables,
                                    kFingerprintTables, kOwnerTables};

class BranchTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(store::Migrate(kTables, &database_).ok()); }

  static store::Database Opened() {
    Result<store::Database> database = store::Database::Open("");
    CHECK(database.ok()) << database.status();
    return *std::move(database);
  }
  static SessionKey Key(const std::string& session) { return {"t", "p", session}; }
  int64_t Create(const std::string& session) {
    const Result<int64_t> id = CreateDialog(database_, Key(session), 100);
    EXPECT_TRUE(id.ok()) << id.status();
    return id.ok() ? *id : 0;
  }
  void AddTurn(int64_t dialog, int64_t turn, const std::string& text, int64_t first_place = 1) {
    EXPECT_TRUE(AcceptTurn(database_, dialog, {turn, std::to_string(turn), "", ""}, 101).ok());
    EXPECT_TRUE(EndTurn(database_, dialog, std::nullopt,
                        {.turn = turn,
                         .items = {{turn, api::Role::kUser, text, 5, false, "msg_" + text, turn}},
                         .first_place = first_place,
                         .place = turn},
                        102)
                    .ok());
  }
  int64_t Fork(int64_t from, int64_t place, const std::string& to) {
    const int64_t version = Ask("SELECT version FROM dialog WHERE id=" + std::to_string(from));
    const Result<int64_t> fork = ForkDialog(database_, from, {version, place, 1}, Key(to), 103);
    EXPECT_TRUE(fork.ok()) << fork.status();
    return fork.ok() ? *fork : 0;
  }
  std::vector<std::string> Texts(const std::string& session) {
    std::vector<std::string> said;
    const auto dialog = LoadDialog(database_, Key(session));
    EXPECT_TRUE(dialog.ok()) << dialog.status();
    if (!dialog.ok() || !dialog->has_value()) return {"nothing"};
    for (const Item& item : (*dialog)->items) said.push_back(item.content);
    return said;
  }
  int64_t Ask(const std::string& sql) {
    Result<store::Statement> row = database_.Prepare(sql);
    EXPECT_TRUE(row.ok());
    const Result<bool> found = row->Step();
    return found.ok() && *found ? row->Int(0) : -1;
  }

  store::Database database_ = Opened();
};

TEST_F(BranchTest, AForkGoesOnFromAPlaceAndCopiesNothing) {
  const int64_t id = Create("a");
  for (const int64_t turn : {1, 2, 3}) AddTurn(id, turn, "u" + std::to_string(turn));
  const int64_t fork = Fork(id, 2, "b");
  AddTurn(fork, 4, "v");
  EXPECT_THAT(Texts("a"), ElementsAre("u1", "u2", "u3"));
  EXPECT_THAT(Texts("b"), ElementsAre("u1", "u2", "v"));
  EXPECT_EQ(Ask("SELECT count(*) FROM item"), 4);
}

TEST_F(BranchTest, AForkOfAForkSharesOnlyWhatThatOneShares) {
  const int64_t id = Create("a");
  for (const int64_t turn : {1, 2, 3}) AddTurn(id, turn, "u" + std::to_string(turn));
  const int64_t b = Fork(id, 1, "b");
  AddTurn(b, 4, "v4");
  AddTurn(b, 5, "v5");
  (void)Fork(b, 4, "c");
  EXPECT_THAT(Texts("c"), ElementsAre("u1", "v4"));
}

TEST_F(BranchTest, ForksOfForksAreBounded) {
  int64_t last = Create("0");
  Status refused;
  int forks = 0;
  while (refused.ok() && forks < 200) {
    const Result<int64_t> fork =
        ForkDialog(database_, last, {1, 1, 1}, Key(std::to_string(forks + 1)), 103);
    refused = fork.status();
    if (fork.ok()) last = *fork, ++forks;
  }
  EXPECT_EQ(refused.reason(), "invalid_value");
  EXPECT_EQ(forks, 64);
}

TEST_F(BranchTest, WhatOthersGoOnFromStaysHiddenUntilTheyAreGone) {
  const int64_t a = Create("a");
  AddTurn(a, 1, "u1");
  const int64_t b = Fork(a, 1, "b");
  EXPECT_TRUE(RemoveDialog(database_, a).ok());
  EXPECT_THAT(Texts("a"), ElementsAre("nothing"));
  EXPECT_THAT(Texts("b"), ElementsAre("u1"));
  EXPECT_NE(Create("a"), 0) << "its name is free";
  EXPECT_TRUE(ClearDialog(database_, b, 104).ok());
  EXPECT_EQ(Ask("SELECT count(*) FROM item"), 0);
  EXPECT_EQ(Ask("SELECT count(*) FROM dialog WHERE hidden=1"), 0);
}

TEST_F(BranchTest, WhatADialogHoldsIsCountedAndBounded) {
  const int64_t a = Create("a");
  for (int64_t turn = 1; turn <= 10; ++turn) AddTurn(a, turn, std::string(100, 'x'), turn - 2);
  EXPECT_EQ(Ask("SELECT items FROM dialog"), 10);
  EXPECT_EQ(Ask("SELECT bytes FROM dialog"), 1000);
  EXPECT_TRUE(PruneItems(database_, a, {.items = 6, .bytes = 1 << 20}).ok());
  EXPECT_EQ(Ask("SELECT min(place) FROM item"), 5);
  EXPECT_TRUE(PruneItems(database_, a, {.items = 100, .bytes = 550}).ok());
  EXPECT_EQ(Ask("SELECT min(place) FROM item"), 6);
  EXPECT_TRUE(PruneItems(database_, a, {.items = 1, .bytes = 1}).ok());
  EXPECT_EQ(Ask("SELECT min(place) FROM item"), 8) << "what goes into prompts stays";
  EXPECT_EQ(Ask("SELECT items FROM dialog"), 3);
  EXPECT_EQ(CheckRoom(database_, a, 1, 1, {.items = 3, .bytes = 1000}).reason(),
            "request_too_large");
  EXPECT_TRUE(CheckRoom(database_, a, 1, 1, {.items = 4, .bytes = 1000}).ok());
  (void)Fork(a, 10, "b");
  EXPECT_TRUE(ClearDialog(database_, a, 104).ok());
  EXPECT_EQ(Ask("SELECT items FROM dialog WHERE session='a'"), 0);
  EXPECT_EQ(Ask("SELECT items FROM dialog WHERE hidden=1"), 3) << "they went with their items";
}

TEST_F(BranchTest, TheTablesGoBackAndForkedHistoriesWithThem) {
  const int64_t a = Create("a");
  AddTurn(a, 1, "u1");
  AddTurn(a, 2, "u2");
  const int64_t b = Fork(a, 1, "b");
  AddTurn(b, 3, "v");
  EXPECT_TRUE(RemoveDialog(database_, a).ok());
  for (const size_t known : {4, 3, 2, 1})
    ASSERT_TRUE(store::Migrate({kTables, known}, &database_).ok());
  EXPECT_EQ(Ask("SELECT count(*) FROM dialog"), 1);
  EXPECT_EQ(Ask("SELECT count(*) FROM item"), 2);
  EXPECT_EQ(Ask("SELECT count(*) FROM item WHERE content IN ('u1', 'v')"), 2);
  EXPECT_EQ(Ask("SELECT first_turn FROM dialog"), 1);
  ASSERT_TRUE(store::Migrate(kTables, &database_).ok());
  EXPECT_THAT(Texts("b"), ElementsAre("u1", "v"));
  EXPECT_EQ(Ask("SELECT bytes FROM dialog"), 3);
}

}  // namespace
}  // namespace tutti::sessions
