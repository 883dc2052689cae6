#include "runner/compute_pool.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <array>
#include <chrono>
#include <numeric>
#include <thread>

namespace tutti::runner {
namespace {

double ProcessCpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

TEST(ComputePoolTest, EveryWorkerRunsEveryJobOnce) {
  for (int workers : {1, 2, 5}) {
    ComputePool pool({.workers = workers});
    std::array<int, 8> runs{};
    for (int job = 0; job < 500; ++job) {
      pool.Run([&](const model::Team& team) { ++runs[static_cast<size_t>(team.worker())]; });
    }
    for (int w = 0; w < 8; ++w) EXPECT_EQ(runs[static_cast<size_t>(w)], w < workers ? 500 : 0);
  }
}

// Each phase reads what the other workers wrote in the one before; a missing barrier gives a wrong sum.
TEST(ComputePoolTest, PhasesSeeWhatEarlierPhasesWrote) {
  constexpr int kWorkers = 4, kPhases = 500;
  ComputePool pool({.workers = kWorkers});
  std::array<int64_t, kWorkers> cells{1, 1, 1, 1};
  std::array<bool, kWorkers> wrong{};
  pool.Run([&](const model::Team& team) {
    const auto me = static_cast<size_t>(team.worker());
    for (int phase = 0; phase < kPhases; ++phase) {
      const int64_t sum = std::accumulate(cells.begin(), cells.end(), int64_t{0});
      if (sum != kWorkers * (phase + 1)) wrong[me] = true;
      team.Sync();
      cells[me] += 1;
      team.Sync();
    }
  });
  for (bool w : wrong) EXPECT_FALSE(w);
}

TEST(ComputePoolTest, SharesCoverAllItemsOnceAndEvenly) {
  model::SpinBarrier barrier(1);
  for (int workers : {1, 2, 3, 7}) {
    for (int n : {0, 1, 6, 30, 31, 1000}) {
      int next = 0;
      for (int w = 0; w < workers; ++w) {
        const auto range = model::Team(barrier, w, workers).Share(n);
        EXPECT_EQ(range.begin, next);
        EXPECT_LE(range.end - range.begin, n / workers + 1);
        next = range.end;
      }
      EXPECT_EQ(next, n);
    }
  }
}

TEST(ComputePoolTest, AnIdlePoolUsesNoCpuAndWakesAgain) {
  ComputePool pool({.workers = 4});
  int runs = 0;
  const auto job = [&](const model::Team& team) { runs += team.worker() == 0 ? 1 : 0; };
  pool.Run(job);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // past the spin
  const double before = ProcessCpuSeconds();
  std::this_thread::sleep_for(std::chrono::milliseconds(400));
  EXPECT_LT(ProcessCpuSeconds() - before, 0.004);  // 1 % of one core
  pool.Run(job);
  EXPECT_EQ(runs, 2);
}

TEST(ComputePoolTest, MoreWorkersThanCoresStillFinish) {
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  ComputePool pool({.workers = 3 * cores + 1, .pin = true});  // pinning is ignored here
  std::atomic<int> phases{0};
  pool.Run([&](const model::Team& team) {
    for (int i = 0; i < 50; ++i) {
      phases.fetch_add(1, std::memory_order_relaxed);
      team.Sync();
    }
  });
  EXPECT_EQ(phases.load(), 50 * pool.workers());
}

}  // namespace
}  // namespace tutti::runner
