#include "bench/perplexity.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "api/inference.h"
#include "api/validate.h"
#include "app/blocking_waker.h"
#include "base/quote.h"
#include "base/text_file.h"
#include "tensor/dtype.h"

namespace tutti::bench {
namespace {

struct Place {
  TokenId token = kNoToken, top = kNoToken;
  double logprob = 0;
};

struct Scored {
  std::string name, summary;
  std::vector<TokenId> tokens;  // of the text
  std::vector<TokenId> begin;   // what each window begins with: BOS, or nothing
  std::vector<Place> places;    // those that were scored, in order
  double seconds = 0;
  double Perplexity() const {
    double sum = 0;
    for (const Place& place : places) sum += place.logprob;
    return std::exp(-sum / static_cast<double>(places.size()));
  }
};

constexpr uint64_t kMaxTextBytes = uint64_t{64} << 20;

Result<std::string> ReadText(const std::string& path) {
  ASSIGN_OR_RETURN(std::string text, ReadTextFile(path, kMaxTextBytes, "model_path"));
  RETURN_IF_ERROR(api::CheckUtf8(text, "the text"));
  if (text.empty()) {
    return InvalidArgument(
        "invalid_value",
        Quote(path, 255) + " is empty: a text of a few thousand words tells a perplexity");
  }
  return text;
}

Status ScoreWindow(api::Inference& inference, std::vector<TokenId> window, Scored* out) {
  api::GenerateRequest request;
  const size_t expected = window.size() - 1;
  request.prompt = api::TokenPrompt{std::move(window)};
  request.sampling.temperature = 0;
  request.sampling.max_tokens = 0;
  request.sampling.prompt_logprobs = 1;
  request.score_only = true;
  request.use_prefix_cache = false;
  const auto waker = std::make_shared<app::BlockingWaker>();
  ASSIGN_OR_RETURN(api::Generation generation, inference.Generate(std::move(request), waker));
  size_t scored = 0;
  while (const api::StreamEvent* event = waker->Next(generation)) {
    if (event->kind != api::StreamEvent::Kind::kPromptToken || !event->logprobs) continue;
    const api::TokenLogprobs& found = *event->logprobs;
    const TokenId top = found.top.empty() ? found.chosen.token : found.top.front().token;
    out->places.push_back({found.chosen.token, top, static_cast<double>(found.chosen.logprob)});
    ++scored;
  }
  RETURN_IF_ERROR(generation.stream().status());
  if (scored == expected) return OkStatus();
  return Internal(fmt::format("{} of {} tokens of a window were scored", scored, expected));
}

Result<std::vector<TokenId>> Tokenize(api::Inference& inference, const std::string& text,
                                      bool add_special) {
  api::TokenizeRequest request;
  request.prompt =
      api::TextPrompt{.text = text, .add_special = add_special, .parse_special = false};
  ASSIGN_OR_RETURN(api::TokenizeResult tokenized, inference.Tokenize(request));
  return std::move(tokenized.tokens);
}

// The token that the model's texts begin with, if they do. A model that always saw it foretells
// nothing sensible without it (Gemma).
Result<std::vector<TokenId>> BeginOfTexts(api::Inference& inference) {
  ASSIGN_OR_RETURN(const std::vector<TokenId> plain, Tokenize(inference, "a", false));
  ASSIGN_OR_RETURN(const std::vector<TokenId> whole, Tokenize(inference, "a", true));
  if (whole.size() > plain.size() && std::equal(plain.begin(), plain.end(), whole.begin() + 1)) {
    return std::vector<TokenId>{whole.front()};
  }
  return std::vector<TokenId>{};
}

Result<Scored> Score(const PerplexityOptions& options, const std::string& model, const Flags& given,
                     const std::string& text) {
  Flags flags = given;
  flags["prefix-cache"] = "off";
  ASSIGN_OR_RETURN(const std::unique_ptr<Session> session,
                   Session::Load(model, flags, Session::Stepping::kOwnThread));
  Scored out;
  out.name = session->model_name();
  out.summary = session->summary();
  api::Inference& inference = session->gateway();
  ASSIGN_OR_RETURN(out.begin, BeginOfTexts(inference));
  const int longest = options.window + static_cast<int>(out.begin.size());
  if (longest > session->context()) {
    return InvalidArgument("invalid_value",
                           fmt::format("a window of {} tokens is longer than the context of {}",
                                       longest, session->context()));
  }
  ASSIGN_OR_RETURN(out.tokens, Tokenize(inference, text, false));
  out.tokens.resize(std::min(out.tokens.size(), static_cast<size_t>(options.tokens)));
  const SteadyClock clock;
  const TimePoint start = clock.Now();
  const size_t step = static_cast<size_t>(options.window);
  const size_t unscored = out.begin.empty() ? 1 : 0;  // of each window: its first
  for (size_t at = 0; at + unscored < out.tokens.size(); at += step) {
    const auto first = out.tokens.begin() + static_cast<std::ptrdiff_t>(at);
    const size_t many = std::min(step, out.tokens.size() - at);
    std::vector<TokenId> window = out.begin;
    window.insert(window.end(), first, first + static_cast<std::ptrdiff_t>(many));
    RETURN_IF_ERROR(ScoreWindow(inference, std::move(window), &out));
  }
  out.seconds = ToSeconds(clock.Now() - start);
  if (!out.places.empty()) return out;
  return InvalidArgument(
      "invalid_value",
      fmt::format("the text has {} token{}: too few to score one; give a longer one",
                  out.tokens.size(), out.tokens.size() == 1 ? "" : "s"));
}

// `against`: a dtype of the same model, or a model.
bool IsDType(const std::string& given) {
  const std::string name = tensor::CommonSpelling(given);
  return name == "f32" || name == "f16" || name == "bf16" || name == "int8";
}

}  // namespace

Result<Report> BenchPerplexity(const PerplexityOptions& options, const Progress& progress) {
  ASSIGN_OR_RETURN(const std::string text, ReadText(options.text));
  Report report;
  const auto say = [&](const std::string& line) { report.Print(line, progress); };
  const auto tell = [&](const Scored& scored) {
    say(scored.summary);
    say(fmt::format("perplexity {:.4f} of {} tokens in windows of {}{}, {:.1f} s",
                    scored.Perplexity(), scored.places.size(), options.window,
                    scored.begin.empty() ? "" : " behind BOS", scored.seconds));
  };
  // Checks both models before the first is read: the first may take minutes.
  RETURN_IF_ERROR(Session::Check(options.model, options.flags, options.window));
  Scored other;
  if (!options.against.empty()) {
    Flags flags = options.flags;
    // The cache of its own arithmetic: what --kv-dtype costs is part of what is measured.
    flags.erase("kv-dtype");
    const bool same_model = IsDType(options.against);
    if (same_model) {
      flags["dtype"] = options.against;
    } else {
      flags.erase("dtype");
    }
    const std::string& model = same_model ? options.model : options.against;
    RETURN_IF_ERROR(Session::Check(model, flags, options.window));
    ASSIGN_OR_RETURN(other, Score(options, model, flags, text));
    tell(other);
  }
  ASSIGN_OR_RETURN(const Scored mine, Score(options, options.model, options.flags, text));
  tell(mine);
  report.json = {{"schema", "tutti.bench.perplexity.v1"},
                 {"model", mine.name},
                 {"summary", mine.summary},
                 {"text", options.text},
                 {"window", options.window},
                 {"bos", !mine.begin.empty()},
                 {"tokens_scored", mine.places.size()},
                 {"perplexity", mine.Perplexity()},
                 {"seconds", mine.seconds}};
  if (!options.against.empty()) {
    if (mine.tokens != other.tokens || mine.begin != other.begin) {
      return InvalidArgument("invalid_value",
                             "the two models read the text as different tokens: they cannot be "
                             "compared place by place");
    }
    double difference = 0;
    size_t same = 0;
    for (size_t i = 0; i < mine.places.size(); ++i) {
      difference += std::fabs(mine.places[i].logprob - other.places[i].logprob);
      same += mine.places[i].top == other.places[i].top ? 1 : 0;
    }
    const double places = static_cast<double>(mine.places.size());
    const double ratio = mine.Perplexity() / other.Perplexity();
    const double agreement = 100.0 * static_cast<double>(same) / places;
    say(
        fmt::format("against {}: perplexity x {:.5f}, mean |delta logprob| {:.4f}, top-1 agreement "
                    "{:.2f} %",
                    options.against, ratio, difference / places, agreement));
    report.json["against"] = {
        {"model", options.against},           {"summary", other.summary},
        {"perplexity", other.Perplexity()},   {"seconds", other.seconds},
        {"perplexity_ratio", ratio},          {"mean_abs_delta_logprob", difference / places},
        {"top1_agreement_percent", agreement}};
    if (options.max_ratio > 0 && ratio > options.max_ratio) {
      report.failures.push_back(
          fmt::format("perplexity is {:.5f} x the other's, at most {} was asked for", ratio,
                      options.max_ratio));
    }
    if (agreement < options.least_agreement) {
      report.failures.push_back(
          fmt::format("the most probable token agrees in {:.2f} % of places, at least {} % was "
                      "asked for",
                      agreement, options.least_agreement));
    }
  }
  report.json["passed"] = report.failures.empty();
  return report;
}

}  // namespace tutti::bench
