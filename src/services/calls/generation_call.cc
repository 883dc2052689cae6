#include "services/calls/generation_call.h"

#include <utility>

#include "api/models.h"
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

// As sent, or decoded from the token ids.
Result<std::vector<std::string>> EchoTexts(const wire::GenerationCall& call,
                                           const api::CallerRef& caller,
                                           api::Inference& inference) {
  std::vector<std::string> texts;
  if (!call.echo) return texts;
  for (const api::GenerateRequest& request : call.requests) {
    if (const auto* text = std::get_if<api::TextPrompt>(&request.prompt)) {
      texts.push_back(text->text);
    } else if (const auto* tokens = std::get_if<api::TokenPrompt>(&request.prompt)) {
      ASSIGN_OR_RETURN(std::string decoded,
                       inference.Detokenize(
                           {.model = request.model, .tokens = tokens->tokens, .caller = caller}));
      texts.push_back(std::move(decoded));
    }
  }
  return texts;
}

}  // namespace

Result<ParsedGeneration> ParseGeneration(wire::Dialect dialect, std::string_view body,
                                         const wire::ParseOptions& options,
                                         const api::CallerRef& caller, api::Inference& inference) {
  ASSIGN_OR_RETURN(const wire::JsonDocument document, wire::ParseJson(body));
  ASSIGN_OR_RETURN(wire::GenerationCall call,
                   wire::ParseGeneration(dialect, document.root(), options));
  ASSIGN_OR_RETURN(std::vector<std::string> echo, EchoTexts(call, caller, inference));
  return ParsedGeneration{std::move(call), std::move(echo)};
}

GenerationHead HeadOf(const wire::GenerationCall& call, const std::string& random,
                      const api::Inference& inference, int64_t unix_s) {
  const std::vector<api::ModelInfo> models = inference.Models();
  const api::ModelInfo* model =
      call.model.empty() ? api::DefaultGenerator(models) : api::FindModel(models, call.model);
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
