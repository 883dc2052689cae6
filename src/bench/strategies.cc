#include "bench/strategies.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>

#include "bench/report.h"

namespace tutti::bench {
namespace {

constexpr std::array<const char*, 3> kStrategies = {"blocking", "interleaved", "continuous"};
enum { kBlocking, kInterleaved, kContinuous };
constexpr int kLeastPrompt = 8, kMaxPrompt = 16;

// Everything one strategy showed at one shape, over the rounds.
struct Measured {
  std::vector<double> total_s;                // per round
  std::vector<double> ttft_s, tpot_s, e2e_s;  // per request and round
  std::vector<double> third_ttft_s;           // of the third request, per round
  std::vector<ServedRequest> first_round;

  void Add(std::vector<ServedRequest> requests) {
    double end = 0;
    for (const ServedRequest& request : requests) {
      end = std::max(end, request.end_s);
      ttft_s.push_back(request.first_token_s);
      e2e_s.push_back(request.end_s);
      const auto gaps = static_cast<double>(request.output.size()) - 1;
      if (gaps > 0) tpot_s.push_back((request.end_s - request.first_token_s) / gaps);
    }
    total_s.push_back(end);
    if (requests.size() >= 3) third_ttft_s.push_back(requests[2].first_token_s);
    if (first_round.empty()) first_round = std::move(requests);
  }
  double Seconds() const { return SpreadOf(total_s).median; }
};

bool SameOutputs(const std::vector<ServedRequest>& a, const std::vector<ServedRequest>& b) {
  return std::equal(
      a.begin(), a.end(), b.begin(), b.end(),
      [](const ServedRequest& x, const ServedRequest& y) { return x.output == y.output; });
}

boost::json::object GateJson(const std::string& name, const RatioGate& gate) {
  return {{"gate", name},
          {"measured", gate.measured},
          {"stated", gate.stated},
          {"allowed", gate.allowed},
          {"required", gate.required()},
          {"met", gate.met()}};
}

}  // namespace

double BlockingLimitSeconds(const ModelCost& cost, const kernels::MachineLimits& limits,
                            const StrategyShape& shape, int prompt_tokens) {
  return shape.requests *
         (cost.PrefillSeconds(limits, 1, prompt_tokens) +
          (shape.new_tokens - 1) *
              cost.DecodeSeconds(limits, 1, prompt_tokens + 0.5 * shape.new_tokens));
}

double ContinuousLimitSeconds(const ModelCost& cost, const kernels::MachineLimits& limits,
                              const StrategyShape& shape, int prompt_tokens) {
  return cost.PrefillSeconds(limits, shape.requests, prompt_tokens) +
         (shape.new_tokens - 1) *
             cost.DecodeSeconds(limits, shape.requests, prompt_tokens + 0.5 * shape.new_tokens);
}

Result<Report> BenchStrategies(const StrategiesOptions& options, const Progress& progress) {
  std::array<std::unique_ptr<Session>, kStrategies.size()> sessions;
  for (size_t s = 0; s < kStrategies.size(); ++s) {
    Flags flags = options.flags;
    flags["strategy"] = kStrategies[s];
    flags["max-num-seqs"] = std::to_string(options.max_num_seqs);
    flags["prefix-cache"] = "off";
    flags["speculate"] = "off";
    ASSIGN_OR_RETURN(sessions[s], Session::Load(options.model, flags));
  }
  Session& continuous = *sessions[kContinuous];
  Calibration calibration(continuous.kernels().isa, continuous.threads(), options.calibrate);

  Report report;
  boost::json::array shapes, gates;
  const auto say = [&](const std::string& line) { report.Print(line, progress); };
  const auto judge = [&](const std::string& name, const RatioGate& gate) {
    if (options.gated) {
      say(fmt::format("  {}: {:.2f}, needs {:.2f}{}: {}", name, gate.measured, gate.required(),
                      gate.allowed < 1e6
                          ? fmt::format(" (stated {:.2f}, this machine allows {:.2f})", gate.stated,
                                        gate.allowed)
                          : "",
                      gate.met() ? "met" : "MISSED"));
    } else {
      say(fmt::format("  {}: {:.2f}", name, gate.measured));
    }
    gates.push_back(GateJson(name, gate));
    if (options.gated && !gate.met()) {
      report.failures.push_back(
          fmt::format("{}: {:.2f} is below {:.2f}", name, gate.measured, gate.required()));
    }
  };
  say(continuous.summary() + fmt::format("; prompts of {}-{} tokens, {} rounds", kLeastPrompt,
                                         kMaxPrompt, options.rounds));

  // One sequence straight through the engine: what blocking is held to.
  const auto alone_prompt =
      RandomPrompts(continuous.vocabulary(), 1, kLeastPrompt, options.seed, kMaxPrompt);
  std::vector<double> alone_rates, blocking_rates;

  for (const StrategyShape& shape : options.shapes) {
    const auto prompts = RandomPrompts(continuous.vocabulary(), shape.requests, kLeastPrompt,
                                       options.seed, kMaxPrompt);
    double prompt_tokens = 0;
    for (const auto& prompt : prompts)
      prompt_tokens += static_cast<double>(prompt.size()) / shape.requests;
    std::array<Measured, kStrategies.size()> measured;
    bool equal = true;
    // The first run warms up. Rounds that met a slowed machine are dropped as long as spare
    // attempts are left.
    int needed = options.rounds, slowed = 0;
    for (int left = 2 * options.rounds; needed > 0; --left) {
      const bool warm_up = left == 2 * options.rounds;
      const bool before = calibration.AtFullSpeed();
      std::array<std::vector<ServedRequest>, kStrategies.size()> round;
      std::optional<double> alone_rate;
      if (shape.requests == 1) {
        ASSIGN_OR_RETURN(const Session::TwoPhases alone,
                         continuous.PrefillThenDecode(alone_prompt, shape.new_tokens - 1));
        alone_rate = (shape.new_tokens - 1) / alone.decode_s;
      }
      for (size_t s = 0; s < kStrategies.size(); ++s) {
        ASSIGN_OR_RETURN(round[s], sessions[s]->Serve(prompts, shape.new_tokens));
        equal = equal && SameOutputs(round[kBlocking], round[s]);
      }
      const bool steady = calibration.AtFullSpeed() && before;
      if (warm_up || (!steady && left > needed)) continue;
      --needed;
      slowed += !steady;
      if (alone_rate) {
        alone_rates.push_back(*alone_rate);
        const ServedRequest& blocking = round[kBlocking][0];
        blocking_rates.push_back((shape.new_tokens - 1) /
                                 (blocking.end_s - blocking.first_token_s));
      }
      for (size_t s = 0; s < kStrategies.size(); ++s) {
        equal = equal &&
                (measured[s].total_s.empty() || SameOutputs(measured[s].first_round, round[s]));
        measured[s].Add(std::move(round[s]));
      }
    }

    const double tokens = 1.0 * shape.requests * shape.new_tokens;
    say(fmt::format("{} x {} tokens{}", shape.requests, shape.new_tokens,
                    slowed == 0 ? ""
                                : fmt::format("  ({} of {} rounds on a slowed machine)", slowed,
                                              options.rounds)));
    boost::json::object by_strategy;
    for (size_t s = 0; s < kStrategies.size(); ++s) {
      const Measured& m = measured[s];
      say(fmt::format(
          "  {:<12} {:>8.1f} ms {:>7.0f} tok/s {:>5.2f}x   TTFT ms {}  TPOT ms {}  E2E ms {}",
          kStrategies[s], m.Seconds() * 1e3, tokens / m.Seconds(),
          measured[kBlocking].Seconds() / m.Seconds(), MillisText(m.ttft_s),
          MillisText(m.tpot_s, 2), MillisText(m.e2e_s)));
      by_strategy[kStrategies[s]] =
          boost::json::object{{"total_ms", m.Seconds() * 1e3},
                              {"tok_s", tokens / m.Seconds()},
                              {"ratio_to_blocking", measured[kBlocking].Seconds() / m.Seconds()},
                              {"ttft_ms", MillisJson(m.ttft_s)},
                              {"tpot_ms", MillisJson(m.tpot_s)},
                              {"e2e_ms", MillisJson(m.e2e_s)}};
    }
    say(fmt::format("  outputs {}", equal ? "equal" : "DIFFER"));
    if (!equal) {
      report.failures.push_back(fmt::format("outputs differ between strategies at {} x {}",
                                            shape.requests, shape.new_tokens));
    }
    RatioGate gate{.stated = shape.stated_ratio};
    gate.measured = measured[kBlocking].Seconds() / measured[kContinuous].Seconds();
    const int mean_prompt = std::max(1, static_cast<int>(prompt_tokens + 0.5));
    gate.allowed =
        shape.requests == 1
            ? 1e9  // the same steps: nothing to share, no cap
            : BlockingLimitSeconds(continuous.cost(), calibration.best(), shape, mean_prompt) /
                  ContinuousLimitSeconds(continuous.cost(), calibration.best(), shape, mean_prompt);
    if (shape.stated_ratio > 0) {
      judge(fmt::format("continuous / blocking at {} x {}", shape.requests, shape.new_tokens),
            gate);
    } else {
      say(fmt::format("  continuous / blocking {:.2f} (this machine allows {:.2f})", gate.measured,
                      gate.allowed));
    }
    boost::json::object row{{"requests", shape.requests},
                            {"gen_tokens", shape.new_tokens},
                            {"equal", equal},
                            {"slowed_rounds", slowed},
                            {"strategies", std::move(by_strategy)},
                            {"continuous_to_blocking", gate.measured}};
    if (shape.requests > 1) row["allowed"] = gate.allowed;
    if (shape.requests >= 3) {
      const double ttft = SpreadOf(measured[kInterleaved].third_ttft_s).median /
                          SpreadOf(measured[kBlocking].third_ttft_s).median;
      const double total = measured[kInterleaved].Seconds() / measured[kBlocking].Seconds();
      say(fmt::format(
          "  interleaved / blocking: total time {:.2f}, TTFT of the third request {:.3f}", total,
          ttft));
      row["interleaved_total_to_blocking"] = total;
      row["interleaved_third_ttft_to_blocking"] = ttft;
      if (options.gated && shape.requests == 3) {
        if (ttft > 0.2)
          report.failures.push_back(
              fmt::format("interleaved TTFT is {:.2f} of blocking, above 0.2", ttft));
        if (total < 0.9 || total > 1.1) {
          report.failures.push_back(
              fmt::format("interleaved total time is {:.2f} of blocking, outside 0.9-1.1", total));
        }
      }
    }
    shapes.push_back(std::move(row));
  }
  if (!alone_rates.empty()) {
    say(fmt::format("one sequence straight through the engine: {:.0f} tok/s, blocking {:.0f} tok/s",
                    SpreadOf(alone_rates).median, SpreadOf(blocking_rates).median));
    judge("blocking / engine at batch 1",
          {.stated = 0.95,
           .allowed = 1e9,
           .measured = SpreadOf(blocking_rates).median / SpreadOf(alone_rates).median});
  }
  say(MachineLine(calibration.best()));
  report.json = {{"schema", "tutti.bench.strategies.v1"},
                 {"machine", calibration.Json()},
                 {"model", continuous.model_name()},
                 {"max_num_seqs", options.max_num_seqs},
                 {"lanes", options.max_num_seqs},  // the older name
                 {"rounds", options.rounds},
                 {"shapes", std::move(shapes)},
                 {"gates", std::move(gates)},
                 {"passed", report.failures.empty()}};
  return report;
}

}  // namespace tutti::bench
