#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "app/process/memory.h"

namespace tutti::app {
namespace {

using api::LoadLevel;

struct AllWell final : api::HealthProbe {
  Status started() const override { return OkStatus(); }
  Status live() const override { return OkStatus(); }
  Status ready() const override { return OkStatus(); }
};

struct Lines final : Logger::Sink {
  void Line(std::string_view line) override { lines.emplace_back(line); }
  std::vector<std::string> lines;
};

constexpr int64_t kMiB = int64_t{1} << 20;

// A process limit of 1,200 MiB; models take 200 MiB, 100 of them later. Each 10 MiB above 200 are 1
// %.
class MemoryWatchTest : public ::testing::Test {
 protected:
  MemoryWatchTest() {
    watch_.ModelsAreLoaded(100 * kMiB);
    EXPECT_EQ(std::exchange(shrunk_, 0), 1) << "what loading alone needed is not the models'";
  }

  LoadLevel At(int64_t percent) {
    resident_ = (200 + 10 * percent) * kMiB;
    clock_.Advance(MemoryWatch::kEvery);
    watch_.Look();
    EXPECT_EQ(watch_.figures().level, level_.load());
    return level_.load();
  }

  ManualClock clock_;
  AllWell inner_;
  std::shared_ptr<Lines> lines_ = std::make_shared<Lines>();
  Logger log_{LogLevel::kInfo, lines_};
  int64_t resident_ = 100 * kMiB, after_shrinking_ = 0;
  int shrunk_ = 0;
  std::atomic<LoadLevel> level_{LoadLevel::kGreen};
  MemoryWatch watch_{inner_,
                     1200 * kMiB,
                     {.resident = [this] { return resident_; },
                      .shrink =
                          [this] {
                            ++shrunk_;
                            if (after_shrinking_ > 0) resident_ = after_shrinking_;
                          }},
                     level_,
                     clock_,
                     log_};
};

TEST_F(MemoryWatchTest, LevelsFollowWhatTheModelsLeave) {
  EXPECT_EQ(At(0), LoadLevel::kGreen);
  EXPECT_EQ(At(79), LoadLevel::kGreen);
  EXPECT_EQ(At(80), LoadLevel::kYellow);
  EXPECT_EQ(At(97), LoadLevel::kYellow);
  EXPECT_TRUE(watch_.ready().ok()) << "interactive requests are still served";
  EXPECT_EQ(At(98), LoadLevel::kRed);
  EXPECT_EQ(watch_.ready().reason(), "overloaded");
  EXPECT_TRUE(watch_.live().ok()) << "a new process would not have more memory";
  EXPECT_EQ(At(120), LoadLevel::kRed);
  EXPECT_EQ(At(0), LoadLevel::kGreen) << "down in one step";
  EXPECT_TRUE(watch_.ready().ok());
}

TEST_F(MemoryWatchTest, ALevelIsLeftWithSomeSlack) {
  EXPECT_EQ(At(98), LoadLevel::kRed);
  EXPECT_EQ(At(96), LoadLevel::kRed);
  EXPECT_EQ(At(94), LoadLevel::kYellow);
  EXPECT_EQ(At(97), LoadLevel::kYellow) << "not red again by what is below 98";
  EXPECT_EQ(At(78), LoadLevel::kYellow);
  EXPECT_EQ(At(76), LoadLevel::kGreen);
  EXPECT_EQ(At(79), LoadLevel::kGreen);
}

TEST_F(MemoryWatchTest, ShrinksBeforeItRefuses) {
  EXPECT_EQ(At(94), LoadLevel::kYellow);
  EXPECT_EQ(shrunk_, 0);
  after_shrinking_ = 300 * kMiB;
  EXPECT_EQ(At(99), LoadLevel::kGreen) << "what was free was all of it";
  EXPECT_EQ(shrunk_, 1);
  after_shrinking_ = 0;
  EXPECT_EQ(At(99), LoadLevel::kRed) << "allocations wait meanwhile: not at every look";
  EXPECT_EQ(shrunk_, 1);
  clock_.Advance(MemoryWatch::kShrinkEvery);
  EXPECT_EQ(At(99), LoadLevel::kRed);
  EXPECT_EQ(shrunk_, 2);
}

TEST_F(MemoryWatchTest, LooksFourTimesASecond) {
  EXPECT_EQ(At(0), LoadLevel::kGreen);
  resident_ = 1200 * kMiB;
  clock_.Advance(MemoryWatch::kEvery - Duration(1));
  watch_.Look();
  EXPECT_EQ(level_.load(), LoadLevel::kGreen);
  clock_.Advance(Duration(1));
  watch_.Look();
  EXPECT_EQ(level_.load(), LoadLevel::kRed);
}

// Regression: the level stayed green up to the limit, because the room was computed from the size
// of models that exceeded the limit.
TEST(MemoryWatch, WhereTheModelsTakeMoreThanThereIsItIsTheLimitThatCounts) {
  ManualClock clock;
  AllWell inner;
  Logger log(LogLevel::kInfo, std::make_shared<Lines>());
  std::atomic<LoadLevel> level{LoadLevel::kGreen};
  int64_t resident = 100 * kMiB;
  MemoryWatch watch(inner, 300 * kMiB, {.resident = [&] { return resident; }, .shrink = [] {}},
                    level, clock, log);
  watch.ModelsAreLoaded(500 * kMiB);
  const auto at = [&](int64_t bytes) {
    resident = bytes;
    clock.Advance(MemoryWatch::kEvery);
    watch.Look();
    return level.load();
  };
  EXPECT_EQ(at(280 * kMiB), LoadLevel::kGreen);
  EXPECT_EQ(at(297 * kMiB), LoadLevel::kYellow);
  EXPECT_EQ(at(300 * kMiB - kMiB / 4), LoadLevel::kRed);
}

TEST_F(MemoryWatchTest, EveryChangeIsALineOfTheLog) {
  At(50);
  At(85);
  At(85);
  At(10);
  log_.Flush();
  EXPECT_THAT(lines_->lines,
              ::testing::ElementsAre(::testing::AllOf(::testing::HasSubstr("memory.level"),
                                                      ::testing::HasSubstr("level=yellow")),
                                     ::testing::HasSubstr("level=green")));
}

TEST(MemoryWatch, IsGreenUntilTheModelsAreLoadedAndWhereNoLimitIsKnown) {
  const AllWell inner;
  ManualClock clock;
  Logger log(LogLevel::kOff);
  std::atomic<LoadLevel> level{LoadLevel::kGreen};
  const MemoryWatch::Ports much{.resident = [] { return 900 * kMiB; }, .shrink = [] {}};
  MemoryWatch loading(inner, 1000 * kMiB, much, level, clock, log);
  loading.Look();
  EXPECT_EQ(level.load(), LoadLevel::kGreen);
  MemoryWatch unlimited(inner, 0, much, level, clock, log);
  unlimited.ModelsAreLoaded(0);
  unlimited.Look();
  EXPECT_EQ(level.load(), LoadLevel::kGreen);
}

// Regression: such a server started and answered no request.
TEST(MemoryWatch, RefusesAStartThatLeavesNoMemoryToAnswerWith) {
  const AllWell inner;
  ManualClock clock;
  Logger log(LogLevel::kOff);
  std::atomic<LoadLevel> level{LoadLevel::kGreen};
  for (const auto& [limit, starts] :
       {std::pair<int64_t, bool>{100, false}, {900, false}, {916, true}}) {
    const MemoryWatch watch(inner, limit * kMiB,
                            {.resident = [] { return 900 * kMiB; }, .shrink = [] {}}, level, clock,
                            log);
    const Status status = watch.CheckRoom();
    EXPECT_EQ(status.ok(), starts) << limit;
    EXPECT_EQ(status.reason(), starts ? "" : "out_of_memory") << limit;
  }
}

TEST(MemoryWatch, ModelsThatLeaveNothingDoNotMakeItRed) {
  const AllWell inner;
  ManualClock clock;
  auto lines = std::make_shared<Lines>();
  Logger log(LogLevel::kInfo, lines);
  std::atomic<LoadLevel> level{LoadLevel::kGreen};
  int64_t resident = 900 * kMiB;
  MemoryWatch watch(inner, 1000 * kMiB,
                    {.resident = [&resident] { return resident; }, .shrink = [] {}}, level, clock,
                    log);
  watch.ModelsAreLoaded(200 * kMiB);
  log.Flush();
  EXPECT_THAT(lines->lines, ::testing::ElementsAre(::testing::HasSubstr("memory.tight")));
  watch.Look();
  EXPECT_EQ(level.load(), LoadLevel::kGreen);
  clock.Advance(MemoryWatch::kEvery);
  resident = 1100 * kMiB + MemoryWatch::kLeastRoom;
  watch.Look();
  EXPECT_EQ(level.load(), LoadLevel::kRed) << "but memory that comes on top of them does";
}

}  // namespace
}  // namespace tutti::app
