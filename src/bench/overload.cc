#include "bench/overload.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <cmath>

#include "base/threads.h"
#include "bench/machine.h"
#include "client/served_models.h"

namespace tutti::bench {
namespace {

constexpr int kProbes = 9;  // single requests; their median shows the server's state

double LastSent(const LevelResult& level) {
  double last = 0;
  for (const RequestRecord& record : level.records) last = std::max(last, record.sent_s);
  return last;
}

// Sums and means over the slices of one level.
struct LevelSum {
  void Add(const LevelResult& sent, const OverloadFigures& figures, double rate, double slice_peak,
           double slice_back_s) {
    ++slices;
    const auto mean = [this](double& sum, double value) { sum += (value - sum) / slices; };
    mean(offered, rate);
    mean(sent_rate, sent.sent_rate());
    mean(goodput, figures.goodput);
    mean(peak, slice_peak);
    back_s = std::max(back_s, slice_back_s);
    answered += figures.answered;
    refused += figures.refused;
    failed += figures.failed;
    const auto append = [](std::vector<double>& all, const std::vector<double>& more) {
      all.insert(all.end(), more.begin(), more.end());
    };
    append(ttft_s, sent.Ttft());
    append(refusal_s, figures.refusal_s);
    append(late_s, sent.Late());
    for (const RequestRecord& record : sent.records) {
      if (first_failure.ok() && !record.refused()) first_failure = record.status;
    }
  }

  int slices = 0, answered = 0, refused = 0, failed = 0;
  double offered = 0, sent_rate = 0, goodput = 0, peak = 0;  // requests a second, of all slices
  double back_s = 0;                                         // the longest
  std::vector<double> ttft_s, refusal_s, late_s;
  Status first_failure;
};

// The run against one server: a sequence of measurements.
class Overload {
 public:
  Overload(const OverloadOptions& options, client::Server server, std::string model)
      : options_(options), server_(std::move(server)), model_(std::move(model)) {}

  // Closed loop; an error if any request was not answered.
  Result<LevelResult> Closed(int clients, int requests, int max_tokens) {
    return RunClosedLoop(options_.load, server_, model_, clients, requests, max_tokens, NextSeed());
  }

  LevelResult Open(double rate, int count) {
    ServeOptions load = options_.load;
    load.seed = NextSeed();
    return RunLoad(load, server_, model_, options_.connections,
                   ArrivalTimes(load.arrivals, rate, count, load.seed));
  }

  // The median time to first text of single requests.
  Result<double> Probe() {
    ASSIGN_OR_RETURN(const LevelResult level, Closed(1, kProbes, 2));
    return Percentile(level.Ttft(), 50);
  }

  // Goodput of `clients` clients in about `seconds`, in requests per second, without the end of the
  // run, when fewer clients are active.
  Result<double> Peak(double seconds) {
    if (peak_ == 0) {  // the number of requests is unknown yet
      ASSIGN_OR_RETURN(const LevelResult few,
                       Closed(options_.clients, 4 * options_.clients, options_.load.max_tokens));
      peak_ = few.completed() / few.seconds;
    }
    const int requests =
        std::max(4 * options_.clients, static_cast<int>(std::lround(peak_ * seconds)));
    ASSIGN_OR_RETURN(const LevelResult level,
                     Closed(options_.clients, requests, options_.load.max_tokens));
    peak_ = FiguresOf(level, LastSent(level), 0).goodput;
    return peak_;
  }

  // Seconds until the server has recovered; the time limit if it has not.
  double UntilBack(double idle_s) {
    const SteadyClock clock;
    const TimePoint begin = clock.Now();
    while (true) {
      const Result<double> now_s = Probe();
      const double passed = ToSeconds(clock.Now() - begin);
      if (now_s.ok() && *now_s <= options_.back_within * idle_s) return passed;
      if (passed >= options_.back_s) return passed;
    }
  }

 private:
  uint64_t NextSeed() { return LevelSeed(options_.load.seed, ++levels_); }

  const OverloadOptions& options_;
  const client::Server server_;
  const std::string model_;
  int levels_ = 0;
  double peak_ = 0;
};

}  // namespace

OverloadFigures FiguresOf(const LevelResult& level, double seconds, double target_ttft_ms) {
  OverloadFigures figures;
  double first_end_s = seconds;
  for (const RequestRecord& record : level.records) {
    if (record.status.ok()) first_end_s = std::min(first_end_s, record.end_s);
  }
  int good = 0;
  for (const RequestRecord& record : level.records) {
    if (record.refused()) {
      ++figures.refused;
      figures.refusal_s.push_back(record.end_s - record.sent_s);
    } else if (!record.status.ok()) {
      ++figures.failed;
    } else {
      ++figures.answered;
      const double ttft_ms = (record.first_s - record.due_s) * 1e3;
      good += record.end_s > first_end_s && record.end_s <= seconds &&
              (target_ttft_ms <= 0 || ttft_ms <= target_ttft_ms);
    }
  }
  figures.goodput = seconds > first_end_s ? good / (seconds - first_end_s) : 0;
  return figures;
}

Slices SlicesOf(double seconds, double slice_s) {
  Slices slices;
  slices.count = std::max(1, static_cast<int>(std::ceil(seconds / slice_s)));
  slices.seconds = seconds / slices.count;
  // As much time for the peak as for the load would be most precise, but nearly doubles the run.
  slices.peak_s = slices.count == 1 ? std::min(seconds, slice_s) : slices.seconds / 3;
  return slices;
}

Result<Report> BenchOverload(const OverloadOptions& options, const Progress& progress) {
  const ServeOptions& load = options.load;
  ASSIGN_OR_RETURN(const client::Server server, client::ParseServer(load.url));
  const client::ModelServer at{server, load.api_key, load.patience};
  ASSIGN_OR_RETURN(const std::string model, client::ChooseModel(at, load.model, "generate"));
  ASSIGN_OR_RETURN(const kernels::KernelTable* kernels, kernels::SelectKernels());
  Calibration calibration(kernels->isa, UsableCores(), load.calibrate);

  Report report;
  boost::json::array rows;
  const auto say = [&](const std::string& line) { report.Print(line, progress); };
  const auto demand = [&](bool met, const std::string& what) {
    if (!met) report.failures.push_back(what);
  };
  Overload run(options, server, model);
  if (const auto warm = run.Closed(1, 1, load.max_tokens); !warm.ok())
    return client::Explained(at, model, "generate", warm.status());
  ASSIGN_OR_RETURN(const double idle_s, run.Probe());
  const Slices slices = SlicesOf(options.seconds, options.slice_s);
  ASSIGN_OR_RETURN(double peak, run.Peak(slices.peak_s));
  say(fmt::format("{} at {}, prompts of about {} tokens, {} tokens out, seed {}", model, load.url,
                  load.prompt_tokens, load.max_tokens, load.seed));
  say(fmt::format("peak with {} clients {:.2f} req/s; first text on the idle server {:.1f} ms",
                  options.clients, peak, idle_s * 1e3));
  say(fmt::format("{:>6} {:>8} {:>14} {:>8} {:>8} {:>7} {:>21} {:>21} {:>8}", "load", "offered",
                  "good/s of peak", "answered", "refused", "failed", "TTFT ms p50/p95/p99",
                  "refusal ms", "back s"));
  for (const double factor : options.factors) {
    const std::string name = fmt::format("{:g} x", factor);
    const bool before = calibration.AtFullSpeed();
    LevelSum level;
    for (int slice = 0; slice < slices.count; ++slice) {
      const double rate = factor * peak;
      const int count = std::max(1, static_cast<int>(std::lround(rate * slices.seconds)));
      const LevelResult sent = run.Open(rate, count);
      const double tail_s = std::max(0.0, sent.seconds - slices.seconds);
      const double back_s = tail_s + run.UntilBack(idle_s);
      const double first_peak = peak;
      ASSIGN_OR_RETURN(peak, run.Peak(slices.peak_s));
      level.Add(sent, FiguresOf(sent, slices.seconds, load.target_ttft_ms), rate,
                (first_peak + peak) / 2, back_s);
    }
    const bool steady = before && calibration.AtFullSpeed();
    const Percentiles ttft = PercentilesOf(level.ttft_s), refusal = PercentilesOf(level.refusal_s),
                      late = PercentilesOf(level.late_s);
    const double share = level.peak > 0 ? level.goodput / level.peak : 0;
    say(fmt::format("{:>6} {:>8.2f} {:>7.2f} {:>5.1f}% {:>8} {:>8} {:>7} {:>21} {:>21} {:>8.1f}{}",
                    name, level.offered, level.goodput, share * 100, level.answered, level.refused,
                    level.failed, MillisText(ttft), MillisText(refusal, 2), level.back_s,
                    steady ? "" : "  (machine slowed)"));
    if (level.failed > 0) {
      report.failures.push_back(fmt::format("{}: {} requests failed, the first with: {}", name,
                                            level.failed, level.first_failure.ToString()));
    }
    demand(share >= options.least_goodput,
           fmt::format("{}: goodput {:.1f} % of the peak, {:.0f} % are asked for", name,
                       share * 100, options.least_goodput * 100));
    demand(refusal.p99 * 1e3 <= options.refusal_p99_ms,
           fmt::format("{}: 99 % of the refusals within {:.2f} ms, {:g} ms are asked for", name,
                       refusal.p99 * 1e3, options.refusal_p99_ms));
    demand(load.target_ttft_ms <= 0 || ttft.p99 * 1e3 <= load.target_ttft_ms,
           fmt::format("{}: 99 % of the first texts within {:.0f} ms, {:g} ms are asked for", name,
                       ttft.p99 * 1e3, load.target_ttft_ms));
    demand(level.back_s <= options.back_s,
           fmt::format("{}: not as before within {:g} s", name, options.back_s));
    rows.push_back(boost::json::object{{"factor", factor},
                                       {"slices", slices.count},
                                       {"offered_req_s", level.offered},
                                       {"sent_rate", level.sent_rate},
                                       {"late_ms", MillisJson(level.late_s)},
                                       {"answered", level.answered},
                                       {"refused", level.refused},
                                       {"failed", level.failed},
                                       {"goodput_req_s", level.goodput},
                                       {"peak_req_s", level.peak},
                                       {"share_of_peak", share},
                                       {"ttft_ms", MillisJson(level.ttft_s)},
                                       {"refusal_ms", MillisJson(level.refusal_s)},
                                       {"back_s", level.back_s},
                                       {"steady", steady}});
    if (late.p99 > 0.05)
      say(fmt::format("{:>6} sent late by ms p50/p95/p99 {}", "", MillisText(late)));
  }
  report.json = {{"schema", "tutti.bench.overload.v1"},
                 {"machine", calibration.Json()},
                 {"url", load.url},
                 {"model", model},
                 {"prompt_tokens", load.prompt_tokens},
                 {"max_tokens", load.max_tokens},
                 {"seconds", options.seconds},
                 {"clients", options.clients},
                 {"seed", load.seed},
                 {"target_ttft_ms", load.target_ttft_ms},
                 {"idle_ttft_ms", idle_s * 1e3},
                 {"rows", std::move(rows)},
                 {"passed", report.failures.empty()}};
  return report;
}

}  // namespace tutti::bench
