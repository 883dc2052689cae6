// Verbs, forks, conversations, and all of a user.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "services/sessions/testing/sessions_fixture.h"

namespace tutti::sessions {
namespace {

using protocol::ResponseStatus;
using ::testing::HasSubstr;

class SessionsVerbsTest : public testing::SessionsFixture {
 protected:
  Status Clear(const SessionKey& key) { return Ask<Status>(&Sessions::Clear, key); }
  Status Delete(const SessionKey& key, std::optional<int64_t> expected_version = std::nullopt) {
    return Ask<Status>(&Sessions::Delete, key, expected_version);
  }
  Result<Conversation> Fork(const SessionKey& from, const SessionKey& to,
                            std::optional<int64_t> expected_version = std::nullopt) {
    return Ask<Result<Conversation>>(
        &Sessions::Fork, from, to, ForkBegin{.version = {}, .expected_version = expected_version});
  }
  Result<ItemList> Append(const SessionKey& key, const std::string& text,
                          std::optional<int64_t> version = std::nullopt) {
    return Ask<Result<ItemList>>(&Sessions::AppendItems, key,
                                 std::vector<api::ChatMessage>{{api::Role::kUser, text, ""}},
                                 version);
  }
  std::vector<std::string> Export(const Subject& subject, int64_t dialogs = 100) {
    std::vector<std::string> lines;
    ExportPage page{.after = "", .dialogs = dialogs};
    do {
      const auto part = Ask<Result<ExportedLines>>(&Sessions::Export, subject, page);
      EXPECT_TRUE(part.ok()) << part.status();
      if (!part.ok()) return lines;
      lines.insert(lines.end(), part->lines.begin(), part->lines.end());
      page.after = part->next;
    } while (!page.after.empty());
    return lines;
  }
};

TEST_F(SessionsVerbsTest, ClearForgetsWhatWasSaidAndKeepsTheSession) {
  EXPECT_TRUE(Ask<Status>(&Sessions::SetSystemPrompt, Key(), "brief").ok());
  Answer(Key(), UserMessage("u1", "m1"));
  EXPECT_TRUE(Clear(Key()).ok());
  EXPECT_EQ(HistoryText(Key()), "");
  Answer(Key(), UserMessage("u2", "m1"));  // its ids are forgotten with it
  EXPECT_EQ(LastPrompt(), "<brief> u2");
  Restart();
  EXPECT_EQ(HistoryText(Key()), "u2 [u2]");
  EXPECT_TRUE(Clear(Key("never used")).ok());
}

TEST_F(SessionsVerbsTest, ClearCancelsWhatRunsAndWaitsAndTheNextMessageFindsNothing) {
  Answer(Key(), "u1");
  const Acceptance running = Accepted(Key(), UserMessage("u2"));
  const Acceptance waiting = Accepted(Key(), UserMessage("u3"));
  Settle();
  inference_->Step();
  Settle();
  support::Call<Status> cleared;
  sessions_->Clear(Key(), cleared.done());
  Told after;
  sessions_->Submit(Key(), UserMessage("u4"), after.done());
  StepAll();
  EXPECT_TRUE(cleared.Get().ok());
  for (const Acceptance& each : {running, waiting}) {
    ASSERT_TRUE(Ended(each.response));
    EXPECT_EQ(each.response->State().status, ResponseStatus::kCancelled);
  }
  ASSERT_TRUE(after.Get().ok());
  StepAll();
  EXPECT_EQ(HistoryText(Key()), "u4 [u4]");
  EXPECT_EQ(LastPrompt(), "u4");
}

TEST_F(SessionsVerbsTest, AMessageBehindADeletionIsAnsweredInASessionJustMade) {
  EXPECT_TRUE(Ask<Status>(&Sessions::SetSystemPrompt, Key(), "brief").ok());
  Answer(Key(), "u1");
  Accepted(Key(), UserMessage("u2"));
  support::Call<Status> deleted;
  sessions_->Delete(Key(), std::nullopt, deleted.done());
  Told after;
  sessions_->Submit(Key(), UserMessage("u3"), after.done());
  StepAll();
  EXPECT_TRUE(deleted.Get().ok());
  ASSERT_TRUE(after.Get().ok());
  StepAll();
  EXPECT_EQ(LastPrompt(), "u3");
  EXPECT_EQ(HistoryText(Key()), "u3 [u3]");
  Restart();
  Answer(Key(), "u4");
  EXPECT_EQ(LastPrompt(), "u3 [u3] u4");
}

TEST_F(SessionsVerbsTest, DeleteLeavesNothingButWhatOthersHave) {
  EXPECT_TRUE(Ask<Status>(&Sessions::SetSystemPrompt, Key(), "brief").ok());
  Answer(Key(), "u1");
  Answer(Key("other"), "v1");
  EXPECT_TRUE(Delete(Key()).ok());
  EXPECT_EQ(AskStore("SELECT count(*) FROM dialog"), 1);
  EXPECT_EQ(AskStore("SELECT count(*) FROM item"), 2);
  Answer(Key(), "u2");
  EXPECT_EQ(LastPrompt(), "u2");
  EXPECT_EQ(HistoryText(Key("other")), "v1 [v1]");
}

TEST_F(SessionsVerbsTest, ADeletionOfAnotherVersionCancelsNothing) {
  Answer(Key(), "u1");
  const Acceptance running = Accepted(Key(), UserMessage("u2"));
  EXPECT_EQ(Delete(Key(), 2).reason(), "version_mismatch");
  StepAll();
  EXPECT_TRUE(Ended(running.response));
  EXPECT_EQ(HistoryText(Key()), "u1 [u1] u2 [u2]");
  EXPECT_TRUE(Delete(Key(), 2).ok());
  EXPECT_EQ(AskStore("SELECT count(*) FROM dialog"), 0);
}

// The version matches when Delete() is called and has changed when its transaction runs.
TEST_F(SessionsVerbsTest, RefusesADeletionIfATurnEndsBeforeItsTransaction) {
  Answer(Key(), "u1");
  const Acceptance ending = Accepted(Key(), UserMessage("u2"));
  Settle();
  support::Call<Status> deleted;
  {
    testing::HeldStore held(*store_);
    while (inference_->Step()) {
    }
    Counts();  // the strand has seen the end; its row waits
    sessions_->Delete(Key(), 1, deleted.done());
    Counts();
  }
  EXPECT_EQ(deleted.Get().reason(), "version_mismatch");
  EXPECT_TRUE(Ended(ending.response));
  EXPECT_EQ(HistoryText(Key()), "u1 [u1] u2 [u2]");
}

TEST_F(SessionsVerbsTest, AllOfAProjectAreClearedWhetherInMemoryOrNot) {
  session_options_.resident = 2;
  Restart();
  for (int i = 0; i < 5; ++i) Answer(Key("s" + std::to_string(i)), "u1");
  Answer(Key("s0", "q"), "u1");
  const Acceptance running = Accepted(Key("s4"), UserMessage("runs"));
  support::Call<Result<int64_t>> cleared;
  sessions_->ClearProject("t", "p", cleared.done());
  StepAll();
  EXPECT_EQ(*cleared.Get(), 5);
  ASSERT_TRUE(Ended(running.response));
  for (int i = 0; i < 5; ++i) EXPECT_EQ(HistoryText(Key("s" + std::to_string(i))), "");
  EXPECT_EQ(HistoryText(Key("s0", "q")), "u1 [u1]");
  EXPECT_EQ(AskStore("SELECT count(*) FROM dialog"), 6);
  EXPECT_EQ(*Ask<Result<int64_t>>(&Sessions::DeleteProject, "t", "p"), 5);
  EXPECT_EQ(AskStore("SELECT count(*) FROM dialog"), 1);
}

TEST_F(SessionsVerbsTest, ForksGoOnFromOneHistoryBesideEachOther) {
  Answer(Key(), "u1");
  ASSERT_TRUE(Fork(Key(), Key("fork")).ok());
  EXPECT_EQ(AskStore("SELECT count(*) FROM item"), 2) << "nothing is copied";
  const Acceptance a = Accepted(Key(), UserMessage("u2"));
  const Acceptance b = Accepted(Key("fork"), UserMessage("v2"));
  Settle();
  EXPECT_EQ(inference_->active(), 2u);
  StepAll();
  EXPECT_EQ(HistoryText(Key()), "u1 [u1] u2 [u2]");
  EXPECT_EQ(HistoryText(Key("fork")), "u1 [u1] v2 [v2]");
  Restart();
  Answer(Key("fork"), "v3");
  EXPECT_EQ(LastPrompt(), "u1 [u1] v2 [v2] v3");
  EXPECT_EQ(Fork(Key(), Key("fork")).status().reason(), "invalid_value");
  EXPECT_EQ(Fork(Key("none"), Key("new")).status().reason(), "not_found");
  const int64_t version = History(Key()).version;
  EXPECT_EQ(Fork(Key(), Key("late"), version - 1).status().reason(), "version_mismatch");
  EXPECT_TRUE(Fork(Key(), Key("late"), version).ok());
}

TEST_F(SessionsVerbsTest, AForkIsWhatWasSaidAndNotWhatIsBeingSaid) {
  Answer(Key(), "u1");
  Accepted(Key(), UserMessage("u2"));
  Settle();
  ASSERT_TRUE(Fork(Key(), Key("fork")).ok());
  StepAll();
  Settle();
  EXPECT_EQ(HistoryText(Key()), "u1 [u1] u2 [u2]");
  EXPECT_EQ(HistoryText(Key("fork")), "u1 [u1]");
}

TEST_F(SessionsVerbsTest, AForkKeepsItsHistoryWhenTheOtherIsClearedOrDeleted) {
  Answer(Key(), "u1");
  ASSERT_TRUE(Fork(Key(), Key("a")).ok());
  ASSERT_TRUE(Fork(Key("a"), Key("b")).ok());
  EXPECT_TRUE(Clear(Key()).ok());
  EXPECT_EQ(HistoryText(Key()), "");
  EXPECT_EQ(HistoryText(Key("a")), "u1 [u1]");
  Answer(Key("a"), "u2");
  EXPECT_TRUE(Delete(Key("a")).ok());
  EXPECT_EQ(HistoryText(Key("b")), "u1 [u1]");
  Answer(Key("b"), "u3");
  EXPECT_EQ(LastPrompt(), "u1 [u1] u3");
  EXPECT_TRUE(Delete(Key("b")).ok());
  EXPECT_EQ(AskStore("SELECT count(*) FROM item"), 0) << "nobody needs it any more";
  EXPECT_EQ(AskStore("SELECT count(*) FROM dialog"), 1);
}

TEST_F(SessionsVerbsTest, AConversationHasItemsMetadataAndAVersion) {
  const auto made = Ask<Result<Conversation>>(
      &Sessions::CreateConversation, "t", "", std::string("{\"topic\":\"x\"}"),
      std::vector<api::ChatMessage>{{api::Role::kUser, "hi", ""},
                                    {api::Role::kAssistant, "hello", ""}});
  ASSERT_TRUE(made.ok()) << made.status();
  const SessionKey key{"t", kConversations, made->id};
  EXPECT_EQ(made->metadata, "{\"topic\":\"x\"}");
  ASSERT_EQ(made->items.size(), 2u);
  const protocol::ResponseState answer = Answer(key, "how are you");
  EXPECT_EQ(LastPrompt(), "hi hello how are you");
  EXPECT_EQ(answer.conversation, made->id);
  const auto item = Ask<Result<Item>>(&Sessions::GetItem, key, made->items[0].id);
  ASSERT_TRUE(item.ok());
  EXPECT_EQ(item->content, "hi");

  const ItemList newest = History(key, {.limit = 2, .ascending = false, .after = ""});
  ASSERT_EQ(newest.items.size(), 2u);
  EXPECT_TRUE(newest.has_more);
  EXPECT_EQ(newest.items[0].content, "[how are you]");
  const ItemList rest =
      History(key, {.limit = 20, .ascending = false, .after = newest.items[1].id});
  ASSERT_EQ(rest.items.size(), 2u);
  EXPECT_FALSE(rest.has_more);
  EXPECT_EQ(rest.items[0].content, "hello");

  const auto changed = Ask<Result<Conversation>>(&Sessions::SetMetadata, key,
                                                 std::string("{\"topic\":\"y\"}"), std::nullopt);
  ASSERT_TRUE(changed.ok());
  EXPECT_EQ(Ask<Result<Conversation>>(&Sessions::GetConversation, key)->metadata,
            "{\"topic\":\"y\"}");
  EXPECT_EQ(Ask<Result<Conversation>>(&Sessions::GetConversation,
                                      SessionKey{"another", kConversations, made->id})
                .status()
                .reason(),
            "not_found");
}

// Regression: the version did not change, so the second of two changes with the same expected
// version overwrote the first.
TEST_F(SessionsVerbsTest, MetadataChangeRaisesTheVersionWithoutFailingATurn) {
  const auto made =
      Ask<Result<Conversation>>(&Sessions::CreateConversation, std::string("t"), std::string(),
                                std::string("{}"), std::vector<api::ChatMessage>());
  ASSERT_TRUE(made.ok()) << made.status();
  const SessionKey key{"t", kConversations, made->id};
  const Acceptance turn = Accepted(key, UserMessage("u1"));
  Settle();
  const auto set = [&](const char* metadata, std::optional<int64_t> expected) {
    return Ask<Result<Conversation>>(&Sessions::SetMetadata, key, std::string(metadata), expected);
  };
  const auto first = set("{\"k\":\"a\"}", 0);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->version, 1);
  EXPECT_EQ(set("{\"k\":\"b\"}", 0).status().reason(), "version_mismatch");
  StepAll();
  ASSERT_TRUE(Ended(turn.response));
  EXPECT_EQ(turn.response->State().status, ResponseStatus::kCompleted);
  EXPECT_EQ(HistoryText(key), "u1 [u1]");
  const auto now = Ask<Result<Conversation>>(&Sessions::GetConversation, key);
  EXPECT_EQ(now->version, 2);
  EXPECT_EQ(now->metadata, "{\"k\":\"a\"}");

  // Changes that are on their way to the disk when a turn's end sets out behind them.
  const Acceptance second = Accepted(key, UserMessage("u2"));
  Settle();
  std::vector<std::unique_ptr<support::Call<Result<Conversation>>>> changes;
  {
    testing::HeldStore held(*store_);
    for (const int64_t expected : {2, 2}) {
      changes.push_back(std::make_unique<support::Call<Result<Conversation>>>());
      sessions_->SetMetadata(key, "{\"k\":\"c\"}", expected, changes.back()->done());
    }
    Barrier();
    while (inference_->Step()) Barrier();
  }
  EXPECT_EQ(changes[0]->Get()->version, 3);
  EXPECT_EQ(changes[1]->Get().status().reason(), "version_mismatch");
  Settle();
  ASSERT_TRUE(Ended(second.response));
  EXPECT_EQ(second.response->State().status, ResponseStatus::kCompleted);
  EXPECT_EQ(Answer(key, UserMessage("u3")).status, ResponseStatus::kCompleted);
  EXPECT_EQ(Ask<Result<Conversation>>(&Sessions::GetConversation, key)->version, 5);
}

TEST_F(SessionsVerbsTest, AConversationThatThereIsNotIsNotMadeByAMessage) {
  const SessionKey key{"t", kConversations, "conv_none"};
  EXPECT_EQ(Submit(key, UserMessage("u1")).status().reason(), "not_found");
  EXPECT_EQ(Ask<Status>(&Sessions::SetSystemPrompt, key, "x").reason(), "not_found");
  EXPECT_EQ(AskStore("SELECT count(*) FROM dialog"), 0);
  EXPECT_EQ(Counts().resident, 0u);
}

TEST_F(SessionsVerbsTest, ItemsAreAppendedBehindTheTurnsBeforeAndDeletedFromPrompts) {
  Answer(Key(), "u1");
  Accepted(Key(), UserMessage("u2"));
  support::Call<Result<ItemList>> appended;
  sessions_->AppendItems(Key(), {{api::Role::kUser, "note", ""}}, std::nullopt, appended.done());
  const Acceptance third = Accepted(Key(), UserMessage("u3"));
  StepAll();
  const Result<ItemList> added = appended.Get();
  ASSERT_TRUE(added.ok()) << added.status();
  StepAll();
  ASSERT_TRUE(Ended(third.response));
  EXPECT_EQ(HistoryText(Key()), "u1 [u1] u2 [u2] note u3 [u3]");
  EXPECT_TRUE(Ask<Result<Conversation>>(&Sessions::DeleteItem, Key(), added->items[0].id,
                                        std::optional<int64_t>())
                  .ok());
  Answer(Key(), "u4");
  EXPECT_EQ(LastPrompt(), "u1 [u1] u2 [u2] u3 [u3] u4");
  EXPECT_EQ(Append(Key("none"), "x").status().reason(), "not_found");
  Restart();
  EXPECT_TRUE(Append(Key(), "late").ok());
  Answer(Key(), "u5");
  EXPECT_THAT(LastPrompt(), HasSubstr("u4 [u4] late u5"));
}

TEST_F(SessionsVerbsTest, AStaleVersionChangesNothing) {
  Answer(Key(), "u1");
  EXPECT_EQ(Append(Key(), "x", 0).status().reason(), "version_mismatch");
  const auto list = Append(Key(), "y", 1);
  ASSERT_TRUE(list.ok());
  EXPECT_EQ(list->version, 2);
  EXPECT_EQ(Ask<Result<Conversation>>(&Sessions::DeleteItem, Key(), list->items[0].id,
                                      std::optional<int64_t>(1))
                .status()
                .reason(),
            "version_mismatch");
  EXPECT_EQ(HistoryText(Key()), "u1 [u1] y");
}

TEST_F(SessionsVerbsTest, AnExportReimportsIdentically) {
  EXPECT_TRUE(Ask<Result<int64_t>>(&Sessions::SetProjectPrompt, "t", "p", "project \"x\"").ok());
  for (int i = 0; i < 4; ++i) Answer(Key("anna/" + std::to_string(i)), "u\n" + std::to_string(i));
  api::ChatMessage thought{api::Role::kAssistant, "", ""};
  thought.reasoning = "hm";
  EXPECT_TRUE(Ask<Result<ItemList>>(&Sessions::AppendItems, Key("anna/3"),
                                    std::vector<api::ChatMessage>{thought},
                                    std::optional<int64_t>())
                  .ok());
  ASSERT_TRUE(Fork(Key("anna/0"), Key("anna/fork")).ok());
  Answer(Key("anna/fork"), "more");
  Answer(Key("bert/0"), "secret");
  const std::vector<std::string> lines = Export({"t", ""}, 2);
  EXPECT_EQ(lines.size(), 7u) << "a project and six dialogs";
  const std::vector<std::string> annas = Export({"t", "anna/"});
  EXPECT_EQ(annas.size(), 5u);
  for (const std::string& line : annas) EXPECT_EQ(line.find("secret"), std::string::npos);

  EXPECT_EQ(*Ask<Result<int64_t>>(&Sessions::DeleteAll, Subject{"t", "anna/"}), 5);
  EXPECT_EQ(Export({"t", ""}).size(), 2u);
  EXPECT_EQ(*Ask<Result<int64_t>>(&Sessions::DeleteAll, Subject{"t", ""}), 1);
  EXPECT_TRUE(Export({"t", ""}).empty());
  for (const char* table : {"dialog", "item", "turn", "profile", "response", "response_total"})
    EXPECT_EQ(AskStore(std::string("SELECT count(*) FROM ") + table), 0) << table;

  for (const std::string& line : lines)
    EXPECT_TRUE(Ask<Status>(&Sessions::Import, Subject{"t", ""}, line).ok()) << line;
  EXPECT_EQ(Export({"t", ""}), lines);
  EXPECT_EQ(Ask<Status>(&Sessions::Import, Subject{"t", ""}, lines[1]).reason(), "invalid_value");
  EXPECT_EQ(Ask<Status>(&Sessions::Import, Subject{"t", "bert/"}, annas[0]).reason(),
            "invalid_value");
  const std::string dialog = "{\"object\":\"dialog\",\"session\":\"";
  for (const std::string& bad :
       {std::string("{}"), std::string("[]"), std::string("x"), dialog + "\"}",
        dialog + "n\",\"turns\":9223372036854775807}", dialog + "n\",\"version\":-1}",
        dialog + "n\",\"items\":[{\"place\":2},{\"place\":1}]}",
        dialog + "n\",\"items\":[{\"place\":1,\"tokens\":2000000000}]}"})
    EXPECT_FALSE(Ask<Status>(&Sessions::Import, Subject{"t", ""}, bad).ok()) << bad;
  Answer(Key("anna/fork"), "on");
  EXPECT_EQ(LastPrompt(), "<project \"x\"> u\n0 [u\n0] more [more] on");
}

// An import was bound by less than the verbs that it stands for.
TEST_F(SessionsVerbsTest, AnImportTakesNoMoreRoomThanATenantHasAndDropsNothing) {
  Answer(Key("c"), "u1");
  EXPECT_TRUE(Ask<Result<int64_t>>(&Sessions::SetProjectPrompt, "t", "p", "one").ok());
  EXPECT_TRUE(Ask<Result<int64_t>>(&Sessions::SetProjectPrompt, "t", "q", "two").ok());
  const std::vector<std::string> lines = Export({"t", ""});
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_TRUE(Ask<Result<int64_t>>(&Sessions::DeleteAll, Subject{"t", ""}).ok());
  session_options_.dialogs.per_owner = 2;
  session_options_.projects_per_tenant = 1;
  Restart();
  const auto import = [&](size_t line) {
    return Ask<Status>(&Sessions::Import, Subject{"t", ""}, lines[line]).reason();
  };
  EXPECT_EQ(import(0), "");
  EXPECT_EQ(import(1), "tenant_concurrency");
  for (const char* session : {"a", "b"}) Answer(Key(session), "u1");
  EXPECT_EQ(import(2), "insufficient_quota");
  for (const char* session : {"a", "b"}) EXPECT_EQ(HistoryText(Key(session)), "u1 [u1]");
}

TEST_F(SessionsVerbsTest, WhatIsInMemoryFollowsAnImport) {
  session_options_.dialogs.per_owner = 2;
  Restart();
  EXPECT_TRUE(Ask<Result<int64_t>>(&Sessions::SetProjectPrompt, "t", "p", "imported").ok());
  Answer(Key("a"), "u1");
  const std::vector<std::string> lines = Export({"t", ""});
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_TRUE(Ask<Result<int64_t>>(&Sessions::DeleteAll, Subject{"t", ""}).ok());
  Answer(Key("a"), "x1");
  EXPECT_EQ(LastPrompt(), "x1");
  EXPECT_TRUE(Ask<Status>(&Sessions::Import, Subject{"t", ""}, lines[0]).ok());
  Answer(Key("a"), "x2");
  EXPECT_EQ(LastPrompt(), "<imported> x1 [x1] x2");
  for (const char* session : {"b", "c"}) {  // the second drops "a", which stays in memory
    Pass(std::chrono::seconds(1));
    Answer(Key(session), "u1");
  }
  EXPECT_TRUE(Delete(Key("b")).ok());
  EXPECT_TRUE(Ask<Status>(&Sessions::Import, Subject{"t", ""}, lines[1]).ok());
  Answer(Key("a"), "u2");
  EXPECT_EQ(LastPrompt(), "<imported> u1 [u1] u2");
}

TEST_F(SessionsVerbsTest, AnImportOfTurnsToComeOrOfRolesThatNobodyKnowsIsRefused) {
  Answer(Key("a"), "u1");
  const std::string line = Export({"t", ""}).at(0);
  const auto import = [&](const std::string& from, const std::string& to) {
    std::string changed = line;
    const size_t at = changed.find(from);
    EXPECT_NE(at, std::string::npos) << line;
    if (at != std::string::npos) changed.replace(at, from.size(), to);
    EXPECT_TRUE(Delete(Key("a")).ok());
    return Ask<Status>(&Sessions::Import, Subject{"t", ""}, changed).reason();
  };
  EXPECT_EQ(import("\"turns\":1", "\"turns\":0"), "invalid_value");
  EXPECT_EQ(import("\"role\":\"user\"", "\"role\":\"usher\""), "invalid_value");
  EXPECT_EQ(import("\"turns\":1", "\"turns\":1"), "");
  Answer(Key("a"), "u2");
  EXPECT_EQ(HistoryText(Key("a")), "u1 [u1] u2 [u2]");
}

}  // namespace
}  // namespace tutti::sessions
