// An api::Inference and HealthProbe under the control of a test, with an encoder "minilm" (4
// numbers of a text's bytes), a cross-encoder "cross" (one label: how many bytes two texts share at
// their start), a classifier "classes" (two labels) and a decoder "chat", whose streams the test
// writes. Any thread.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "api/inference.h"
#include "api/validate.h"

namespace tutti::kserve::testing {

// The writer's side of a generation.
class FakeGeneration final : public api::Cancellable {
 public:
  FakeGeneration(api::GenerateRequest r, std::shared_ptr<api::TokenStream> s)
      : request(std::move(r)), stream(std::move(s)) {}
  void Cancel() noexcept override { cancelled.store(true); }

  void Started() {
    api::StreamEvent event;
    event.kind = api::StreamEvent::Kind::kStarted;
    event.usage.prompt_tokens = usage.prompt_tokens = 3;
    stream->Append(std::move(event));
  }
  void Token(const std::string& text, int choice = 0) {
    api::StreamEvent event;
    event.choice = choice;
    event.token = 7;
    event.text = text;
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
  void End(Status status = OkStatus()) { stream->Finish(std::move(status), usage, {}); }
  void Wake() {
    if (stream->waker() != nullptr) stream->waker()->Wake();
  }
  // The usual answer in one go.
  void Answer(const std::vector<std::string>& tokens) {
    Started();
    for (int choice = 0; choice < request.n; ++choice) {
      for (const std::string& token : tokens) Token(token, choice);
      ChoiceEnd(api::FinishReason::kStop, choice);
    }
    End();
    Wake();
  }

  const api::GenerateRequest request;
  const std::shared_ptr<api::TokenStream> stream;
  std::atomic<bool> cancelled{false};
  api::Usage usage;
};

// The writer's side of an encoding.
class FakeEncoding final : public api::Cancellable {
 public:
  FakeEncoding(api::EncodeRequest r, std::shared_ptr<api::EncodingState> s)
      : request(std::move(r)), state(std::move(s)) {}
  void Cancel() noexcept override { cancelled.store(true); }
  void Prepared() {
    state->Prepared();
    if (state->waker() != nullptr) state->waker()->Wake();
  }
  void Answer() { Finish(Compute(request)); }
  void Finish(Result<api::EncodeResult> result) {
    state->Finish(std::move(result));
    if (state->waker() != nullptr) state->waker()->Wake();
  }

  static std::vector<float> Vector(const std::string& text) {
    float sum = 0;
    for (const char c : text) sum += static_cast<float>(static_cast<unsigned char>(c));
    return {static_cast<float>(text.size()), sum, text.empty() ? 0.0f : static_cast<float>(text[0]),
            0.5f};
  }
  static float Score(const std::string& a, const std::string& b) {
    const auto ends = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
    return static_cast<float>(ends.first - a.begin());
  }
  static api::EncodeResult Compute(const api::EncodeRequest& request) {
    api::EncodeResult result;
    for (const api::EncodeInput& input : request.inputs) {
      std::vector<float> row;
      if (const auto* text = std::get_if<std::string>(&input)) {
        row = Vector(*text);
      } else if (const auto* ids = std::get_if<std::vector<TokenId>>(&input)) {
        row = Vector(std::string(ids->begin(), ids->end()));
      } else {
        const auto& pair = std::get<api::TextPair>(input);
        row = {Score(pair.first, pair.second)};
      }
      if (request.output == api::EncodeOutput::kScores && row.size() > 2) row.resize(2);
      result.width = static_cast<int>(row.size());
      result.values.insert(result.values.end(), row.begin(), row.end());
      result.tokens.push_back(3);
    }
    result.timings.queue = std::chrono::microseconds(10);
    result.timings.inference = std::chrono::microseconds(20);
    return result;
  }

  const api::EncodeRequest request;
  const std::shared_ptr<api::EncodingState> state;
  std::atomic<bool> cancelled{false};
};

class FakeInference final : public api::Inference, public api::HealthProbe {
 public:
  FakeInference() {
    const auto add = [this](const char* id, bool generates) -> api::ModelInfo& {
      api::ModelInfo& model = models_.emplace_back();
      model.id = id;
      model.max_model_len = 128;
      model.vocab_size = 1000;
      model.architecture = "fake";
      model.generates = generates;
      if (!generates) model.encoder.emplace();
      return model;
    };
    api::ModelInfo& minilm = add("minilm", false);
    minilm.aliases = {"org/minilm"};
    minilm.encoder->width = 4;
    minilm.encoder->batch_items = 32;
    minilm.encoder->batch_window = std::chrono::microseconds(2500);
    api::ModelInfo& cross = add("cross", false);
    cross.encoder->pairs = true;
    cross.encoder->labels = {"relevance"};
    add("classes", false).encoder->labels = {"bad", "good"};
    add("chat", true);
  }

  // Before anything is asked of it: one model more, before all others.
  void PutFirst(const std::string& id, bool generates, api::EncoderInfo encoder) {
    api::ModelInfo model;
    model.id = id;
    model.max_model_len = 128;
    model.generates = generates;
    model.encoder = std::move(encoder);
    models_.insert(models_.begin(), std::move(model));
  }

  // What happens with a new request before the call returns. By default an encoding is answered,
  // and a generation left to the test.
  std::function<Status(const std::shared_ptr<FakeGeneration>&)> on_generate;
  std::function<Status(const std::shared_ptr<FakeEncoding>&)> on_encode =
      [](const std::shared_ptr<FakeEncoding>& encoding) {
        encoding->Answer();
        return OkStatus();
      };

  Result<api::Generation> Generate(api::GenerateRequest request,
                                   std::shared_ptr<api::StreamWaker> waker) override {
    if (!request.model.empty() && request.model != "chat") {
      return api::ModelNotFound(request.model);
    }
    RETURN_IF_ERROR(api::ValidateRequest(request));
    auto generation = std::make_shared<FakeGeneration>(
        std::move(request), std::make_shared<api::TokenStream>(std::move(waker)));
    if (on_generate) RETURN_IF_ERROR(on_generate(generation));
    const std::lock_guard lock(mutex_);
    if (keeps) generations_.push_back(generation);
    changed_.notify_all();
    return api::Generation(generation->stream, generation);
  }

  Result<api::Encoding> Encode(api::EncodeRequest request,
                               std::shared_ptr<api::StreamWaker> waker) override {
    const bool scores = request.output == api::EncodeOutput::kScores;
    const std::string wanted = scores ? "cross" : "minilm";
    if (!request.model.empty() && request.model != wanted && request.model != "classes" &&
        request.model != "org/minilm") {
      return api::ModelNotFound(request.model);
    }
    for (const api::EncodeInput& input : request.inputs) {
      const auto* text = std::get_if<std::string>(&input);
      if (text != nullptr && text->empty()) {
        return InvalidArgument("empty_prompt", "an input must not be empty").WithParam("input[0]");
      }
    }
    auto encoding = std::make_shared<FakeEncoding>(
        std::move(request), std::make_shared<api::EncodingState>(std::move(waker)));
    if (prepares) encoding->state->Prepared();
    RETURN_IF_ERROR(on_encode(encoding));
    ++executions_;
    const std::lock_guard lock(mutex_);
    if (keeps) encodings_.push_back(encoding);
    changed_.notify_all();
    return api::Encoding(encoding->state, encoding);
  }

  bool keeps = true;     // requests, for Generation() and Encoding()
  bool prepares = true;  // texts before Encode() returns; otherwise they are the test's to prepare

  // The k-th accepted request, waiting up to 10 s for it; null when none came.
  std::shared_ptr<FakeGeneration> Generation(size_t k) { return Nth(generations_, k); }
  std::shared_ptr<FakeEncoding> Encoding(size_t k) { return Nth(encodings_, k); }
  size_t encodings() {
    const std::lock_guard lock(mutex_);
    return encodings_.size();
  }
  size_t generations() {
    const std::lock_guard lock(mutex_);
    return generations_.size();
  }

  Result<api::TokenizeResult> Tokenize(const api::TokenizeRequest&) override {
    return Internal("not used");
  }
  Result<std::string> Detokenize(const std::string&, const std::vector<TokenId>&, bool) override {
    return Internal("not used");
  }
  std::vector<api::ModelInfo> Models() const override {
    return is_started.load() ? models_ : std::vector<api::ModelInfo>();
  }
  api::LoadSnapshot Load() const override { return {}; }
  Result<api::ModelStatistics> Statistics(const std::string&) const override {
    return api::ModelStatistics{executions_.load(), 2 * executions_.load(), {}};
  }

  Status started() const override {
    return is_started.load() ? OkStatus()
                             : Unavailable("model_loading", "the models are being loaded");
  }
  Status live() const override {
    return is_live.load() ? OkStatus() : Unavailable("engine_stalled", "no progress");
  }
  Status ready() const override { return started(); }
  std::atomic<bool> is_started{true}, is_live{true};

 private:
  template <typename T>
  std::shared_ptr<T> Nth(const std::vector<std::shared_ptr<T>>& list, size_t k) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(10), [&] { return list.size() > k; });
    return list.size() > k ? list[k] : nullptr;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::shared_ptr<FakeGeneration>> generations_;
  std::vector<std::shared_ptr<FakeEncoding>> encodings_;
  std::atomic<uint64_t> executions_{0};
  std::vector<api::ModelInfo> models_;
};

}  // namespace tutti::kserve::testing
