#include "services/background/queue_runner.h"

#include <gtest/gtest.h>

#include <future>
#include <string>
#include <vector>

namespace tutti::background {
namespace {

// A queue whose rows are numbers: those that run, and those that the store has.
class Numbers final : public QueueRunner {
 public:
  Numbers(store::Store& store, const Clock& clock)
      : QueueRunner(
            store, clock, [] { return int64_t{0}; }, "tutti-numbers") {}
  ~Numbers() override { Close(); }

  using QueueRunner::TakeSweep;
  using QueueRunner::TickIn;
  using QueueRunner::WriteUntilStored;

  void OnStrand(const std::function<void()>& task) {
    std::promise<void> done;
    strand_->Post([&] {
      task();
      done.set_value();
    });
    done.get_future().get();
  }
  bool stopped() const { return stopped_; }

  std::vector<std::string> calls;

 private:
  void Pump() override { calls.emplace_back("pump"); }
  void Tick() override { calls.emplace_back("tick"); }
  store::Store::Work Release() override {
    calls.emplace_back(stopped_ ? "release" : "release before it has stopped");
    return [this](store::Database&) {
      calls.emplace_back("requeue");
      return OkStatus();
    };
  }
};

class QueueRunnerTest : public testing::Test {
 protected:
  void Pass(Duration time) {
    clock_.Advance(time);
    numbers_.strand()->Look();
    numbers_.OnStrand([] {});
    numbers_.OnStrand([] {});
  }

  std::unique_ptr<store::Store> store_ = *store::Store::Open({}, {});
  ManualClock clock_;
  Numbers numbers_{*store_, clock_};
};

using Calls = std::vector<std::string>;

TEST_F(QueueRunnerTest, ReleasesWhatRunsAndTicksNoMore) {
  numbers_.OnStrand([&] { numbers_.TickIn(std::chrono::seconds(5)); });
  numbers_.ReleaseLeases();
  EXPECT_EQ(numbers_.calls, (Calls{"pump", "release", "requeue"}));
  Pass(std::chrono::seconds(10));
  EXPECT_EQ(numbers_.calls.size(), 3u);
}

TEST_F(QueueRunnerTest, TicksOnceAtTheEarliestTimeAskedFor) {
  numbers_.OnStrand([&] {
    numbers_.TickIn(std::chrono::seconds(5));
    numbers_.TickIn(std::chrono::seconds(1));
    numbers_.TickIn(std::chrono::seconds(3));
  });
  Pass(std::chrono::milliseconds(999));
  EXPECT_EQ(numbers_.calls, Calls());
  Pass(std::chrono::milliseconds(1));
  EXPECT_EQ(numbers_.calls, Calls{"tick"});
  Pass(std::chrono::seconds(10));
  EXPECT_EQ(numbers_.calls, Calls{"tick"});
}

TEST_F(QueueRunnerTest, SweepsOnceAMinute) {
  std::vector<bool> due;
  const auto look = [&] { due.push_back(numbers_.TakeSweep()); };
  for (int i = 0; i < 2; ++i) numbers_.OnStrand(look);
  Pass(std::chrono::minutes(1));
  for (int i = 0; i < 2; ++i) numbers_.OnStrand(look);
  EXPECT_EQ(due, (std::vector<bool>{true, false, true, false}));
}

TEST_F(QueueRunnerTest, AWriteIsRetriedUntilTheStoreHasIt) {
  std::atomic<int> tries = 0;
  std::promise<int> stored;
  numbers_.OnStrand([&] {
    numbers_.WriteUntilStored(
        [&](store::Database&) -> Result<int> {
          if (++tries < 3) return ResourceExhausted("storage_full", "no space");
          return 7;
        },
        [&](int value) { stored.set_value(value); });
  });
  std::future<int> value = stored.get_future();
  while (value.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready)
    Pass(std::chrono::milliseconds(100));
  EXPECT_EQ(value.get(), 7);
  EXPECT_EQ(tries, 3);
}

}  // namespace
}  // namespace tutti::background
