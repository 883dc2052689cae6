#include "bench/lora.h"

#include <fmt/format.h>

#include <array>
#include <boost/json/array.hpp>
#include <memory>

#include "bench/machine.h"

namespace tutti::bench {

Result<Report> BenchLora(const LoraOptions& options, const Progress& progress) {
  Flags flags = options.flags;
  flags["prefix-cache"] = "off";
  flags["max-num-seqs"] = std::to_string(options.batch);
  flags["lora"] = "bench=" + options.paths.front();
  ASSIGN_OR_RETURN(const std::unique_ptr<Session> session, Session::Load(options.model, flags));
  std::vector<std::shared_ptr<const engine::Adapter>> adapters;
  std::string summary;
  for (int i = 0; i < options.adapters; ++i) {
    const std::string& path = options.paths[static_cast<size_t>(i) % options.paths.size()];
    ASSIGN_OR_RETURN(adapters.emplace_back(), session->OpenAdapter(path, &summary));
  }
  const std::vector<std::vector<TokenId>> prompts =
      RandomPrompts(session->vocabulary(), options.batch, options.prompt_tokens, options.seed);
  Calibration calibration(session->kernels().isa, session->threads(), true);

  Report report;
  const auto say = [&](const std::string& line) { report.Print(line, progress); };
  say(session->summary());
  say(fmt::format("{} adapters, the last: {}", options.adapters, summary));
  // Each request alone, under its adapter: what it must answer in every round.
  std::array<std::vector<std::vector<TokenId>>, 2> expected;
  for (const bool with : {false, true}) {
    for (size_t i = 0; i < prompts.size(); ++i) {
      session->UseAdapters(with ? std::vector{adapters[i % adapters.size()]}
                                : std::vector<std::shared_ptr<const engine::Adapter>>());
      ASSIGN_OR_RETURN(const Session::TwoPhases alone,
                       session->PrefillThenDecode({prompts[i]}, options.new_tokens));
      expected[with].push_back(alone.requests[0].output);
    }
  }
  std::array<std::vector<double>, 2> prefill, decode;
  std::vector<double> ratios;
  int different = 0;
  for (int needed = options.rounds, left = 3 * options.rounds; needed > 0; --left) {
    const bool warm_up = left == 3 * options.rounds;
    const bool steady = calibration.AtFullSpeed();
    std::array<Session::TwoPhases, 2> round;
    for (int turn = 0; turn < 2; ++turn) {
      const bool with = (turn + left) % 2 == 0;  // neither is always the first
      session->UseAdapters(with ? adapters : std::vector<std::shared_ptr<const engine::Adapter>>());
      ASSIGN_OR_RETURN(round[with], session->PrefillThenDecode(prompts, options.new_tokens));
      for (size_t i = 0; i < prompts.size(); ++i)
        different += round[with].requests[i].output != expected[with][i];
    }
    if (warm_up || (!(calibration.AtFullSpeed() && steady) && left > needed)) continue;
    --needed;
    const double tokens = static_cast<double>(prompts.size()) * options.new_tokens;
    const double read = static_cast<double>(prompts.size()) * options.prompt_tokens;
    for (const bool with : {false, true}) {
      prefill[with].push_back(read / round[with].prefill_s);
      decode[with].push_back(tokens / round[with].decode_s);
    }
    ratios.push_back(round[0].decode_s / round[1].decode_s);
  }
  const Spread ratio = SpreadOf(ratios);
  say(fmt::format("{:>10} {:>16} {:>16}", "", "prefill tok/s", "decode tok/s"));
  for (const bool with : {false, true}) {
    say(fmt::format("{:>10} {:>16.0f} {:>16.1f}", with ? "adapters" : "base",
                    SpreadOf(prefill[with]).median, SpreadOf(decode[with]).median));
  }
  const double prefill_ratio = SpreadOf(prefill[1]).median / SpreadOf(prefill[0]).median;
  say(fmt::format("decode with adapters: {:.2f} x ({:.2f}-{:.2f}); prefill {:.2f} x", ratio.median,
                  ratio.min, ratio.max, prefill_ratio));
  say(MachineLine(calibration.best()));
  if (different > 0)
    report.failures.push_back(fmt::format("{} answers differ from those alone", different));
  if (ratio.median < options.least_ratio) {
    report.failures.push_back(
        fmt::format("decode ratio {:.2f} is below {:.2f}", ratio.median, options.least_ratio));
  }
  for (const bool with : {false, true}) {
    const std::string series = with ? fmt::format("{} adapters", options.adapters) : "base";
    report.figures.push_back(
        TokenRate("prefill rate", series, "sequences", options.batch, prefill[with]));
    report.figures.push_back(
        TokenRate("decode rate", series, "sequences", options.batch, decode[with]));
  }
  report.json = {{"schema", "tutti.bench.lora.v1"},
                 {"machine", calibration.Json()},
                 {"model", session->model_name()},
                 {"adapters", options.adapters},
                 {"adapter", summary},
                 {"batch", options.batch},
                 {"prompt_tokens", options.prompt_tokens},
                 {"gen_tokens", options.new_tokens},
                 {"rounds", options.rounds},
                 {"ratio", ratio.median},
                 {"ratio_min", ratio.min},
                 {"ratio_max", ratio.max},
                 {"prefill_ratio", prefill_ratio},
                 {"base_tok_s", SpreadOf(decode[0]).median},
                 {"adapter_tok_s", SpreadOf(decode[1]).median},
                 {"different", different},
                 {"passed", report.failures.empty()}};
  return report;
}

}  // namespace tutti::bench
