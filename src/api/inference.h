// api::Inference: the interface between all servers (HTTP, gRPC, MQTT, the library) and the models.
// No server calls anything behind it, with one exception: the library's stepwise generation uses
// gateway::Gateway::GenerateStepwise and engine::RequestControl. The same prompt gives the same
// tokens through every server.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "api/caller.h"
#include "api/encoding.h"
#include "api/token_stream.h"
#include "api/types.h"
#include "base/clock.h"
#include "base/status.h"

namespace tutti::api {

// Default timeout of a Tokenize or Detokenize call to another process that has the models.
constexpr Duration kQuestionPatience = std::chrono::seconds(2);

struct TokenizeRequest {
  std::string model;  // empty: DefaultGenerator() (api/models.h)
  Prompt prompt;
  bool pieces = false;    // also each token's bytes and kind; for at most kMaxPieces tokens
  CallerRef caller = {};  // null: no callers (library, benchmarks)
  Duration patience = kQuestionPatience;
};

struct TokenizeResult {
  std::vector<TokenId> tokens;
  std::vector<std::string> pieces;  // each token's own bytes; as many as tokens, or none
  std::vector<bool> special;        // whether it is a special token; as many as pieces
  std::string text;                 // the rendered prompt
  int max_model_len = 0;
};

struct DetokenizeRequest {
  std::string model = {};  // empty: DefaultGenerator()
  std::vector<TokenId> tokens = {};
  bool skip_special = false;  // special tokens leave no text
  CallerRef caller = {};      // null: no callers (library, benchmarks)
  Duration patience = kQuestionPatience;
};

// Thread-safe; no call waits for inference. If another process has the model, Tokenize() and
// Detokenize() block for its answer, at most for their patience (then: overloaded). I/O threads of
// servers must call TokenizeLater() and DetokenizeLater() instead.
class Inference {
 public:
  virtual ~Inference() = default;

  // Begins a generation and returns its handle. Errors that are known at once (unknown model, bad
  // parameter, full queue, drain) are returned here. Preparation (template, tokenizer) may continue
  // on another thread; an error there ends the stream before any token. `waker` is called when the
  // stream grows; null: the caller polls.
  virtual Result<Generation> Generate(GenerateRequest request, std::shared_ptr<Waker> waker) = 0;

  // Computes vectors or scores of texts, with the model that EncoderFor() selects from Models()
  // (api/models.h). Returns errors as Generate does; later errors are the encoding's result.
  // `waker` is called when the encoding is done, and earlier when inputs have been prepared on
  // another thread; null: the caller polls.
  virtual Result<Encoding> Encode(EncodeRequest request, std::shared_ptr<Waker> waker) = 0;

  virtual Result<TokenizeResult> Tokenize(const TokenizeRequest& request) = 0;
  virtual Result<std::string> Detokenize(const DetokenizeRequest& request) = 0;

  // Non-blocking variants. `done` is called once: before the function returns if this process has
  // the model, else on the thread that receives the answer. It must neither block nor throw.
  template <typename T>
  using Done = std::function<void(Result<T>)>;
  virtual void TokenizeLater(TokenizeRequest request, Done<TokenizeResult> done) {
    done(Tokenize(request));
  }
  virtual void DetokenizeLater(DetokenizeRequest request, Done<std::string> done) {
    done(Detokenize(request));
  }

  // Prefixes that GenerateRequest::pin has pinned for the tenant, of all models, and the end of one
  // of them. Errors: not_found; unsupported_parameter where another process has the models.
  virtual Result<std::vector<PinnedPrefix>> Pins(const std::string& /*tenant*/) const {
    return PinsElsewhere();
  }
  virtual Status Unpin(const std::string& /*tenant*/, const std::string& /*id*/) {
    return PinsElsewhere();
  }
  static Status PinsElsewhere() {
    return Status(StatusCode::kUnimplemented, "unsupported_parameter",
                  "prefixes are pinned by servers without worker processes");
  }

  // The models that requests may name; empty while the first one is loaded.
  virtual ModelList Models() const = 0;
  virtual LoadSnapshot Load() const = 0;
  virtual Result<ModelStatistics> Statistics(const std::string& model) const = 0;
};

// Health of the process, for the health routes. Thread-safe; no method blocks. Errors are for
// clients: model_loading (with the reason code of a failed load), engine_stalled, draining.
class HealthProbe {
 public:
  virtual ~HealthProbe() = default;
  virtual Status started() const = 0;  // a model has been loaded
  virtual Status live() const = 0;     // the step loop makes progress whenever it has work
  virtual Status ready() const = 0;    // a model answers, not draining
};

}  // namespace tutti::api
