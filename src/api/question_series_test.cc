#include "api/question_series.h"

#include <gtest/gtest.h>

#include <future>
#include <string>
#include <thread>
#include <vector>

namespace tutti::api {
namespace {

using Numbers = QuestionSeries<size_t>;
using Answered = std::function<void(Result<size_t>)>;

TEST(QuestionSeries, AnswersThatComeAtOnceAreAskedForWithoutDepth) {
  constexpr size_t kMany = 200'000;  // deeper calls would need more than a thread's stack
  std::optional<Result<std::vector<size_t>>> all;
  Numbers::Begin(
      kMany, [](size_t index, const Answered& answered) { answered(index * 2); },
      [&](Result<std::vector<size_t>> answers) { all = std::move(answers); });
  ASSERT_TRUE(all.has_value() && all->ok());
  ASSERT_EQ((*all)->size(), kMany);
  EXPECT_EQ((*all)->back(), 2 * (kMany - 1));
}

TEST(QuestionSeries, NothingIsAskedBeforeTheLastAnswerHasCome) {
  std::vector<Answered> asked;
  std::optional<Result<std::vector<size_t>>> all;
  Numbers::Begin(
      3, [&](size_t, const Answered& answered) { asked.push_back(answered); },
      [&](Result<std::vector<size_t>> answers) { all = std::move(answers); });
  for (size_t i = 0; i < 3; ++i) {
    ASSERT_EQ(asked.size(), i + 1);
    EXPECT_FALSE(all.has_value());
    asked[i](10 + i);
  }
  ASSERT_TRUE(all.has_value() && all->ok());
  EXPECT_EQ(**all, (std::vector<size_t>{10, 11, 12}));
}

TEST(QuestionSeries, TheFirstFailureEndsIt) {
  int asked = 0;
  Status ended;
  Numbers::Begin(
      5,
      [&](size_t index, const Answered& answered) {
        ++asked;
        index < 2 ? answered(index) : answered(Unavailable("overloaded", "no"));
      },
      [&](const Result<std::vector<size_t>>& answers) { ended = answers.status(); });
  EXPECT_EQ(ended.reason(), "overloaded");
  EXPECT_EQ(asked, 3);
}

TEST(QuestionSeries, OfNoQuestionItEndsAtOnce) {
  bool ended = false;
  Numbers::Begin(
      0, [](size_t, const Answered&) { FAIL(); },
      [&](const Result<std::vector<size_t>>& answers) {
        ended = answers.ok() && answers->empty();
      });
  EXPECT_TRUE(ended);
}

TEST(QuestionSeries, WhoAnswersAndWhoAsksMayBeDifferentThreads) {
  for (int round = 0; round < 200; ++round) {
    std::promise<Result<std::vector<size_t>>> all;
    std::vector<std::thread> threads(8);
    Numbers::Begin(
        threads.size(),
        [&](size_t index, const Answered& answered) {
          threads[index] = std::thread([index, answered] { answered(index); });
        },
        [&](Result<std::vector<size_t>> answers) { all.set_value(std::move(answers)); });
    const auto answers = all.get_future().get();
    ASSERT_TRUE(answers.ok());
    EXPECT_EQ(answers->size(), threads.size());
    for (std::thread& thread : threads) thread.join();
  }
}

}  // namespace
}  // namespace tutti::api
