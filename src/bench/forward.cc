#include "bench/forward.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>

#include "bench/statistics.h"

namespace tutti::bench {
namespace {

void AddSpread(boost::json::object& row, const std::string& key, const Spread& spread) {
  row[key] = spread.median;
  row[key + "_min"] = spread.min;
  row[key + "_max"] = spread.max;
}

struct Samples {
  std::vector<double> prefill_s, decode_s, ttft_s;
  void Add(const Session::TwoPhases& run) {
    prefill_s.push_back(run.prefill_s);
    decode_s.push_back(run.decode_s);
    std::vector<double> first;
    for (const ServedRequest& request : run.requests) first.push_back(request.first_token_s);
    ttft_s.push_back(Percentile(first, 50));
  }
};

std::vector<double> Rates(double amount, const std::vector<double>& seconds) {
  std::vector<double> out;
  for (const double s : seconds) out.push_back(s > 0 ? amount / s : 0);
  return out;
}

}  // namespace

Result<Report> BenchForward(const ForwardOptions& options,
                            const std::function<void(const std::string&)>& progress) {
  const int most = *std::max_element(options.batches.begin(), options.batches.end());
  Flags flags = options.flags;
  flags["prefix-cache"] = "off";
  flags["speculate"] = "off";
  flags["strategy"] = "continuous";
  flags["lanes"] = std::to_string(most);
  ASSIGN_OR_RETURN(const std::unique_ptr<Session> session, Session::Load(options.model, flags));
  const auto prompts =
      RandomPrompts(session->vocabulary(), most, options.prompt_tokens, options.seed);
  Calibration calibration(session->kernels().isa, session->threads(), options.calibrate);

  Report report;
  const auto say = [&](const std::string& line) {
    report.text += line + "\n";
    if (progress) progress(line);
  };
  say(session->summary());
  say(fmt::format("{:>5} {:>22} {:>22} {:>9} {:>8} {:>8}", "batch", "prefill tok/s (range)",
                  "decode tok/s (range)", "TTFT ms", "prefill", "decode"));
  boost::json::array rows;
  std::vector<std::vector<TokenId>> expected(static_cast<size_t>(most));
  for (const int batch : options.batches) {
    const std::vector<std::vector<TokenId>> mine(prompts.begin(), prompts.begin() + batch);
    Samples good, slowed;
    bool equal = true;
    // The first run warms caches and pages and is not counted.
    for (int run = 0; run < 1 + 2 * options.repeats; ++run) {
      const bool before = run == 0 || calibration.AtFullSpeed();
      ASSIGN_OR_RETURN(const Session::TwoPhases phases,
                       session->PrefillThenDecode(mine, options.new_tokens));
      for (size_t i = 0; i < mine.size(); ++i) {
        if (expected[i].empty()) expected[i] = phases.requests[i].output;
        equal = equal && expected[i] == phases.requests[i].output;
      }
      if (run > 0) (before && calibration.AtFullSpeed() ? good : slowed).Add(phases);
      if (std::ssize(good.prefill_s) >= options.repeats) break;
    }
    const bool steady = std::ssize(good.prefill_s) >= options.repeats;
    Samples& used = good;
    if (!steady) {  // better all of them, marked, than few of an unknown kind
      used.prefill_s.insert(used.prefill_s.end(), slowed.prefill_s.begin(), slowed.prefill_s.end());
      used.decode_s.insert(used.decode_s.end(), slowed.decode_s.begin(), slowed.decode_s.end());
      used.ttft_s.insert(used.ttft_s.end(), slowed.ttft_s.begin(), slowed.ttft_s.end());
    }
    if (!equal)
      report.failures.push_back(
          fmt::format("outputs at batch {} differ from those seen before", batch));

    const Spread prefill = SpreadOf(Rates(1.0 * batch * options.prompt_tokens, used.prefill_s));
    const Spread decode = SpreadOf(Rates(1.0 * batch * options.new_tokens, used.decode_s));
    const Spread prefill_s = SpreadOf(used.prefill_s), decode_s = SpreadOf(used.decode_s);
    const double ttft_s = SpreadOf(used.ttft_s).median;
    const double prefill_limit =
        session->cost().PrefillSeconds(calibration.best(), batch, options.prompt_tokens);
    const double decode_limit =
        options.new_tokens *
        session->cost().DecodeSeconds(calibration.best(), batch,
                                      options.prompt_tokens + 0.5 * options.new_tokens);
    const double prefill_fraction = prefill_limit / prefill_s.median;
    const double decode_fraction = options.new_tokens > 0 ? decode_limit / decode_s.median : 0;
    boost::json::object row{{"batch", batch},
                            {"prompt_tokens", options.prompt_tokens},
                            {"gen_tokens", options.new_tokens},
                            {"repeats", used.prefill_s.size()},
                            {"steady", steady},
                            {"equal", equal}};
    AddSpread(row, "prefill_tok_s", prefill);
    AddSpread(row, "decode_tok_s", decode);
    row["prefill_ms"] = prefill_s.median * 1e3;
    row["decode_ms"] = decode_s.median * 1e3;
    row["ttft_ms"] = ttft_s * 1e3;
    row["fraction_of_limit"] = decode_fraction;
    row["prefill_fraction_of_limit"] = prefill_fraction;
    rows.push_back(std::move(row));
    say(fmt::format(
        "{:>5} {:>8.0f} ({:.0f}-{:.0f}) {:>8.0f} ({:.0f}-{:.0f}) {:>9.1f} {:>7.0f}% {:>7.0f}%{}",
        batch, prefill.median, prefill.min, prefill.max, decode.median, decode.min, decode.max,
        ttft_s * 1e3, 100 * prefill_fraction, 100 * decode_fraction,
        steady ? "" : "  (machine unsteady)"));
  }
  say(MachineLine(calibration.best()));
  report.json = {{"schema", "tutti.bench.engine.v1"},
                 {"machine", MachineJson(calibration.best())},
                 {"model", session->model_name()},
                 {"rows", std::move(rows)},
                 {"passed", report.failures.empty()}};
  return report;
}

}  // namespace tutti::bench
