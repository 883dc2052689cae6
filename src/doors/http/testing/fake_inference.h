// An api::Inference and HealthProbe under the control of a test: requests are recorded, streams are
// written by the test itself, encodings are answered with what FakeRow() says unless the test holds
// them back. Thread-safe.
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

// The row an encoder of the fake gives for a text: `width` figures between -1 and 1, another row
// for every other text. Ids read as their decimal figures with commas, a pair with a line break
// between.
inline std::vector<float> FakeRow(const std::string& text, int width) {
  std::vector<float> row;
  uint32_t state = 2166136261;
  for (int i = 0; i < width; ++i) {
    for (const char c : text + static_cast<char>('a' + i % 26))
      state = (state ^ static_cast<unsigned char>(c)) * 16777619;
    row.push_back(static_cast<float>(static_cast<int32_t>(state)) / 2147483648.0f);
  }
  return row;
}

// One running encoding: the writer's side of its state.
class FakeEncoding final : public api::Cancellable {
 public:
  FakeEncoding(api::EncodeRequest r, api::ModelInfo m, std::shared_ptr<api::EncodingState> s)
      : request(std::move(r)), model(std::move(m)), state(std::move(s)) {}

  void Cancel() noexcept override { cancelled.store(true); }

  static std::string TextOf(const api::EncodeInput& input) {
    if (const auto* text = std::get_if<std::string>(&input)) return *text;
    if (const auto* pair = std::get_if<api::TextPair>(&input))
      return pair->first + "\n" + pair->second;
    std::string text;
    for (const TokenId id : std::get<std::vector<TokenId>>(input)) text += std::to_string(id) + ",";
    return text;
  }
  // A token for each byte of a text, and two or three special ones.
  static int TokensOf(const api::EncodeInput& input) {
    if (const auto* ids = std::get_if<std::vector<TokenId>>(&input))
      return static_cast<int>(ids->size());
    return static_cast<int>(TextOf(input).size()) + 2;  // the line break stands for the third
  }

  api::EncodeResult Rows() const {
    api::EncodeResult result;
    result.timings = {std::chrono::milliseconds(1), std::chrono::milliseconds(2),
                      std::chrono::milliseconds(3)};
    const bool scores = request.output == api::EncodeOutput::kScores;
    result.width = scores ? static_cast<int>(model.encoder->labels.size())
                          : request.dimensions.value_or(model.encoder->width);
    for (const api::EncodeInput& input : request.inputs) {
      int tokens = TokensOf(input);
      if (request.truncation != api::Truncation::kRefuse)
        tokens = std::min(tokens, request.truncate_tokens.value_or(model.max_model_len));
      result.tokens.push_back(tokens);
      const int rows = request.output == api::EncodeOutput::kTokens ? tokens : 1;
      if (request.output == api::EncodeOutput::kTokens) result.rows.push_back(rows);
      for (int i = 0; i < rows; ++i) {
        const std::string text = TextOf(input) + (i == 0 ? "" : "#" + std::to_string(i));
        const std::vector<float> row = FakeRow(text, result.width);
        result.values.insert(result.values.end(), row.begin(), row.end());
      }
    }
    return result;
  }
  void Answer() { state->Finish(Rows()); }
  void Fail(Status status) { state->Finish(std::move(status)); }
  void Wake() {
    if (state->waker() != nullptr) state->waker()->Wake();
  }

  const api::EncodeRequest request;
  const api::ModelInfo model;
  const std::shared_ptr<api::EncodingState> state;
  std::atomic<bool> cancelled{false};
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
    // An embedder, a cross-encoder and a classifier.
    api::EncoderInfo embedder, reranker, classifier;
    embedder.width = 5;
    embedder.cuts = true;
    embedder.pooling = "mean";
    embedder.prompts = {"query"};
    AddEncoder("fake-embed", embedder);
    reranker.pairs = true;
    reranker.labels = {"relevance"};
    AddEncoder("fake-rerank", reranker);
    classifier.labels = {"good", "bad", "neither"};
    AddEncoder("fake-classes", classifier);
  }

  // Before the door is started.
  void AddEncoder(const std::string& id, api::EncoderInfo encoder) {
    api::ModelInfo model;
    model.id = id;
    model.created_unix_s = 1700000000;
    model.max_model_len = 64;
    model.vocab_size = 1000;
    model.quantisation = "int8";
    model.digest = "fedcba9876543210";
    model.generates = false;
    model.encoder = std::move(encoder);
    model.encoder->batch_items = 32;
    model.encoder->batch_tokens = 1024;
    models_.push_back(std::move(model));
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

  // Encodings are answered before Encode() returns, or else by the test.
  std::atomic<bool> holds_encodings{false};
  // Called by whoever takes a good result, before it has it; given the floats there are.
  std::function<void(size_t)> on_take;
  // Refuses a request, or nothing; before anything else is looked at.
  std::function<Status(const api::EncodeRequest&)> on_encode;

  Result<api::Encoding> Encode(api::EncodeRequest request,
                               std::shared_ptr<api::StreamWaker> waker) override {
    if (on_encode) {
      if (Status status = on_encode(request); !status.ok()) return status;
    }
    const bool scores = request.output == api::EncodeOutput::kScores;
    const api::ModelInfo* model = nullptr;
    for (const api::ModelInfo& candidate : models_) {
      const bool gives =
          candidate.encoder.has_value() &&
          (scores ? !candidate.encoder->labels.empty() : candidate.encoder->width > 0);
      if (request.model.empty() ? gives : candidate.id == request.model) {
        if (!gives) {
          return InvalidArgument("invalid_value", "the model does not give that")
              .WithParam("model");
        }
        model = &candidate;
        break;
      }
    }
    if (model == nullptr)
      return NotFound("model_not_found", "there is no such model").WithParam("model");
    for (size_t i = 0; i < request.inputs.size(); ++i) {
      const int tokens = FakeEncoding::TokensOf(request.inputs[i]);
      if (tokens <= model->max_model_len || request.truncation != api::Truncation::kRefuse)
        continue;
      return InvalidArgument("context_length_exceeded",
                             "input " + std::to_string(i) + " has " + std::to_string(tokens) +
                                 " tokens, and the model reads at most " +
                                 std::to_string(model->max_model_len))
          .WithParam("input[" + std::to_string(i) + "]");
    }
    auto encoding = std::make_shared<FakeEncoding>(
        std::move(request), *model,
        std::make_shared<api::EncodingState>(std::move(waker), [this](api::EncodeResult& result) {
          if (on_take) on_take(result.values.size());
        }));
    if (!holds_encodings.load()) encoding->Answer();
    {
      const std::lock_guard lock(mutex_);
      encodings_.push_back(encoding);
    }
    changed_.notify_all();
    return api::Encoding(encoding->state, encoding);
  }
  // As Nth(), of encodings.
  std::shared_ptr<FakeEncoding> NthEncoding(size_t k) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(5), [&] { return encodings_.size() > k; });
    return encodings_.size() > k ? encodings_[k] : nullptr;
  }
  Result<api::ModelStatistics> Statistics(const std::string&) const override {
    return api::ModelStatistics{7, 11, std::chrono::milliseconds(13)};
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
  // Ids are bytes; '<' is a special token.
  Result<std::string> Detokenize(const std::string&, const std::vector<TokenId>& tokens,
                                 bool skip_special) override {
    std::string text;
    for (const TokenId id : tokens) {
      if (id > 255)
        return InvalidArgument("token_out_of_range", "no such token").WithParam("tokens");
      if (!skip_special || id != '<') text += static_cast<char>(id);
    }
    return text;
  }
  std::vector<api::ModelInfo> Models() const override { return models_; }
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
  std::vector<std::shared_ptr<FakeEncoding>> encodings_;
  std::vector<api::ModelInfo> models_;
};

}  // namespace tutti::http::testing
