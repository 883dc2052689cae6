#include "bench/decisions.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "api/inference.h"
#include "app/blocking_waker.h"
#include "app/loading/loading.h"
#include "app/loading/model_registry.h"
#include "base/clock.h"
#include "bench/encode_target.h"
#include "bench/machine.h"
#include "bench/workload.h"
#include "model/model_files.h"
#include "services/calls/generation_call.h"

namespace tutti::bench {
namespace {

constexpr int kWarmupCalls = 2;
constexpr int kCheckedCalls = 4;  // whose answers are compared with those alone
constexpr double kGoal = 1000;    // decisions a second, of texts of 64 tokens

// What the bench needs of a model.
class DecisionModel {
 public:
  virtual ~DecisionModel() = default;
  virtual api::Inference& inference() = 0;
  virtual const std::string& name() const = 0;
  virtual const std::string& summary() const = 0;
  virtual std::vector<std::string> Labels(int count) const = 0;
  virtual int CountTokens(const std::string& text) const = 0;
  virtual const kernels::KernelTable& kernels() const = 0;
  virtual int threads() const = 0;
  virtual uint64_t steps() const = 0;
  // Prompt tokens computed so far; nullopt: as many as the usage of the calls says.
  virtual std::optional<uint64_t> computed() const = 0;
  // Decisions a second at the machine's peaks, if `together` decisions of `tokens` tokens are
  // computed in one step. 0: not known.
  virtual double Limit(const kernels::MachineLimits& peaks, int together, int tokens) const = 0;
};

class Generator final : public DecisionModel {
 public:
  explicit Generator(std::unique_ptr<Session> session) : session_(std::move(session)) {}
  api::Inference& inference() override { return session_->gateway(); }
  const std::string& name() const override { return session_->model_name(); }
  const std::string& summary() const override { return session_->summary(); }
  std::vector<std::string> Labels(int count) const override {
    std::vector<std::string> labels;
    for (int l = 0; l < count; ++l) labels.emplace_back(1, static_cast<char>('A' + l));
    return labels;
  }
  int CountTokens(const std::string& text) const override {
    return static_cast<int>(session_->Tokens(text).size());
  }
  const kernels::KernelTable& kernels() const override { return session_->kernels(); }
  int threads() const override { return session_->threads(); }
  uint64_t steps() const override { return session_->engine().stats().steps; }
  std::optional<uint64_t> computed() const override {
    return session_->engine().stats().prompt_tokens_computed;
  }
  double Limit(const kernels::MachineLimits& peaks, int together, int tokens) const override {
    return together / session_->cost().PrefillSeconds(peaks, together, tokens);
  }

 private:
  const std::unique_ptr<Session> session_;
};

// A classifier computes a text once for all questions of a call.
class Classifier final : public DecisionModel {
 public:
  static Result<std::unique_ptr<DecisionModel>> Load(const std::string& model, const Flags& flags) {
    app::Settings::Inputs inputs;
    inputs.flags = flags;
    inputs.environment = app::TuttiEnvironment();
    ASSIGN_OR_RETURN(app::Settings settings, app::Settings::Resolve(inputs));
    std::unique_ptr<Classifier> loaded(new Classifier(std::move(settings)));
    ASSIGN_OR_RETURN(loaded->summary_, LoadEncoder(loaded->inference_, model));
    ASSIGN_OR_RETURN(loaded->kernels_, app::KernelsFromSettings(loaded->settings_));
    ASSIGN_OR_RETURN(loaded->served_, loaded->inference_.gateway().Find(""));
    if (loaded->labels().size() < 2) {
      return InvalidArgument("invalid_value",
                             model +
                                 " is an encoder without labels; `tutti bench encode` "
                                 "measures it");
    }
    return std::unique_ptr<DecisionModel>(std::move(loaded));
  }
  api::Inference& inference() override { return inference_.gateway(); }
  const std::string& name() const override { return served_->info.id; }
  const std::string& summary() const override { return summary_; }
  std::vector<std::string> Labels(int count) const override {
    const size_t shown = std::min(labels().size(), static_cast<size_t>(count));
    return {labels().begin(), labels().begin() + static_cast<std::ptrdiff_t>(shown)};
  }
  int CountTokens(const std::string& text) const override {
    return static_cast<int>(served_->tokenizer->Encode(text).size());
  }
  const kernels::KernelTable& kernels() const override { return *kernels_; }
  int threads() const override { return app::ThreadsFromSettings(settings_); }
  uint64_t steps() const override { return served_->encoder->engine->stats().batches; }
  std::optional<uint64_t> computed() const override { return std::nullopt; }
  double Limit(const kernels::MachineLimits&, int, int) const override { return 0; }

 private:
  explicit Classifier(app::Settings settings)
      : settings_(std::move(settings)), inference_(settings_, nullptr) {}
  const std::vector<std::string>& labels() const {
    static const std::vector<std::string> kNone;
    return served_->info.encoder.has_value() ? served_->info.encoder->labels : kNone;
  }

  const app::Settings settings_;
  app::LocalInference inference_;
  std::string summary_;
  const kernels::KernelTable* kernels_ = nullptr;
  std::shared_ptr<const gateway::ServedModel> served_;
};

// The shortest text of whole words that has at least `tokens` tokens, or one hardly longer.
std::string TextOf(const DecisionModel& model, int tokens, uint64_t seed, int call) {
  for (int words = 1;;) {
    std::string text = PromptText(Workload::kRandom, words, seed, call);
    const int missing = tokens - model.CountTokens(text);
    if (missing <= 0) return text;
    words += std::max(1, missing / 4);
  }
}

std::string BodyOf(const DecisionModel& model, const DecisionsOptions& options, int questions,
                   uint64_t seed, int call, bool bypass) {
  boost::json::array asked;
  for (int q = 0; q < questions; ++q) {
    boost::json::array choices;
    for (const std::string& label : model.Labels(options.labels))
      choices.push_back(boost::json::object{{"value", label}});
    // The number comes first, so that questions share no more than the text.
    asked.push_back(boost::json::object{
        {"type", "choice"},
        {"instructions", fmt::format("{}. Which group does it belong to?", q + 1)},
        {"choices", std::move(choices)}});
  }
  return boost::json::serialize(
      boost::json::object{{"model", model.name()},
                          {"input", TextOf(model, options.tokens, seed, call)},
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
DecidedCall Decide(api::Inference& inference, const std::string& body, const std::string& id) {
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
    request.request_id = id;
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
        row.calls[i] = Decide(inference, bodies[i], std::to_string(i));
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
  DecisionsBench(const DecisionsOptions& options, DecisionModel& model, const Progress& progress)
      : options_(options),
        model_(model),
        progress_(progress),
        calibration_(model.kernels().isa, model.threads(), options.calibrate) {}

  Result<Report> Run() {
    Say(model_.summary());
    Say(fmt::format("texts of {} tokens, {} labels, {} clients", options_.tokens, options_.labels,
                    options_.clients));
    Say(fmt::format("{:>9} {:>6} {:>9} {:>12} {:>10} {:>7} {:>7} {:>9} {:>24}", "questions",
                    "calls", "seconds", "decisions/s", "limit/s", "rows", "shared", "rows/step",
                    "call ms p50/p95/p99"));
    for (size_t i = 0; i < options_.questions.size(); ++i)
      RETURN_IF_ERROR(Measure(static_cast<int>(i), options_.questions[i]));
    Say("rows: tokens computed for a decision; shared: tokens of it from the prefix cache; limit: "
        "rows at this machine's peaks, 0 if not known");
    Say(fmt::format(
        "goal: {:.0f} decisions/s of 64 tokens on two cores; measured at most {:.1f}: {}", kGoal,
        best_rate_, best_rate_ >= kGoal ? "met" : "MISSED"));
    Say(MachineLine(calibration_.best()));
    if (best_rate_ < options_.least_rate) {
      report_.failures.push_back(
          fmt::format("{:.1f} decisions/s, below {:.1f}", best_rate_, options_.least_rate));
    }
    report_.json = {{"schema", "tutti.bench.decisions.v1"},
                    {"machine", calibration_.Json()},
                    {"model", model_.name()},
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
    api::Inference& inference = model_.inference();
    const int count = std::max(1, (options_.decisions + questions - 1) / questions);
    // Other texts in every row: none is found in the cache.
    const uint64_t seed = LevelSeed(options_.seed, number);
    std::vector<std::string> warmup, bodies;
    for (int i = 0; i < kWarmupCalls; ++i)
      warmup.push_back(BodyOf(model_, options_, questions, seed, count + i, false));
    for (int i = 0; i < count; ++i)
      bodies.push_back(BodyOf(model_, options_, questions, seed, i, false));
    for (const DecidedCall& call : RunDecisions(inference, warmup, 1).calls)
      RETURN_IF_ERROR(call.status);
    const bool steady = calibration_.AtFullSpeed();
    const std::optional<uint64_t> computed_before = model_.computed();
    const uint64_t steps_before = model_.steps();
    const DecisionsRow row = RunDecisions(inference, bodies, options_.clients);
    const std::optional<uint64_t> computed_after = model_.computed();
    const uint64_t steps = model_.steps() - steps_before;
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
    const uint64_t computed = computed_after.has_value() ? *computed_after - *computed_before
                                                         : static_cast<uint64_t>(prompt - cached);
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
      const DecidedCall alone =
          Decide(model_.inference(),
                 BodyOf(model_, options_, questions, seed, static_cast<int>(i), true), "alone");
      if (alone.status.ok() && alone.answers == row.calls[i].answers) continue;
      equal = false;
      report_.failures.push_back(fmt::format(
          "call {} with {} questions: {}", i, questions,
          alone.status.ok() ? "the answers differ from those alone" : alone.status.ToString()));
    }
    return equal;
  }

  double LimitOf(int together, double rows) const {
    return model_.Limit(calibration_.best(), together, std::max(1, static_cast<int>(rows + 0.5)));
  }

  const DecisionsOptions& options_;
  DecisionModel& model_;
  const Progress& progress_;
  Calibration calibration_;
  Report report_;
  boost::json::array rows_;
  double best_rate_ = 0;
};

Result<std::unique_ptr<DecisionModel>> LoadModel(const std::string& model, const Flags& flags) {
  ASSIGN_OR_RETURN(const app::ModelRef ref, app::ResolveModel(model));
  if (model::ModelFiles::At(ref.path).holds == model::ModelFiles::Holds::kEncoder)
    return Classifier::Load(model, flags);
  ASSIGN_OR_RETURN(std::unique_ptr<Session> session,
                   Session::Load(model, flags, Session::Stepping::kOwnThread));
  return std::unique_ptr<DecisionModel>(std::make_unique<Generator>(std::move(session)));
}

}  // namespace

Result<Report> BenchDecisions(const DecisionsOptions& options, const Progress& progress) {
  Flags flags = options.flags;
  flags["max-num-seqs"] = std::to_string(options.max_num_seqs);
  ASSIGN_OR_RETURN(const std::unique_ptr<DecisionModel> model, LoadModel(options.model, flags));
  return DecisionsBench(options, *model, progress).Run();
}

}  // namespace tutti::bench
