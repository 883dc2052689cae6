#include "services/calls/generation_call.h"

#include <array>
#include <utility>

#include "api/models.h"
#include "api/question_series.h"
#include "protocol/anthropic/request.h"
#include "protocol/anthropic/response.h"
#include "protocol/json/json.h"
#include "protocol/ollama/request.h"
#include "protocol/ollama/response.h"
#include "protocol/openai/decisions.h"
#include "protocol/openai/infill.h"

namespace tutti::calls {
namespace {

struct KindRow {
  CallKind kind;
  std::string_view name;
  std::string_view id_prefix = "chatcmpl-";  // of responses
  protocol::Dialect dialect = protocol::Dialect::kChat;
};
constexpr std::array<KindRow, 13> kKinds = {{
    {CallKind::kChat, "chat.completions"},
    {CallKind::kText, "completions", "cmpl-", protocol::Dialect::kText},
    {CallKind::kGenerate, "generate", "gen-", protocol::Dialect::kGenerate},
    {CallKind::kMessages, "messages", "msg_"},
    {CallKind::kInfill, "infill", "infill-", protocol::Dialect::kInfill},
    {CallKind::kOllamaChat, "api.chat"},
    {CallKind::kOllamaGenerate, "api.generate"},
    {CallKind::kDecisions, "decisions", "dec-", protocol::Dialect::kDecisions},
    {CallKind::kSystemOne, "systemone", "dec-", protocol::Dialect::kSystemOne},
    {CallKind::kPrefix, "prefixes", "prefix_", protocol::Dialect::kPrefix},
    {CallKind::kEmbeddings, "embeddings"},
    {CallKind::kRerank, "rerank"},
    {CallKind::kScore, "score"},
}};

protocol::ollama::AnswerForm OllamaFormOf(CallKind kind) {
  return kind == CallKind::kOllamaChat ? protocol::ollama::AnswerForm::kChat
                                       : protocol::ollama::AnswerForm::kGenerate;
}

const KindRow& RowOf(CallKind kind) { return kKinds[static_cast<size_t>(kind)]; }

}  // namespace

std::string_view NameOf(CallKind kind) { return RowOf(kind).name; }

std::optional<CallKind> KindNamed(std::string_view name) {
  for (const KindRow& row : kKinds) {
    if (row.name == name) return row.kind;
  }
  return std::nullopt;
}

Result<protocol::GenerationCall> ParseGeneration(CallKind kind, std::string_view body,
                                                 const protocol::ParseOptions& options) {
  ASSIGN_OR_RETURN(const protocol::JsonDocument document, protocol::ParseJson(body));
  if (kind == CallKind::kMessages) return protocol::ParseMessages(document.root(), options);
  if (kind == CallKind::kOllamaChat) return protocol::ollama::ParseChat(document.root(), options);
  if (kind == CallKind::kOllamaGenerate)
    return protocol::ollama::ParseGenerate(document.root(), options);
  return protocol::ParseGeneration(RowOf(kind).dialect, document.root(), options);
}

void AskForEcho(const protocol::GenerationCall& call, const api::CallerRef& caller,
                api::Inference& inference, std::function<void(Result<EchoTexts>)> done) {
  struct Texts {
    EchoTexts texts;
    std::vector<size_t> missing;  // indices of those to be decoded
    std::vector<api::DetokenizeRequest> questions;
  };
  const auto echo = std::make_shared<Texts>();
  for (const api::GenerateRequest& request : call.requests) {
    if (!call.echo) break;
    if (const auto* text = std::get_if<api::TextPrompt>(&request.prompt)) {
      echo->texts.push_back(text->text);
    } else if (const auto* tokens = std::get_if<api::TokenPrompt>(&request.prompt)) {
      echo->missing.push_back(echo->texts.size());
      echo->texts.emplace_back();
      echo->questions.push_back(
          {.model = request.model, .tokens = tokens->tokens, .caller = caller});
    }
  }
  api::QuestionSeries<std::string>::Begin(
      echo->questions.size(),
      [echo, &inference](size_t index, api::Inference::Done<std::string> answered) {
        inference.DetokenizeLater(std::move(echo->questions[index]), std::move(answered));
      },
      [echo, done = std::move(done)](Result<std::vector<std::string>> decoded) {
        if (!decoded.ok()) return done(decoded.status());
        for (size_t i = 0; i < decoded->size(); ++i)
          echo->texts[echo->missing[i]] = std::move((*decoded)[i]);
        done(std::move(echo->texts));
      });
}

GenerationHead HeadOf(CallKind kind, const protocol::GenerationCall& call,
                      const std::string& random, const api::Inference& inference, int64_t unix_s) {
  const api::ModelList models = inference.Models();
  const api::ModelInfo* model =
      call.model.empty() ? api::DefaultGenerator(models) : api::FindGenerator(models, call.model);
  GenerationHead made;
  made.head.id = std::string(RowOf(kind).id_prefix) + random;
  made.head.model = !call.model.empty() ? call.model : model == nullptr ? "" : model->id;
  made.head.created_s = unix_s;
  // Not known of a model that this request loads, nor of an alias of several.
  if (model != nullptr && !model->digest.empty())
    made.head.fingerprint = "fp_" + model->digest.substr(0, 12);
  if (!call.shown_model.empty()) made.head.model = call.shown_model;
  if (model != nullptr) made.head.decision_temperature = model->decision_temperature;
  made.context_tokens = model == nullptr ? 0 : model->max_model_len;
  return made;
}

std::string LoadBody(CallKind kind, const protocol::GenerationCall& call, int64_t unix_s) {
  return protocol::ollama::LoadBody(OllamaFormOf(kind), call, unix_s);
}

std::unique_ptr<protocol::ResponseWriter> MakeWriter(CallKind kind,
                                                     const protocol::GenerationCall& call,
                                                     protocol::ResponseHead head, EchoTexts echo) {
  if (kind == CallKind::kMessages) return protocol::MakeMessagesWriter(call, std::move(head));
  if (kind == CallKind::kOllamaChat || kind == CallKind::kOllamaGenerate)
    return protocol::ollama::MakeWriter(OllamaFormOf(kind), call, std::move(head));
  return protocol::MakeResponseWriter(call, std::move(head), std::move(echo));
}

Status Blame(const protocol::GenerationCall& call, Status status, size_t index, bool chat,
             int context_tokens, int prompt_tokens) {
  const bool too_long = status.param().empty() && (status.reason() == "context_length_exceeded" ||
                                                   status.reason() == "request_exceeds_capacity");
  std::string param = status.param();
  if (too_long && prompt_tokens > 0 && prompt_tokens < context_tokens) {
    param = "max_tokens";  // the prompt alone would do
  } else if (too_long) {
    param = chat ? "messages" : "prompt";
  }
  if (!call.questions.empty()) {
    param = protocol::DecisionParam(call, param, index);
    return std::move(status).WithParam(std::move(param));
  }
  if (call.dialect == protocol::Dialect::kInfill) param = protocol::InfillParam(std::move(param));
  if (!call.shown_model.empty()) param = protocol::ollama::FieldName(call, std::move(param));
  if (param == "prompt" && call.requests.size() > 1) param += "[" + std::to_string(index) + "]";
  return std::move(status).WithParam(std::move(param));
}

}  // namespace tutti::calls
