#include "services/calls/generation_call.h"

#include <memory>
#include <utility>

#include "api/models.h"
#include "api/question_series.h"
#include "wire/json.h"

namespace tutti::calls {
namespace {

const char* IdPrefix(wire::Dialect dialect) {
  switch (dialect) {
    case wire::Dialect::kChat:
      return "chatcmpl-";
    case wire::Dialect::kText:
      return "cmpl-";
    case wire::Dialect::kGenerate:
      return "gen-";
  }
  return "";
}

}  // namespace

Result<wire::GenerationCall> ParseGeneration(wire::Dialect dialect, std::string_view body,
                                             const wire::ParseOptions& options) {
  ASSIGN_OR_RETURN(const wire::JsonDocument document, wire::ParseJson(body));
  return wire::ParseGeneration(dialect, document.root(), options);
}

void AskForEcho(const wire::GenerationCall& call, const api::CallerRef& caller,
                api::Inference& inference, std::function<void(Result<EchoTexts>)> done) {
  struct Texts {
    EchoTexts texts;
    std::vector<size_t> missing;  // places of those that are to be decoded
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

GenerationHead HeadOf(const wire::GenerationCall& call, const std::string& random,
                      const api::Inference& inference, int64_t unix_s) {
  const std::vector<api::ModelInfo> models = inference.Models();
  const api::ModelInfo* model =
      call.model.empty() ? api::DefaultGenerator(models) : api::FindGenerator(models, call.model);
  GenerationHead made;
  made.head.id = IdPrefix(call.dialect) + random;
  made.head.model = !call.model.empty() ? call.model : model == nullptr ? "" : model->id;
  made.head.created_s = unix_s;
  made.head.fingerprint =
      "fp_" + (model == nullptr ? std::string("unknown") : model->digest.substr(0, 12));
  made.context_tokens = model == nullptr ? 0 : model->max_model_len;
  return made;
}

Status Blame(const wire::GenerationCall& call, Status status, size_t index, bool chat,
             int context_tokens, int prompt_tokens) {
  const bool too_long = status.param().empty() && (status.reason() == "context_length_exceeded" ||
                                                   status.reason() == "never_fits");
  std::string param = status.param();
  if (too_long && prompt_tokens > 0 && prompt_tokens < context_tokens) {
    param = "max_tokens";  // the prompt alone would do
  } else if (too_long) {
    param = chat ? "messages" : "prompt";
  }
  if (param == "prompt" && call.requests.size() > 1) param += "[" + std::to_string(index) + "]";
  return std::move(status).WithParam(std::move(param));
}

}  // namespace tutti::calls
