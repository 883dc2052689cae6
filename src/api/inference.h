// api::Inference: the narrow waist. Every door (HTTP, gRPC, the library) speaks to this port and to
// nothing behind it, but for the library's steps, which go through
// gateway::Gateway::GenerateStepwise and engine::RequestControl; the same prompt gives the same
// tokens through each.
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

// How long a question waits for another process, where that has the models.
constexpr Duration kQuestionPatience = std::chrono::seconds(2);

struct TokenizeRequest {
  std::string model;  // empty: DefaultGenerator() (api/models.h)
  Prompt prompt;
  bool pieces = false;    // also each token's bytes and kind; of at most kMaxPieces tokens
  CallerRef caller = {};  // null: nobody in particular
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
  CallerRef caller = {};      // null: nobody in particular
  Duration patience = kQuestionPatience;
};

// Thread-safe; every call returns without waiting for inference. Tokenize() and Detokenize() wait
// for the process that has the model where that is another one, their patience at most (then:
// overloaded): no thread of a door calls them.
class Inference {
 public:
  virtual ~Inference() = default;

  // Refuses at once what can be refused at once (unknown model, bad parameter, full queue, drain).
  // Otherwise returns a handle; preparation (template, tokeniser) may go on elsewhere, and a
  // failure found there ends the stream with its Status before any token. `waker` is told when the
  // stream grows; may be null (polling).
  virtual Result<Generation> Generate(GenerateRequest request,
                                      std::shared_ptr<StreamWaker> waker) = 0;

  // Texts to vectors or scores; refuses as Generate does. A failure found later is the encoding's
  // result. `waker` is told when the encoding is done, and before when inputs that were prepared
  // elsewhere are prepared; may be null (polling). A request goes to the model that EncoderFor()
  // finds among Models() (api/models.h).
  virtual Result<Encoding> Encode(EncodeRequest request, std::shared_ptr<StreamWaker> waker) = 0;

  virtual Result<TokenizeResult> Tokenize(const TokenizeRequest& request) = 0;
  virtual Result<std::string> Detokenize(const DetokenizeRequest& request) = 0;

  // The same for who may not wait. `done` is called once: before this returns where the answer is
  // made in this process, else on whatever thread has it, which may be busy with other requests. It
  // must neither wait nor throw.
  template <typename T>
  using Done = std::function<void(Result<T>)>;
  virtual void TokenizeLater(TokenizeRequest request, Done<TokenizeResult> done) {
    done(Tokenize(request));
  }
  virtual void DetokenizeLater(DetokenizeRequest request, Done<std::string> done) {
    done(Detokenize(request));
  }

  virtual std::vector<ModelInfo> Models() const = 0;  // loaded and ready; empty while loading
  virtual LoadSnapshot Load() const = 0;
  virtual Result<ModelStatistics> Statistics(const std::string& model) const = 0;
};

// Truth about the process for the health routes. Thread-safe; no method waits for a load or a step.
// Errors are for clients: model_loading (with what a failed load failed of), engine_stalled,
// draining.
class HealthProbe {
 public:
  virtual ~HealthProbe() = default;
  virtual Status started() const = 0;  // a model has been loaded
  virtual Status live() const = 0;     // the step loop makes progress whenever it has work
  virtual Status ready() const = 0;    // a model answers, not draining
};

}  // namespace tutti::api
