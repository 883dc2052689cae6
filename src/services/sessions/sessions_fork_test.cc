// Forks that begin at a version: with the history up to there, or refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "base/random.h"
#include "services/sessions/testing/sessions_fixture.h"

namespace tutti::sessions {
namespace {

using ::testing::StartsWith;

class SessionsForkTest : public testing::SessionsFixture {
 protected:
  Result<Conversation> Fork(const SessionKey& from, const SessionKey& to,
                            std::optional<int64_t> version) {
    return Ask<Result<Conversation>>(&Sessions::Fork, from, to,
                                     ForkBegin{.version = version, .expected_version = {}});
  }
  std::string ReasonOf(const SessionKey& from, int64_t version) {
    const Result<Conversation> fork = Fork(from, Key("refused"), version);
    EXPECT_FALSE(fork.ok());
    return fork.status().reason() + " " + fork.status().param();
  }
  Result<Conversation> DeleteItem(const SessionKey& key, const std::string& id) {
    return Ask<Result<Conversation>>(&Sessions::DeleteItem, key, id, std::optional<int64_t>());
  }
  void Append(const SessionKey& key, const std::string& text) {
    const std::vector<api::ChatMessage> items{{api::Role::kUser, text, ""}};
    EXPECT_TRUE(
        Ask<Result<ItemList>>(&Sessions::AppendItems, key, items, std::optional<int64_t>()).ok());
  }
  void AnswerAll(const SessionKey& key, std::initializer_list<const char*> texts) {
    for (const char* text : texts) Answer(key, text);
  }
};

TEST_F(SessionsForkTest, ItBeginsWithWhatWasSaidUpToItsVersionAlsoAfterARestart) {
  AnswerAll(Key(), {"u1", "u2", "u3"});
  const Result<Conversation> fork = Fork(Key(), Key("fork"), 1);
  ASSERT_TRUE(fork.ok()) << fork.status();
  EXPECT_EQ(fork->version, 1);
  EXPECT_EQ(AskStore("SELECT count(*) FROM item"), 6) << "nothing is copied";
  Answer(Key("fork"), "v2");
  EXPECT_EQ(LastPrompt(), "u1 [u1] v2");
  Restart();
  ASSERT_TRUE(Fork(Key(), Key("later"), 2).ok());
  Answer(Key("later"), "w3");
  EXPECT_EQ(LastPrompt(), "u1 [u1] u2 [u2] w3");
  EXPECT_EQ(History(Key("later")).version, 3);
  Answer(Key("fork"), "v3");
  EXPECT_EQ(LastPrompt(), "u1 [u1] v2 [v2] v3");
  EXPECT_EQ(HistoryText(Key()), "u1 [u1] u2 [u2] u3 [u3]");
}

// Versions also count changes that say nothing, so a page cannot compute them from the items.
TEST_F(SessionsForkTest, ItMayBeginBeforeAnItem) {
  AnswerAll(Key(), {"u1", "u2", "u3"});
  const std::vector<Item> items = History(Key()).items;
  ASSERT_EQ(items.size(), 6u);
  const auto fork_before = [&](const SessionKey& from, const std::string& item,
                               const std::string& to) {
    return Ask<Result<Conversation>>(
        &Sessions::Fork, from, Key(to),
        ForkBegin{.version = {}, .before_item = item, .expected_version = {}});
  };
  const std::vector<std::string> histories = {"", "u1 [u1]", "u1 [u1] u2 [u2]"};
  for (const bool restarts : {false, true}) {
    if (restarts) Restart();
    for (size_t i = 0; i < items.size(); ++i) {  // oldest first
      const std::string to = (restarts ? "again" : "fork") + std::to_string(i);
      const Result<Conversation> fork = fork_before(Key(), items[i].id, to);
      ASSERT_TRUE(fork.ok()) << fork.status();
      EXPECT_EQ(HistoryText(Key(to)), histories[i / 2]) << i;
    }
  }
  Answer(Key("fork4"), "v3");
  ASSERT_TRUE(fork_before(Key("fork4"), items[2].id, "inner").ok());
  EXPECT_EQ(HistoryText(Key("inner")), "u1 [u1]");
  EXPECT_EQ(fork_before(Key("fork4"), items[4].id, "x").status().reason(), "not_found")
      << "an item of the other branch";
  EXPECT_EQ(fork_before(Key(), "msg_none", "x").status().reason(), "not_found");
}

// Regression: an imported conversation could be forked before the first item of each call alone;
// before the others its fork was refused, or had lost items.
TEST_F(SessionsForkTest, ItMayBeginBetweenItemsThatCameInOneCall) {
  const auto add = [&](const std::vector<std::string>& texts) {
    std::vector<api::ChatMessage> messages;
    for (const std::string& text : texts) messages.push_back({api::Role::kUser, text, {}});
    ASSERT_TRUE(
        Ask<Result<ItemList>>(&Sessions::AppendItems, Key(), messages, std::optional<int64_t>())
            .ok());
  };
  Answer(Key(), "q");
  add({"a", "b", "c"});
  add({"d", "e"});
  Answer(Key(), "u");
  const std::vector<Item> items = History(Key()).items;
  const std::vector<std::string> histories = {"",
                                              "",
                                              "q [q]",
                                              "q [q] a",
                                              "q [q] a b",
                                              "q [q] a b c",
                                              "q [q] a b c d",
                                              "q [q] a b c d e",
                                              "q [q] a b c d e"};
  ASSERT_EQ(items.size(), histories.size());
  for (const bool restarts : {false, true}) {
    if (restarts) Restart();
    for (size_t i = 0; i < items.size(); ++i) {
      const SessionKey to = Key((restarts ? "again" : "fork") + std::to_string(i));
      const auto fork = Ask<Result<Conversation>>(
          &Sessions::Fork, Key(), to,
          ForkBegin{.version = {}, .before_item = items[i].id, .expected_version = {}});
      ASSERT_TRUE(fork.ok()) << i << ": " << fork.status();
      EXPECT_EQ(HistoryText(to), histories[i]) << i;
      // It goes on as any other, and can be forked at its own beginning.
      Answer(to, "v");
      EXPECT_EQ(LastPrompt(), histories[i] + (histories[i].empty() ? "v" : " v")) << i;
      const SessionKey inner = Key((restarts ? "inner+" : "inner") + std::to_string(i));
      ASSERT_TRUE(Fork(to, inner, fork->version).ok()) << i;
      EXPECT_EQ(HistoryText(inner), histories[i]) << i;
    }
  }
}

TEST_F(SessionsForkTest, AForkHasTheVersionsOfTheOtherUpToItsBeginningAndThenItsOwn) {
  AnswerAll(Key(), {"u1", "u2", "u3"});
  ASSERT_TRUE(Fork(Key(), Key("b"), 2).ok());
  AnswerAll(Key("b"), {"v3", "v4"});
  for (const bool restarts : {false, true}) {
    if (restarts) Restart();
    const std::string more = restarts ? "+" : "";
    ASSERT_TRUE(Fork(Key("b"), Key("c1" + more), 1).ok());
    ASSERT_TRUE(Fork(Key("b"), Key("c2" + more), 2).ok());
    ASSERT_TRUE(Fork(Key("b"), Key("c3" + more), 3).ok());
    EXPECT_EQ(HistoryText(Key("c1" + more)), "u1 [u1]");
    EXPECT_EQ(HistoryText(Key("c2" + more)), "u1 [u1] u2 [u2]");
    EXPECT_EQ(HistoryText(Key("c3" + more)), "u1 [u1] u2 [u2] v3 [v3]");
    ASSERT_TRUE(Fork(Key("c3" + more), Key("d" + more), 1).ok());
    Answer(Key("d" + more), "w");
    EXPECT_EQ(LastPrompt(), "u1 [u1] w");
  }
}

TEST_F(SessionsForkTest, AVersionThatThereWasNotYetIsRefusedAndTheFirstIsEmpty) {
  AnswerAll(Key(), {"u1"});
  EXPECT_EQ(ReasonOf(Key(), 2), "version_mismatch version");
  EXPECT_EQ(ReasonOf(Key("none"), 0), "not_found ");
  ASSERT_TRUE(Fork(Key(), Key("empty"), 0).ok());
  EXPECT_EQ(HistoryText(Key("empty")), "");
  Answer(Key("empty"), "v1");
  EXPECT_EQ(LastPrompt(), "v1");
  EXPECT_EQ(ReasonOf(Key("empty"), 2), "version_mismatch version");
  const auto unexpected =
      Ask<Result<Conversation>>(&Sessions::Fork, Key(), Key("refused"),
                                ForkBegin{.version = 1, .expected_version = int64_t{0}});
  EXPECT_EQ(unexpected.status().reason(), "version_mismatch");
}

TEST_F(SessionsForkTest, AVersionOfWhichAnItemWasDeletedIsGoneAndThoseBeforeAreNot) {
  AnswerAll(Key(), {"u1", "u2", "u3"});
  ASSERT_TRUE(DeleteItem(Key(), History(Key()).items[2].id).ok());
  for (const bool restarts : {false, true}) {
    if (restarts) Restart();
    for (const int64_t version : {2, 3})
      EXPECT_EQ(ReasonOf(Key(), version), "expired version") << version;
    const std::string more = restarts ? "+" : "";
    ASSERT_TRUE(Fork(Key(), Key("before" + more), 1).ok());
    EXPECT_EQ(HistoryText(Key("before" + more)), "u1 [u1]");
    ASSERT_TRUE(Fork(Key(), Key("behind" + more), 4).ok());
    EXPECT_EQ(HistoryText(Key("behind" + more)), "u1 [u1] [u2] u3 [u3]");
  }
}

TEST_F(SessionsForkTest, WhatWasClearedIsGoneForNewForksAndNotForThoseThatHaveIt) {
  AnswerAll(Key(), {"u1", "u2"});
  ASSERT_TRUE(Fork(Key(), Key("b"), 2).ok());
  EXPECT_TRUE(Ask<Status>(&Sessions::Clear, Key()).ok());
  EXPECT_EQ(ReasonOf(Key(), 1), "expired version");
  EXPECT_EQ(ReasonOf(Key(), 2), "expired version");
  Answer(Key(), "new");
  ASSERT_TRUE(Fork(Key(), Key("new"), 4).ok());
  EXPECT_EQ(HistoryText(Key("new")), "new [new]");
  ASSERT_TRUE(Fork(Key("b"), Key("c"), 1).ok());
  EXPECT_EQ(HistoryText(Key("c")), "u1 [u1]");
  EXPECT_TRUE(Ask<Status>(&Sessions::Delete, Key(), std::nullopt).ok());
  EXPECT_TRUE(Ask<Status>(&Sessions::Delete, Key("b"), std::nullopt).ok());
  ASSERT_TRUE(Fork(Key("c"), Key("d"), 1).ok());
  Answer(Key("d"), "w");
  EXPECT_EQ(LastPrompt(), "u1 [u1] w");
}

// After a cut, a dialog continues from a later turn. A fork at an earlier version continues from
// the beginning of the prompts of that time, and is refused once those turns have left the store.
TEST_F(SessionsForkTest, AVersionBeforeACutHasThePromptOfThen) {
  session_options_.window.limit = 60;
  Restart();
  std::vector<std::string> prompts{"", ""};  // by the version they led to
  for (int turn = 1; turn <= 20; ++turn) {
    Answer(Key(), "u" + std::to_string(turn));
    prompts.push_back(LastPrompt());
  }
  EXPECT_THAT(prompts.back(), Not(StartsWith("u1 "))) << "it was cut";
  for (const int64_t version : {1, 2, 7, 19}) {
    const SessionKey key = Key("fork" + std::to_string(version));
    ASSERT_TRUE(Fork(Key(), key, version).ok());
    Answer(key, "u" + std::to_string(version + 1));
    EXPECT_EQ(LastPrompt(), prompts[static_cast<size_t>(version) + 1 + 1]) << version;
  }
  ASSERT_TRUE(store_
                  ->WriteNow([](store::Database& rows) -> Status {
                    ASSIGN_OR_RETURN(const auto dialog, LoadDialog(rows, Key()));
                    return PruneItems(rows, dialog->id, {.items = 1, .bytes = 1});
                  })
                  .ok());
  EXPECT_EQ(ReasonOf(Key(), 1), "expired version");
  ASSERT_TRUE(Fork(Key(), Key("now"), 20).ok());
  Answer(Key("now"), "more");
  EXPECT_THAT(LastPrompt(), ::testing::EndsWith("u20 [u20] more"));
}

TEST_F(SessionsForkTest, RefusesAVersionWhileAnEarlierTurnRuns) {
  inference_->script = [](const api::GenerateRequest& request) {
    const std::string& text = std::get<api::ChatPrompt>(request.prompt).messages.back().content;
    return responses::testing::Script{
        .pieces = std::vector<std::string>(text == "u1" ? 5 : 1, "a" + text.substr(1))};
  };
  for (const char* text : {"u1", "u2"}) {
    Message message = UserMessage(text);
    message.parallel = true;
    Accepted(Key(), std::move(message));
  }
  Settle();
  inference_->Step();
  inference_->Step();
  Settle();
  ASSERT_EQ(HistoryText(Key()), "u2 a2") << "the second has ended, the first has not";
  EXPECT_EQ(ReasonOf(Key(), 1), "conversation_busy version");
  ASSERT_TRUE(Fork(Key(), Key("none"), 0).ok());
  StepAll();
  EXPECT_EQ(ReasonOf(Key(), 1), "expired version") << "the second alone is nobody's beginning";
  ASSERT_TRUE(Fork(Key(), Key("both"), 2).ok());
  EXPECT_EQ(HistoryText(Key("both")), "u1 a1a1a1a1a1 u2 a2");
}

// Regression: making room for a fork deleted the dialog that was being forked, if it was the least
// recently used.
TEST_F(SessionsForkTest, AForkThatNeedsRoomTakesAnotherDialogsThanItsOwn) {
  session_options_.dialogs.per_owner = 2;
  Restart();
  for (const char* session : {"a", "b"}) {
    Answer(Key(session), "u1");
    Pass(std::chrono::seconds(1));
  }
  const Result<Conversation> fork = Fork(Key("a"), Key("fork"), 1);
  ASSERT_TRUE(fork.ok()) << fork.status();
  EXPECT_EQ(HistoryText(Key("fork")), "u1 [u1]");
  EXPECT_EQ(HistoryText(Key("a")), "u1 [u1]");
  EXPECT_EQ(AskStore("SELECT count(*) FROM dialog WHERE session='b'"), 0);
}

TEST_F(SessionsForkTest, AnImportedDialogIsKnownAtItsVersionAlone) {
  AnswerAll(Key("anna/a"), {"u1", "u2"});
  const auto lines =
      Ask<Result<ExportedLines>>(&Sessions::Export, Subject{"t", "anna/"}, ExportPage{});
  ASSERT_TRUE(lines.ok());
  EXPECT_TRUE(Ask<Status>(&Sessions::Delete, Key("anna/a"), std::nullopt).ok());
  ASSERT_TRUE(Ask<Status>(&Sessions::Import, Subject{"t", "anna/"}, lines->lines[0]).ok());
  EXPECT_EQ(ReasonOf(Key("anna/a"), 1), "expired version");
  ASSERT_TRUE(Fork(Key("anna/a"), Key("anna/b"), 2).ok());
  EXPECT_EQ(HistoryText(Key("anna/b")), "u1 [u1] u2 [u2]");
}

// Compared with a simple model: the items of each version of each dialog, until one is deleted.
TEST_F(SessionsForkTest, RandomDialogsForkAtTheirVersionsAsTheyWere) {
  struct Known {
    std::map<int64_t, std::vector<std::string>> versions{{0, {}}};  // ids of items
    bool shared = false;  // has forks: its items are not deleted here
  };
  std::vector<Known> known(1);
  Random random(20261123);
  const auto key = [](size_t i) { return Key("s" + std::to_string(i)); };
  const auto note = [&](size_t i) {
    const ItemList list = History(key(i));
    std::vector<std::string> ids;
    for (const Item& item : list.items) ids.push_back(item.id);
    known[i].versions[list.version] = ids;
  };
  const auto newest = [&](size_t i) { return known[i].versions.rbegin()->first; };
  Answer(key(0), "first");
  note(0);
  int forks = 0, gone = 0;
  for (int step = 0; step < 400; ++step) {
    const size_t i = random.Below(known.size());
    Known& dialog = known[i];
    const double kind = random.Uniform();
    if (kind < 0.35) {
      Answer(key(i), "u" + std::to_string(step));
      note(i);
    } else if (kind < 0.45) {
      Append(key(i), "a" + std::to_string(step));
      note(i);
    } else if (kind < 0.52 && !dialog.shared) {
      const std::vector<std::string> ids = dialog.versions.rbegin()->second;
      if (ids.empty()) continue;
      const std::string id = ids[random.Below(ids.size())];
      if (!DeleteItem(key(i), id).ok()) continue;  // it belongs to another dialog
      std::erase_if(dialog.versions, [&](const auto& version) {
        return std::find(version.second.begin(), version.second.end(), id) != version.second.end();
      });
      note(i);
    } else if (kind < 0.54) {
      ASSERT_TRUE(Ask<Status>(&Sessions::Clear, key(i)).ok());
      const int64_t version = newest(i);
      std::erase_if(dialog.versions, [](const auto& each) { return each.first > 0; });
      note(i);
      EXPECT_GT(newest(i), version);
    } else if (kind < 0.56) {
      Restart();
    } else {
      const int64_t version =
          static_cast<int64_t>(random.Below(static_cast<uint64_t>(newest(i)) + 2));
      const SessionKey to = key(known.size());
      const Result<Conversation> fork = Fork(key(i), to, version);
      const auto had = dialog.versions.find(version);
      if (had == dialog.versions.end()) {
        ++gone;
        EXPECT_EQ(fork.status().reason(), version > newest(i) ? "version_mismatch" : "expired");
        continue;
      }
      if (fork.status().reason() == "invalid_value") continue;  // too many forks of forks
      ASSERT_TRUE(fork.ok()) << fork.status();
      ++forks;
      dialog.shared = true;
      Known made;
      for (const auto& [earlier, ids] : dialog.versions) {
        if (earlier <= version) made.versions[earlier] = ids;
      }
      const std::vector<std::string> ids = had->second;
      known.push_back(made);
      std::vector<std::string> there;
      for (const Item& item : History(to).items) there.push_back(item.id);
      EXPECT_EQ(there, ids) << step;
      EXPECT_EQ(fork->version, version);
    }
  }
  EXPECT_GT(forks, 100);
  EXPECT_GT(gone, 20);
}

}  // namespace
}  // namespace tutti::sessions
