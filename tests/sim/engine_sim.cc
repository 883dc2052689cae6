// engine_sim [--schedules N] [--seed FIRST] [--threads T] [--replay SEED]
//
// Runs N seeded schedules (simulation.h). A failure prints its seed and the command that replays it
// with a trace.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "simulation.h"

namespace {

using tutti::engine::RunSchedule;
using tutti::engine::ScheduleReport;

struct Totals {
  uint64_t schedules = 0, in_band = 0, requests = 0, ok = 0, cancelled = 0, expired = 0, failed = 0,
           refused = 0, steps = 0, tokens = 0, preemptions = 0, hits = 0, pauses = 0, faults = 0;
  void Add(const ScheduleReport& r) {
    ++schedules;
    in_band += r.pool_share >= 0.3 && r.pool_share <= 0.8 ? 1 : 0;
    requests += static_cast<uint64_t>(r.requests);
    ok += static_cast<uint64_t>(r.ended_ok);
    cancelled += static_cast<uint64_t>(r.cancelled);
    expired += static_cast<uint64_t>(r.expired);
    failed += static_cast<uint64_t>(r.failed);
    refused += static_cast<uint64_t>(r.refused);
    steps += static_cast<uint64_t>(r.steps);
    tokens += static_cast<uint64_t>(r.tokens);
    preemptions += static_cast<uint64_t>(r.preemptions);
    hits += static_cast<uint64_t>(r.prefix_hit_tokens);
    pauses += static_cast<uint64_t>(r.reader_pauses);
    faults += static_cast<uint64_t>(r.injected_faults);
  }
};

}  // namespace

int main(int argc, char** argv) {
  uint64_t schedules = 100000, first = 1, threads = 1;
  for (int i = 1; i + 1 < argc; i += 2) {
    const uint64_t value = std::strtoull(argv[i + 1], nullptr, 10);
    if (std::strcmp(argv[i], "--schedules") == 0) {
      schedules = value;
    } else if (std::strcmp(argv[i], "--seed") == 0) {
      first = value;
    } else if (std::strcmp(argv[i], "--threads") == 0) {
      threads = value;
    } else if (std::strcmp(argv[i], "--replay") == 0) {
      const ScheduleReport report = RunSchedule(value, /*trace=*/true);
      std::printf("seed %llu: %s\n", static_cast<unsigned long long>(value),
                  report.failure.empty() ? "all held" : report.failure.c_str());
      return report.failure.empty() ? 0 : 1;
    } else {
      std::fprintf(stderr, "engine_sim: unknown option %s\n", argv[i]);
      return 2;
    }
  }

  std::atomic<uint64_t> next{0}, failures{0};
  std::mutex mutex;
  Totals totals;
  const auto begin = std::chrono::steady_clock::now();
  // Schedules whose pool is outside 30-80 % of need (one request larger than the rest together) run
  // too, but do not count; more seeds are taken until the asked number is in the band.
  const auto work = [&] {
    for (;;) {
      {
        const std::lock_guard<std::mutex> lock(mutex);
        if (totals.in_band >= schedules || failures >= 5) return;
      }
      const uint64_t batch = next.fetch_add(64);
      Totals own;
      for (uint64_t seed = first + batch; seed < first + batch + 64; ++seed) {
        const ScheduleReport report = RunSchedule(seed);
        own.Add(report);
        if (report.failure.empty()) continue;
        ++failures;
        std::printf("FAILED seed %llu: %s\n  replay: %s --replay %llu\n",
                    static_cast<unsigned long long>(seed), report.failure.c_str(), argv[0],
                    static_cast<unsigned long long>(seed));
        std::fflush(stdout);
      }
      const std::lock_guard<std::mutex> lock(mutex);
      const uint64_t tenth = std::max<uint64_t>(schedules / 10, 1), before = totals.in_band / tenth;
      totals.schedules += own.schedules;
      totals.in_band += own.in_band;
      totals.requests += own.requests;
      totals.ok += own.ok;
      totals.cancelled += own.cancelled;
      totals.expired += own.expired;
      totals.failed += own.failed;
      totals.refused += own.refused;
      totals.steps += own.steps;
      totals.tokens += own.tokens;
      totals.preemptions += own.preemptions;
      totals.hits += own.hits;
      totals.pauses += own.pauses;
      totals.faults += own.faults;
      if (totals.in_band / tenth != before) {
        std::printf("%llu of %llu schedules\n", static_cast<unsigned long long>(totals.in_band),
                    static_cast<unsigned long long>(schedules));
        std::fflush(stdout);
      }
    }
  };
  std::vector<std::thread> pool;
  for (uint64_t t = 1; t < threads; ++t) pool.emplace_back(work);
  work();
  for (std::thread& thread : pool) thread.join();

  const double seconds = tutti::ToSeconds(std::chrono::steady_clock::now() - begin);
  const auto u = [](uint64_t x) { return static_cast<unsigned long long>(x); };
  std::printf(
      "engine_sim: %llu schedules with a pool at 30-80 %% of need (%llu in all), seeds %llu..%llu, "
      "%.1f s\n"
      "  requests %llu: done %llu, cancelled %llu, expired %llu, failed by injected faults %llu, "
      "refused %llu\n"
      "  steps %llu, tokens %llu, preemptions %llu, prefix hits %llu tokens, reader pauses %llu, "
      "faults %llu\n",
      u(totals.in_band), u(totals.schedules), u(first), u(first + next.load() - 1), seconds,
      u(totals.requests), u(totals.ok), u(totals.cancelled), u(totals.expired), u(totals.failed),
      u(totals.refused), u(totals.steps), u(totals.tokens), u(totals.preemptions), u(totals.hits),
      u(totals.pauses), u(totals.faults));
  // A simulation in which the rare things never happen proves nothing about them.
  const bool varied =
      schedules < 1000 ||
      (totals.preemptions > 0 && totals.hits > 0 && totals.pauses > 0 && totals.faults > 0 &&
       totals.cancelled > 0 && totals.expired > 0 && totals.failed > 0);
  if (!varied) std::printf("FAILED: something that should occur never did\n");
  return failures == 0 && varied ? 0 : 1;
}
