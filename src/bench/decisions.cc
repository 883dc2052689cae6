#include "bench/decisions.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <thread>
#include <utility>

#include "api/inference.h"
#include "app/blocking_waker.h"
#include "base/clock.h"
#include "bench/machine.h"
#include "bench/workload.h"
#include "services/calls/generation_call.h"

namespace tutti::bench {
namespace {

constexpr int kWarmupCalls = 2;
constexpr int kCheckedCalls = 4;  // whose answers are compared with those alone
constexpr double kGoal = 1000;    // decisions a second, of texts of 64 tokens

// The shortest text of whole words that has at least `tokens` tokens, or one hardly longer.
std::string TextOf(const Session& session, int tokens, uint64_t seed, int call) {
  for (int words = 1;;) {
    std::string text = PromptText(Workload::kRandom, words, seed, call);
    const int missing = tokens - static_cast<int>(session.Tokens(text).size());
    if (missing <= 0) return text;
    words += std::max(1, missing / 4);
  }
}

std::string BodyOf(const Session& session, const DecisionsOptions& options, int questions,
                   uint64_t seed, int call, bool bypass) {
  boost::json::array asked;
  for (int q = 0; q < questions; ++q) {
    boost::json::array choices;
    for (int l = 0; l < options.labels; ++l)
      choices.push_back(boost::json::object{{"value", std::string(1, static_cast<char>('A' + l))}});
    // The number comes first, so that questions share no more than the text.
    asked.push_back(boost::json::object{
        {"type", "choice"},
        {"instructions", fmt::format("{}. Which group does it belong to?", q + 1)},
        {"choices", std::move(choices)}});
  }
  return boost::json::serialize(
      boost::json::object{{"model", session.model_name()},
                          {"input", TextOf(session, options.tokens, seed, call)},
                          {"questions", std::move(asked)},
                          {"cache", bypass ? "bypass" : "auto"}});
}

struct DecidedCall {
  Status status;
  std::string answers;  // JSON
  api::Usage usage;     // the sum over its requests
  double latency_s = 0, end_s = 0;
};

// Parses the body, serves its requests and writes the answer, as a server does.
DecidedCall Decide(api::Inference& inference, const std::string& body) {
  constexpr calls::CallKind kKind = calls::CallKind::kDecisions;
  DecidedCall out;
  Result<protocol::GenerationCall> call = calls::ParseGeneration(kKind, body, {});
  if (!call.ok()) {
    out.status = call.status();
    return out;
  }
  const auto waker = std::make_shared<app::BlockingWaker>();
  const auto writer = calls::MakeWriter(
      kKind, *call, calls::HeadOf(kKind, *call, "0", inference, UnixSeconds()).head, {});
  std::vector<api::Generation> generations;
  for (api::GenerateRequest& request : call->requests) {
    Result<api::Generation> generation = inference.Generate(std::move(request), waker);
    if (!generation.ok()) {
      out.status = generation.status();
      return out;
    }
    generations.push_back(*std::move(generation));
  }
  std::string json;
  for (size_t i = 0; i < generations.size(); ++i) {
    while (const api::StreamEvent* event = waker->Next(generations[i])) {
      if (event->kind == api::StreamEvent::Kind::kEnd) {
        out.usage.prompt_tokens += event->usage.prompt_tokens;
        out.usage.cached_tokens += event->usage.cached_tokens;
      }
      writer->OnEvent(static_cast<int>(i), *event, &json);
    }
    if (const Status& status = generations[i].stream().status(); !status.ok()) {
      out.status = status;
      return out;
    }
  }
  writer->OnDone(&json);
  out.answers = boost::json::serialize(boost::json::parse(json).at("answers"));
  return out;
}

struct DecisionsRow {
  double seconds = 0;
  std::vector<DecidedCall> calls;
};

DecisionsRow RunDecisions(api::Inference& inference, const std::vector<std::string>& bodies,
                          int clients) {
  const SteadyClock clock;
  DecisionsRow row;
  row.calls.resize(bodies.size());
  std::atomic<size_t> next{0};
  const TimePoint start = clock.Now();
  std::vector<std::thread> threads;
  for (int c = 0; c < clients; ++c) {
    threads.emplace_back([&] {
      for (size_t i = next++; i < bodies.size(); i = next++) {
        const TimePoint sent = clock.Now();
        row.calls[i] = Decide(inference, bodies[i]);
        const TimePoint end = clock.Now();
        row.calls[i].latency_s = ToSeconds(end - sent);
        row.calls[i].end_s = ToSeconds(end - start);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  row.seconds = ToSeconds(clock.Now() - start);
  return row;
}

class DecisionsBench {
 public:
  DecisionsBench(const DecisionsOptions& options, Session& session, const Progress& progress)
      : options_(options),
        session_(session),
        progress_(progress),
        calibration_(session.kernels().isa, session.threads(), options.calibrate) {}

  Result<Report> Run() {
    Say(session_.summary());
    Say(fmt::format("texts of {} tokens, {} labels, {} clients", options_.tokens, options_.labels,
                    options_.clients));
    Say(fmt::format("{:>9} {:>6} {:>9} {:>12} {:>10} {:>7} {:>7} {:>9} {:>24}", "questions",
                    "calls", "seconds", "decisions/s", "limit/s", "rows", "shared", "rows/step",
                    "call ms p50/p95/p99"));
    for (size_t i = 0; i < options_.questions.size(); ++i)
      RETURN_IF_ERROR(Measure(static_cast<int>(i), options_.questions[i]));
    Say("rows: tokens computed for a decision; shared: tokens of it from the prefix cache; limit: "
        "rows at this machine's peaks");
    Say(fmt::format(
        "goal: {:.0f} decisions/s of 64 tokens on two cores; measured at most {:.1f}: {}", kGoal,
        best_rate_, best_rate_ >= kGoal ? "met" : "MISSED"));
    Say(MachineLine(calibration_.best()));
    if (best_rate_ < options_.least_rate) {
      report_.failures.push_back(
          fmt::format("{:.1f} decisions/s, below {:.1f}", best_rate_, options_.least_rate));
    }
    report_.json = {{"schema", "tutti.bench.decisions.v1"},
                    {"machine", MachineJson(calibration_.best())},
                    {"model", session_.model_name()},
                    {"text_tokens", options_.tokens},
                    {"labels", options_.labels},
                    {"concurrency", options_.clients},
                    {"max_num_seqs", options_.max_num_seqs},
                    {"rows", std::move(rows_)},
                    {"best_decisions_s", best_rate_},
                    {"passed", report_.failures.empty()}};
    return std::move(report_);
  }

 private:
  void Say(const std::string& line) { report_.Print(line, progress_); }

  Status Measure(int number, int questions) {
    api::Inference& inference = session_.gateway();
    const int count = std::max(1, (options_.decisions + questions - 1) / questions);
    // Other texts in every row: none is found in the cache.
    const uint64_t seed = LevelSeed(options_.seed, number);
    std::vector<std::string> warmup, bodies;
    for (int i = 0; i < kWarmupCalls; ++i)
      warmup.push_back(BodyOf(session_, options_, questions, seed, count + i, false));
    for (int i = 0; i < count; ++i)
      bodies.push_back(BodyOf(session_, options_, questions, seed, i, false));
    for (const DecidedCall& call : RunDecisions(inference, warmup, 1).calls)
      RETURN_IF_ERROR(call.status);
    const bool steady = calibration_.AtFullSpeed();
    const engine::EngineStats before = session_.engine().stats();
    const DecisionsRow row = RunDecisions(inference, bodies, options_.clients);
    const engine::EngineStats after = session_.engine().stats();
    const uint64_t computed = after.prompt_tokens_computed - before.prompt_tokens_computed;
    const uint64_t steps = after.steps - before.steps;
    const bool slowed = !(calibration_.AtFullSpeed() && steady);

    int64_t prompt = 0, cached = 0;
    int done = 0;
    std::vector<double> latency, ends;
    for (size_t i = 0; i < row.calls.size(); ++i) {
      const DecidedCall& call = row.calls[i];
      if (!call.status.ok()) {
        report_.failures.push_back(
            fmt::format("call {} with {} questions: {}", i, questions, call.status.ToString()));
        continue;
      }
      ++done;
      prompt += call.usage.prompt_tokens;
      cached += call.usage.cached_tokens;
      latency.push_back(call.latency_s);
      ends.push_back(call.end_s);
    }
    const bool equal = EqualAlone(row, questions, seed);
    const double decisions = std::max(1.0, static_cast<double>(done) * questions);
    const double rate = done * questions / row.seconds;
    const double rows = static_cast<double>(computed) / decisions;
    const double limit = LimitOf(options_.clients * questions, rows);
    best_rate_ = std::max(best_rate_, rate);
    const bool stable = IsStable(WindowRates(ends, 3));
    Say(fmt::format(
        "{:>9} {:>6} {:>9.2f} {:>12.1f} {:>10.1f} {:>7.1f} {:>7.1f} {:>9.0f} {:>24}  answers "
        "{}{}{}",
        questions, done, row.seconds, rate, limit, rows, static_cast<double>(cached) / decisions,
        static_cast<double>(computed) / std::max(1.0, static_cast<double>(steps)),
        MillisText(PercentilesOf(latency)), equal ? "equal" : "DIFFER",
        stable ? "" : "  (unstable)", slowed ? "  (machine slowed)" : ""));
    rows_.push_back(boost::json::object{{"questions", questions},
                                        {"calls", done},
                                        {"decisions", done * questions},
                                        {"seconds", row.seconds},
                                        {"decisions_s", rate},
                                        {"limit_decisions_s", limit},
                                        {"prompt_tokens", prompt},
                                        {"cached_tokens", cached},
                                        {"computed_tokens", computed},
                                        {"steps", steps},
                                        {"call_ms", MillisJson(PercentilesOf(latency))},
                                        {"equal", equal},
                                        {"stable", stable},
                                        {"slowed", slowed}});
    return OkStatus();
  }

  // Compares answers with those of the same calls alone, which compute all of their tokens. After
  // the row, so that none of its texts is in the cache when it begins.
  bool EqualAlone(const DecisionsRow& row, int questions, uint64_t seed) {
    bool equal = true;
    for (size_t i = 0; i < std::min<size_t>(kCheckedCalls, row.calls.size()); ++i) {
      const DecidedCall alone = Decide(session_.gateway(), BodyOf(session_, options_, questions,
                                                                  seed, static_cast<int>(i), true));
      if (alone.status.ok() && alone.answers == row.calls[i].answers) continue;
      equal = false;
      report_.failures.push_back(fmt::format(
          "call {} with {} questions: {}", i, questions,
          alone.status.ok() ? "the answers differ from those alone" : alone.status.ToString()));
    }
    return equal;
  }

  // Decisions a second at the machine's peaks, if `together` decisions are computed in one step.
  double LimitOf(int together, double rows) const {
    const int tokens = std::max(1, static_cast<int>(rows + 0.5));
    return together / session_.cost().PrefillSeconds(calibration_.best(), together, tokens);
  }

  const DecisionsOptions& options_;
  Session& session_;
  const Progress& progress_;
  Calibration calibration_;
  Report report_;
  boost::json::array rows_;
  double best_rate_ = 0;
};

}  // namespace

Result<Report> BenchDecisions(const DecisionsOptions& options, const Progress& progress) {
  Flags flags = options.flags;
  flags["max-num-seqs"] = std::to_string(options.max_num_seqs);
  ASSIGN_OR_RETURN(const std::unique_ptr<Session> session,
                   Session::Load(options.model, flags, Session::Stepping::kOwnThread));
  return DecisionsBench(options, *session, progress).Run();
}

}  // namespace tutti::bench
