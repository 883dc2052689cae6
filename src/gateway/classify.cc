#include "gateway/classify.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <new>
#include <span>
#include <string_view>
#include <utility>
#include <variant>

#include "api/validate.h"
#include "base/ascii.h"
#include "base/quote.h"

namespace tutti::gateway {
namespace {

constexpr size_t kShownClasses = 8;  // in an error

bool IsOneOf(std::string_view name, std::string_view one, std::string_view other) {
  const std::string lower = AsciiLower(name);
  return lower == one || lower == other;
}

// The class that means yes, of two.
size_t YesOf(const std::vector<std::string>& classes) {
  for (size_t i = 0; i < 2; ++i) {
    if (IsOneOf(classes[i], "yes", "true") || IsOneOf(classes[1 - i], "no", "false")) return i;
  }
  return 1;
}

Status NoSuchClass(const api::ModelInfo& model, const std::string& name, const std::string& param) {
  std::string known;
  const std::vector<std::string>& classes = model.encoder->labels;
  for (size_t i = 0; i < std::min(kShownClasses, classes.size()); ++i)
    known += (i == 0 ? "" : ", ") + classes[i];
  if (classes.size() > kShownClasses) known += ", ...";
  return BadValue(param, fmt::format("{} is no label of model {}; its {} labels are {}",
                                     Quote(name), model.id, classes.size(), known));
}

}  // namespace

bool Classifies(const ServedModel& model, const api::GenerateRequest& request) {
  return request.continuation.has_value() && model.engine == nullptr && model.encoder != nullptr &&
         model.info.encoder.has_value() && !model.info.encoder->labels.empty();
}

Result<std::string> ClassifiedText(const api::Prompt& prompt,
                                   const api::Continuation& continuation) {
  const auto* const chat = std::get_if<api::ChatPrompt>(&prompt);
  if (chat == nullptr || chat->messages.empty())
    return BadValue("prompt", "a classifier reads a text and no prompt of tokens");
  std::string text;
  for (const api::ChatMessage& message : chat->messages) {
    const bool last = &message == &chat->messages.back();
    const std::string_view part =
        last ? std::string_view(message.content).substr(0, continuation.classes.text_bytes)
             : std::string_view(message.content);
    if (part.empty()) continue;
    if (!text.empty()) text += "\n\n";
    text += part;
  }
  if (text.empty())
    return InvalidArgument("empty_prompt", "the text must not be empty").WithParam("prompt");
  return text;
}

Result<std::vector<size_t>> ClassesFor(const api::ModelInfo& model,
                                       const api::Continuation& continuation) {
  const std::vector<std::string>& classes = model.encoder->labels;
  if (continuation.classes.yes_or_no) {
    if (classes.size() != 2) {
      return BadValue(
          "continuation",
          fmt::format("yes or no needs a model of 2 labels, and {} has {}; ask a choice", model.id,
                      classes.size()));
    }
    const size_t yes = YesOf(classes);
    return std::vector<size_t>{yes, 1 - yes};
  }
  const std::vector<std::string>& names = continuation.classes.names;
  std::vector<size_t> found;
  for (size_t i = 0; i <= continuation.others.size(); ++i) {
    const std::string& name = !names.empty() ? names[i]
                              : i == 0       ? continuation.text
                                             : continuation.others[i - 1];
    const auto at = std::find(classes.begin(), classes.end(), name);
    if (at == classes.end()) {
      return NoSuchClass(model, name,
                         i == 0 ? "continuation" : api::ElementPath("continuation", i));
    }
    found.push_back(static_cast<size_t>(at - classes.begin()));
  }
  return found;
}

std::vector<double> LogProbabilities(std::span<const float> scores, ScoreScale scale) {
  std::vector<double> logs(scores.begin(), scores.end());
  if (scale == ScoreScale::kSigmoid) {
    for (double& log : logs) log = std::min(log, 0.0) - std::log1p(std::exp(-std::abs(log)));
    return logs;
  }
  const double most = *std::max_element(logs.begin(), logs.end());
  double sum = 0;
  for (const double log : logs) sum += std::exp(log - most);
  for (double& log : logs) log -= most + std::log(sum);
  return logs;
}

Status PromptError(Status status) {
  if (!status.param().starts_with("input")) return status;
  return std::move(status).WithParam("prompt");
}

void ClassAnswer::Attach(api::Encoding encoding) {
  {
    const MutexLock lock(mutex_);
    encoding_ = std::move(encoding);
  }
  Wake();
}

void ClassAnswer::Wake() noexcept {
  api::Encoding ended;
  {
    const MutexLock lock(mutex_);
    if (!encoding_ || !encoding_.done()) return;
    ended = std::move(encoding_);
    encoding_ = api::Encoding();
  }
  try {
    Write(ended.Take());
  } catch (const std::bad_alloc&) {  // before anything was written
    stream_->Finish(OutOfMemory(), {}, {});
  }
  if (stream_->waker() != nullptr) stream_->waker()->Wake();
}

void ClassAnswer::Write(Result<api::EncodeResult> result) const {
  if (!result.ok()) {
    return stream_->Finish(PromptError(std::move(result).status()), {}, {});
  }
  const std::vector<double> logprobs = LogProbabilities(result->values, scale_);
  const auto logprob = [&](size_t label) {
    return api::Logprob{.logprob = static_cast<float>(logprobs[label]), .bytes = {}};
  };
  api::StreamEvent event;
  event.kind = api::StreamEvent::Kind::kPromptToken;
  api::TokenLogprobs& scores = event.logprobs.emplace();
  scores.chosen = logprob(classes_.front());
  for (size_t i = 1; i < classes_.size(); ++i) scores.top.push_back(logprob(classes_[i]));
  stream_->Append(std::move(event));
  api::Usage usage;
  usage.prompt_tokens = result->tokens.front();
  stream_->Finish(OkStatus(), usage,
                  {.prepare = result->timings.prepare,
                   .queue = result->timings.queue,
                   .prefill = result->timings.inference});
}

}  // namespace tutti::gateway
