#include "api/validate.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <unordered_set>

#include "base/ascii.h"
#include "base/utf8.h"

namespace tutti::api {
namespace {

// "2", "-0.5": limits as people write them.
std::string Figure(double number) {
  std::array<char, 32> digits;
  return {digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr};
}

Status CheckRange(const char* param, double value, double low, double high) {
  if (std::isfinite(value) && value >= low && value <= high) return OkStatus();
  return BadValue(param, std::string(param) + " must be between " + Figure(low) + " and " +
                             Figure(high) + ", not " + Figure(value));
}

Status CheckSize(const char* param, size_t size, size_t limit) {
  if (size <= limit) return OkStatus();
  return BadValue(param, std::string(param) + " has " + std::to_string(size) +
                             " entries; at most " + std::to_string(limit) + " are allowed");
}

Status CheckLabel(const std::string& label) {
  if (label.empty() || label.size() > kMaxLabelBytes) {
    return BadValue("continuation",
                    "a label must hold 1 to " + std::to_string(kMaxLabelBytes) + " bytes");
  }
  return CheckUtf8(label, "continuation");
}

Status ValidateToolCalls(const ChatPrompt& chat) {
  for (size_t i = 0; i < chat.messages.size(); ++i) {
    const ChatMessage& message = chat.messages[i];
    const std::string path = ElementPath("messages", i);
    if (message.tool_calls.size() > kMaxToolCalls) {
      return BadValue(path + ".tool_calls",
                      "a message has at most " + std::to_string(kMaxToolCalls) + " calls");
    }
    if (!message.tool_calls.empty() && message.role != Role::kAssistant)
      return BadValue(path + ".tool_calls", "only messages of role assistant have tool_calls");
    RETURN_IF_ERROR(CheckUtf8(message.tool_call_id, path + ".tool_call_id"));
    RETURN_IF_ERROR(CheckUtf8(message.reasoning, path + ".reasoning"));
    for (const ToolCall& call : message.tool_calls) {
      RETURN_IF_ERROR(CheckUtf8(call.id, path + ".tool_calls"));
      RETURN_IF_ERROR(CheckUtf8(call.name, path + ".tool_calls"));
      RETURN_IF_ERROR(CheckUtf8(call.arguments, path + ".tool_calls"));
    }
  }
  return OkStatus();
}

}  // namespace

Status ValidateTools(const ChatPrompt& chat) {
  RETURN_IF_ERROR(CheckSize("tools", chat.tools.size(), kMaxTools));
  std::unordered_set<std::string_view> names;
  for (size_t i = 0; i < chat.tools.size(); ++i) {
    const Tool& tool = chat.tools[i];
    const std::string param = tool.param.empty() ? ElementPath("tools", i) : tool.param;
    if (!IsToolName(tool.name)) {
      return BadValue(param + ".name",
                      "a tool's name must be 1 to 64 of letters, digits, _, . and -");
    }
    if (!names.insert(tool.name).second)
      return BadValue(param + ".name", "two tools are named " + tool.name);
    RETURN_IF_ERROR(CheckUtf8(tool.description, param + ".description"));
    RETURN_IF_ERROR(CheckUtf8(tool.parameters, param + "." + tool.schema_field));
  }
  const ToolChoice& choice = chat.tool_choice;
  if (choice.kind == ToolChoice::Kind::kRequired && chat.tools.empty())
    return BadValue("tool_choice", "tool_choice required needs at least one tool");
  if (choice.kind == ToolChoice::Kind::kNamed && !names.contains(choice.name))
    return BadValue("tool_choice", "tool_choice names a function that tools does not list");
  return OkStatus();
}

Status CheckTenantWeight(double weight) {
  return CheckRange("tenant_weight", weight, kMinTenantWeight, kMaxTenantWeight);
}

Status ValidateRequest(const GenerateRequest& request) {
  const SamplingParams& p = request.sampling;
  RETURN_IF_ERROR(CheckTenantWeight(request.tenant_weight));
  RETURN_IF_ERROR(CheckRange("temperature", p.temperature, 0, kMaxTemperature));
  RETURN_IF_ERROR(CheckRange("top_p", p.top_p, 0, 1));
  RETURN_IF_ERROR(CheckRange("min_p", p.min_p, 0, 1));
  if (p.top_k < -1) {
    return BadValue("top_k",
                    "top_k must be -1, 0 (both: off) or positive, not " + std::to_string(p.top_k));
  }
  if (!(p.repetition_penalty > 0) || !(p.repetition_penalty <= kMaxRepetitionPenalty)) {
    return BadValue(
        "repetition_penalty",
        "repetition_penalty must be above 0 and at most 10, not " + Figure(p.repetition_penalty));
  }
  RETURN_IF_ERROR(CheckRange("presence_penalty", p.presence_penalty, -kMaxPenalty, kMaxPenalty));
  RETURN_IF_ERROR(CheckRange("frequency_penalty", p.frequency_penalty, -kMaxPenalty, kMaxPenalty));
  RETURN_IF_ERROR(CheckSize("logit_bias", p.logit_bias.size(), kMaxLogitBias));
  for (const auto& [id, bias] : p.logit_bias) {
    RETURN_IF_ERROR(CheckRange("logit_bias", bias, -kMaxLogitBiasValue, kMaxLogitBiasValue));
  }
  RETURN_IF_ERROR(CheckSize("allowed_token_ids", p.allowed_token_ids.size(), kMaxTokenIdList));
  RETURN_IF_ERROR(CheckSize("banned_token_ids", p.banned_token_ids.size(), kMaxTokenIdList));
  RETURN_IF_ERROR(CheckSize("stop_token_ids", p.stop_token_ids.size(), kMaxStopTokens));
  RETURN_IF_ERROR(CheckSize("stop", p.stop.size(), kMaxStops));
  for (const std::string& stop : p.stop) {
    if (stop.empty() || stop.size() > kMaxStopBytes) {
      return BadValue("stop",
                      "a stop string must hold 1 to " + std::to_string(kMaxStopBytes) + " bytes");
    }
    RETURN_IF_ERROR(CheckUtf8(stop, "stop"));
  }
  if (p.logprobs < -1 || p.logprobs > kMaxLogprobs)
    return BadValue("logprobs", "at most 20 log-probabilities per token");
  if (p.prompt_logprobs < -1 || p.prompt_logprobs > kMaxLogprobs) {
    return BadValue("prompt_logprobs", "at most 20 log-probabilities per token");
  }
  if (request.continuation.has_value()) {
    const Continuation& continuation = *request.continuation;
    if (!request.score_only || p.prompt_logprobs >= 0 || request.truncate_prompt_tokens)
      return BadValue("continuation", "a continuation is scored alone, after a whole prompt");
    RETURN_IF_ERROR(CheckSize("continuation", continuation.others.size(), kMaxLabels - 1));
    RETURN_IF_ERROR(CheckLabel(continuation.text));
    for (const std::string& other : continuation.others) RETURN_IF_ERROR(CheckLabel(other));
    const Continuation::Classes& classes = continuation.classes;
    const size_t labels = 1 + continuation.others.size();
    if ((!classes.names.empty() && classes.names.size() != labels) ||
        (classes.yes_or_no && labels != 2))
      return BadValue("continuation", "the labels and the names of their classes do not match");
    for (const std::string& name : classes.names) RETURN_IF_ERROR(CheckLabel(name));
  }
  if (request.score_only) {
    if (p.max_tokens.value_or(0) != 0)
      return BadValue("max_tokens", "scoring generates no tokens: max_tokens must be 0");
  } else if (p.max_tokens.has_value() && *p.max_tokens < 1) {
    return BadValue("max_tokens",
                    "max_tokens must be at least 1, not " + std::to_string(*p.max_tokens));
  }
  if (p.min_tokens < 0) return BadValue("min_tokens", "min_tokens must not be negative");
  if (p.max_tokens.has_value() && p.min_tokens > *p.max_tokens) {
    return BadValue("min_tokens", "min_tokens must not exceed max_tokens");
  }
  RETURN_IF_ERROR(CheckRange("n", request.n, 1, kMaxChoices));
  if (request.request_id.size() > kMaxRequestIdBytes)
    return BadValue("request_id", "request_id is longer than 128 bytes");
  if (request.max_reasoning_tokens.has_value() && *request.max_reasoning_tokens < 0)
    return BadValue("max_reasoning_tokens", "max_reasoning_tokens must not be negative");
  RETURN_IF_ERROR(CheckUtf8(request.prediction, "prediction"));
  if (request.constraint) {
    const Constraint& constraint = *request.constraint;
    RETURN_IF_ERROR(CheckUtf8(constraint.text, constraint.param));
    for (const std::string& choice : constraint.choices)
      RETURN_IF_ERROR(CheckUtf8(choice, constraint.param));
  }
  if (request.truncate_prompt_tokens.has_value() && *request.truncate_prompt_tokens < 1) {
    return BadValue("truncate_prompt_tokens", "truncate_prompt_tokens must be at least 1");
  }
  if (const TextPrompt* text = std::get_if<TextPrompt>(&request.prompt)) {
    // The first tokens of such a prompt mark its parts: without them it is another prompt.
    if (text->suffix.has_value() && request.truncate_prompt_tokens.has_value()) {
      return BadValue(
          "truncate_prompt_tokens",
          "truncate_prompt_tokens and suffix exclude each other; shorten the texts instead");
    }
    if (!text->files.empty() && !text->suffix.has_value())
      return BadValue("suffix", "context files need a suffix, which may be empty");
    RETURN_IF_ERROR(CheckSize("files", text->files.size(), kMaxContextFiles));
  }
  if (const ChatPrompt* chat = std::get_if<ChatPrompt>(&request.prompt)) {
    if (chat->messages.empty())
      return BadValue("messages", "messages must hold at least one message");
    RETURN_IF_ERROR(CheckSize("messages", chat->messages.size(), kMaxMessages));
    if (chat->add_generation_prompt && chat->continue_final_message) {
      return BadValue("continue_final_message",
                      "continue_final_message excludes add_generation_prompt");
    }
    RETURN_IF_ERROR(ValidateLastMessage(*chat, "messages"));
    RETURN_IF_ERROR(ValidateTools(*chat));
    RETURN_IF_ERROR(ValidateToolCalls(*chat));
  }
  return OkStatus();
}

bool IsToolName(std::string_view name) {
  constexpr std::string_view kAllowed =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
  return !name.empty() && name.size() <= kMaxToolNameBytes &&
         name.find_first_not_of(kAllowed) == std::string_view::npos;
}

Status ValidateLastMessage(const ChatPrompt& chat, const std::string& param) {
  if (chat.continue_final_message && chat.messages.back().role != Role::kAssistant)
    return BadValue(param, "continue_final_message needs a last message of role assistant");
  return OkStatus();
}

Status CheckTokens(const std::vector<TokenId>& ids, int vocab_size, const std::string& param) {
  for (const TokenId id : ids) {
    if (id < 0 || id >= vocab_size) {
      return InvalidArgument("token_out_of_range", "token id " + std::to_string(id) +
                                                       " is outside the vocabulary of " +
                                                       std::to_string(vocab_size))
          .WithParam(param);
    }
  }
  return OkStatus();
}

Status ValidateTokenIds(const SamplingParams& params, int vocab_size) {
  std::vector<TokenId> biased;
  for (const auto& [id, bias] : params.logit_bias) biased.push_back(id);
  RETURN_IF_ERROR(CheckTokens(biased, vocab_size, "logit_bias"));
  RETURN_IF_ERROR(CheckTokens(params.stop_token_ids, vocab_size, "stop_token_ids"));
  RETURN_IF_ERROR(CheckTokens(params.allowed_token_ids, vocab_size, "allowed_token_ids"));
  RETURN_IF_ERROR(CheckTokens(params.banned_token_ids, vocab_size, "banned_token_ids"));
  const std::unordered_set<TokenId> banned(params.banned_token_ids.begin(),
                                           params.banned_token_ids.end());
  const bool all_banned =
      params.allowed_token_ids.empty()
          ? banned.size() >= static_cast<size_t>(vocab_size)
          : std::all_of(params.allowed_token_ids.begin(), params.allowed_token_ids.end(),
                        [&](TokenId id) { return banned.contains(id); });
  if (all_banned)
    return InvalidArgument("invalid_logit_mask", "every token of the vocabulary is banned");
  return OkStatus();
}

Status CheckUtf8(std::string_view text, const std::string& param) {
  const size_t good = ValidUtf8Prefix(text);
  if (good == text.size()) return OkStatus();
  return InvalidArgument("invalid_utf8", param + " is not UTF-8: byte 0x" +
                                             ToHex(text.substr(good, 1)) + " at offset " +
                                             std::to_string(good))
      .WithParam(param);
}

size_t PromptBytes(const Prompt& prompt) {
  constexpr size_t kMessage = 64;  // role, name, and what the template writes around it
  if (const auto* chat = std::get_if<ChatPrompt>(&prompt)) {
    size_t bytes = 0;
    for (const ChatMessage& message : chat->messages) {
      bytes += kMessage + message.content.size() + message.name.size() +
               message.part_ends.size() * sizeof(size_t) + message.tool_call_id.size() +
               message.reasoning.size();
      for (const ToolCall& call : message.tool_calls)
        bytes += kMessage + call.id.size() + call.name.size() + call.arguments.size();
    }
    for (const Tool& tool : chat->tools)
      bytes += kMessage + tool.name.size() + tool.description.size() + tool.parameters.size();
    return bytes + chat->template_arguments.size();
  }
  if (const auto* text = std::get_if<TextPrompt>(&prompt)) {
    size_t bytes = text->text.size() + text->suffix.value_or("").size();
    for (const ContextFile& file : text->files)
      bytes += kMessage + file.name.size() + file.text.size();
    return bytes;
  }
  return std::get<TokenPrompt>(prompt).tokens.size() * sizeof(TokenId);
}

size_t RequestBytes(const GenerateRequest& request) {
  const SamplingParams& s = request.sampling;
  const size_t ids =
      s.allowed_token_ids.size() + s.banned_token_ids.size() + s.stop_token_ids.size();
  size_t bytes = PromptBytes(request.prompt) + ids * sizeof(TokenId) +
                 s.logit_bias.size() * sizeof(s.logit_bias[0]) + request.request_id.size() +
                 request.tenant.size() + request.cache_salt.size() + request.prediction.size();
  if (request.constraint) {
    bytes += request.constraint->text.size();
    for (const std::string& choice : request.constraint->choices) bytes += choice.size();
  }
  for (const std::string& stop : s.stop) bytes += stop.size();
  if (request.continuation) {
    bytes += request.continuation->text.size();
    for (const std::string& other : request.continuation->others) bytes += other.size();
    for (const std::string& name : request.continuation->classes.names) bytes += name.size();
  }
  return bytes;
}

Status ModelNotFound(std::string_view name) {
  name = name.substr(0, 64);
  name = name.substr(0, ValidUtf8Prefix(name));
  return NotFound("model_not_found",
                  "model \"" + std::string(name) + "\" is not served here; see /v1/models")
      .WithParam("model");
}

Status CheckPairBytes(size_t query_bytes, size_t documents, size_t document_bytes,
                      const std::string& param) {
  size_t bytes = 0;
  const bool wraps = __builtin_mul_overflow(query_bytes, documents, &bytes) ||
                     __builtin_add_overflow(bytes, document_bytes, &bytes);
  if (!wraps && bytes <= kMaxPairBytes) return OkStatus();
  const std::string size = wraps ? "more than 2^64" : std::to_string(bytes);
  return ResourceExhausted("request_too_large",
                           "texts, each with the query, have " + size + " bytes, limit " +
                               std::to_string(kMaxPairBytes) + "; send fewer texts per request")
      .WithParam(param);
}

Status TooManyPieces(size_t tokens) {
  return InvalidArgument("invalid_value", std::to_string(tokens) +
                                              " tokens with text exceed the limit of " +
                                              std::to_string(kMaxPieces) +
                                              " per answer; split the text or request ids only");
}

}  // namespace tutti::api
