// POST /tokenize, /detokenize, /apply-template: synchronous calls of the waist. Bodies above 4 KiB
// are handled on a helper thread, so that no other connection waits for them.
#include <memory>
#include <utility>
#include <vector>

#include "api/validate.h"
#include "doors/http/connection.h"
#include "wire/json.h"
#include "wire/tokenizer_routes.h"

namespace tutti::http {
namespace {

constexpr size_t kInlineTokenizerBytes = 4 << 10;

struct Answer {
  Status status;
  std::string body;
  std::vector<std::string> ignored;
};

Answer Failed(Status status) { return {std::move(status), "", {}}; }

Answer Tokenize(api::Inference& inference, const wire::Json& body,
                const wire::ParseOptions& options) {
  Result<wire::TokenizeCall> call = wire::ParseTokenize(body, options);
  if (!call.ok()) return Failed(call.status());
  std::vector<api::TokenizeResult> results;
  size_t pieces = 0;
  for (const api::TokenizeRequest& request : call->requests) {
    Result<api::TokenizeResult> result = inference.Tokenize(request);
    if (!result.ok()) return Failed(result.status());
    pieces += result->pieces.size();
    if (pieces > api::kMaxPieces) return Failed(api::TooManyPieces(pieces));
    results.push_back(std::move(result).value());
  }
  return {OkStatus(), wire::TokenizeBody(*call, results), call->ignored};
}

Answer Detokenize(api::Inference& inference, const wire::Json& body,
                  const wire::ParseOptions& options) {
  Result<wire::DetokenizeCall> call = wire::ParseDetokenize(body, options);
  if (!call.ok()) return Failed(call.status());
  Result<std::string> text = inference.Detokenize(call->model, call->tokens);
  if (!text.ok()) return Failed(text.status());
  return {OkStatus(), wire::DetokenizeBody(*text), call->ignored};
}

Answer ApplyTemplate(api::Inference& inference, const wire::Json& body,
                     const wire::ParseOptions& options) {
  Result<wire::ApplyTemplateCall> call = wire::ParseApplyTemplate(body, options);
  if (!call.ok()) return Failed(call.status());
  Result<api::TokenizeResult> result = inference.Tokenize(call->request);
  if (!result.ok()) return Failed(result.status());
  return {OkStatus(), wire::ApplyTemplateBody(*result), call->ignored};
}

// Thread-safe: what it uses is.
Answer Compute(RouteId route, api::Inference& inference, std::string_view body,
               const wire::ParseOptions& options) {
  Result<wire::JsonDocument> document = wire::ParseJson(body);
  if (!document.ok()) return Failed(document.status());
  switch (route) {
    case RouteId::kTokenize:
      return Tokenize(inference, document->root(), options);
    case RouteId::kDetokenize:
      return Detokenize(inference, document->root(), options);
    default:
      return ApplyTemplate(inference, document->root(), options);
  }
}

class TokenizerExchange final : public Exchange {
 public:
  TokenizerExchange(RouteId route, Connection& connection)
      : route_(route), connection_(connection) {}

  void Start() override {
    api::Inference& inference = *connection_.context().deps.inference;
    const wire::ParseOptions options{connection_.context().options.strict, {}, {}};
    if (connection_.request().body.size() <= kInlineTokenizerBytes) {
      return Finish(Compute(route_, inference, connection_.TakeBody().text, options));
    }
    auto body = std::make_shared<Connection::Body>(connection_.TakeBody());
    connection_.Offload(
        connection_.context().tokenizer_helper,
        [this, route = route_, &inference, body, options]() -> Connection::Continuation {
          auto answer = std::make_shared<Answer>(Compute(route, inference, body->text, options));
          *body = {};
          return [this, answer] { Finish(std::move(*answer)); };
        });
  }

 private:
  void Finish(Answer answer) {
    if (!answer.status.ok()) return connection_.RespondError(answer.status);
    if (!connection_.HoldAnswer(answer.body.size())) {
      return connection_.RespondError(
          Unavailable("overloaded", "too many long answers wait for their readers"));
    }
    HeaderList headers = {{"Content-Type", "application/json"}};
    if (!answer.ignored.empty()) headers.emplace_back("x-tutti-ignored", JoinNames(answer.ignored));
    connection_.Respond(200, std::move(headers), std::move(answer.body));
  }

  const RouteId route_;
  Connection& connection_;
};

}  // namespace

std::unique_ptr<Exchange> MakeTokenizerExchange(RouteId route, Connection& connection) {
  return std::make_unique<TokenizerExchange>(route, connection);
}

std::string JoinNames(const std::vector<std::string>& names) {
  std::string joined;
  for (const std::string& name : names) joined += (joined.empty() ? "" : ", ") + name;
  return joined;
}

}  // namespace tutti::http
