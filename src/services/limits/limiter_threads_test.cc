// The limiter under many threads at once.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "services/limits/limiter.h"

namespace tutti::limits {
namespace {

constexpr int kThreads = 20, kEach = 50;  // 1,000 requests
constexpr int kRepeats = 200;

// N49: 1,000 parallel requests at a limit of 100, 200 times over: each by another rule in turn.
TEST(LimiterThreads, OfAThousandParallelRequestsAtALimitOf100ExactlyThatManyPass) {
  const std::vector<Rules> rules = {{.requests_per_minute = 100}, {.tokens_per_minute = 1000},
                                    {.concurrency = 100},         {.queued_tokens = 1000},
                                    {.tokens_per_day = 1000},     {.window = {.limit = 100}}};
  ManualClock clock;
  Limiter limiter({}, &clock, [] { return int64_t{1'700'000'000}; });
  std::atomic<int> passed = 0;
  std::barrier together(kThreads + 1);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int repeat = 0; repeat < kRepeats; ++repeat) {
        const std::string name = std::to_string(repeat);
        const std::string own = name + ":" + std::to_string(t);
        const Rules& rule = rules[static_cast<size_t>(repeat) % rules.size()];
        // In another order for each thread, and with a subject of its own that others do not know.
        std::vector<Subject> subjects = {{SubjectKind::kTenant, name, rule},
                                         {SubjectKind::kModel, "m", {}},
                                         {SubjectKind::kKey, own, {.requests_per_minute = 1000}}};
        std::rotate(subjects.begin(), subjects.begin() + t % 3, subjects.end());
        std::vector<Reservation> held;
        together.arrive_and_wait();
        for (int i = 0; i < kEach; ++i) {
          Result<Reservation> reservation =
              limiter.Reserve(subjects, {.tokens = 10, .queued_tokens = 10});
          if (reservation.ok()) held.push_back(*std::move(reservation));
        }
        passed += static_cast<int>(held.size());
        together.arrive_and_wait();  // counted, and ...
        together.arrive_and_wait();  // ... looked at
      }
    });
  }
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    together.arrive_and_wait();
    together.arrive_and_wait();
    EXPECT_EQ(passed.exchange(0), 100) << "repeat " << repeat;
    together.arrive_and_wait();
  }
  for (std::thread& thread : threads) thread.join();
  // All were dropped, each gave back what it had.
  EXPECT_EQ(limiter.subjects(), size_t{kRepeats} * (kThreads + 1) + 1);
  limiter.DropIdle();
  EXPECT_EQ(limiter.subjects(), 0u);
}

TEST(LimiterThreads, ReservationsThatEndInEveryWayWhileOthersBeginLeaveNothing) {
  ManualClock clock;
  Limiter limiter({.max_subjects = 64, .shards = 4}, &clock, [] { return int64_t{1'700'000'000}; });
  const Rules rules = {.tokens_per_minute = 100'000, .concurrency = 30, .queued_tokens = 100'000};
  std::atomic<int64_t> used = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      std::vector<Reservation> held;
      for (int i = 0; i < 5000; ++i) {
        const std::string name = std::to_string((t + i) % 10);
        const std::vector<Subject> subjects = {{SubjectKind::kTenant, "t", rules},
                                               {SubjectKind::kKey, name, {.concurrency = 25}}};
        Result<Reservation> reservation =
            limiter.Reserve(subjects, {.tokens = 20, .queued_tokens = 20});
        if (reservation.ok()) held.push_back(*std::move(reservation));
        if (i % 100 == 0) limiter.DropIdle();
        if (held.size() > 3) {
          if (i % 3 == 0) held.front().LeaveQueue();
          if (i % 2 == 0) {
            held.front().Settle(2);
            used += 2;
          }
          held.erase(held.begin());
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  RateLimitView view;
  const Subject tenant = {SubjectKind::kTenant, "t", rules};
  ASSERT_TRUE(limiter.Reserve({&tenant, 1}, {}, &view).ok());
  EXPECT_GT(used, 1000);
  EXPECT_EQ(view.tokens->remaining, 100'000 - used);
  clock.Advance(std::chrono::minutes(1));
  limiter.DropIdle();
  EXPECT_EQ(limiter.subjects(), 0u);
}

}  // namespace
}  // namespace tutti::limits
