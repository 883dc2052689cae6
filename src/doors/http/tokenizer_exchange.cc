// POST /tokenize, /detokenize, /decode, /apply-template: synchronous calls of the waist. Bodies
// above 4 KiB are handled on a helper thread, so that no other connection waits for them.
#include <memory>
#include <utility>
#include <vector>

#include "api/validate.h"
#include "doors/http/body_work.h"
#include "doors/http/connection.h"
#include "wire/json.h"
#include "wire/models.h"
#include "wire/tei_request.h"
#include "wire/tokenizer_routes.h"

namespace tutti::http {
namespace {

constexpr size_t kInlineTokenizerBytes = 4 << 10;

struct TokenizerAnswer {
  Status status;
  std::string body;
  std::vector<std::string> ignored;
  wire::ErrorForm errors = wire::ErrorForm::kOpenAi;
};

TokenizerAnswer Failed(Status status, wire::ErrorForm errors = wire::ErrorForm::kOpenAi) {
  return {std::move(status), "", {}, errors};
}

// In TEI's dialect a server has one model, which is an encoder: where no model is named, the first
// of them.
void ChooseEncoder(const api::Inference& inference, std::string* model) {
  if (!model->empty()) return;
  const std::vector<api::ModelInfo> models = inference.Models();
  if (!models.empty()) *model = wire::MainEncoder(models).id;
}

// The waist, and who asks it.
struct Asker {
  api::Inference& inference;
  api::CallerRef caller;
};

TokenizerAnswer Tokenize(const Asker& asker, const wire::Json& body,
                         const wire::ParseOptions& options) {
  const bool tei = wire::HasField(body, "inputs");
  const auto errors = tei ? wire::ErrorForm::kTei : wire::ErrorForm::kOpenAi;
  Result<wire::TokenizeCall> call = wire::ParseTokenize(body, options);
  if (!call.ok()) return Failed(call.status(), errors);
  std::vector<api::TokenizeResult> results;
  size_t pieces = 0;
  for (api::TokenizeRequest& request : call->requests) {
    if (tei) ChooseEncoder(asker.inference, &request.model);
    request.caller = asker.caller;
    Result<api::TokenizeResult> result = asker.inference.Tokenize(request);
    if (!result.ok()) return Failed(result.status(), errors);
    pieces += result->pieces.size();
    if (pieces > api::kMaxPieces) return Failed(api::TooManyPieces(pieces), errors);
    results.push_back(std::move(result).value());
  }
  return {OkStatus(), wire::TokenizeBody(*call, results), call->ignored};
}

TokenizerAnswer Detokenize(const Asker& asker, const wire::Json& body,
                           const wire::ParseOptions& options) {
  Result<wire::DetokenizeCall> call = wire::ParseDetokenize(body, options);
  if (!call.ok()) return Failed(call.status());
  Result<std::string> text = asker.inference.Detokenize(
      {.model = call->model, .tokens = std::move(call->tokens), .caller = asker.caller});
  if (!text.ok()) return Failed(text.status());
  return {OkStatus(), wire::DetokenizeBody(*text), call->ignored};
}

TokenizerAnswer Decode(const Asker& asker, const wire::Json& body,
                       const wire::ParseOptions& options) {
  constexpr auto kErrors = wire::ErrorForm::kTei;
  Result<wire::DecodeCall> call = wire::ParseDecode(body, options);
  if (!call.ok()) return Failed(call.status(), kErrors);
  ChooseEncoder(asker.inference, &call->model);
  std::vector<std::string> texts;
  for (size_t i = 0; i < call->ids.size(); ++i) {
    Result<std::string> text = asker.inference.Detokenize({.model = call->model,
                                                           .tokens = std::move(call->ids[i]),
                                                           .skip_special = call->skip_special,
                                                           .caller = asker.caller});
    if (!text.ok()) {
      const std::string param = call->listed ? "ids[" + std::to_string(i) + "]" : "ids";
      return Failed(
          text.status().param() == "tokens" ? text.status().WithParam(param) : text.status(),
          kErrors);
    }
    texts.push_back(*std::move(text));
  }
  return {OkStatus(), wire::DecodeBody(texts), call->ignored};
}

TokenizerAnswer ApplyTemplate(const Asker& asker, const wire::Json& body,
                              const wire::ParseOptions& options) {
  Result<wire::ApplyTemplateCall> call = wire::ParseApplyTemplate(body, options);
  if (!call.ok()) return Failed(call.status());
  call->request.caller = asker.caller;
  Result<api::TokenizeResult> result = asker.inference.Tokenize(call->request);
  if (!result.ok()) return Failed(result.status());
  return {OkStatus(), wire::ApplyTemplateBody(*result), call->ignored};
}

// Thread-safe: what it uses is.
TokenizerAnswer Compute(RouteId route, const Asker& asker, std::string_view body,
                        const wire::ParseOptions& options) {
  const auto errors = route == RouteId::kDecode ? wire::ErrorForm::kTei : wire::ErrorForm::kOpenAi;
  Result<wire::JsonDocument> document = wire::ParseJson(body);
  if (!document.ok()) return Failed(document.status(), errors);
  switch (route) {
    case RouteId::kTokenize:
      return Tokenize(asker, document->root(), options);
    case RouteId::kDecode:
      return Decode(asker, document->root(), options);
    case RouteId::kDetokenize:
      return Detokenize(asker, document->root(), options);
    default:
      return ApplyTemplate(asker, document->root(), options);
  }
}

class TokenizerExchange final : public Exchange {
 public:
  TokenizerExchange(RouteId route, Connection& connection)
      : route_(route), connection_(connection) {}

  void Start() override {
    const Asker asker{*connection_.context().deps.inference, connection_.caller()};
    const wire::ParseOptions options{connection_.context().options.strict, {}, {}};
    WithBody(
        connection_, kInlineTokenizerBytes, connection_.context().tokenizer_helper,
        [route = route_, asker, options](std::string_view body) {
          return Compute(route, asker, body, options);
        },
        [this](TokenizerAnswer answer) { Finish(std::move(answer)); });
  }

 private:
  void Finish(TokenizerAnswer answer) {
    if (!answer.status.ok()) {
      connection_.set_error_form(answer.errors);
      return connection_.RespondError(answer.status);
    }
    if (!connection_.HoldAnswer(answer.body.size())) {
      return connection_.RespondError(
          Unavailable("overloaded", "too many long answers wait for their readers"));
    }
    connection_.Respond(200, JsonHeaders(answer.ignored), std::move(answer.body));
  }

  const RouteId route_;
  Connection& connection_;
};

}  // namespace

std::unique_ptr<Exchange> MakeTokenizerExchange(RouteId route, Connection& connection) {
  return std::make_unique<TokenizerExchange>(route, connection);
}

}  // namespace tutti::http
