#include "bench/speculation.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>

#include "bench/report.h"
#include "bench/workload.h"

namespace tutti::bench {
namespace {

constexpr double kCopyRatio = 1.3;     // at one request
constexpr double kLoadedRatio = 0.97;  // at eight
// Requests of one round with one value of max_num_seqs, one after the other.
constexpr int kRequests = 8;

struct TextSet {
  const char* name;
  bool copies;
  double temperature;
};
constexpr std::array<TextSet, 3> kSets = {
    {{"copy", true, 0}, {"greedy", false, 0}, {"sampled", false, 0.8}}};

// A passage of words of its own, twice and the beginning of a third time; or once.
std::vector<TokenId> PromptOf(const Session& session, const TextSet& set,
                              const SpeculationOptions& options, int i) {
  const std::string passage =
      PromptText(Workload::kRandom, set.copies ? options.passage_words : options.passage_words / 3,
                 options.seed, i);
  if (!set.copies) return session.Tokens(passage);
  return session.Tokens(passage + ".\n\n" + passage + ".\n\n" +
                        passage.substr(0, passage.find(' ', passage.size() / 6)));
}

}  // namespace

Result<Report> BenchSpeculation(const SpeculationOptions& options, const Progress& progress) {
  std::array<std::unique_ptr<Session>, 2> sessions;
  std::array<Flags, 2> all;
  const int most = *std::max_element(options.max_num_seqs.begin(), options.max_num_seqs.end());
  for (const bool on : {false, true}) {
    Flags flags = options.flags;
    if (!on) flags.erase("draft");
    flags["speculate"] = !on ? "off" : flags.contains("draft") ? "draft" : "ngram";
    flags["prefix-cache"] = "off";
    flags["max-num-seqs"] = std::to_string(most);
    all[on] = flags;
  }
  for (const Flags& flags : all) RETURN_IF_ERROR(Session::Check(options.model, flags));
  for (const bool on : {false, true}) {
    ASSIGN_OR_RETURN(sessions[on], Session::Load(options.model, all[on]));
  }
  Session& proposing = *sessions[1];
  Calibration calibration(proposing.kernels().isa, proposing.threads(), options.calibrate);

  Report report;
  const auto say = [&](const std::string& line) { report.Print(line, progress); };
  say(proposing.summary());
  say(fmt::format("{:>8} {:>6} {:>9} {:>9} {:>20} {:>9} {:>9} {:>7}", "set", "lanes", "off tok/s",
                  "on tok/s", "ratio (range)", "proposed", "accepted", "per step"));
  boost::json::array rows;
  for (const TextSet& set : kSets) {
    for (const int max_num_seqs : options.max_num_seqs) {
      std::vector<std::vector<TokenId>> prompts;
      for (int i = 0; i < std::max(kRequests, max_num_seqs); ++i)
        prompts.push_back(PromptOf(proposing, set, options, i));
      std::vector<double> ratios, off_rates, on_rates;
      bool equal = true;
      const engine::EngineStats before = proposing.engine().stats();
      // The first run warms up, and learns what rows cost.
      for (int needed = options.rounds, left = 2 * options.rounds; needed > 0; --left) {
        const bool warm_up = left == 2 * options.rounds;
        const bool steady = calibration.AtFullSpeed();
        std::array<ServedBatches, 2> round;
        for (int turn = 0; turn < 2; ++turn) {
          const bool on = (turn + left) % 2 == 0;  // neither is always the first
          ASSIGN_OR_RETURN(round[on],
                           ServeInBatches(prompts, max_num_seqs,
                                          [&](const std::vector<std::vector<TokenId>>& batch) {
                                            return sessions[on]->Serve(batch, options.new_tokens,
                                                                       set.temperature);
                                          }));
        }
        equal = equal && round[0].outputs == round[1].outputs;
        if (warm_up || (!(calibration.AtFullSpeed() && steady) && left > needed)) continue;
        --needed;
        const double tokens = static_cast<double>(prompts.size()) * (options.new_tokens - 1);
        ratios.push_back(round[0].seconds / round[1].seconds);
        off_rates.push_back(tokens / round[0].seconds);
        on_rates.push_back(tokens / round[1].seconds);
      }
      const engine::EngineStats after = proposing.engine().stats();
      const uint64_t proposed = after.draft_tokens - before.draft_tokens,
                     accepted = after.accepted_tokens - before.accepted_tokens,
                     drafts = after.draft_steps - before.draft_steps;
      const Spread ratio = SpreadOf(ratios);
      say(fmt::format(
          "{:>8} {:>6} {:>9.0f} {:>9.0f} {:>6.2f} ({:.2f}-{:.2f}) {:>9} {:>8.0f}% {:>7.1f}{}",
          set.name, max_num_seqs, SpreadOf(off_rates).median, SpreadOf(on_rates).median,
          ratio.median, ratio.min, ratio.max, proposed,
          proposed > 0 ? 100.0 * static_cast<double>(accepted) / static_cast<double>(proposed)
                       : 0.0,
          drafts > 0 ? static_cast<double>(accepted) / static_cast<double>(drafts) : 0.0,
          equal ? "" : "  answers DIFFER"));
      rows.push_back(boost::json::object{{"set", set.name},
                                         {"lanes", max_num_seqs},
                                         {"ratio", ratio.median},
                                         {"ratio_min", ratio.min},
                                         {"ratio_max", ratio.max},
                                         {"off_tok_s", SpreadOf(off_rates).median},
                                         {"on_tok_s", SpreadOf(on_rates).median},
                                         {"proposed", proposed},
                                         {"accepted", accepted},
                                         {"draft_steps", drafts},
                                         {"equal", equal}});
      for (const bool on : {false, true}) {
        report.figures.push_back(
            TokenRate("decode rate", std::string(set.name) + (on ? ", drafts" : ", no drafts"),
                      "sequences", max_num_seqs, on ? on_rates : off_rates));
      }
      if (!equal)
        report.failures.push_back(fmt::format("answers differ: {} at {}", set.name, max_num_seqs));
      const double required = set.copies && max_num_seqs == 1 ? kCopyRatio
                              : max_num_seqs == 8             ? kLoadedRatio
                                                              : 0;
      if (options.gated && ratio.median < required) {
        report.failures.push_back(fmt::format("{} at {}: {:.2f} is below {:.2f}", set.name,
                                              max_num_seqs, ratio.median, required));
      }
    }
  }
  say(MachineLine(calibration.best()));
  report.json = {{"schema", "tutti.bench.speculation.v1"},
                 {"machine", calibration.Json()},
                 {"model", proposing.model_name()},
                 {"draft", options.flags.contains("draft") ? options.flags.at("draft") : ""},
                 {"gen_tokens", options.new_tokens},
                 {"rounds", options.rounds},
                 {"rows", std::move(rows)},
                 {"passed", report.failures.empty()}};
  return report;
}

}  // namespace tutti::bench
