#include "bench/forward.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>

#include "bench/report.h"

namespace tutti::bench {
namespace {

constexpr int kManyRows = 512;  // of a prompt's step

void AddSpread(boost::json::object& row, const std::string& key, const Spread& spread) {
  row[key] = spread.median;
  row[key + "_min"] = spread.min;
  row[key + "_max"] = spread.max;
}

struct Samples {
  std::vector<double> prefill_s, decode_s, ttft_s;
  std::vector<double> apart_prefill_s, apart_decode_s;  // one operation at a time
  void Add(const Session::TwoPhases& run) {
    prefill_s.push_back(run.prefill_s);
    decode_s.push_back(run.decode_s);
    std::vector<double> first;
    for (const ServedRequest& request : run.requests) first.push_back(request.first_token_s);
    ttft_s.push_back(Percentile(first, 50));
  }
  void AddApart(const Session::TwoPhases& run) {
    apart_prefill_s.push_back(run.prefill_s);
    apart_decode_s.push_back(run.decode_s);
  }
  void Append(const Samples& other) {
    for (const auto seconds : {&Samples::prefill_s, &Samples::decode_s, &Samples::ttft_s,
                               &Samples::apart_prefill_s, &Samples::apart_decode_s}) {
      (this->*seconds)
          .insert((this->*seconds).end(), (other.*seconds).begin(), (other.*seconds).end());
    }
  }
};

std::vector<double> Rates(double amount, const std::vector<double>& seconds) {
  std::vector<double> out;
  for (const double s : seconds) out.push_back(s > 0 ? amount / s : 0);
  return out;
}

}  // namespace

Result<Report> BenchForward(const ForwardOptions& options, const Progress& progress) {
  const int most = *std::max_element(options.batches.begin(), options.batches.end());
  Flags flags = options.flags;
  flags["prefix-cache"] = "off";
  flags["speculate"] = "off";
  flags["strategy"] = "continuous";
  flags["max-num-seqs"] = std::to_string(most);
  RETURN_IF_ERROR(
      Session::Check(options.model, flags, options.prompt_tokens + 1 + options.new_tokens));
  ASSIGN_OR_RETURN(const std::unique_ptr<Session> session, Session::Load(options.model, flags));
  session->SlowDown(options.slowdown);
  std::unique_ptr<Session> apart;
  if (options.fusion) {
    ASSIGN_OR_RETURN(apart, Session::Load(options.model, flags, Session::Stepping::kByHand,
                                          Session::Passes::kOneOperationAtATime));
  }
  const auto prompts =
      RandomPrompts(session->vocabulary(), most, options.prompt_tokens, options.seed);
  Calibration calibration(session->kernels().isa, session->threads(), options.calibrate);

  Report report;
  const auto say = [&](const std::string& line) { report.Print(line, progress); };
  say(session->summary());
  // A mixture's are not known before its router chose.
  if (session->regions_per_layer(1) > 0) {
    say(fmt::format("parallel regions per layer: {} at 1 row, {} at {} rows{}",
                    session->regions_per_layer(1), session->regions_per_layer(kManyRows), kManyRows,
                    apart == nullptr ? ""
                                     : fmt::format("; {} one operation at a time",
                                                   apart->regions_per_layer(1))));
  }
  say(fmt::format("{:>5} {:>22} {:>22} {:>9} {:>8} {:>8}", "batch", "prefill tok/s (range)",
                  "decode tok/s (range)", "TTFT ms", "prefill%", "decode%"));
  boost::json::array rows;
  std::vector<std::vector<TokenId>> expected(static_cast<size_t>(most));
  for (const int batch : options.batches) {
    const std::vector<std::vector<TokenId>> mine(prompts.begin(), prompts.begin() + batch);
    Samples good, slowed;
    bool equal = true;
    int64_t same_apart = 0, compared = 0;
    // The first run warms caches and pages and is not counted.
    for (int run = 0; run < 1 + 2 * options.repeats; ++run) {
      const bool before = run == 0 || calibration.AtFullSpeed();
      ASSIGN_OR_RETURN(const Session::TwoPhases phases,
                       session->PrefillThenDecode(mine, options.new_tokens));
      for (size_t i = 0; i < mine.size(); ++i) {
        if (expected[i].empty()) expected[i] = phases.requests[i].output;
        equal = equal && expected[i] == phases.requests[i].output;
      }
      Session::TwoPhases in_turn;
      if (apart != nullptr) {
        ASSIGN_OR_RETURN(in_turn, apart->PrefillThenDecode(mine, options.new_tokens));
        for (size_t i = 0; i < mine.size(); ++i)
          same_apart += expected[i] == in_turn.requests[i].output ? 1 : 0;
        compared += std::ssize(mine);
      }
      if (run > 0) {
        Samples& samples = before && calibration.AtFullSpeed() ? good : slowed;
        samples.Add(phases);
        if (apart != nullptr) samples.AddApart(in_turn);
      }
      if (std::ssize(good.prefill_s) >= options.repeats) break;
    }
    const bool steady = std::ssize(good.prefill_s) >= options.repeats;
    Samples& used = good;
    if (!steady) {  // better all of them, marked, than few of an unknown kind
      used.Append(slowed);
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
    row["regions_per_layer"] = session->regions_per_layer(batch);
    say(fmt::format(
        "{:>5} {:>8.0f} ({:.0f}-{:.0f}) {:>8.0f} ({:.0f}-{:.0f}) {:>9.1f} {:>7.0f}% {:>7.0f}%{}",
        batch, prefill.median, prefill.min, prefill.max, decode.median, decode.min, decode.max,
        ttft_s * 1e3, 100 * prefill_fraction, 100 * decode_fraction,
        steady ? "" : "  (machine unsteady)"));
    if (apart != nullptr) {
      const double prefill_ratio = SpreadOf(used.apart_prefill_s).median / prefill_s.median;
      const double decode_ratio = SpreadOf(used.apart_decode_s).median / decode_s.median;
      say(
          fmt::format("      fused: {:.2f} x the prefill and {:.2f} x the decode of one operation "
                      "at a time; {} of {} outputs equal",
                      prefill_ratio, decode_ratio, same_apart, compared));
      row["fusion"] = {{"prefill_ratio", prefill_ratio},
                       {"decode_ratio", decode_ratio},
                       {"regions_per_layer", apart->regions_per_layer(batch)},
                       {"outputs", compared},
                       {"outputs_equal", same_apart}};
      if (same_apart != compared)
        report.failures.push_back(
            fmt::format("{} of {} outputs at batch {} differ from those of one operation at a time",
                        compared - same_apart, compared, batch));
      if (batch == 1 && decode_ratio < options.least_fusion)
        report.failures.push_back(
            fmt::format("fusion brings {:.2f} x the decode of one sequence, at least {} was asked "
                        "for",
                        decode_ratio, options.least_fusion));
    }
    rows.push_back(std::move(row));
    const auto add = [&](const char* metric, double amount, const std::vector<double>& seconds,
                         const std::string& series, double limit_s) {
      report.figures.push_back(
          TokenRate(metric, series, "sequences", batch, Rates(amount, seconds)));
      if (limit_s > 0) report.figures.back().limit = amount / limit_s;
    };
    add("prefill rate", 1.0 * batch * options.prompt_tokens, used.prefill_s,
        fmt::format("prompts of {}", options.prompt_tokens), prefill_limit);
    if (options.new_tokens > 0) {
      add("decode rate", 1.0 * batch * options.new_tokens, used.decode_s,
          fmt::format("{} after {}", options.new_tokens, options.prompt_tokens), decode_limit);
    }
  }
  say(MachineLine(calibration.best()));
  say("prefill%, decode%: of what these limits would give with this model at that batch");
  report.json = {{"schema", "tutti.bench.engine.v1"}, {"machine", calibration.Json()},
                 {"model", session->model_name()},    {"injected_slowdown", options.slowdown},
                 {"rows", std::move(rows)},           {"passed", report.failures.empty()}};
  return report;
}

}  // namespace tutti::bench
