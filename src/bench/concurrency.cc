#include "bench/concurrency.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <boost/json/array.hpp>
#include <numeric>
#include <thread>

#include "api/inference.h"
#include "app/blocking_waker.h"
#include "bench/report.h"
#include "bench/strategies.h"

namespace tutti::bench {
namespace {

struct Outcome {
  Status status;
  std::string text;
  int tokens = 0;
  double ttft_s = 0, e2e_s = 0, end_s = 0;
};

api::GenerateRequest RequestNumber(int i, int new_tokens) {
  api::GenerateRequest request;
  request.prompt = api::TextPrompt{
      .text = fmt::format("Story number {} begins on a quiet morning, when", i + 1)};
  request.sampling.temperature = 0.8;
  request.sampling.top_k = 40;
  request.sampling.seed = i;
  request.sampling.max_tokens = new_tokens;
  request.sampling.ignore_eos = true;
  request.use_prefix_cache = false;
  return request;
}

Outcome RunOne(api::Inference& inference, int number, int new_tokens, TimePoint bench_start) {
  const SteadyClock clock;
  Outcome out;
  const TimePoint start = clock.Now();
  auto waker = std::make_shared<app::BlockingWaker>();
  Result<api::Generation> generation = inference.Generate(RequestNumber(number, new_tokens), waker);
  if (!generation.ok()) {
    out.status = generation.status();
    return out;
  }
  while (const api::StreamEvent* event = waker->Next(*generation)) {
    if (event->kind == api::StreamEvent::Kind::kToken && out.tokens++ == 0) {
      out.ttft_s = ToSeconds(clock.Now() - start);
    }
    out.text += event->text;
  }
  out.status = generation->stream().status();
  const TimePoint end = clock.Now();
  out.e2e_s = ToSeconds(end - start);
  out.end_s = ToSeconds(end - bench_start);
  return out;
}

struct Level {
  double seconds = 0;
  std::vector<Outcome> outcomes;  // by request
};

Level RunLevel(api::Inference& inference, int clients, int requests, int new_tokens) {
  const SteadyClock clock;
  Level level;
  level.outcomes.resize(static_cast<size_t>(requests));
  std::atomic<int> next{0};
  const TimePoint start = clock.Now();
  std::vector<std::thread> threads;
  for (int c = 0; c < clients; ++c) {
    threads.emplace_back([&] {
      for (int i = next++; i < requests; i = next++) {
        level.outcomes[static_cast<size_t>(i)] = RunOne(inference, i, new_tokens, start);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  level.seconds = ToSeconds(clock.Now() - start);
  return level;
}

}  // namespace

Result<Report> BenchConcurrency(const ConcurrencyOptions& options, const Progress& progress) {
  Flags flags = options.flags;
  flags["prefix-cache"] = "off";
  flags["speculate"] = "off";
  flags["max-num-seqs"] =
      std::to_string(*std::max_element(options.levels.begin(), options.levels.end()));
  ASSIGN_OR_RETURN(const std::unique_ptr<Session> session,
                   Session::Load(options.model, flags, Session::Stepping::kOwnThread));
  Calibration calibration(session->kernels().isa, session->threads(), options.gated);
  Report report;
  const auto say = [&](const std::string& line) { report.Print(line, progress); };
  say(session->summary());
  say(fmt::format("{:>7} {:>8} {:>9} {:>7} {:>8} {:>22} {:>24}", "clients", "done", "seconds",
                  "req/s", "tok/s", "TTFT ms p50/p95/p99", "E2E ms p50/p95/p99"));
  RunLevel(session->gateway(), options.levels.front(), options.warmup_requests,
           options.warmup_tokens);

  boost::json::array rows, gates;
  std::vector<std::string> texts;
  std::vector<double> rates;
  for (const int clients : options.levels) {
    calibration.AtFullSpeed();
    const Level level = RunLevel(session->gateway(), clients, options.requests, options.new_tokens);
    int done = 0;
    int64_t tokens = 0;
    bool equal = true;
    std::vector<double> ttft, e2e, ends;
    for (size_t i = 0; i < level.outcomes.size(); ++i) {
      const Outcome& outcome = level.outcomes[i];
      if (!outcome.status.ok()) {
        report.failures.push_back(
            fmt::format("request {} at {} clients: {}", i, clients, outcome.status.ToString()));
        continue;
      }
      ++done;
      tokens += outcome.tokens;
      ttft.push_back(outcome.ttft_s);
      e2e.push_back(outcome.e2e_s);
      ends.push_back(outcome.end_s);
      if (texts.size() <= i) texts.resize(i + 1);
      if (texts[i].empty()) texts[i] = outcome.text;
      equal = equal && texts[i] == outcome.text;
    }
    const int64_t expected = int64_t{1} * options.requests * options.new_tokens;
    if (tokens != expected) {
      report.failures.push_back(
          fmt::format("{} tokens at {} clients, not {}", tokens, clients, expected));
    }
    if (!equal)
      report.failures.push_back(
          fmt::format("texts at {} clients differ from those at {}", clients, options.levels[0]));
    const double rate = static_cast<double>(tokens) / level.seconds;
    rates.push_back(rate);
    const Percentiles t = PercentilesOf(ttft), e = PercentilesOf(e2e);
    const bool stable = IsStable(WindowRates(ends, 3));
    say(fmt::format("{:>7} {:>4}/{} {:>9.2f} {:>7.2f} {:>8.0f} {:>22} {:>24}  texts {}{}", clients,
                    done, options.requests, level.seconds, done / level.seconds, rate,
                    MillisText(t), MillisText(e, 0), equal ? "equal" : "DIFFER",
                    stable ? "" : "  (unstable)"));
    rows.push_back(boost::json::object{{"concurrency", clients},
                                       {"requests", options.requests},
                                       {"completed", done},
                                       {"output_tokens", tokens},
                                       {"seconds", level.seconds},
                                       {"req_s", done / level.seconds},
                                       {"tok_s", rate},
                                       {"ttft_ms", MillisJson(t)},
                                       {"e2e_ms", MillisJson(e)},
                                       {"equal", equal},
                                       {"stable", stable}});
    // As in serve_load.cc: as many requests as clients are always in progress.
    const double busy = std::min(clients, options.requests);
    report.figures.push_back(
        TokenRate("output rate", fmt::format("{} tokens each", options.new_tokens), "clients",
                  clients, PartsOf(e2e, [&](std::span<const double> part) {
                    return busy * options.new_tokens * static_cast<double>(part.size()) /
                           std::accumulate(part.begin(), part.end(), 0.0);
                  })));
  }
  for (size_t l = 1; l < options.levels.size(); ++l) {
    const int clients = options.levels[l];
    const double stated = clients == 4 ? 2.0 : clients == 8 ? 3.0 : 0;
    if (stated == 0 || options.levels[0] != 1) continue;
    const StrategyShape together{clients, options.new_tokens, 0};
    constexpr int kPromptTokens = 12;
    const RatioGate gate{
        .stated = stated,
        .allowed =
            BlockingLimitSeconds(session->cost(), calibration.best(), together, kPromptTokens) /
            ContinuousLimitSeconds(session->cost(), calibration.best(), together, kPromptTokens),
        .measured = rates[l] / rates[0]};
    if (options.gated) {
      say(
          fmt::format("tok/s at {} clients / 1: {:.2f}, needs {:.2f} (stated {:.2f}, this machine "
                      "allows {:.2f}): {}",
                      clients, gate.measured, gate.required(), stated, gate.allowed,
                      gate.met() ? "met" : "MISSED"));
    } else {
      say(fmt::format("tok/s at {} clients / 1: {:.2f} (this machine allows {:.2f})", clients,
                      gate.measured, gate.allowed));
    }
    gates.push_back(boost::json::object{{"concurrency", clients},
                                        {"measured", gate.measured},
                                        {"stated", stated},
                                        {"allowed", gate.allowed},
                                        {"required", gate.required()},
                                        {"met", gate.met()}});
    if (options.gated && !gate.met()) {
      report.failures.push_back(fmt::format("tok/s at {} clients is {:.2f} of 1, below {:.2f}",
                                            clients, gate.measured, gate.required()));
    }
  }
  say(MachineLine(calibration.best()));
  report.json = {{"schema", "tutti.bench.concurrency.v1"},
                 {"machine", calibration.Json()},
                 {"model", session->model_name()},
                 {"gen_tokens", options.new_tokens},
                 {"rows", std::move(rows)},
                 {"gates", std::move(gates)},
                 {"passed", report.failures.empty()}};
  return report;
}

}  // namespace tutti::bench
