// FakeInference: an api::Inference and HealthProbe under the control of a test, for the code in
// front of the inference API. Its creator defines the models and the answers of their encoders.
// Encodings are answered at once unless the test holds them; the test writes the streams. Any
// thread.
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
#include "api/models.h"
#include "api/validate.h"

namespace tutti::api::testing {

// The writer's side of a generation. Only Wake() and Answer() wake the reader.
class FakeGeneration final : public Cancellable {
 public:
  FakeGeneration(GenerateRequest r, std::shared_ptr<TokenStream> s)
      : request(std::move(r)), stream(std::move(s)) {}
  void Cancel() noexcept override { cancelled.store(true); }

  void Started(int prompt_tokens = 3, int cached = 0) {
    StreamEvent event;
    event.kind = StreamEvent::Kind::kStarted;
    event.usage = {prompt_tokens, cached, 0};
    usage = event.usage;
    stream->Append(std::move(event));
  }
  void Token(const std::string& text, int choice = 0, TokenId id = 7,
             const std::string& bytes = "") {
    StreamEvent event;
    event.kind = StreamEvent::Kind::kToken;
    event.choice = choice;
    event.token = id;
    event.text = text;
    if (request.sampling.logprobs >= 0) {
      TokenLogprobs logprobs;
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
  void Calls(std::vector<ToolCallDelta> deltas, int choice = 0) {
    StreamEvent event;
    event.choice = choice;
    event.token = 7;
    event.tool_calls = std::move(deltas);
    ++usage.completion_tokens;
    stream->Append(std::move(event));
  }
  void ChoiceEnd(FinishReason reason = FinishReason::kStop, int choice = 0,
                 const std::string& held = "") {
    StreamEvent event;
    event.kind = StreamEvent::Kind::kChoiceEnd;
    event.choice = choice;
    event.text = held;
    event.finish_reason = reason;
    stream->Append(std::move(event));
  }
  void End(Status status = OkStatus()) { stream->Finish(std::move(status), usage, timings); }
  void Wake() {
    if (stream->waker() != nullptr) stream->waker()->Wake();
  }
  // The usual answer in one go. AppendAnswer() does not wake the reader; Answer() does.
  void AppendAnswer(const std::vector<std::string>& tokens) {
    Started();
    for (int choice = 0; choice < request.n; ++choice) {
      for (const std::string& token : tokens) Token(token, choice);
      ChoiceEnd(FinishReason::kStop, choice);
    }
    End();
  }
  void Answer(const std::vector<std::string>& tokens) {
    AppendAnswer(tokens);
    Wake();
  }

  const GenerateRequest request;
  const std::shared_ptr<TokenStream> stream;
  std::atomic<bool> cancelled{false};
  Usage usage;
  Timings timings;
};

// A model of the fake. The functions are an encoder's.
struct FakeModel {
  ModelInfo info;
  Status (*check)(const EncodeRequest&, const ModelInfo&) = nullptr;         // before it is taken
  EncodeResult (*answer)(const EncodeRequest&, const ModelInfo&) = nullptr;  // what it gives
};

// The writer's side of an encoding. Every member but SetAnswer() wakes the reader.
class FakeEncoding final : public Cancellable {
 public:
  FakeEncoding(EncodeRequest r, FakeModel m, std::shared_ptr<EncodingState> s)
      : request(std::move(r)), model(std::move(m)), state(std::move(s)) {}
  void Cancel() noexcept override { cancelled.store(true); }

  void Prepared() {
    state->Prepared();
    Wake();
  }
  void SetAnswer() { state->Finish(model.answer(request, model.info)); }
  void Answer() { Finish(model.answer(request, model.info)); }
  void Finish(Result<EncodeResult> result) {
    state->Finish(std::move(result));
    Wake();
  }
  void Wake() {
    if (state->waker() != nullptr) state->waker()->Wake();
  }

  const EncodeRequest request;
  const FakeModel model;
  const std::shared_ptr<EncodingState> state;
  std::atomic<bool> cancelled{false};
};

class FakeInference final : public Inference, public HealthProbe {
 public:
  explicit FakeInference(std::vector<FakeModel> models) : models_(std::move(models)) {}

  // Before anything is asked of it: one model more, behind or before all others.
  void Add(FakeModel model) { models_.push_back(std::move(model)); }
  void PutFirst(FakeModel model) { models_.insert(models_.begin(), std::move(model)); }
  // While nothing is being asked of it.
  void Remove(const std::string& id) {
    std::erase_if(models_, [&](const FakeModel& model) { return model.info.id == id; });
  }

  void SetState(const std::string& id, ModelState state) {
    for (FakeModel& model : models_) {
      if (model.info.id == id) model.info.status.state = state;
    }
  }

  std::string awaited;  // a model that is still being loaded; returned by Statistics()

  // --- what happens with a new request before the call returns; an error refuses it ---

  // By default nothing: a generation is the test's to write.
  std::function<Status(const std::shared_ptr<FakeGeneration>&)> on_generate;
  // By default an encoding is answered, unless they are held.
  std::function<Status(const std::shared_ptr<FakeEncoding>&)> on_encode;
  std::atomic<bool> holds_encodings{false};
  bool prepares = true;  // texts before Encode() returns; otherwise they are the test's to prepare

  std::function<void(size_t)> on_take;  // by whoever takes a good result; given its floats
  std::function<void()> on_tokenize;    // first, on the thread that tokenises
  // If set, receives the function that answers a TokenizeLater() or DetokenizeLater() call. It must
  // call that function once, on any thread.
  std::function<void(std::function<void()> answer)> on_question;

  // --- received requests ---

  bool keeps = true;  // requests, for the following
  // The k-th accepted request, waiting up to 10 s for it; null if none arrives.
  std::shared_ptr<FakeGeneration> Generation(size_t k) { return Nth(generations_, k); }
  std::shared_ptr<FakeEncoding> Encoding(size_t k) { return Nth(encodings_, k); }
  size_t generations() {
    const std::lock_guard lock(mutex_);
    return generations_.size();
  }
  size_t encodings() {
    const std::lock_guard lock(mutex_);
    return encodings_.size();
  }

  // --- health ---
  std::atomic<bool> is_started{true}, is_live{true}, is_ready{true};
  Status started() const override {
    return is_started.load() ? OkStatus()
                             : Unavailable("model_loading", "the model could not be loaded: why");
  }
  Status live() const override {
    return is_live.load() ? OkStatus()
                          : Unavailable("engine_stalled", "the step loop makes no progress");
  }
  Status ready() const override {
    if (!is_started.load()) return started();
    return is_ready.load() ? OkStatus() : Unavailable("model_loading", "the model is being loaded");
  }

  // --- Inference ---

  Result<api::Generation> Generate(GenerateRequest request, std::shared_ptr<Waker> waker) override {
    if (Find(request.model, [](const ModelInfo& model) { return model.generates; }) == nullptr)
      return ModelNotFound(request.model);
    RETURN_IF_ERROR(ValidateRequest(request));
    const auto stream =
        std::make_shared<TokenStream>(std::move(waker), std::exchange(request.observer, nullptr));
    auto generation = std::make_shared<FakeGeneration>(std::move(request), stream);
    if (on_generate) RETURN_IF_ERROR(on_generate(generation));
    Keep(generation, &generations_);
    return api::Generation(generation->stream, generation);
  }

  Result<api::Encoding> Encode(EncodeRequest request, std::shared_ptr<Waker> waker) override {
    const bool scores = request.output == EncodeOutput::kScores;
    const FakeModel* model = Find(request.model, [scores](const ModelInfo& info) {
      return info.encoder.has_value() &&
             (scores ? !info.encoder->labels.empty() : info.encoder->width > 0);
    });
    const auto encodes = [](const ModelInfo& info) { return info.encoder.has_value(); };
    if (model == nullptr && !request.model.empty() && Find(request.model, encodes) != nullptr) {
      return InvalidArgument("invalid_value", "the model does not give that").WithParam("model");
    }
    if (model == nullptr) return ModelNotFound(request.model);
    RETURN_IF_ERROR(model->check(request, model->info));
    const auto state = std::make_shared<EncodingState>(
        std::move(waker),
        [this](EncodeResult& result) {
          if (on_take) on_take(result.values.size());
        },
        std::exchange(request.observer, nullptr));
    auto encoding = std::make_shared<FakeEncoding>(std::move(request), *model, state);
    if (prepares) encoding->state->Prepared();
    if (on_encode) {
      RETURN_IF_ERROR(on_encode(encoding));
    } else if (!holds_encodings.load()) {
      encoding->Answer();
    }
    ++executions_;
    Keep(encoding, &encodings_);
    return api::Encoding(encoding->state, encoding);
  }

  // A token for each byte; '<' is a special one.
  Result<TokenizeResult> Tokenize(const TokenizeRequest& request) override {
    if (on_tokenize) on_tokenize();
    TokenizeResult result;
    result.max_model_len = 128;
    if (const auto* chat = std::get_if<ChatPrompt>(&request.prompt)) {
      for (const ChatMessage& message : chat->messages) result.text += "<" + message.content + ">";
    } else if (const auto* text = std::get_if<TextPrompt>(&request.prompt)) {
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
  void TokenizeLater(TokenizeRequest request, Done<TokenizeResult> done) override {
    Later([this, request, done] { done(Tokenize(request)); });
  }
  void DetokenizeLater(DetokenizeRequest request, Done<std::string> done) override {
    Later([this, request, done] { done(Detokenize(request)); });
  }
  Result<std::string> Detokenize(const DetokenizeRequest& request) override {
    std::string text;
    for (const TokenId id : request.tokens) {
      if (id > 255)
        return InvalidArgument("token_out_of_range", "no such token").WithParam("tokens");
      if (!request.skip_special || id != '<') text += static_cast<char>(id);
    }
    return text;
  }
  ModelList Models() const override {
    std::vector<ModelInfo> models;
    if (!is_started.load()) return {};
    for (const FakeModel& model : models_) models.push_back(model.info);
    return models;
  }
  LoadSnapshot Load() const override { return {2, 3, 4, 5, 6}; }
  Result<ModelStatistics> Statistics(const std::string& model) const override {
    if (!awaited.empty() && model == awaited)
      return Unavailable("model_loading", "it is still being loaded");
    return ModelStatistics{executions_.load(), 2 * executions_.load(), {}};
  }

 private:
  void Later(std::function<void()> answer) { on_question ? on_question(answer) : answer(); }
  // The model of that name, or the first if `name` is empty, provided that it `fits`.
  template <typename Fits>
  const FakeModel* Find(const std::string& name, Fits fits) const {
    for (const FakeModel& model : models_) {
      const std::vector<std::string>& aliases = model.info.aliases;
      const bool named =
          model.info.id == name || std::find(aliases.begin(), aliases.end(), name) != aliases.end();
      if ((name.empty() || named) && fits(model.info)) return &model;
    }
    return nullptr;
  }

  template <typename T>
  void Keep(const std::shared_ptr<T>& request, std::vector<std::shared_ptr<T>>* list) {
    {
      const std::lock_guard lock(mutex_);
      if (keeps) list->push_back(request);
    }
    changed_.notify_all();
  }
  template <typename T>
  std::shared_ptr<T> Nth(const std::vector<std::shared_ptr<T>>& list, size_t k) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(10), [&] { return list.size() > k; });
    return list.size() > k ? list[k] : nullptr;
  }

  std::vector<FakeModel> models_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::shared_ptr<FakeGeneration>> generations_;
  std::vector<std::shared_ptr<FakeEncoding>> encodings_;
  std::atomic<uint64_t> executions_{0};
};

}  // namespace tutti::api::testing
