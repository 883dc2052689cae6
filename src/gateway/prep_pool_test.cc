// The number of requests that are prepared at once, and their threads: no request waits in the
// calling thread and none is passed over, for any number of threads.
#include "gateway/prep_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <semaphore>
#include <thread>
#include <vector>

namespace tutti::gateway {
namespace {

constexpr int kCallsOfEach = 200;

// Jobs that block until they are released, and their number.
class Gate {
 public:
  void Pass() {
    inside_.fetch_add(1);
    open_.acquire();
    inside_.fetch_sub(1);
    passed_.fetch_add(1);
  }
  void Open(int count) { open_.release(count); }
  bool Inside(int count) const { return Becomes(inside_, count); }
  bool Passed(int count) const { return Becomes(passed_, count); }
  int inside() const { return inside_.load(); }

 private:
  static bool Becomes(const std::atomic<int>& value, int wanted) {
    for (int i = 0; i < 20'000 && value.load() != wanted; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return value.load() == wanted;
  }
  std::atomic<int> inside_{0}, passed_{0};
  std::counting_semaphore<> open_{0};
};

struct PoolSize {
  int in_flight, threads;
};
constexpr PoolSize kPoolSizes[] = {{1, 1}, {1, 12}, {12, 1}, {12, 2}, {12, 12}, {3, 2}};

TEST(PrepPool, AsManyAreAtWorkAsThereAreThreadsAndNeverMoreThanMay) {
  for (const PoolSize size : kPoolSizes) {
    SCOPED_TRACE(testing::Message() << size.threads << " threads for " << size.in_flight);
    const int jobs = size.in_flight + 5;
    Gate gate;
    PrepPool pool(size.in_flight, size.threads);
    const int at_work = std::min(size.in_flight, size.threads);
    EXPECT_EQ(pool.threads(), at_work);
    for (int i = 0; i < jobs; ++i) pool.Post([&] { gate.Pass(); });
    ASSERT_TRUE(gate.Inside(at_work));
    EXPECT_EQ(pool.load(), jobs) << "the others wait";
    gate.Open(1);
    ASSERT_TRUE(gate.Passed(1));
    ASSERT_TRUE(gate.Inside(at_work)) << "the next one follows";
    gate.Open(jobs - 1);
    ASSERT_TRUE(gate.Passed(jobs));
  }
}

TEST(PrepPool, CallersAndThreadsShareThePlaces) {
  for (const PoolSize size : kPoolSizes) {
    SCOPED_TRACE(testing::Message() << size.threads << " threads for " << size.in_flight);
    std::atomic<int> inside{0}, most{0}, done{0};
    const auto work = [&] {
      const int now = inside.fetch_add(1) + 1;
      int seen = most.load();
      while (seen < now && !most.compare_exchange_weak(seen, now)) {
      }
      std::this_thread::yield();
      inside.fetch_sub(1);
      done.fetch_add(1);
    };
    {
      PrepPool pool(size.in_flight, size.threads);
      std::vector<std::jthread> callers;
      for (int caller = 0; caller < 4; ++caller) {
        callers.emplace_back([&] {
          for (int i = 0; i < kCallsOfEach; ++i) {
            if (const PrepPool::Place place(pool); place && i % 3 != 0) {
              work();
              continue;
            }
            pool.Post(work);
          }
        });
      }
    }
    EXPECT_EQ(done.load(), 4 * kCallsOfEach) << "what was posted is run, also where the pool ends";
    EXPECT_LE(most.load(), size.in_flight);
  }
}

TEST(PrepPool, WhoFindsNoPlaceGoesOnAndComesAfterThoseWhoWait) {
  std::vector<int> order;
  Gate gate;
  {
    PrepPool pool(1, 1);
    {
      const PrepPool::Place place(pool);
      ASSERT_TRUE(place);
      EXPECT_FALSE(PrepPool::Place(pool)) << "at once";
      pool.Post([&] {
        gate.Pass();
        order.push_back(1);
      });
      EXPECT_EQ(gate.inside(), 0) << "the caller has the only place";
    }
    EXPECT_FALSE(PrepPool::Place(pool)) << "it is the job's, whether that has begun or not";
    pool.Post([&] { order.push_back(2); });
    gate.Open(1);
  }
  EXPECT_EQ(order, (std::vector<int>{1, 2}));
}

TEST(PrepPool, APlaceThatNoThreadCouldTakeIsFreeForACaller) {
  Gate gate;
  PrepPool pool(12, 1);
  for (int i = 0; i < 30; ++i) pool.Post([&] { gate.Pass(); });
  ASSERT_TRUE(gate.Inside(1));
  EXPECT_TRUE(PrepPool::Place(pool)) << "a short prompt does not wait behind long ones";
  gate.Open(30);
}

}  // namespace
}  // namespace tutti::gateway
