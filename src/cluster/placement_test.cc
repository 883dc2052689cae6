#include "cluster/placement.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

namespace tutti::cluster {
namespace {

std::vector<Candidate> Idle(size_t count) {
  std::vector<Candidate> candidates;
  for (size_t i = 0; i < count; ++i)
    candidates.push_back({HashOf("worker " + std::to_string(i)), 0, 8});
  return candidates;
}

TEST(Placement, TheIdlestByItsLoad) {
  EXPECT_EQ(ChooseWorker({}, 0), std::nullopt);
  EXPECT_EQ(ChooseWorker(std::vector<Candidate>{{1, 3, 8}, {2, 2, 8}, {3, 4, 8}}, 0), 1u);
  EXPECT_EQ(ChooseWorker(std::vector<Candidate>{{1, 3, 4}, {2, 5, 16}}, 0), 1u);
}

TEST(Placement, EqualBeginningsGoToOneWorkerUntilItIsMuchBusier) {
  std::vector<Candidate> candidates = Idle(4);
  const size_t home = *ChooseWorker(candidates, 99);
  for (int load = 0; load <= 3; ++load) {
    candidates[home].load = load;
    EXPECT_EQ(ChooseWorker(candidates, 99), home) << load;
  }
  candidates[home].load = 4;
  EXPECT_NE(ChooseWorker(candidates, 99), home);
}

TEST(Placement, ReadinessFollowsStateAndFreeMemory) {
  using enum api::ModelState;
  const auto of = [](api::ModelState state, int64_t bytes, WorkerMemory memory,
                     bool requested = false) {
    return ReadinessOf({.state = state, .memory_bytes = bytes}, requested, memory);
  };
  const WorkerMemory memory{.budget = 100, .used = 60, .pinned = 30};
  EXPECT_EQ(of(kLoaded, 500, memory), Readiness::kLoaded);
  EXPECT_EQ(of(kLoading, 500, memory), Readiness::kLoading);
  EXPECT_EQ(of(kUnloaded, 40, memory), Readiness::kFits);
  EXPECT_EQ(of(kUnloaded, 41, memory), Readiness::kEvicts);
  EXPECT_EQ(of(kUnloaded, 41, memory, true), Readiness::kLoading) << "it is asked for already";
  EXPECT_EQ(of(kUnloading, 10, memory), Readiness::kEvicts);
  EXPECT_EQ(of(kUnloaded, 70, memory), Readiness::kEvicts);
  EXPECT_EQ(of(kUnloaded, 71, memory), Readiness::kTooLarge) << "pinned models stay";
  EXPECT_EQ(of(kFailed, 10, memory, true), Readiness::kFailed);
  EXPECT_EQ(of(kUnloaded, int64_t{1} << 60, {.budget = 0, .used = 60}), Readiness::kFits);
}

TEST(Placement, PrefersTheWorkerThatHasTheModel) {
  const auto choose = [](Readiness first, int load, Readiness second) {
    return *ChooseWorker(std::vector<Candidate>{{1, load, 4, first}, {2, 0, 4, second}}, 0);
  };
  EXPECT_EQ(choose(Readiness::kLoaded, 7, Readiness::kFits), 0u);
  EXPECT_EQ(choose(Readiness::kLoading, 3, Readiness::kFits), 0u) << "it is loaded once";
  EXPECT_EQ(choose(Readiness::kEvicts, 0, Readiness::kFits), 1u);
  EXPECT_EQ(choose(Readiness::kFailed, 0, Readiness::kEvicts), 1u);
  EXPECT_EQ(choose(Readiness::kTooLarge, 0, Readiness::kFailed), 1u);
}

// With one popular model all other workers would be idle.
TEST(Placement, ABusyModelIsLoadedOnceMoreWhereItFits) {
  const auto choose = [](int load, Readiness other) {
    return *ChooseWorker(std::vector<Candidate>{{1, load, 4, Readiness::kLoaded}, {2, 0, 4, other}},
                         0);
  };
  EXPECT_EQ(choose(8, Readiness::kFits), 0u);
  EXPECT_EQ(choose(9, Readiness::kFits), 1u);
  EXPECT_EQ(choose(5, Readiness::kLoading), 1u);
  EXPECT_EQ(choose(100, Readiness::kEvicts), 0u) << "nothing is unloaded for it";
}

TEST(Placement, LongPromptsStayAmongWorkersThatHaveTheModel) {
  std::vector<Candidate> candidates = Idle(4);
  candidates[0].readiness = candidates[1].readiness = Readiness::kFits;
  std::set<size_t> homes;
  for (uint64_t key = 1; key <= 64; ++key)
    homes.insert(*ChooseWorker(candidates, key * 0x9E3779B97F4A7C15u));
  EXPECT_EQ(homes, (std::set<size_t>{2, 3}));
}

TEST(Placement, KeysSpreadAndOneWorkerLessMovesItsOwnAlone) {
  const std::vector<Candidate> four = Idle(4);
  const std::vector<Candidate> three(four.begin(), four.begin() + 3);
  std::map<size_t, int> counts;
  for (uint64_t key = 1; key <= 4000; ++key) {
    const size_t with = *ChooseWorker(four, key * 0x9E3779B97F4A7C15u);
    ++counts[with];
    if (with == 3) continue;
    EXPECT_EQ(*ChooseWorker(three, key * 0x9E3779B97F4A7C15u), with);
  }
  for (const auto& [worker, count] : counts) {
    EXPECT_GT(count, 850) << worker;
    EXPECT_LT(count, 1150) << worker;
  }
}

TEST(Placement, TheKeyIsOfTenantAndBeginningAndShortPromptsHaveNone) {
  const auto chat = [](const std::string& first, const std::string& second) {
    api::ChatPrompt prompt;
    prompt.messages = {{api::Role::kSystem, first, ""}, {api::Role::kUser, second, ""}};
    return api::Prompt(prompt);
  };
  const std::string system(2000, 's');
  EXPECT_EQ(AffinityKey("a", chat("short", "hi"), 1024), 0u);
  const uint64_t key = AffinityKey("a", chat(system, "hi"), 1024);
  EXPECT_NE(key, 0u);
  EXPECT_EQ(AffinityKey("a", chat(system, "other"), 1024), key);
  EXPECT_NE(AffinityKey("b", chat(system, "hi"), 1024), key);
  EXPECT_NE(AffinityKey("a", chat("x" + system, "hi"), 1024), key);
  EXPECT_NE(AffinityKey("a", api::TextPrompt{system}, 1024), 0u);
  EXPECT_NE(AffinityKey("a", api::TokenPrompt{std::vector<TokenId>(1000, 7)}, 1024), 0u);
}

}  // namespace
}  // namespace tutti::cluster
