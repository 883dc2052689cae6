#include <gtest/gtest.h>

#include "services/sessions/dialog_quota.h"
#include "services/sessions/message.h"
#include "services/sessions/versions.h"

namespace tutti::sessions {
namespace {

class OwedTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const store::Migration tables[] = {kHistoryTables, kBranchTables,      kOwedTables,
                                       kVersionTables, kFingerprintTables, kOwnerTables};
    ASSERT_TRUE(store::Migrate(tables, &database_).ok());
  }
  static store::Database Opened() {
    Result<store::Database> database = store::Database::Open("");
    CHECK(database.ok()) << database.status();
    return *std::move(database);
  }
  int64_t Create(const SessionKey& key) { return CreateDialog(database_, key, 100).value(); }
  void Accept(int64_t dialog, int64_t turn, const std::string& reply_to) {
    const std::string id = "m" + std::to_string(turn);
    ASSERT_TRUE(AcceptTurn(database_, dialog, {turn, id, "request", "resp_" + id}, 101).ok());
    if (!reply_to.empty()) {
      ASSERT_TRUE(Owe(database_, dialog, turn, reply_to).ok());
    }
  }
  // "m1@there m2@here"
  std::string Owed(const OwedPlace& after = {}, int64_t most = 100) {
    std::string text;
    const Result<std::vector<OwedAnswer>> owed = ReadOwed(database_, after, most);
    EXPECT_TRUE(owed.ok()) << owed.status();
    if (!owed.ok()) return text;
    for (const OwedAnswer& each : *owed)
      text += (text.empty() ? "" : " ") + each.message_id + "@" + each.reply_to;
    return text;
  }

  store::Database database_ = Opened();
};

TEST_F(OwedTest, WhatIsOwedIsReadInOrderByThePageAndForgottenOnce) {
  const int64_t a = Create({"t", "p", "a"}), b = Create({"t", "p", "b"});
  Accept(b, 1, "b1");
  Accept(a, 1, "a1");
  Accept(a, 2, "");
  Accept(a, 3, "a3");
  EXPECT_EQ(Owed(), "m1@a1 m3@a3 m1@b1");
  EXPECT_EQ(Owed({}, 2), "m1@a1 m3@a3");
  const std::vector<OwedAnswer> page = ReadOwed(database_, {}, 2).value();
  const OwedAnswer& second = page.at(1);
  EXPECT_EQ(second.key, (SessionKey{"t", "p", "a"}));
  EXPECT_EQ(second.place.turn, 3);
  EXPECT_EQ(Owed(second.place), "m1@b1");
  EXPECT_TRUE(ForgetOwed(database_, {"t", "p", "a"}, 1).ok());
  EXPECT_TRUE(ForgetOwed(database_, {"t", "p", "a"}, 1).ok());
  EXPECT_TRUE(ForgetOwed(database_, {"t", "q", "a"}, 3).ok()) << "another dialog's";
  EXPECT_EQ(Owed(), "m3@a3 m1@b1");
}

TEST_F(OwedTest, ItOutlastsTheTurnsEndAndGoesWithItsDialogOrItsId) {
  const int64_t a = Create({"t", "p", "a"}), b = Create({"t", "p", "b"});
  Accept(a, 1, "a1");
  Accept(b, 1, "b1");
  EXPECT_TRUE(EndTurn(database_, a, std::nullopt, {.turn = 1, .items = {}}, 102).ok());
  EXPECT_EQ(Owed(), "m1@a1 m1@b1");
  EXPECT_TRUE(DeleteDialog(database_, b).ok());
  EXPECT_EQ(Owed(), "m1@a1");
  Accept(a, 1 + kRememberedTurns, "later");
  EXPECT_EQ(Owed(), "m65@later") << "its id is not remembered any more";
}

}  // namespace
}  // namespace tutti::sessions
