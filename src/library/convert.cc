#include "library/convert.h"

#include <chrono>
#include <utility>

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
      out.messages.push_back(
          {ToApi(message.role), std::move(message.content), std::move(message.name)});
    }
    out.add_generation_prompt = chat->add_generation_prompt;
    out.continue_final_message = chat->continue_final_message;
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
  return out;
}

TokenLogprobs FromApi(const api::TokenLogprobs& in) {
  TokenLogprobs out{.chosen = FromApi(in.chosen)};
  for (const api::Logprob& logprob : in.top) out.top.push_back(FromApi(logprob));
  return out;
}

Usage FromApi(const api::Usage& in) {
  return {in.prompt_tokens, in.cached_tokens, in.completion_tokens};
}

Timings FromApi(const api::Timings& in) { return {in.prepare, in.queue, in.prefill, in.decode}; }

}  // namespace tutti::library
