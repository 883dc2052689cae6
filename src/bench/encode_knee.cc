#include "bench/encode_knee.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <cmath>

#include "bench/encode_greeting.h"
#include "bench/encode_load.h"

namespace tutti::bench {
namespace {

const EncodeRun* At(const std::vector<EncodeRun>& runs, int clients) {
  const auto found = std::find_if(
      runs.begin(), runs.end(), [&](const EncodeRun& run) { return run.shape.clients == clients; });
  return found == runs.end() ? nullptr : &*found;
}

// The least concurrency within 3 % of the best throughput.
const EncodeRun& KneeOf(const std::vector<EncodeRun>& runs) {
  double best = 0;
  for (const EncodeRun& run : runs) best = std::max(best, run.texts_per_s());
  return *std::find_if(runs.begin(), runs.end(),
                       [&](const EncodeRun& run) { return run.texts_per_s() >= 0.97 * best; });
}

// The level with the highest throughput among those whose p99 latency is within the limit; a gain
// below 1 % does not count. The first level if none is within the limit.
const EncodeRun& Recommended(const std::vector<EncodeRun>& runs, double limit_s) {
  const EncodeRun* best = nullptr;
  for (const EncodeRun& run : runs) {
    if (PercentilesOf(run.latency_s).p99 > limit_s) continue;
    if (best == nullptr || run.texts_per_s() > 1.01 * best->texts_per_s()) best = &run;
  }
  return best == nullptr ? runs.front() : *best;
}

std::string WhySaturated(const EncodeRun& knee) {
  if (knee.busy_share() >= 0.9) {
    return fmt::format(
        "the device is the limit: forward passes fill {:.0f} % of the time, so more callers only "
        "wait longer",
        knee.busy_share() * 100);
  }
  return fmt::format(
      "the device is idle {:.0f} % of the time even there: callers, waking and the way in are the "
      "limit",
      (1 - knee.busy_share()) * 100);
}

// In a closed loop as many are in flight as there are clients.
void CheckInFlight(const EncodeRun& run, std::vector<std::string>* failures) {
  const double expected = static_cast<double>(run.requests) / run.seconds * run.mean_latency_s();
  const double clients = run.shape.clients;
  if (std::abs(expected - clients) <= 0.1 * clients) return;
  failures->push_back(
      fmt::format("at {} clients throughput x latency is {:.2f}", run.shape.clients, expected));
}

void CheckNoLossPastTheKnee(const std::vector<EncodeRun>& runs,
                            std::vector<std::string>* failures) {
  const EncodeRun *four = At(runs, 4), *eight = At(runs, 8);
  if (four == nullptr || eight == nullptr || eight->texts_per_s() >= 0.95 * four->texts_per_s())
    return;
  failures->push_back(fmt::format("8 clients get {:.0f} texts/s, 4 get {:.0f}",
                                  eight->texts_per_s(), four->texts_per_s()));
}

void CheckFreshRun(const EncodeRun& again, double limit_s, std::vector<std::string>* failures) {
  const double p99 = PercentilesOf(again.latency_s).p99;
  if (p99 <= limit_s) return;
  failures->push_back(
      fmt::format("the fresh run's p99 is {:.2f} ms, above {:.2f}", p99 * 1e3, limit_s * 1e3));
}

}  // namespace

Result<Report> BenchKnee(EncodeTarget& target, const KneeOptions& options,
                         const std::function<void(const std::string&)>& progress) {
  Report report;
  const auto say = [&](const std::string& line) {
    report.text += line + "\n";
    if (progress) progress(line);
  };
  const auto run_level = [&](int clients, uint64_t seed) {
    EncodeRun run = RunEncodeLoad(target, {clients, options.texts, options.tokens},
                                  options.requests, options.warmup, seed);
    say(EncodeTableRow(run));
    for (const std::string& failure : run.failures)
      report.failures.push_back(fmt::format("at {} clients: {}", clients, failure));
    return run;
  };
  say(target.summary());
  ASSIGN_OR_RETURN(const std::string cut, Greet(target, {1, options.texts, options.tokens}));
  if (!cut.empty()) say(cut);
  say(EncodeTableHead());
  std::vector<EncodeRun> runs;
  for (const int clients : options.levels) runs.push_back(run_level(clients, options.seed));
  if (!report.failures.empty()) return report;

  const double limit_s = options.p99_limit_ms > 0 ? options.p99_limit_ms / 1e3
                                                  : 2 * PercentilesOf(runs.front().latency_s).p99;
  const EncodeRun& knee = KneeOf(runs);
  say(fmt::format("knee at {} clients, {:.0f} texts/s: {}", knee.shape.clients, knee.texts_per_s(),
                  WhySaturated(knee)));
  const int chosen = Recommended(runs, limit_s).shape.clients;
  say(fmt::format("recommended for a p99 of at most {:.2f} ms: {} clients of {} text{}; once more:",
                  limit_s * 1e3, chosen, options.texts, options.texts == 1 ? "" : "s"));
  const EncodeRun again = run_level(chosen, options.seed + 17);

  if (options.gated) {
    for (const EncodeRun& run : runs) CheckInFlight(run, &report.failures);
    CheckNoLossPastTheKnee(runs, &report.failures);
    CheckFreshRun(again, limit_s, &report.failures);
  }
  boost::json::array rows;
  for (const EncodeRun& run : runs) rows.push_back(EncodeRunJson(run));
  report.json = {{"schema", "tutti.bench.knee.v1"},
                 {"target", target.summary()},
                 {"p99_limit_ms", limit_s * 1e3},
                 {"knee", knee.shape.clients},
                 {"recommended", {{"batch", options.texts}, {"concurrency", chosen}}},
                 {"fresh", EncodeRunJson(again)},
                 {"rows", std::move(rows)},
                 {"passed", report.failures.empty()}};
  return report;
}

}  // namespace tutti::bench
