#include "library/convert.h"

#include <chrono>
#include <utility>
#include <variant>

#include "api/output_parser.h"

namespace tutti::library {
namespace {

api::Role ToApi(Role role) {
  switch (role) {
    case Role::kSystem:
      return api::Role::kSystem;
    case Role::kUser:
      return api::Role::kUser;
    case Role::kAssistant:
      return api::Role::kAssistant;
    case Role::kTool:
      return api::Role::kTool;
  }
  return api::Role::kUser;
}

api::Priority ToApi(Priority priority) {
  switch (priority) {
    case Priority::kInteractive:
      return api::Priority::kInteractive;
    case Priority::kFlex:
      return api::Priority::kFlex;
    case Priority::kBatch:
      return api::Priority::kBatch;
  }
  return api::Priority::kInteractive;
}

api::ToolChoice::Kind ToApi(ToolChoice::Kind kind) {
  switch (kind) {
    case ToolChoice::Kind::kAuto:
      return api::ToolChoice::Kind::kAuto;
    case ToolChoice::Kind::kNone:
      return api::ToolChoice::Kind::kNone;
    case ToolChoice::Kind::kRequired:
      return api::ToolChoice::Kind::kRequired;
    case ToolChoice::Kind::kNamed:
      return api::ToolChoice::Kind::kNamed;
  }
  return api::ToolChoice::Kind::kAuto;
}

api::Constraint::Kind ToApi(Constraint::Kind kind) {
  switch (kind) {
    case Constraint::Kind::kJsonObject:
      return api::Constraint::Kind::kJsonObject;
    case Constraint::Kind::kJsonSchema:
      return api::Constraint::Kind::kJsonSchema;
    case Constraint::Kind::kRegex:
      return api::Constraint::Kind::kRegex;
    case Constraint::Kind::kChoice:
      return api::Constraint::Kind::kChoice;
    case Constraint::Kind::kGrammar:
      return api::Constraint::Kind::kGrammar;
    case Constraint::Kind::kStructuralTag:
      return api::Constraint::Kind::kStructuralTag;
  }
  return api::Constraint::Kind::kJsonObject;
}

api::SamplingParams ToApi(SamplingParams in) {
  api::SamplingParams out;
  out.temperature = in.temperature;
  out.top_p = in.top_p;
  out.top_k = in.top_k;
  out.min_p = in.min_p;
  out.repetition_penalty = in.repetition_penalty;
  out.presence_penalty = in.presence_penalty;
  out.frequency_penalty = in.frequency_penalty;
  out.logit_bias = std::move(in.logit_bias);
  out.allowed_token_ids = std::move(in.allowed_token_ids);
  out.banned_token_ids = std::move(in.banned_token_ids);
  out.seed = in.seed;
  out.max_tokens = in.max_tokens;
  out.min_tokens = in.min_tokens;
  out.stop = std::move(in.stop);
  out.stop_token_ids = std::move(in.stop_token_ids);
  out.ignore_eos = in.ignore_eos;
  out.include_stop_in_output = in.include_stop_in_output;
  out.skip_special_tokens = in.skip_special_tokens;
  out.logprobs = in.logprobs;
  out.prompt_logprobs = in.prompt_logprobs;
  return out;
}

// One list of codes behind both: ToError casts.
constexpr std::pair<StatusCode, ErrorCode> kCodes[] = {
    {StatusCode::kOk, ErrorCode::kOk},
    {StatusCode::kCancelled, ErrorCode::kCancelled},
    {StatusCode::kUnknown, ErrorCode::kUnknown},
    {StatusCode::kInvalidArgument, ErrorCode::kInvalidArgument},
    {StatusCode::kDeadlineExceeded, ErrorCode::kDeadlineExceeded},
    {StatusCode::kNotFound, ErrorCode::kNotFound},
    {StatusCode::kAlreadyExists, ErrorCode::kAlreadyExists},
    {StatusCode::kPermissionDenied, ErrorCode::kPermissionDenied},
    {StatusCode::kResourceExhausted, ErrorCode::kResourceExhausted},
    {StatusCode::kFailedPrecondition, ErrorCode::kFailedPrecondition},
    {StatusCode::kAborted, ErrorCode::kAborted},
    {StatusCode::kOutOfRange, ErrorCode::kOutOfRange},
    {StatusCode::kUnimplemented, ErrorCode::kUnimplemented},
    {StatusCode::kInternal, ErrorCode::kInternal},
    {StatusCode::kUnavailable, ErrorCode::kUnavailable},
    {StatusCode::kDataLoss, ErrorCode::kDataLoss},
    {StatusCode::kUnauthenticated, ErrorCode::kUnauthenticated}};
constexpr bool CodesAgree() {
  for (const auto& [inside, outside] : kCodes) {
    if (static_cast<int>(inside) != static_cast<int>(outside)) return false;
  }
  return true;
}
static_assert(CodesAgree());

Logprob FromApi(const api::Logprob& in) { return {in.token, in.logprob, in.bytes}; }

void Append(const Token& token, Choice* choice) {
  choice->text += token.text;
  choice->reasoning += token.reasoning;
  api::AddCallDeltas(token.tool_calls, &choice->tool_calls);
}

}  // namespace

Error ToError(const Status& status) {
  return Error(static_cast<ErrorCode>(status.code()), status.reason(), status.message())
      .WithParam(status.param())
      .WithRetryAfter(status.retry_after());
}

api::Prompt ToApi(Prompt prompt) {
  if (Chat* chat = std::get_if<Chat>(&prompt)) {
    api::ChatPrompt out;
    for (Message& message : chat->messages) {
      api::ChatMessage& added = out.messages.emplace_back(api::ChatMessage{
          ToApi(message.role), std::move(message.content), std::move(message.name)});
      for (ToolCall& call : message.tool_calls) {
        added.tool_calls.push_back(
            {std::move(call.id), std::move(call.name), std::move(call.arguments)});
      }
      added.tool_call_id = std::move(message.tool_call_id);
      added.reasoning = std::move(message.reasoning);
    }
    out.add_generation_prompt = chat->add_generation_prompt;
    out.continue_final_message = chat->continue_final_message;
    for (Tool& tool : chat->tools) {
      const std::string param = "tools[" + std::to_string(out.tools.size()) + "]";
      out.tools.push_back({.name = std::move(tool.name),
                           .description = std::move(tool.description),
                           .parameters = std::move(tool.parameters),
                           .strict = tool.strict,
                           .param = param});
    }
    out.tool_choice = {ToApi(chat->tool_choice.kind), std::move(chat->tool_choice.name)};
    out.parallel_tool_calls = chat->parallel_tool_calls;
    out.template_arguments = std::move(chat->template_arguments);
    return out;
  }
  if (Text* text = std::get_if<Text>(&prompt)) {
    return api::TextPrompt{std::move(text->text), text->add_special, text->parse_special};
  }
  return api::TokenPrompt{std::move(std::get<Tokens>(prompt).ids)};
}

api::GenerateRequest ToApi(Request in) {
  api::GenerateRequest out;
  out.prompt = ToApi(std::move(in.prompt));
  out.sampling = ToApi(std::move(in.sampling));
  out.score_only = out.sampling.max_tokens == 0;
  out.n = in.n;
  out.priority = ToApi(in.priority);
  if (in.timeout.has_value()) out.deadline = After(std::chrono::steady_clock::now(), *in.timeout);
  out.truncate_prompt_tokens = in.truncate_prompt_tokens;
  out.use_prefix_cache = in.use_prefix_cache;
  out.tenant = std::move(in.tenant);
  out.cache_salt = std::move(in.cache_salt);
  if (in.constraint.has_value()) {
    out.constraint = api::Constraint{.kind = ToApi(in.constraint->kind),
                                     .text = std::move(in.constraint->text),
                                     .choices = std::move(in.constraint->choices),
                                     .param = "constraint"};
  }
  out.max_reasoning_tokens = in.max_reasoning_tokens;
  return out;
}

TokenLogprobs FromApi(const api::TokenLogprobs& in) {
  TokenLogprobs out{.chosen = FromApi(in.chosen)};
  for (const api::Logprob& logprob : in.top) out.top.push_back(FromApi(logprob));
  return out;
}

FinishReason FromApi(api::FinishReason in) {
  switch (in) {
    case api::FinishReason::kStop:
      return FinishReason::kStop;
    case api::FinishReason::kLength:
      return FinishReason::kLength;
    case api::FinishReason::kToolCalls:
      return FinishReason::kToolCalls;
  }
  return FinishReason::kStop;
}

std::vector<ToolCallDelta> FromApi(const std::vector<api::ToolCallDelta>& in) {
  std::vector<ToolCallDelta> out;
  out.reserve(in.size());
  for (const api::ToolCallDelta& delta : in)
    out.push_back({delta.index, delta.id, delta.name, delta.arguments});
  return out;
}

Usage FromApi(const api::Usage& in) {
  return {in.prompt_tokens, in.cached_tokens, in.completion_tokens, in.reasoning_tokens};
}

Timings FromApi(const api::Timings& in) { return {in.prepare, in.queue, in.prefill, in.decode}; }

std::optional<Token> Collector::Take(const api::StreamEvent& event) {
  using Kind = api::StreamEvent::Kind;
  switch (event.kind) {
    case Kind::kStarted:
      completion_.usage = FromApi(event.usage);
      return std::nullopt;
    case Kind::kPromptToken:
      completion_.prompt.push_back(event.logprobs
                                       ? FromApi(*event.logprobs)
                                       : TokenLogprobs{.chosen = {.token = event.token}});
      return std::nullopt;
    case Kind::kEnd:
      ended_ = true;
      completion_.usage = FromApi(event.usage);
      completion_.timings = FromApi(event.timings);
      return std::nullopt;
    case Kind::kToken: {
      Choice& choice = completion_.choices[static_cast<size_t>(event.choice)];
      Token token{.id = event.token,
                  .text = event.text,
                  .choice = event.choice,
                  .reasoning = event.reasoning,
                  .tool_calls = FromApi(event.tool_calls)};
      if (event.logprobs) token.logprobs = FromApi(*event.logprobs);
      choice.tokens.push_back(token.id);
      Append(token, &choice);
      if (token.logprobs) choice.logprobs.push_back(*token.logprobs);
      return token;
    }
    case Kind::kChoiceEnd: {
      Choice& choice = completion_.choices[static_cast<size_t>(event.choice)];
      ended_choices_ |= uint32_t{1} << event.choice;
      choice.finish_reason = FromApi(event.finish_reason);
      choice.stop_reason = event.stop_reason;
      Token token{.text = event.text,
                  .choice = event.choice,
                  .reasoning = event.reasoning,
                  .tool_calls = FromApi(event.tool_calls)};
      Append(token, &choice);
      if (token.text.empty() && token.reasoning.empty() && token.tool_calls.empty())
        return std::nullopt;
      return token;
    }
  }
  return std::nullopt;
}

void Collector::MarkCancelled() {
  int tokens = 0;
  for (size_t i = 0; i < completion_.choices.size(); ++i) {
    Choice& choice = completion_.choices[i];
    if ((ended_choices_ >> i & 1) == 0) choice.finish_reason = FinishReason::kCancelled;
    tokens += static_cast<int>(choice.tokens.size());
  }
  completion_.usage.completion_tokens = tokens;
}

}  // namespace tutti::library
