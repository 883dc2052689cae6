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

namespace {

// Writes the answer, or its error. Without memory nothing has been written, and the stream ends
// with that error.
void WriteAnswer(const ClassAnswer& answer, const Result<api::EncodeResult>& result,
                 ScoreScale scale, bool computed) noexcept {
  api::TokenStream& stream = *answer.stream;
  try {
    if (!result.ok()) {
      stream.Finish(PromptError(result.status()), {}, {});
    } else {
      const std::vector<double> logprobs = LogProbabilities(result->values, scale);
      const auto logprob = [&](size_t label) {
        return api::Logprob{.logprob = static_cast<float>(logprobs[label]), .bytes = {}};
      };
      api::StreamEvent event;
      event.kind = api::StreamEvent::Kind::kPromptToken;
      api::TokenLogprobs& scores = event.logprobs.emplace();
      scores.chosen = logprob(answer.classes.front());
      for (size_t i = 1; i < answer.classes.size(); ++i)
        scores.top.push_back(logprob(answer.classes[i]));
      stream.Append(std::move(event));
      api::Usage usage;
      usage.prompt_tokens = result->tokens.front();
      usage.cached_tokens = computed ? 0 : usage.prompt_tokens;
      stream.Finish(OkStatus(), usage,
                    {.prepare = result->timings.prepare,
                     .queue = result->timings.queue,
                     .prefill = result->timings.inference});
    }
  } catch (const std::bad_alloc&) {
    stream.Finish(OutOfMemory(), {}, {});
  }
  if (stream.waker() != nullptr) stream.waker()->Wake();
}

}  // namespace

class ClassScores::Part final : public api::Cancellable {
 public:
  Part(std::weak_ptr<ClassScores> scores, std::shared_ptr<const ClassAnswer> answer)
      : scores_(std::move(scores)), answer_(std::move(answer)) {}
  void Cancel() noexcept override {
    if (const std::shared_ptr<ClassScores> scores = scores_.lock()) scores->Cancel(*answer_);
  }

 private:
  const std::weak_ptr<ClassScores> scores_;
  const std::shared_ptr<const ClassAnswer> answer_;
};

std::shared_ptr<api::Cancellable> ClassScores::Join(std::shared_ptr<const ClassAnswer> answer) {
  auto part = std::make_shared<Part>(weak_from_this(), answer);
  const MutexLock lock(mutex_);
  if (closed_) return nullptr;
  answers_.push_back(std::move(answer));
  return part;
}

ClassScores::Answers ClassScores::Close() {
  closed_ = true;
  return std::exchange(answers_, {});
}

void ClassScores::Attach(api::Encoding encoding) {
  std::shared_ptr<api::Cancellable> unwanted;  // all were cancelled meanwhile
  {
    const MutexLock lock(mutex_);
    encoding_ = std::move(encoding);
    if (answers_.empty()) {
      closed_ = true;
      unwanted = encoding_.control();
    }
  }
  if (unwanted != nullptr) unwanted->Cancel();
  Wake();
}

void ClassScores::Fail(const Status& why, const ClassAnswer& kept) {
  Answers ended;
  {
    const MutexLock lock(mutex_);
    ended = Close();
  }
  for (const auto& answer : ended) {
    if (answer.get() != &kept) WriteAnswer(*answer, why, scale_, /*computed=*/false);
  }
}

// The text is computed for the other questions. Without any, the engine ends it, and the last
// answer with it.
void ClassScores::Cancel(const ClassAnswer& answer) {
  std::shared_ptr<const ClassAnswer> ended;
  std::shared_ptr<api::Cancellable> last;
  {
    const MutexLock lock(mutex_);
    const auto found = std::find_if(answers_.begin(), answers_.end(),
                                    [&](const auto& each) { return each.get() == &answer; });
    if (found == answers_.end()) return;
    if (answers_.size() == 1 && encoding_) {
      closed_ = true;
      last = encoding_.control();
    } else {
      ended = *found;
      answers_.erase(found);
    }
  }
  if (last != nullptr) return last->Cancel();
  WriteAnswer(*ended, Cancelled(), scale_, /*computed=*/false);
}

void ClassScores::Wake() noexcept {
  api::Encoding encoding;
  Answers answers;
  {
    const MutexLock lock(mutex_);
    if (!encoding_ || !encoding_.done()) return;
    encoding = std::move(encoding_);
    encoding_ = api::Encoding();
    answers = Close();
  }
  Result<api::EncodeResult> result = OutOfMemory();
  try {
    result = encoding.Take();
  } catch (const std::bad_alloc&) {  // the error is there already
  }
  for (const auto& answer : answers)
    WriteAnswer(*answer, result, scale_, /*computed=*/answer == answers.front());
}

RunningScores::Joined RunningScores::Join(std::string key, ScoreScale scale,
                                          std::shared_ptr<const ClassAnswer> answer) {
  Joined joined;
  const MutexLock lock(mutex_);
  if (const auto found = running_.find(key); !key.empty() && found != running_.end()) {
    joined.scores = found->second.lock();
    if (joined.scores != nullptr) joined.control = joined.scores->Join(answer);
    if (joined.control != nullptr) return joined;
  }
  joined.is_first = true;
  joined.scores = std::make_shared<ClassScores>(scale);
  joined.control = joined.scores->Join(std::move(answer));
  if (key.empty()) return joined;
  running_.insert_or_assign(std::move(key), joined.scores);
  if (running_.size() >= sweep_at_) {
    std::erase_if(running_, [](const auto& entry) { return entry.second.expired(); });
    sweep_at_ = std::max<size_t>(64, 2 * running_.size());
  }
  return joined;
}

}  // namespace tutti::gateway
