// POST /tokenize, /detokenize, /decode, /apply-template, /v1/messages/count_tokens,
// /v1/responses/input_tokens: questions to
// the inference API, which answers at once or, from another process, later. Bodies above 4 KiB are
// handled on a helper thread, so that no other connection waits for them; for an answer no thread
// waits.
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "api/question_series.h"
#include "api/validate.h"
#include "protocol/anthropic/request.h"
#include "protocol/encoding/request.h"
#include "protocol/json/json.h"
#include "protocol/openai/models.h"
#include "protocol/openai/tokenizer_routes.h"
#include "server/http/connection/connection.h"
#include "server/http/handlers/body_work.h"
#include "services/responses/call_state.h"

namespace tutti::http {
namespace {

constexpr size_t kInlineTokenizerBytes = 4 << 10;

struct TokenizerAnswer {
  Status status;
  std::string body;
  std::vector<std::string> ignored;
  protocol::ErrorForm errors = protocol::ErrorForm::kOpenAi;
};

TokenizerAnswer Failed(Status status, protocol::ErrorForm errors = protocol::ErrorForm::kOpenAi) {
  return {std::move(status), "", {}, errors};
}

// In TEI's dialect a server has one model, which is an encoder: where no model is named, the first
// of them.
void ChooseEncoder(const api::Inference& inference, std::string* model) {
  if (!model->empty()) return;
  const api::ModelList models = inference.Models();
  if (!models.empty()) *model = protocol::MainEncoder(models).id;
}

// The calls to the tokenizer, and the function that makes the answer from their results. For
// detokenising, only the text of a result is set.
using Said = std::vector<api::TokenizeResult>;
struct Questions {
  std::vector<api::TokenizeRequest> texts;     // these,
  std::vector<api::DetokenizeRequest> tokens;  // or these
  std::function<TokenizerAnswer(Said)> answer;
  std::function<Status(size_t index, Status)> blame;  // of a failure; may be empty
  protocol::ErrorForm errors = protocol::ErrorForm::kOpenAi;

  size_t size() const { return texts.size() + tokens.size(); }
};

Result<Questions> OfTokenize(const api::Inference& inference, const protocol::Json& body,
                             const protocol::ParseOptions& options) {
  ASSIGN_OR_RETURN(protocol::TokenizeCall parsed, protocol::ParseTokenize(body, options));
  Questions questions;
  questions.texts = std::move(parsed.requests);
  if (protocol::HasField(body, "inputs")) {
    for (api::TokenizeRequest& request : questions.texts) ChooseEncoder(inference, &request.model);
  }
  questions.answer = [call = std::move(parsed)](const Said& said) {
    return TokenizerAnswer{OkStatus(), protocol::TokenizeBody(call, said), call.ignored};
  };
  return questions;
}

Result<Questions> OfDetokenize(const protocol::Json& body, const protocol::ParseOptions& options) {
  ASSIGN_OR_RETURN(protocol::DetokenizeCall call, protocol::ParseDetokenize(body, options));
  Questions questions;
  questions.tokens.push_back({.model = call.model, .tokens = std::move(call.tokens)});
  questions.answer = [ignored = call.ignored](const Said& said) {
    return TokenizerAnswer{OkStatus(), protocol::DetokenizeBody(said.front().text), ignored};
  };
  return questions;
}

Result<Questions> OfDecode(const api::Inference& inference, const protocol::Json& body,
                           const protocol::ParseOptions& options) {
  ASSIGN_OR_RETURN(protocol::DecodeCall call, protocol::ParseDecode(body, options));
  ChooseEncoder(inference, &call.model);
  Questions questions;
  for (std::vector<TokenId>& ids : call.ids) {
    questions.tokens.push_back(
        {.model = call.model, .tokens = std::move(ids), .skip_special = call.skip_special});
  }
  questions.answer = [ignored = call.ignored](Said said) {
    std::vector<std::string> texts;
    for (api::TokenizeResult& each : said) texts.push_back(std::move(each.text));
    return TokenizerAnswer{OkStatus(), protocol::DecodeBody(texts), ignored};
  };
  questions.blame = [listed = call.listed](size_t index, Status status) {
    if (status.param() != "tokens") return status;
    return std::move(status).WithParam(listed ? api::ElementPath("ids", index) : "ids");
  };
  return questions;
}

// A call with one request, whose answer is `body` of the result.
template <typename Call>
Questions OfRequest(Call call, std::string (*body)(const api::TokenizeResult&)) {
  Questions questions;
  questions.texts.push_back(std::move(call.request));
  questions.answer = [body, ignored = std::move(call.ignored)](const Said& said) {
    return TokenizerAnswer{OkStatus(), body(said.front()), ignored};
  };
  return questions;
}

Result<Questions> OfApplyTemplate(const protocol::Json& body,
                                  const protocol::ParseOptions& options) {
  ASSIGN_OR_RETURN(protocol::ApplyTemplateCall call, protocol::ParseApplyTemplate(body, options));
  return OfRequest(std::move(call), protocol::ApplyTemplateBody);
}

Result<Questions> OfCountTokens(const protocol::Json& body, const protocol::ParseOptions& options) {
  ASSIGN_OR_RETURN(protocol::CountTokensCall call, protocol::ParseCountTokens(body, options));
  return OfRequest(std::move(call), protocol::CountTokensBody);
}

Result<Questions> OfInputTokens(const protocol::Json& body, const protocol::ParseOptions& options) {
  ASSIGN_OR_RETURN(protocol::InputTokensCall call, protocol::ParseInputTokens(body, options));
  responses::JoinItems(&call.request.prompt);  // as a response has it when it runs
  return OfRequest(std::move(call), protocol::InputTokensBody);
}

Result<Questions> QuestionsOf(RouteId route, const api::Inference& inference,
                              const protocol::Json& body, const protocol::ParseOptions& options) {
  switch (route) {
    case RouteId::kTokenize:
      return OfTokenize(inference, body, options);
    case RouteId::kDecode:
      return OfDecode(inference, body, options);
    case RouteId::kDetokenize:
      return OfDetokenize(body, options);
    case RouteId::kCountTokens:
      return OfCountTokens(body, options);
    case RouteId::kInputTokens:
      return OfInputTokens(body, options);
    default:
      return OfApplyTemplate(body, options);
  }
}

// The form of this body's errors.
protocol::ErrorForm FormOf(RouteId route, const protocol::Json* body) {
  if (route == RouteId::kCountTokens) return protocol::ErrorForm::kAnthropic;
  const bool tei = route == RouteId::kDecode || (route == RouteId::kTokenize && body != nullptr &&
                                                 protocol::HasField(*body, "inputs"));
  return tei ? protocol::ErrorForm::kTei : protocol::ErrorForm::kOpenAi;
}

// The inference API, the caller, and a reference that expires with the handler.
struct TokenizeTarget {
  api::Inference& inference;
  api::CallerRef caller;
  std::weak_ptr<void> here;
};

using MakeAnswer = std::function<TokenizerAnswer()>;
using Done = std::function<void(MakeAnswer)>;

void AskAll(const TokenizeTarget& target, std::shared_ptr<Questions> questions, const Done& done) {
  const auto pieces = std::make_shared<size_t>(0);
  const auto ask = [target, questions, pieces](size_t index,
                                               api::Inference::Done<api::TokenizeResult> answered) {
    if (target.here.expired())
      return answered(Status(StatusCode::kCancelled, "cancelled", "nobody waits for it"));
    if (!questions->texts.empty()) {
      questions->texts[index].caller = target.caller;
      return target.inference.TokenizeLater(std::move(questions->texts[index]),
                                            [pieces, answered](Result<api::TokenizeResult> said) {
                                              if (said.ok()) *pieces += said->pieces.size();
                                              if (*pieces > api::kMaxPieces)
                                                return answered(api::TooManyPieces(*pieces));
                                              answered(std::move(said));
                                            });
    }
    questions->tokens[index].caller = target.caller;
    target.inference.DetokenizeLater(
        std::move(questions->tokens[index]),
        [questions, index, answered](Result<std::string> text) {
          if (!text.ok()) {
            return answered(questions->blame ? questions->blame(index, text.status())
                                             : text.status());
          }
          api::TokenizeResult said;
          said.text = *std::move(text);
          answered(std::move(said));
        });
  };
  api::QuestionSeries<api::TokenizeResult>::Begin(
      questions->size(), ask, [questions, done](Result<Said> said) {
        done([questions, said = std::move(said)]() mutable {
          if (!said.ok()) return Failed(said.status(), questions->errors);
          return questions->answer(*std::move(said));
        });
      });
}

// Thread-safe: what it uses is.
void Ask(RouteId route, const TokenizeTarget& target, std::string_view body,
         const protocol::ParseOptions& options, const Done& done) {
  Result<protocol::JsonDocument> document = protocol::ParseJson(body);
  const auto refuse = [&](Status status, protocol::ErrorForm errors) {
    done([status = std::move(status), errors] { return Failed(status, errors); });
  };
  if (!document.ok()) return refuse(document.status(), FormOf(route, nullptr));
  const protocol::ErrorForm errors = FormOf(route, &document->root());
  Result<Questions> questions = QuestionsOf(route, target.inference, document->root(), options);
  if (!questions.ok()) return refuse(questions.status(), errors);
  questions->errors = errors;
  AskAll(target, std::make_shared<Questions>(*std::move(questions)), done);
}

class TokenizerHandler final : public Handler {
 public:
  TokenizerHandler(RouteId route, Connection& connection)
      : route_(route), connection_(connection) {}

  void Start() override {
    const TokenizeTarget target{*connection_.context().deps.inference,
                                connection_.request_context().caller(), here_};
    const protocol::ParseOptions options{connection_.context().options.strict, {}, {}};
    AskWithBody<TokenizerAnswer>(
        connection_, kInlineTokenizerBytes, connection_.context().tokenizer_helper,
        [route = route_, target, options](std::string_view body, const Done& done) {
          Ask(route, target, body, options, done);
        },
        [this](TokenizerAnswer answer) { Finish(std::move(answer)); });
  }

 private:
  void Finish(TokenizerAnswer answer) {
    if (!answer.status.ok()) {
      connection_.request_context().set_error_form(answer.errors);
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
  const std::shared_ptr<void> here_ = std::make_shared<int>();
};

}  // namespace

std::unique_ptr<Handler> MakeTokenizerHandler(RouteId route, Connection& connection) {
  return std::make_unique<TokenizerHandler>(route, connection);
}

}  // namespace tutti::http
