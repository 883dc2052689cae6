// An api::Inference and HealthProbe under the control of a test: requests are recorded, streams are
// written by the test itself. Thread-safe.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "api/inference.h"

namespace tutti::http::testing {

// One running request: the writer's side of its stream.
class FakeGeneration final : public api::Cancellable {
 public:
  FakeGeneration(api::GenerateRequest r, std::shared_ptr<api::TokenStream> s)
      : request(std::move(r)), stream(std::move(s)) {}

  void Cancel() noexcept override { cancelled.store(true); }

  void Started(int prompt_tokens, int cached = 0) {
    api::StreamEvent event;
    event.kind = api::StreamEvent::Kind::kStarted;
    event.usage = {prompt_tokens, cached, 0};
    usage = event.usage;
    stream->Append(std::move(event));
  }
  void Token(const std::string& text, int choice = 0, TokenId id = 7,
             const std::string& bytes = "") {
    api::StreamEvent event;
    event.kind = api::StreamEvent::Kind::kToken;
    event.choice = choice;
    event.token = id;
    event.text = text;
    if (request.sampling.logprobs >= 0) {
      api::TokenLogprobs logprobs;
      logprobs.chosen = {id, -0.5f, bytes.empty() ? text : bytes, false};
      for (int k = 0; k < request.sampling.logprobs; ++k) {
        logprobs.top.push_back(
            {id + k, -0.5f - static_cast<float>(k), k == 0 ? logprobs.chosen.bytes : "alt", false});
      }
      event.logprobs = logprobs;
    }
    ++usage.completion_tokens;
    stream->Append(std::move(event));
  }
  void ChoiceEnd(api::FinishReason reason = api::FinishReason::kStop, int choice = 0,
                 const std::string& held = "") {
    api::StreamEvent event;
    event.kind = api::StreamEvent::Kind::kChoiceEnd;
    event.choice = choice;
    event.text = held;
    event.finish_reason = reason;
    stream->Append(std::move(event));
  }
  void End(Status status = OkStatus()) { stream->Finish(std::move(status), usage, timings); }
  void Wake() {
    if (stream->waker() != nullptr) stream->waker()->Wake();
  }
  // The usual answer in one go.
  void Answer(const std::vector<std::string>& tokens) {
    Started(3);
    for (int choice = 0; choice < request.n; ++choice) {
      for (const std::string& token : tokens) Token(token, choice);
      ChoiceEnd(api::FinishReason::kStop, choice);
    }
    End();
  }

  const api::GenerateRequest request;
  const std::shared_ptr<api::TokenStream> stream;
  std::atomic<bool> cancelled{false};
  api::Usage usage;
  api::Timings timings;
};

class FakeInference final : public api::Inference, public api::HealthProbe {
 public:
  FakeInference() {
    api::ModelInfo model;
    model.id = "fake";
    model.aliases = {"org/fake-1"};
    model.created_unix_s = 1700000000;
    model.max_model_len = 128;
    model.vocab_size = 1000;
    model.digest = "0123456789abcdef";
    models_.push_back(model);
  }

  // What happens with a new request before Generate() returns; by default nothing (the test writes
  // later).
  std::function<Status(const std::shared_ptr<FakeGeneration>&)> on_generate;

  Result<api::Generation> Generate(api::GenerateRequest request,
                                   std::shared_ptr<api::StreamWaker> waker) override {
    if (!request.model.empty() && request.model != "fake" && request.model != "org/fake-1") {
      return NotFound("model_not_found", "there is no such model").WithParam("model");
    }
    auto generation = std::make_shared<FakeGeneration>(
        std::move(request), std::make_shared<api::TokenStream>(std::move(waker)));
    if (on_generate) {
      const Status status = on_generate(generation);
      if (!status.ok()) return status;
    }
    {
      const std::lock_guard lock(mutex_);
      generations_.push_back(generation);
    }
    changed_.notify_all();
    return api::Generation(generation->stream, generation);
  }

  // The k-th accepted request, waiting up to 5 s for it; null when none came.
  std::shared_ptr<FakeGeneration> Nth(size_t k) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(5), [&] { return generations_.size() > k; });
    return generations_.size() > k ? generations_[k] : nullptr;
  }
  size_t accepted() {
    const std::lock_guard lock(mutex_);
    return generations_.size();
  }

  std::function<void()> on_tokenize;  // called first, on whatever thread tokenises

  Result<api::TokenizeResult> Tokenize(const api::TokenizeRequest& request) override {
    if (on_tokenize) on_tokenize();
    api::TokenizeResult result;
    result.max_model_len = 128;
    if (const auto* chat = std::get_if<api::ChatPrompt>(&request.prompt)) {
      for (const api::ChatMessage& message : chat->messages)
        result.text += "<" + message.content + ">";
    } else if (const auto* text = std::get_if<api::TextPrompt>(&request.prompt)) {
      result.text = text->text;
    }
    for (const char c : result.text) {
      result.tokens.push_back(static_cast<unsigned char>(c));
      if (!request.pieces) continue;
      result.pieces.push_back(std::string(1, c));
      result.special.push_back(c == '<');
    }
    return result;
  }
  Result<std::string> Detokenize(const std::string&, const std::vector<TokenId>& tokens) override {
    std::string text;
    for (const TokenId id : tokens) {
      if (id > 255)
        return InvalidArgument("token_out_of_range", "no such token").WithParam("tokens");
      text += static_cast<char>(id);
    }
    return text;
  }
  std::vector<api::ModelInfo> Models() const override { return models_; }
  // What an encoding gets, at once; where it is not set the model gives none.
  std::function<Result<api::EncodeResult>(const api::EncodeRequest&)> on_encode;

  Result<api::Encoding> Encode(api::EncodeRequest request,
                               std::shared_ptr<api::StreamWaker> waker) override {
    if (!on_encode) return InvalidArgument("invalid_value", "model fake gives no vectors");
    auto state = std::make_shared<api::EncodingState>(std::move(waker));
    state->Finish(on_encode(request));
    if (state->waker() != nullptr) state->waker()->Wake();
    return api::Encoding(std::move(state), nullptr);
  }
  Result<api::ModelStatistics> Statistics(const std::string&) const override {
    return api::ModelStatistics{};
  }
  api::LoadSnapshot Load() const override { return {2, 3, 4, 5, 6}; }

  Status started() const override {
    return is_started.load() ? OkStatus()
                             : Unavailable("model_loading", "the model could not be loaded: why");
  }
  Status live() const override {
    return is_live.load() ? OkStatus()
                          : Unavailable("engine_stalled", "the step loop makes no progress");
  }
  Status ready() const override {
    return is_ready.load() ? OkStatus() : Unavailable("model_loading", "the model is being loaded");
  }
  std::atomic<bool> is_started{true}, is_live{true}, is_ready{true};

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::shared_ptr<FakeGeneration>> generations_;
  std::vector<api::ModelInfo> models_;
};

}  // namespace tutti::http::testing
