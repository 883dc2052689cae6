#include "protocol/openai/request.h"

#include <algorithm>

#include "api/names.h"
#include "api/validate.h"
#include "protocol/json/field_error.h"
#include "protocol/json/text_content.h"
#include "protocol/openai/decisions.h"
#include "protocol/openai/infill.h"
#include "protocol/openai/prefixes.h"
#include "protocol/schema/chat_fields.h"
#include "protocol/schema/field_check.h"
#include "protocol/schema/neutral_values.h"
#include "protocol/schema/sampling_fields.h"
#include "protocol/schema/schema.h"

namespace tutti::protocol {
namespace {

constexpr int kDefaultCompletionTokens = 16;

Result<TextContent> ReadContent(const Json& content, const std::string& param, bool strict,
                                IgnoredFields* ignored) {
  return ReadTextContent(
      content, param, [&](const Json& element, const std::string& path) -> Result<std::string> {
        // Checked before the schema, so that an image part is refused as such, not for its url
        // field.
        const Json* type = element.is_object() ? element.get_object().if_contains("type") : nullptr;
        if (type != nullptr && type->is_string() && TextOf(*type) != "text") {
          return NotSupported(path, path + " is of type " + Excerpt(TextOf(*type)) +
                                        "; this model reads text parts only");
        }
        ASSIGN_OR_RETURN(const CheckedObject part,
                         CheckedObject::Check(kPart, element, path, strict, ignored));
        std::optional<std::string> text = part.Text("text");
        if (!text.has_value()) return IsMissing(path + ".text");
        return *std::move(text);
      });
}

Result<api::ChatMessage> ReadMessage(const Json& value, const std::string& path, bool strict,
                                     IgnoredFields* ignored) {
  ASSIGN_OR_RETURN(const CheckedObject object,
                   CheckedObject::Check(kMessage, value, path, strict, ignored));
  api::ChatMessage message;
  message.role = api::FindRole(*object.Text("role")).value_or(api::Role::kSystem);
  message.name = object.Text("name").value_or("");
  if (message.role == api::Role::kTool && !object.Has("tool_call_id")) {
    return IsMissing(path + ".tool_call_id", path + " answers a tool call but has no tool_call_id");
  }
  message.tool_call_id = object.Text("tool_call_id").value_or("");
  if (const Json* calls = object.Find("tool_calls"); calls != nullptr) {
    const std::string at = object.Param("tool_calls");
    if (message.role != api::Role::kAssistant && !calls->get_array().empty())
      return BadValue(at, at + " needs role assistant");
    ASSIGN_OR_RETURN(message.tool_calls, ReadToolCalls(calls->get_array(), at, strict, ignored));
  }
  if (message.role == api::Role::kAssistant) {
    const std::optional<std::string> reasoning = object.Text("reasoning_content");
    message.reasoning = reasoning ? *reasoning : object.Text("reasoning").value_or("");
  }
  const Json* content = object.Find("content");
  if (content == nullptr) {
    if (!message.tool_calls.empty()) return message;  // the calls are the whole message
    return IsMissing(path + ".content");
  }
  ASSIGN_OR_RETURN(TextContent text, ReadContent(*content, path + ".content", strict, ignored));
  message.content = std::move(text.text);
  message.part_ends = std::move(text.part_ends);
  return message;
}

// {"type": "content", "content": text}: the answer as the client expects it.
Result<std::string> ReadPrediction(const Json& value, bool strict, IgnoredFields* ignored) {
  ASSIGN_OR_RETURN(const CheckedObject object,
                   CheckedObject::Check(kPrediction, value, "prediction", strict, ignored));
  if (*object.Text("type") != "content")
    return BadValue("prediction.type", "prediction.type must be \"content\"");
  const Json* content = object.Find("content");
  if (content == nullptr) return IsMissing("prediction.content");
  ASSIGN_OR_RETURN(TextContent text, ReadContent(*content, "prediction.content", strict, ignored));
  return std::move(text.text);
}

bool IsOpenAi(Dialect dialect) { return dialect == Dialect::kChat || dialect == Dialect::kText; }

Status ReadLengths(Dialect dialect, const CheckedObject& object, GenerationCall* call,
                   api::SamplingParams* params, bool* score_only) {
  std::optional<int64_t> most = object.Int("max_tokens");
  const char* name = "max_tokens";
  if (dialect == Dialect::kChat || dialect == Dialect::kInfill) {
    const bool chat = dialect == Dialect::kChat;
    const char* const newer_name = chat ? "max_completion_tokens" : "n_predict";
    const std::optional<int64_t> newer = object.Int(newer_name);
    if (most.has_value() && newer.has_value() && *most != *newer) {
      return BadValue(newer_name,
                      chat ? "max_tokens and max_completion_tokens are both given and differ"
                           : "n_predict and max_tokens are both given and differ");
    }
    if (newer.has_value()) {
      most = newer;
      name = newer_name;
    }
  }
  if (dialect == Dialect::kText && !most.has_value()) most = kDefaultCompletionTokens;
  if (most == 0 && dialect != Dialect::kInfill) {
    if (!call->echo) return BadValue("max_tokens", "max_tokens may be 0 only together with echo");
    *score_only = true;
  }
  RETURN_IF_ERROR(SetLengths(object, most, name, params));
  if (most == 0 && dialect == Dialect::kInfill) {
    call->prompt_only = true;
    params->max_tokens = 1;
  }
  return OkStatus();
}

Status ReadLogprobs(Dialect dialect, const CheckedObject& object, GenerationCall* call,
                    api::SamplingParams* params) {
  if (!IsOpenAi(dialect)) return OkStatus();
  if (dialect == Dialect::kText) {
    call->logprobs = static_cast<int>(object.Int("logprobs").value_or(-1));
    // Scoring: with echo the prompt's own log-probabilities are part of the answer.
    if (call->echo && call->logprobs >= 0) {
      if (object.Has("suffix")) {
        return BadValue("echo", "echo with logprobs is not possible with suffix; leave one out");
      }
      params->prompt_logprobs = call->logprobs;
    }
  } else {
    const bool wanted = object.Bool("logprobs").value_or(false);
    if (object.Has("top_logprobs") && !wanted) {  // 0 of them counts as absent
      return BadValue("top_logprobs", "top_logprobs needs logprobs: true");
    }
    if (wanted) call->logprobs = static_cast<int>(object.Int("top_logprobs").value_or(0));
  }
  params->logprobs = call->logprobs;
  if (const std::optional<int64_t> depth = object.Int("prompt_logprobs"); depth.has_value()) {
    if (call->stream) return BadValue("prompt_logprobs", "prompt_logprobs cannot be streamed");
    params->prompt_logprobs = std::max(params->prompt_logprobs, static_cast<int>(*depth));
    call->prompt_logprobs = true;
  }
  return OkStatus();
}

Status ReadStreaming(Dialect dialect, const CheckedObject& object, bool strict,
                     IgnoredFields* ignored, GenerationCall* call) {
  call->stream = object.Bool("stream").value_or(dialect == Dialect::kGenerate);
  if (!IsOpenAi(dialect)) return OkStatus();
  ASSIGN_OR_RETURN(const std::optional<CheckedObject> options,
                   ReadStreamOptions(object, kStreamOptions, call->stream, strict, ignored));
  if (!options.has_value()) return OkStatus();
  call->include_usage = options->Bool("include_usage").value_or(false);
  call->continuous_usage = options->Bool("continuous_usage_stats").value_or(false);
  call->obfuscation = options->Bool("include_obfuscation").value_or(false);
  return OkStatus();
}

Status EmptyPrompt(std::string param) {
  return InvalidArgument("empty_prompt", param + " is empty; a prompt needs at least one token")
      .WithParam(param);
}

api::Prompt MakeText(const CheckedObject& object, std::string text) {
  api::TextPrompt prompt;
  prompt.text = std::move(text);
  prompt.add_special = object.Bool("add_special_tokens").value_or(true);
  prompt.parse_special = object.Bool("parse_special").value_or(true);
  if (object.scope() == kText) prompt.suffix = object.Text("suffix");
  return prompt;
}

Result<api::Prompt> MakeTokens(const CheckedObject& object, const JsonArray& array,
                               const std::string& param) {
  if (array.empty()) return EmptyPrompt(param);
  if (object.scope() == kText && object.Has("suffix"))
    return BadValue("suffix", "suffix needs a prompt of text; token ids have no hole");
  ASSIGN_OR_RETURN(std::vector<TokenId> ids, ReadTokenIds(array, param));
  return api::Prompt(api::TokenPrompt{std::move(ids)});
}

// string | [string] | [int] | [[int]]
Result<std::vector<api::Prompt>> ReadTextPrompts(const CheckedObject& object) {
  const Json& value = *object.Find("prompt");
  const bool may_be_empty = object.Has("suffix");  // the hole is then where the text begins
  std::vector<api::Prompt> prompts;
  if (value.is_string()) {
    if (value.get_string().empty() && !may_be_empty) return EmptyPrompt("prompt");
    prompts.push_back(MakeText(object, std::string(TextOf(value))));
    return prompts;
  }
  if (!value.is_array())
    return BadValue("prompt", "prompt must be a string, a list of strings or token ids");
  const JsonArray& array = value.get_array();
  if (array.empty()) return EmptyPrompt("prompt");
  if (array[0].is_number()) {
    ASSIGN_OR_RETURN(api::Prompt tokens, MakeTokens(object, array, "prompt"));
    prompts.push_back(std::move(tokens));
    return prompts;
  }
  const auto most = static_cast<size_t>(FindField(kText, "prompt")->high);
  if (array.size() > most)
    return BadValue("prompt", "prompt must hold at most " + std::to_string(most) + " prompts");
  for (size_t i = 0; i < array.size(); ++i) {
    const std::string param = ElementPath("prompt", i);
    if (array[i].kind() != array[0].kind())
      return BadValue(param, "prompt must not mix kinds of elements");
    if (array[i].is_string()) {
      if (array[i].get_string().empty() && !may_be_empty) return EmptyPrompt(param);
      prompts.push_back(MakeText(object, std::string(TextOf(array[i]))));
    } else if (array[i].is_array()) {
      ASSIGN_OR_RETURN(api::Prompt tokens, MakeTokens(object, array[i].get_array(), param));
      prompts.push_back(std::move(tokens));
    } else {
      return BadValue(param, param + " must be a string or a list of token ids");
    }
  }
  return prompts;
}

Result<std::vector<api::Prompt>> ReadPrompts(Dialect dialect, const CheckedObject& object,
                                             bool strict, IgnoredFields* ignored) {
  if (dialect == Dialect::kText) return ReadTextPrompts(object);
  std::vector<api::Prompt> prompts;
  if (dialect == Dialect::kInfill) {
    ASSIGN_OR_RETURN(api::TextPrompt text, ReadInfillPrompt(object, strict, ignored));
    prompts.emplace_back(std::move(text));
    return prompts;
  }
  if (dialect == Dialect::kGenerate) {
    const std::optional<std::string> text = object.Text("prompt");
    if (text.has_value() == object.Has("messages")) {
      if (!text.has_value()) {
        return IsMissing("prompt", "one of prompt and messages is needed");
      }
      return BadValue("prompt", "prompt and messages exclude each other");
    }
    if (text.has_value()) {
      if (text->empty()) return EmptyPrompt("prompt");
      RETURN_IF_ERROR(RefuseTemplateArguments(object));
      RETURN_IF_ERROR(RefuseTools(object));
      prompts.push_back(MakeText(object, *text));
      return prompts;
    }
  }
  ASSIGN_OR_RETURN(api::ChatPrompt chat, ParseChatPrompt(object, strict, ignored));
  prompts.emplace_back(std::move(chat));
  return prompts;
}

Scope ScopeOf(Dialect dialect) {
  switch (dialect) {
    case Dialect::kChat:
      return kChat;
    case Dialect::kText:
      return kText;
    case Dialect::kGenerate:
      return kGenerate;
    case Dialect::kInfill:
      return kInfill;
    case Dialect::kDecisions:
    case Dialect::kSystemOne:
    case Dialect::kPrefix:
      break;  // parsed in protocol/openai/decisions.h and prefixes.h
  }
  return kChat;
}

// Reads all fields except the model and the prompts; they apply to every request of the call.
Result<api::GenerateRequest> ReadBesidePrompts(Dialect dialect, const CheckedObject& object,
                                               const ParseOptions& options, IgnoredFields* ignored,
                                               GenerationCall* call) {
  api::GenerateRequest base;
  RETURN_IF_ERROR(ReadStreaming(dialect, object, options.strict, ignored, call));
  if (dialect == Dialect::kText) call->echo = object.Bool("echo").value_or(false);
  ReadSampling(object, &base.sampling);
  ASSIGN_OR_RETURN(base.constraint, ReadConstraint(object));
  if (dialect == Dialect::kChat || dialect == Dialect::kGenerate) {
    ASSIGN_OR_RETURN(base.max_reasoning_tokens, ReadReasoningBudget(object));
  }
  RETURN_IF_ERROR(ReadLengths(dialect, object, call, &base.sampling, &base.score_only));
  RETURN_IF_ERROR(ReadLogprobs(dialect, object, call, &base.sampling));
  if (IsOpenAi(dialect)) base.n = static_cast<int>(object.Int("n").value_or(1));
  if (dialect == Dialect::kText && object.Int("best_of").value_or(base.n) != base.n) {
    return BadValue("best_of", "best_of must equal n");
  }
  call->skip_special_tokens = base.sampling.skip_special_tokens;
  // llama.cpp's answers always have them.
  call->timings = dialect == Dialect::kInfill || object.Bool("timings").value_or(false) ||
                  object.Bool("timings_per_token").value_or(false);

  ASSIGN_OR_RETURN(Placement placement, ReadPlacement(object, options));
  call->service_tier = placement.service_tier == "auto" ? "default" : placement.service_tier;
  base.priority = placement.priority;
  base.request_id = std::move(placement.request_id);
  base.deadline = placement.deadline;
  base.user = object.Text("user").value_or("");
  base.cache_salt = object.Text("cache_salt").value_or("");
  base.use_prefix_cache = object.Text("cache").value_or("auto") != "bypass";
  base.explain_prefix = object.Bool("explain_cache").value_or(false);
  if (dialect != Dialect::kInfill) {
    if (const std::optional<int64_t> cut = object.Int("truncate_prompt_tokens"); cut.has_value())
      base.truncate_prompt_tokens = static_cast<int>(*cut);
  }
  if (const Json* prediction = object.Find("prediction"); prediction != nullptr) {
    ASSIGN_OR_RETURN(base.prediction, ReadPrediction(*prediction, options.strict, ignored));
  }
  return base;
}

}  // namespace

Result<api::ChatPrompt> ParseChatPrompt(const CheckedObject& object, bool strict,
                                        IgnoredFields* ignored) {
  const JsonArray& array = object.Find("messages")->get_array();
  api::ChatPrompt chat;
  chat.messages.reserve(array.size());
  for (size_t i = 0; i < array.size(); ++i) {
    ASSIGN_OR_RETURN(api::ChatMessage message,
                     ReadMessage(array[i], ElementPath("messages", i), strict, ignored));
    chat.messages.push_back(std::move(message));
  }
  chat.continue_final_message = object.Bool("continue_final_message").value_or(false);
  if (chat.continue_final_message && object.Bool("add_generation_prompt").value_or(false)) {
    return BadValue("continue_final_message",
                    "continue_final_message and add_generation_prompt exclude each other");
  }
  chat.add_generation_prompt =
      object.Bool("add_generation_prompt").value_or(!chat.continue_final_message);
  RETURN_IF_ERROR(
      api::ValidateLastMessage(chat, ElementPath("messages", array.size() - 1) + ".role"));
  ASSIGN_OR_RETURN(chat.template_arguments, ReadTemplateArguments(object));
  RETURN_IF_ERROR(ReadTools(object, strict, ignored, &chat));
  return chat;
}

Result<GenerationCall> ParseGeneration(Dialect dialect, const Json& body,
                                       const ParseOptions& options) {
  if (dialect == Dialect::kDecisions || dialect == Dialect::kSystemOne)
    return ParseDecisions(dialect, body, options);
  if (dialect == Dialect::kPrefix) return ParsePrefix(body, options);
  IgnoredFields ignored;
  ASSIGN_OR_RETURN(const CheckedObject object,
                   CheckedObject::Check(ScopeOf(dialect), body, "", options.strict, &ignored));
  GenerationCall call;
  call.dialect = dialect;
  call.model = object.Text("model").value_or("");
  ASSIGN_OR_RETURN(api::GenerateRequest base,
                   ReadBesidePrompts(dialect, object, options, &ignored, &call));
  base.model = call.model;
  ASSIGN_OR_RETURN(std::vector<api::Prompt> prompts,
                   ReadPrompts(dialect, object, options.strict, &ignored));
  for (api::Prompt& prompt : prompts) {
    call.requests.push_back(base);
    call.requests.back().prompt = std::move(prompt);
  }
  call.ignored = ignored.names();
  return call;
}

Result<api::GenerateRequest> ParseSampling(const Json& fields, const ParseOptions& options,
                                           IgnoredFields* ignored) {
  for (const char* const elsewhere :
       {"model", "prompt", "suffix", "stream", "echo", "logprobs", "prompt_logprobs"}) {
    const Json* given = fields.is_object() ? fields.get_object().if_contains(elsewhere) : nullptr;
    if (given == nullptr || given->is_null() || AsksForNothing(elsewhere, *given)) continue;
    if (given->is_bool() && !given->get_bool()) continue;  // stream: false
    return NotSupported(elsewhere,
                        std::string(elsewhere) + " is no sampling parameter of this server");
  }
  ASSIGN_OR_RETURN(const CheckedObject object,
                   CheckedObject::CheckPart(kText, fields, "", options.strict, ignored));
  GenerationCall call;
  ASSIGN_OR_RETURN(api::GenerateRequest request,
                   ReadBesidePrompts(Dialect::kText, object, options, ignored, &call));
  request.prompt = MakeText(object, "");
  return request;
}

}  // namespace tutti::protocol
