#include "server/grpc/generate_request.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/validate.h"
#include "protocol/schema/template_arguments.h"

namespace tutti::rpc {
namespace {

constexpr int kDefaultPromptTokens = 16;  // as on HTTP's /v1/completions

Status Bad(std::string param, const std::string& message) {
  return InvalidArgument("invalid_value", message).WithParam(std::move(param));
}

Status Missing(const std::string& param, const std::string& why) {
  return InvalidArgument("missing_required_parameter", param + " is missing" + why)
      .WithParam(param);
}

std::string At(const char* list, int index) {
  return std::string(list) + "[" + std::to_string(index) + "]";
}

Result<std::vector<api::ToolCall>> ReadCalls(v1::ChatMessage& message, const std::string& path) {
  std::vector<api::ToolCall> calls;
  for (v1::ToolCall& call : *message.mutable_tool_calls()) {
    const std::string at = path + "." + At("tool_calls", static_cast<int>(calls.size()));
    if (call.id().empty()) return Missing(at + ".id", "");
    if (call.name().empty()) return Missing(at + ".name", "");
    calls.push_back({std::move(*call.mutable_id()), std::move(*call.mutable_name()),
                     std::move(*call.mutable_arguments())});
  }
  return calls;
}

Result<api::ChatMessage> ReadMessage(v1::ChatMessage& message, const std::string& path) {
  api::ChatMessage out;
  if (message.role() == "user") {
    out.role = api::Role::kUser;
  } else if (message.role() == "assistant") {
    out.role = api::Role::kAssistant;
  } else if (message.role() == "system" || message.role() == "developer") {
    out.role = api::Role::kSystem;
  } else if (message.role() == "tool") {
    out.role = api::Role::kTool;
  } else {
    return Bad(path + ".role", "role must be system, developer, user, assistant or tool");
  }
  RETURN_IF_ERROR(api::CheckUtf8(message.content(), "conversation"));
  out.content = std::move(*message.mutable_content());
  out.name = std::move(*message.mutable_name());
  if (out.role != api::Role::kAssistant &&
      (message.tool_calls_size() > 0 || !message.reasoning().empty())) {
    return Bad(path, "tool_calls and reasoning need role assistant");
  }
  ASSIGN_OR_RETURN(out.tool_calls, ReadCalls(message, path));
  out.reasoning = std::move(*message.mutable_reasoning());
  if (out.role == api::Role::kTool && message.tool_call_id().empty())
    return Missing(path + ".tool_call_id", ": it names the call that this message answers");
  out.tool_call_id = std::move(*message.mutable_tool_call_id());
  return out;
}

Result<api::ToolChoice> ReadToolChoice(v1::ToolChoice& choice) {
  using Kind = api::ToolChoice::Kind;
  if (choice.choice_case() == v1::ToolChoice::kFunction)
    return api::ToolChoice{Kind::kNamed, std::move(*choice.mutable_function())};
  switch (choice.mode()) {
    case v1::ToolChoice::AUTO:
      return api::ToolChoice{Kind::kAuto};
    case v1::ToolChoice::NONE:
      return api::ToolChoice{Kind::kNone};
    case v1::ToolChoice::REQUIRED:
      return api::ToolChoice{Kind::kRequired};
    default:
      return Bad("tool_choice", "tool_choice.mode must be AUTO, NONE or REQUIRED");
  }
}

Status ReadTools(v1::Conversation& conversation, api::ChatPrompt* chat) {
  for (v1::Tool& tool : *conversation.mutable_tools()) {
    const std::string path = At("tools", static_cast<int>(chat->tools.size()));
    chat->tools.push_back({.name = std::move(*tool.mutable_name()),
                           .description = std::move(*tool.mutable_description()),
                           .parameters = std::move(*tool.mutable_parameters()),
                           .strict = tool.strict(),
                           .param = path});
  }
  ASSIGN_OR_RETURN(chat->tool_choice, ReadToolChoice(*conversation.mutable_tool_choice()));
  chat->parallel_tool_calls =
      !conversation.has_parallel_tool_calls() || conversation.parallel_tool_calls();
  return api::ValidateTools(*chat);
}

Result<std::optional<api::Constraint>> ReadConstraint(v1::GenerateRequest& message) {
  using Kind = api::Constraint::Kind;
  using Maybe = std::optional<api::Constraint>;
  switch (message.constraint_case()) {
    case v1::GenerateRequest::kJsonObject:
      if (!message.json_object()) return Maybe();
      return Maybe({.kind = Kind::kJsonObject, .param = "json_object"});
    case v1::GenerateRequest::kJsonSchema:
      return Maybe({.kind = Kind::kJsonSchema,
                    .text = std::move(*message.mutable_json_schema()),
                    .param = "json_schema"});
    case v1::GenerateRequest::kRegex:
      return Maybe(
          {.kind = Kind::kRegex, .text = std::move(*message.mutable_regex()), .param = "regex"});
    case v1::GenerateRequest::kChoice: {
      if (message.choice().values_size() == 0)
        return Bad("choice", "choice must hold at least one text");
      api::Constraint constraint{.kind = Kind::kChoice, .param = "choice"};
      for (std::string& value : *message.mutable_choice()->mutable_values())
        constraint.choices.push_back(std::move(value));
      return Maybe(std::move(constraint));
    }
    case v1::GenerateRequest::kGrammar:
      return Maybe({.kind = Kind::kGrammar,
                    .text = std::move(*message.mutable_grammar()),
                    .param = "grammar"});
    case v1::GenerateRequest::kStructuralTag:
      return Maybe({.kind = Kind::kStructuralTag,
                    .text = std::move(*message.mutable_structural_tag()),
                    .param = "structural_tag"});
    case v1::GenerateRequest::CONSTRAINT_NOT_SET:
      return Maybe();
  }
  return Maybe();
}

Result<api::ChatPrompt> ToChat(v1::Conversation& conversation) {
  if (conversation.messages_size() == 0) {
    return InvalidArgument("empty_prompt", "a conversation holds at least one message")
        .WithParam("conversation");
  }
  if (static_cast<size_t>(conversation.messages_size()) > api::kMaxMessages) {
    return Bad("conversation",
               "a conversation holds at most " + std::to_string(api::kMaxMessages) + " messages");
  }
  api::ChatPrompt chat;
  for (v1::ChatMessage& message : *conversation.mutable_messages()) {
    ASSIGN_OR_RETURN(api::ChatMessage read,
                     ReadMessage(message, At("messages", static_cast<int>(chat.messages.size()))));
    chat.messages.push_back(std::move(read));
  }
  RETURN_IF_ERROR(ReadTools(conversation, &chat));
  RETURN_IF_ERROR(api::ValidateLastMessage(chat, "conversation"));
  ASSIGN_OR_RETURN(chat.template_arguments,
                   protocol::ParseTemplateArguments(conversation.chat_template_kwargs(),
                                                    "chat_template_kwargs"));
  return chat;
}

// The inference API checks ranges for all servers.
Status ReadSampling(v1::GenerateRequest& message, api::SamplingParams* out) {
  if (message.has_max_tokens()) {
    if (message.max_tokens() < 1) return Bad("max_tokens", "max_tokens must be at least 1");
    out->max_tokens = message.max_tokens();
  } else if (message.input_case() == v1::GenerateRequest::kPrompt) {
    out->max_tokens = kDefaultPromptTokens;
  }
  if (message.has_min_tokens()) out->min_tokens = message.min_tokens();
  if (message.has_temperature()) out->temperature = message.temperature();
  if (message.has_top_p()) out->top_p = message.top_p();
  if (message.has_top_k()) out->top_k = message.top_k();
  if (message.has_min_p()) out->min_p = message.min_p();
  if (message.has_repetition_penalty()) out->repetition_penalty = message.repetition_penalty();
  if (message.has_presence_penalty()) out->presence_penalty = message.presence_penalty();
  if (message.has_frequency_penalty()) out->frequency_penalty = message.frequency_penalty();
  // -1 asks for a random one, as over HTTP.
  if (message.has_seed() && message.seed() != -1) out->seed = message.seed();
  for (std::string& stop : *message.mutable_stop()) {
    RETURN_IF_ERROR(api::CheckUtf8(stop, "stop"));
    out->stop.push_back(std::move(stop));
  }
  out->stop_token_ids.assign(message.stop_token_ids().begin(), message.stop_token_ids().end());
  out->ignore_eos = message.ignore_eos();
  out->logit_bias.assign(message.logit_bias().begin(), message.logit_bias().end());
  return OkStatus();
}

}  // namespace

Result<api::GenerateRequest> ReadGenerateRequest(v1::GenerateRequest& message) {
  api::GenerateRequest request;
  switch (message.input_case()) {
    case v1::GenerateRequest::kPrompt: {
      RETURN_IF_ERROR(api::CheckUtf8(message.prompt(), "prompt"));
      api::TextPrompt prompt;
      prompt.text = std::move(*message.mutable_prompt());
      request.prompt = std::move(prompt);
      break;
    }
    case v1::GenerateRequest::kConversation: {
      ASSIGN_OR_RETURN(request.prompt, ToChat(*message.mutable_conversation()));
      break;
    }
    case v1::GenerateRequest::INPUT_NOT_SET:
      return InvalidArgument("missing_required_parameter", "prompt or conversation must be given")
          .WithParam("prompt");
  }
  RETURN_IF_ERROR(ReadSampling(message, &request.sampling));
  if (message.n() < 0 || message.n() > api::kMaxChoices) {
    return Bad("n", "n must be 1 to " + std::to_string(api::kMaxChoices));
  }
  request.n = message.n() == 0 ? 1 : message.n();
  request.model = message.model();
  ASSIGN_OR_RETURN(request.constraint, ReadConstraint(message));
  if (message.has_thinking_token_budget()) {
    if (message.thinking_token_budget() < 0)
      return Bad("thinking_token_budget", "thinking_token_budget must not be negative");
    request.max_reasoning_tokens = message.thinking_token_budget();
  }
  return request;
}

}  // namespace tutti::rpc
