#include "bench/grpc_load.h"

#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <limits>

#include "bench/encode_greeting.h"
#include "bench/encode_load.h"
#include "bench/statistics.h"

namespace tutti::bench {
namespace {

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

}  // namespace

Result<Report> BenchGrpc(GrpcTarget& target, const GrpcLoadOptions& options,
                         const std::function<void(const std::string&)>& progress) {
  Report report;
  const auto say = [&](const std::string& line) {
    report.text += line + "\n";
    if (progress) progress(line);
  };
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
    rows.push_back(RowJson(run, connections));
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
  report.json = {{"schema", "tutti.bench.grpc.v1"},   {"target", target.summary()},
                 {"method", "/tutti.v1.Tutti/Embed"}, {"seconds", options.seconds},
                 {"rows", std::move(rows)},           {"passed", report.failures.empty()}};
  return report;
}

}  // namespace tutti::bench
