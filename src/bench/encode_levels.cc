#include "bench/encode_levels.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <cmath>
#include <limits>
#include <utility>

#include "base/threads.h"
#include "bench/encode_load.h"
#include "bench/machine.h"
#include "bench/report.h"
#include "kernels/kernels.h"

namespace tutti::bench {
namespace {

// Runs one level, prints its row, and adds its failures to the report.
template <typename Options>
EncodeRun MeasureLevel(EncodeTarget& target, const Options& options, int clients, uint64_t seed,
                       const Progress& progress, Report* report) {
  EncodeRun run = RunEncodeLoad(target, {clients, options.texts, options.tokens}, options.requests,
                                options.warmup, seed);
  report->Print(EncodeTableRow(run), progress);
  for (const std::string& failure : run.failures)
    report->failures.push_back(fmt::format("at {} clients: {}", clients, failure));
  return run;
}

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

constexpr int kMaxCalls = std::numeric_limits<int>::max() / 2;

std::string Errors(const EncodeRun& run) {
  std::string text;
  for (const auto& [what, count] : run.errors)
    text += fmt::format("{}{} x {}", text.empty() ? "" : ", ", count, what);
  return text.empty() ? "-" : text;
}

// A row of a markdown table, as its head.
std::string Head() {
  return "| threads | calls | seconds | calls/s | texts/s | p50 ms | p90 ms | p99 ms | most in "
         "flight | connections | errors |\n|---|---|---|---|---|---|---|---|---|---|---|";
}

std::string Row(const EncodeRun& run, int connections) {
  const auto at = [&](double p) { return Percentile(run.latency_s, p) * 1e3; };
  return fmt::format(
      "| {} | {} | {:.2f} | {:.0f} | {:.0f} | {:.2f} | {:.2f} | {:.2f} | {} | {} | {} |{}",
      run.shape.clients, run.requests, run.seconds,
      run.seconds > 0 ? run.requests / run.seconds : 0, run.texts_per_s(), at(50), at(90), at(99),
      run.max_in_flight, connections, Errors(run), run.stable() ? "" : " (unstable)");
}

boost::json::object RowJson(const EncodeRun& run, int connections) {
  boost::json::object row = EncodeRunJson(run);
  for (const char* untold : {"stages_ms", "forward_batch", "busy"}) row.erase(untold);
  row["latency_ms"].as_object()["p90"] = Percentile(run.latency_s, 90) * 1e3;
  row["calls_s"] = run.seconds > 0 ? run.requests / run.seconds : 0;
  row["connections"] = connections;
  boost::json::object errors;
  for (const auto& [what, count] : run.errors) errors[what] = count;
  row["errors"] = std::move(errors);
  return row;
}

// Adds a row, and its figures to the report.
void AddRow(boost::json::object row, boost::json::array* rows, Report* report) {
  const std::vector<Figure> figures = EncodeFigures(row);
  report->figures.insert(report->figures.end(), figures.begin(), figures.end());
  rows->push_back(std::move(row));
}

}  // namespace

Result<Report> BenchEncodeLevels(EncodeTarget& target, const EncodeLevelsOptions& options,
                                 const Progress& progress) {
  Report report;
  const auto say = [&](const std::string& line) { report.Print(line, progress); };
  ASSIGN_OR_RETURN(const kernels::KernelTable* const table, kernels::SelectKernels());
  Calibration calibration(table->isa, UsableCores());
  say(target.summary());
  ASSIGN_OR_RETURN(const std::string cut, Greet(target, {1, options.texts, options.tokens}));
  if (!cut.empty()) say(cut);
  say(EncodeTableHead());
  boost::json::array rows;
  for (const int clients : options.levels) {
    calibration.AtFullSpeed();  // for the report's "others_cpu"
    AddRow(EncodeRunJson(MeasureLevel(target, options, clients, options.seed, progress, &report)),
           &rows, &report);
  }
  report.json = {{"schema", "tutti.bench.encode.v1"},
                 {"target", target.summary()},
                 {"machine", calibration.Json()},
                 {"rows", std::move(rows)},
                 {"passed", report.failures.empty()}};
  return report;
}

Result<Report> BenchKnee(EncodeTarget& target, const KneeOptions& options,
                         const Progress& progress) {
  Report report;
  const auto say = [&](const std::string& line) { report.Print(line, progress); };
  const auto run_level = [&](int clients, uint64_t seed) {
    return MeasureLevel(target, options, clients, seed, progress, &report);
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
  for (const EncodeRun& run : runs) AddRow(EncodeRunJson(run), &rows, &report);
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

Result<Report> BenchGrpc(GrpcTarget& target, const GrpcLoadOptions& options,
                         const Progress& progress) {
  Report report;
  const auto say = [&](const std::string& line) { report.Print(line, progress); };
  const bool timed = options.seconds > 0;
  say(fmt::format("{}; {} text{} of about {} tokens a call", target.summary(), options.texts,
                  options.texts == 1 ? "" : "s", options.tokens));
  ASSIGN_OR_RETURN(const std::string cut, Greet(target, {1, options.texts, options.tokens}));
  if (!cut.empty()) say(cut);
  say(Head());
  boost::json::array rows;
  for (const int threads : options.levels) {
    const EncodeRun run =
        RunEncodeLoad(target, {threads, options.texts, options.tokens},
                      timed ? kMaxCalls : options.requests, options.warmup, options.seed,
                      timed ? FromSeconds(options.seconds) : std::chrono::hours(24 * 365));
    const int connections = target.connections();
    say(Row(run, connections));
    AddRow(RowJson(run, connections), &rows, &report);
    const auto fail = [&](const std::string& what) {
      report.failures.push_back(fmt::format("at {} threads: {}", threads, what));
    };
    for (const std::string& failure : run.failures) fail(failure);
    if (!timed && run.failures.empty() && run.requests != options.requests)
      fail(fmt::format("{} of {} calls were answered", run.requests, options.requests));
    if (run.requests == 0 && run.failures.empty()) fail("no call was answered in that time");
    if (run.max_in_flight > threads) fail(fmt::format("{} calls at once", run.max_in_flight));
    if (connections != 1) fail(fmt::format("{} connections", connections));
  }
  report.json = {{"schema", "tutti.bench.grpc.v1"}, {"target", target.summary()},
                 {"method", target.method()},       {"seconds", options.seconds},
                 {"rows", std::move(rows)},         {"passed", report.failures.empty()}};
  return report;
}

}  // namespace tutti::bench
