#include "runner/compute_pool.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <numeric>
#include <thread>
#include <vector>

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

TEST(ComputePoolTest, EveryItemOfEveryPhaseIsDoneOnce) {
  for (int workers : {1, 2, 5}) {
    ComputePool pool({.workers = workers});
    std::vector<int> runs(1000);
    int jobs = 0;
    for (int n : {0, 1, 2, 3, 7, 30, 31, 97, 1000}) {
      for (int granule : {1, 2, 8}) {
        pool.Run([&](model::Team& team) {
          team.ForEach(n, granule, [&](int begin, int end) {
            EXPECT_EQ(begin % granule, 0);
            EXPECT_LT(begin, end);
            for (int i = begin; i < end; ++i) ++runs[static_cast<size_t>(i)];
          });
        });
        pool.Run([&](model::Team& team) {
          team.ForEachInOrder(n, [&](int item) { ++runs[static_cast<size_t>(item)]; });
        });
        jobs += 2;
        for (int i = 0; i < n; ++i)
          ASSERT_EQ(runs[static_cast<size_t>(i)], 2) << n << " " << granule << " " << i;
        std::fill(runs.begin(), runs.end(), 0);
      }
    }
    EXPECT_EQ(jobs, 54);
  }
}

// Each phase reads what the other workers wrote in the one before; a phase that starts early sees
// an old sum.
TEST(ComputePoolTest, PhasesSeeWhatEarlierPhasesWrote) {
  constexpr int kCells = 24, kPhases = 500;
  ComputePool pool({.workers = 4});
  std::array<int64_t, kCells> cells{}, sums{};
  for (int job = 0; job < 4; ++job) {
    pool.Run([&](model::Team& team) {
      for (int phase = 0; phase < kPhases; ++phase) {
        team.ForEach(kCells, 1, [&](int begin, int end) {
          const int64_t sum = std::accumulate(cells.begin(), cells.end(), int64_t{0});
          for (int i = begin; i < end; ++i) sums[static_cast<size_t>(i)] = sum;
        });
        team.ForEach(kCells, 1, [&](int begin, int end) {
          for (int i = begin; i < end; ++i) {
            auto& cell = cells[static_cast<size_t>(i)];
            // Every sum of this phase is of the same state: all cells were equal when it began.
            cell = sums[static_cast<size_t>(i)] == cell * kCells ? cell + 1 : -1'000'000;
          }
        });
      }
    });
  }
  for (int64_t cell : cells) EXPECT_EQ(cell, 4 * kPhases);
}

// A worker that is held up keeps only the piece in its hands; the others finish the rest of its
// share.
TEST(ComputePoolTest, TheOthersDoTheWorkOfAWorkerThatIsHeldUp) {
  ComputePool pool({.workers = 2});
  std::atomic<bool> held{false}, release{false};
  std::atomic<int> by_caller{0}, by_held{0};
  pool.Run([&](model::Team& team) {
    team.ForEach(40, 1, [&](int begin, int end) {
      if (team.worker() == 1) {
        by_held += end - begin;
        held = true;
        while (!release) std::this_thread::yield();
      } else {
        while (!held) std::this_thread::yield();  // so that it is inside and holds a piece
        by_caller += end - begin;
        if (by_caller >= 35) release = true;
      }
    });
  });
  EXPECT_EQ(by_held, 5);  // one of the four pieces of its twenty
  EXPECT_EQ(by_caller, 35);
}

TEST(ComputePoolTest, AnIdlePoolUsesNoCpuAndWakesAgain) {
  ComputePool pool({.workers = 4});
  int runs = 0;
  const auto job = [&](model::Team& team) { team.ForEach(1, 1, [&](int, int) { ++runs; }); };
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
  ComputePool pool({.workers = 3 * cores + 1});
  std::atomic<int> items{0};
  pool.Run([&](model::Team& team) {
    for (int i = 0; i < 50; ++i) {
      team.ForEach(200, 1, [&](int begin, int end) {
        items.fetch_add(end - begin, std::memory_order_relaxed);
      });
    }
  });
  EXPECT_EQ(items.load(), 50 * 200);
}

}  // namespace
}  // namespace tutti::runner
