// ScriptedInference: an api::Inference that answers by a script, one piece per step, like an engine
// with a fixed number of sequences. For tests of the layers above the inference API over many
// turns. The answer is a function of the request, so a repeated request gets the same answer. Any
// thread.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "api/inference.h"
#include "api/validate.h"

namespace tutti::responses::testing {

struct Script {
  std::vector<std::string> pieces;
  Status end = OkStatus();
  api::FinishReason finish = api::FinishReason::kStop;
  std::vector<api::ToolCallDelta> calls = {};  // behind the pieces, one a step
  std::vector<std::string> reasoning = {};     // before the pieces, one a step
};

// "[last message]" in pieces of three bytes.
inline Script EchoScript(const api::GenerateRequest& request) {
  const auto* chat = std::get_if<api::ChatPrompt>(&request.prompt);
  const std::string text =
      "[" + (chat == nullptr || chat->messages.empty() ? "" : chat->messages.back().content) + "]";
  Script script;
  for (size_t at = 0; at < text.size(); at += 3) script.pieces.push_back(text.substr(at, 3));
  return script;
}

// A function that a test may replace while other threads call it.
template <typename Function>
class Replaceable {
 public:
  Replaceable& operator=(Function function) {
    const std::lock_guard lock(mutex_);
    function_ = std::move(function);
    return *this;
  }
  Function Get() const {
    const std::lock_guard lock(mutex_);
    return function_;
  }

 private:
  mutable std::mutex mutex_;
  Function function_;
};

class ScriptedInference final : public api::Inference {
 public:
  explicit ScriptedInference(size_t max_num_seqs = 8) : max_num_seqs_(max_num_seqs) {}
  ~ScriptedInference() override {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
  }

  // --- before anything is asked ---
  std::function<Script(const api::GenerateRequest&)> script = EchoScript;
  std::function<Status(const api::ChatPrompt&)> template_of;  // what it takes; absent: anything
  int max_model_len = 100'000;

  // --- at any time ---
  Replaceable<std::function<Status(const api::GenerateRequest&)>> refuse;  // at once
  // Steps by itself from now on, as fast as it can while there is work.
  void Run() {
    thread_ = std::thread([this] {
      while (true) {
        {
          std::unique_lock lock(mutex_);
          changed_.wait(lock, [this] { return stopping_ || !active_.empty(); });
          if (stopping_) return;
        }
        Step();
        std::this_thread::yield();
      }
    });
  }

  // One piece for each that runs, its end after the last; whether there was any.
  bool Step() {
    std::set<std::shared_ptr<Waker>> wakers;
    {
      const std::lock_guard lock(mutex_);
      size_t running = 0;
      for (auto place = active_.begin(); place != active_.end();) {
        Generation& generation = **place;
        const bool cancelled = generation.cancelled.load();
        if (!cancelled && running++ >= max_num_seqs_) {
          ++place;
          continue;
        }
        most_running_ = std::max(most_running_, running);
        wakers.insert(generation.stream->waker());
        if (Advance(generation, cancelled)) {
          place = active_.erase(place);
        } else {
          ++place;
        }
      }
    }
    for (const auto& waker : wakers) {
      if (waker != nullptr) waker->Wake();
    }
    return !wakers.empty();
  }

  size_t active() {
    const std::lock_guard lock(mutex_);
    return active_.size();
  }
  size_t most_running() {
    const std::lock_guard lock(mutex_);
    return most_running_;
  }
  std::vector<api::GenerateRequest> requests() {
    const std::lock_guard lock(mutex_);
    return requests_;
  }
  std::atomic<int> tokenized_bytes{0};
  bool keeps = true;  // requests

  Result<api::Generation> Generate(api::GenerateRequest request,
                                   std::shared_ptr<Waker> waker) override {
    if (const auto refused = refuse.Get()) RETURN_IF_ERROR(refused(request));
    RETURN_IF_ERROR(api::ValidateRequest(request));
    RETURN_IF_ERROR(CheckTemplate(request.prompt));
    auto generation = std::make_shared<Generation>();
    generation->script = script(request);
    generation->stream = std::make_shared<api::TokenStream>(std::move(waker));
    api::StreamEvent started;
    started.kind = api::StreamEvent::Kind::kStarted;
    generation->usage.prompt_tokens = CountOf(request.prompt);
    started.usage = generation->usage;
    generation->stream->Append(std::move(started));
    {
      const std::lock_guard lock(mutex_);
      active_.push_back(generation);
      if (keeps) requests_.push_back(std::move(request));
    }
    changed_.notify_all();
    return api::Generation(generation->stream, generation);
  }

  // A token for each byte, and two around each message.
  Result<api::TokenizeResult> Tokenize(const api::TokenizeRequest& request) override {
    RETURN_IF_ERROR(CheckTemplate(request.prompt));
    api::TokenizeResult result;
    result.max_model_len = max_model_len;
    const int tokens = CountOf(request.prompt);
    tokenized_bytes += tokens;
    result.tokens.resize(static_cast<size_t>(tokens));
    return result;
  }
  Result<api::Encoding> Encode(api::EncodeRequest, std::shared_ptr<Waker>) override {
    return api::ModelNotFound("an encoder");
  }
  Result<std::string> Detokenize(const api::DetokenizeRequest&) override { return std::string(); }
  api::ModelList Models() const override { return {}; }
  api::LoadSnapshot Load() const override { return {}; }
  Result<api::ModelStatistics> Statistics(const std::string&) const override {
    return api::ModelStatistics{};
  }

  static int CountOf(const api::Prompt& prompt) {
    if (const auto* text = std::get_if<api::TextPrompt>(&prompt))
      return static_cast<int>(text->text.size());
    int tokens = 0;
    if (const auto* chat = std::get_if<api::ChatPrompt>(&prompt)) {
      for (const api::ChatMessage& message : chat->messages)
        tokens += static_cast<int>(message.content.size() + message.reasoning.size()) + 2;
    }
    return tokens;
  }

 private:
  struct Generation final : api::Cancellable {
    void Cancel() noexcept override { cancelled.store(true); }
    Script script;
    std::shared_ptr<api::TokenStream> stream;
    size_t at = 0, thought = 0;
    api::Usage usage;
    std::atomic<bool> cancelled{false};
  };

  Status CheckTemplate(const api::Prompt& prompt) const {
    const auto* chat = std::get_if<api::ChatPrompt>(&prompt);
    return chat != nullptr && template_of ? template_of(*chat) : OkStatus();
  }

  // Whether it has ended.
  static bool Advance(Generation& generation, bool cancelled) {
    if (cancelled) {
      generation.stream->Finish(Cancelled(), generation.usage, {});
      return true;
    }
    api::StreamEvent event;
    if (generation.thought < generation.script.reasoning.size()) {
      event.reasoning = generation.script.reasoning[generation.thought++];
      ++generation.usage.completion_tokens;
      ++generation.usage.reasoning_tokens;
      generation.stream->Append(std::move(event));
      return false;
    }
    if (generation.at < generation.script.pieces.size()) {
      event.text = generation.script.pieces[generation.at++];
      ++generation.usage.completion_tokens;
      generation.stream->Append(std::move(event));
      return false;
    }
    const size_t call = generation.at - generation.script.pieces.size();
    if (call < generation.script.calls.size()) {
      event.tool_calls = {generation.script.calls[call]};
      ++generation.at;
      ++generation.usage.completion_tokens;
      generation.stream->Append(std::move(event));
      return false;
    }
    event.kind = api::StreamEvent::Kind::kChoiceEnd;
    event.finish_reason = generation.script.finish;
    generation.stream->Append(std::move(event));
    generation.stream->Finish(generation.script.end, generation.usage, {});
    return true;
  }

  const size_t max_num_seqs_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<std::shared_ptr<Generation>> active_;
  std::vector<api::GenerateRequest> requests_;
  size_t most_running_ = 0;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace tutti::responses::testing
