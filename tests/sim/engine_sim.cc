// engine_sim: runs seeded schedules of the engine (simulation.h) and prints what occurred in them.
// A failure prints its seed and the command that replays it with a trace. See kUsage.
#include <atomic>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <optional>
#include <string_view>
#include <thread>
#include <vector>

#include "base/ascii.h"
#include "base/clock.h"
#include "simulation.h"

namespace {

using tutti::engine::RunSchedule;
using tutti::engine::ScheduleReport;

constexpr char kUsage[] =
    "Runs seeded schedules of the engine on virtual time and checks every invariant after every "
    "step.\n\n"
    "  engine_sim [--schedules N] [--seed FIRST] [--threads T]   N schedules [100000], from FIRST "
    "[1]\n"
    "  engine_sim --replay SEED                                  one schedule, with a trace\n\n"
    "Exit status: 0 all held; 1 an invariant broke, or what should occur never did; 2 usage.\n";

struct Options {
  uint64_t schedules = 100000, first = 1, threads = 1;
  uint64_t replay = 0;
  bool replays = false;
};

bool ParseOptions(int argc, char** argv, Options* options) {
  for (int i = 1; i < argc; i += 2) {
    const std::string_view name = argv[i];
    uint64_t* const place = name == "--schedules" ? &options->schedules
                            : name == "--seed"    ? &options->first
                            : name == "--threads" ? &options->threads
                            : name == "--replay"  ? &options->replay
                                                  : nullptr;
    if (place == nullptr || i + 1 == argc) return false;
    const std::optional<uint64_t> parsed = tutti::ParseNumber<uint64_t>(argv[i + 1]);
    if (!parsed.has_value()) return false;
    *place = *parsed;
    options->replays |= place == &options->replay;
  }
  return options->schedules > 0 && options->threads > 0 && options->threads <= 64;
}

struct Totals {
  uint64_t schedules = 0, in_band = 0, requests = 0, ok = 0, cancelled = 0, expired = 0, failed = 0,
           refused = 0, steps = 0, tokens = 0, preemptions = 0, hits = 0, pauses = 0, faults = 0,
           drafts = 0, accepted = 0, state_hits = 0, evicted = 0, window_hits = 0, loaded = 0,
           failed_loads = 0, pins = 0;

  static Totals Of(const ScheduleReport& r) {
    const auto u = [](auto x) { return static_cast<uint64_t>(x); };
    return {.schedules = 1,
            .in_band = r.pool_share >= 0.3 && r.pool_share <= 0.8 ? 1u : 0u,
            .requests = u(r.requests),
            .ok = u(r.ended_ok),
            .cancelled = u(r.cancelled),
            .expired = u(r.expired),
            .failed = u(r.failed),
            .refused = u(r.refused),
            .steps = u(r.steps),
            .tokens = u(r.tokens),
            .preemptions = u(r.preemptions),
            .hits = u(r.prefix_hit_tokens),
            .pauses = u(r.reader_pauses),
            .faults = u(r.injected_faults),
            .drafts = u(r.drafts),
            .accepted = u(r.accepted),
            .state_hits = u(r.state_hit_tokens),
            .evicted = u(r.checkpoints_evicted),
            .window_hits = u(r.window_hit_tokens),
            .loaded = u(r.loaded_tokens),
            .failed_loads = u(r.failed_loads),
            .pins = u(r.pins)};
  }
  Totals& operator+=(const Totals& o) {
    schedules += o.schedules;
    in_band += o.in_band;
    requests += o.requests;
    ok += o.ok;
    cancelled += o.cancelled;
    expired += o.expired;
    failed += o.failed;
    refused += o.refused;
    steps += o.steps;
    tokens += o.tokens;
    preemptions += o.preemptions;
    hits += o.hits;
    pauses += o.pauses;
    faults += o.faults;
    drafts += o.drafts;
    accepted += o.accepted;
    state_hits += o.state_hits;
    evicted += o.evicted;
    window_hits += o.window_hits;
    loaded += o.loaded;
    failed_loads += o.failed_loads;
    pins += o.pins;
    return *this;
  }
  // A simulation in which the rare things never happen proves nothing about them.
  bool varied() const {
    return preemptions > 0 && hits > 0 && pauses > 0 && faults > 0 && cancelled > 0 &&
           expired > 0 && failed > 0 && accepted > 0 && drafts > accepted && state_hits > 0 &&
           evicted > 0 && window_hits > 0 && loaded > 0 && failed_loads > 0 && pins > 0;
  }
};

int Replay(uint64_t seed) {
  const ScheduleReport report = RunSchedule(seed, /*trace=*/true);
  std::printf("seed %llu: %s\n", static_cast<unsigned long long>(seed),
              report.failure.empty() ? "all held" : report.failure.c_str());
  return report.failure.empty() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "--help") == 0) return std::fputs(kUsage, stdout) < 0;
  Options options;
  if (!ParseOptions(argc, argv, &options)) {
    std::fputs(kUsage, stderr);
    return 2;
  }
  if (options.replays) return Replay(options.replay);
  const uint64_t schedules = options.schedules, first = options.first;

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
        own += Totals::Of(report);
        if (report.failure.empty()) continue;
        ++failures;
        std::printf("FAILED seed %llu: %s\n  replay: %s --replay %llu\n",
                    static_cast<unsigned long long>(seed), report.failure.c_str(), argv[0],
                    static_cast<unsigned long long>(seed));
        std::fflush(stdout);
      }
      const std::lock_guard<std::mutex> lock(mutex);
      const uint64_t tenth = std::max<uint64_t>(schedules / 10, 1), before = totals.in_band / tenth;
      totals += own;
      if (totals.in_band / tenth != before) {
        std::printf("%llu of %llu schedules\n", static_cast<unsigned long long>(totals.in_band),
                    static_cast<unsigned long long>(schedules));
        std::fflush(stdout);
      }
    }
  };
  std::vector<std::thread> pool;
  for (uint64_t t = 1; t < options.threads; ++t) pool.emplace_back(work);
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
      "faults %llu\n"
      "  tokens proposed %llu, of which came true %llu; prefix hits with recurrent states %llu "
      "tokens, with windows %llu tokens, checkpoints evicted %llu\n"
      "  read from a prefix store %llu tokens, loads cut short %llu, prompts pinned %llu\n",
      u(totals.in_band), u(totals.schedules), u(first), u(first + next.load() - 1), seconds,
      u(totals.requests), u(totals.ok), u(totals.cancelled), u(totals.expired), u(totals.failed),
      u(totals.refused), u(totals.steps), u(totals.tokens), u(totals.preemptions), u(totals.hits),
      u(totals.pauses), u(totals.faults), u(totals.drafts), u(totals.accepted),
      u(totals.state_hits), u(totals.window_hits), u(totals.evicted), u(totals.loaded),
      u(totals.failed_loads), u(totals.pins));
  const bool varied = schedules < 1000 || totals.varied();
  if (!varied) std::printf("FAILED: something that should occur never did\n");
  return failures == 0 && varied ? 0 : 1;
}
