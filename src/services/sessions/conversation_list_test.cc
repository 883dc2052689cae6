// The list of conversations: order, pages, owners, counts, and its index.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "services/sessions/conversations.h"
#include "services/sessions/message.h"
#include "services/sessions/versions.h"

namespace tutti::sessions {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

const store::Migration kListTables[] = {kHistoryTables,     kBranchTables, kVersionTables,
                                        kFingerprintTables, kOwnerTables,  kConversationIndex};

class ConversationListTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(store::Migrate(kListTables, &database_).ok()); }

  static store::Database Opened() {
    Result<store::Database> database = store::Database::Open("");
    CHECK(database.ok()) << database.status();
    return *std::move(database);
  }
  static SessionKey Key(const std::string& id, const std::string& tenant = "t") {
    return {tenant, kConversations, id};
  }
  void Create(const std::string& id, int64_t now_s, const std::string& owner = "",
              const std::string& tenant = "t") {
    const auto made = CreateConversationRow(database_, Key(id, tenant), owner,
                                            R"({"n":")" + id + R"("})", {}, now_s, DialogQuota());
    ASSERT_TRUE(made.ok()) << made.status();
  }
  ConversationList List(const ConversationPage& page, const std::string& tenant = "t") {
    Result<ConversationList> list = ListConversations(database_, tenant, page);
    EXPECT_TRUE(list.ok()) << list.status();
    return list.ok() ? *std::move(list) : ConversationList();
  }
  std::vector<std::string> Ids(const ConversationPage& page, const std::string& tenant = "t") {
    std::vector<std::string> ids;
    for (const ListedConversation& each : List(page, tenant).conversations) ids.push_back(each.id);
    return ids;
  }

  store::Database database_ = Opened();
};

TEST_F(ConversationListTest, IsInOrderOfLastUse) {
  Create("a", 100);
  Create("b", 101);
  Create("c", 101);
  EXPECT_THAT(Ids({}), ElementsAre("c", "b", "a"));
  EXPECT_THAT(Ids({.ascending = true}), ElementsAre("a", "b", "c"));
  ASSERT_TRUE(ChangeMetadata(database_, Key("a"), std::nullopt, R"({"k":"v"})", 102).ok());
  EXPECT_THAT(Ids({}), ElementsAre("a", "c", "b"));
  const ConversationList list = List({.limit = 1});
  ASSERT_EQ(list.conversations.size(), 1u);
  EXPECT_TRUE(list.has_more);
  EXPECT_EQ(list.conversations[0].created_s, 100);
  EXPECT_EQ(list.conversations[0].used_s, 102);
  EXPECT_EQ(list.conversations[0].metadata, R"({"k":"v"})");
}

TEST_F(ConversationListTest, PagesMeetInBothDirections) {
  // Several with the same time, which only their numbers order.
  for (int i = 0; i < 10; ++i) Create(std::to_string(i), 100 + i / 3);
  for (const bool ascending : {false, true}) {
    const std::vector<std::string> all = Ids({.limit = 100, .ascending = ascending});
    ASSERT_EQ(all.size(), 10u);
    std::vector<std::string> forward, backward;
    ConversationPage page{.limit = 3, .ascending = ascending};
    for (bool more = true; more;) {
      const ConversationList list = List(page);
      for (const ListedConversation& each : list.conversations) forward.push_back(each.id);
      more = list.has_more;
      page.after = forward.back();
    }
    EXPECT_EQ(forward, all);
    page = {.limit = 3, .ascending = ascending, .before = all.back()};
    for (bool more = true; more;) {
      const ConversationList list = List(page);
      std::vector<std::string> ids;
      for (const ListedConversation& each : list.conversations) ids.push_back(each.id);
      backward.insert(backward.begin(), ids.begin(), ids.end());
      more = list.has_more;
      page.before = backward.front();
    }
    EXPECT_EQ(backward, std::vector<std::string>(all.begin(), all.end() - 1));
    EXPECT_THAT(Ids({.ascending = ascending, .before = all.front()}), IsEmpty());
    EXPECT_THAT(Ids({.ascending = ascending, .after = all.back()}), IsEmpty());
  }
}

TEST_F(ConversationListTest, HasOnlyTheTenantsAndTheOwners) {
  Create("ann's", 100, "user:ann");
  Create("bob's", 101, "user:bob");
  Create("other", 102, "user:ann", "u");
  ASSERT_TRUE(EnsureDialog(database_, {"t", "driving", "ann/s"}, "", 103, DialogQuota()).ok());
  EXPECT_THAT(Ids({}), ElementsAre("bob's", "ann's")) << "sessions of a chat are not in the list";
  EXPECT_THAT(Ids({.owner = "user:ann"}), ElementsAre("ann's"));
  EXPECT_THAT(Ids({}, "u"), ElementsAre("other"));
  EXPECT_THAT(Ids({}, "none"), IsEmpty());
  for (const ConversationPage& page :
       {ConversationPage{.after = "other"}, ConversationPage{.before = "other"},
        ConversationPage{.after = "ann/s"},
        ConversationPage{.after = "bob's", .owner = "user:ann"}})
    EXPECT_EQ(ListConversations(database_, "t", page).status().reason(), "not_found");
}

TEST_F(ConversationListTest, CountsTheItemsAForkShares) {
  const auto made = CreateConversationRow(
      database_, Key("a"), "", "{}",
      {{.role = api::Role::kUser, .content = "one"}, {.role = api::Role::kUser, .content = "two"}},
      100, DialogQuota());
  ASSERT_TRUE(made.ok()) << made.status();
  const auto dialog = LoadDialog(database_, Key("a"));
  ASSERT_TRUE(dialog.ok() && dialog->has_value());
  const ForkPoint now{(*dialog)->version, (*dialog)->next_place - 1, (*dialog)->first_place};
  ASSERT_TRUE(ForkDialog(database_, (*dialog)->id, now, Key("b"), 101).ok());
  ASSERT_TRUE(AddItems(database_, Key("b"), std::nullopt,
                       {{.role = api::Role::kUser, .content = "three"}}, 102)
                  .ok());
  const ConversationList list = List({});
  ASSERT_EQ(list.conversations.size(), 2u);
  EXPECT_EQ(list.conversations[0].id, "b");
  EXPECT_EQ(list.conversations[0].items, 3);
  EXPECT_EQ(list.conversations[1].items, 2);
  EXPECT_EQ(list.conversations[0].origin.id, "a");
  EXPECT_EQ(list.conversations[1].origin.id, "");
  EXPECT_EQ(LoadConversation(database_, Key("b"))->origin.id, "a");
  ASSERT_TRUE(RemoveDialog(database_, (*dialog)->id).ok());
  EXPECT_THAT(Ids({}), ElementsAre("b")) << "the hidden rest of a deleted one is not in the list";
  EXPECT_EQ(List({}).conversations[0].items, 3);
  EXPECT_EQ(List({}).conversations[0].origin.id, "") << "nobody can ask for the hidden rest";
}

TEST_F(ConversationListTest, ReadsAnIndexAndSortsNothing) {
  for (const auto& [owner, index] :
       {std::pair{"", "dialog_conversations"}, std::pair{" AND owner=?2", "dialog_owner"}}) {
    for (const char* const order : {"<", ">"}) {
      const std::string direction = *order == '<' ? " DESC" : " ASC";
      auto plan = database_.Prepare(
          "EXPLAIN QUERY PLAN SELECT id FROM dialog WHERE tenant=?1 AND project='' AND hidden=0" +
          std::string(owner) + " AND (used_s, id)" + order + "(?3, ?4) ORDER BY used_s" +
          direction + ", id" + direction + " LIMIT ?5");
      ASSERT_TRUE(plan.ok()) << plan.status();
      std::string steps;
      while (true) {
        const Result<bool> row = plan->Step();
        ASSERT_TRUE(row.ok()) << row.status();
        if (!*row) break;
        steps += std::string(plan->Text(3)) + "\n";
      }
      EXPECT_THAT(steps, HasSubstr(index));
      EXPECT_THAT(steps, Not(HasSubstr("B-TREE"))) << steps;
    }
  }
}

}  // namespace
}  // namespace tutti::sessions
