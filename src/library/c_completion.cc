// Answers in the C interface.
#include <algorithm>
#include <limits>
#include <variant>

#include "library/c_handles.h"

namespace {

const tutti::Choice* Find(const tutti_completion* completion, int choice) {
  if (completion == nullptr || choice < 0) return nullptr;
  const auto& choices = completion->completion.choices;
  return static_cast<size_t>(choice) < choices.size() ? &choices[static_cast<size_t>(choice)]
                                                      : nullptr;
}

// The position of a choice, or of the prompt for -1; null if there is none.
const tutti::TokenLogprobs* FindLogprobs(const tutti_completion* completion, int choice,
                                         size_t position) {
  const tutti::Choice* found = Find(completion, choice);
  if (found == nullptr && (completion == nullptr || choice != -1)) return nullptr;
  const auto& positions = found == nullptr ? completion->completion.prompt : found->logprobs;
  return position < positions.size() ? &positions[position] : nullptr;
}

tutti_logprob ViewLogprob(const tutti::Logprob& logprob) {
  return {.id = logprob.token,
          .logprob = logprob.logprob,
          .bytes = logprob.bytes.data(),
          .byte_count = logprob.bytes.size()};
}

}  // namespace

int tutti_completion_choices(const tutti_completion* completion) {
  return completion == nullptr ? 0 : static_cast<int>(completion->completion.choices.size());
}

const char* tutti_completion_text(const tutti_completion* completion, int choice) {
  const tutti::Choice* found = Find(completion, choice);
  return found == nullptr ? nullptr : found->text.c_str();
}

const int32_t* tutti_completion_tokens(const tutti_completion* completion, int choice,
                                       size_t* count) {
  const tutti::Choice* found = Find(completion, choice);
  if (count != nullptr) *count = found == nullptr ? 0 : found->tokens.size();
  return found == nullptr ? nullptr : found->tokens.data();
}

tutti_finish tutti_completion_finish(const tutti_completion* completion, int choice) {
  const tutti::Choice* found = Find(completion, choice);
  if (found == nullptr) return TUTTI_LENGTH;
  switch (found->finish_reason) {
    case tutti::FinishReason::kStop:
      return TUTTI_STOP;
    case tutti::FinishReason::kLength:
      return TUTTI_LENGTH;
    case tutti::FinishReason::kCancelled:
      return TUTTI_CANCELLED_BY_CALLER;
    case tutti::FinishReason::kToolCalls:
      return TUTTI_TOOL_CALLS;
  }
  return TUTTI_LENGTH;
}

const char* tutti_completion_reasoning(const tutti_completion* completion, int choice) {
  const tutti::Choice* found = Find(completion, choice);
  return found == nullptr ? nullptr : found->reasoning.c_str();
}

int tutti_completion_tool_calls(const tutti_completion* completion, int choice) {
  const tutti::Choice* found = Find(completion, choice);
  return found == nullptr ? 0 : static_cast<int>(found->tool_calls.size());
}

tutti_code tutti_completion_tool_call(const tutti_completion* completion, int choice, int index,
                                      tutti_tool_call* call) {
  if (call == nullptr) return TUTTI_INVALID_ARGUMENT;
  if (index < 0 || index >= tutti_completion_tool_calls(completion, choice))
    return TUTTI_OUT_OF_RANGE;
  const tutti::ToolCall& found = Find(completion, choice)->tool_calls[static_cast<size_t>(index)];
  *call = {
      .id = found.id.c_str(), .name = found.name.c_str(), .arguments = found.arguments.c_str()};
  return TUTTI_OK;
}

const char* tutti_completion_stop_text(const tutti_completion* completion, int choice) {
  const tutti::Choice* found = Find(completion, choice);
  const auto* text = found == nullptr ? nullptr : std::get_if<std::string>(&found->stop_reason);
  return text == nullptr ? nullptr : text->c_str();
}

int32_t tutti_completion_stop_token(const tutti_completion* completion, int choice) {
  const tutti::Choice* found = Find(completion, choice);
  const auto* id = found == nullptr ? nullptr : std::get_if<tutti::TokenId>(&found->stop_reason);
  return id == nullptr ? -1 : *id;
}

tutti_code tutti_completion_logprobs(const tutti_completion* completion, int choice,
                                     size_t position, tutti_logprob* entries, size_t capacity,
                                     size_t* count) {
  if (completion == nullptr || count == nullptr) return TUTTI_INVALID_ARGUMENT;
  const tutti::TokenLogprobs* found = FindLogprobs(completion, choice, position);
  if (found == nullptr) return TUTTI_OUT_OF_RANGE;
  *count = 1 + found->top.size();
  const size_t written = entries == nullptr ? 0 : std::min(capacity, *count);
  for (size_t i = 0; i < written; ++i)
    entries[i] = ViewLogprob(i == 0 ? found->chosen : found->top[i - 1]);
  if (choice == -1 && position == 0 && written > 0)
    entries[0].logprob = std::numeric_limits<float>::quiet_NaN();
  return TUTTI_OK;
}

int tutti_completion_cached_tokens(const tutti_completion* completion) {
  return completion == nullptr ? 0 : completion->completion.usage.cached_tokens;
}
int tutti_completion_prompt_tokens(const tutti_completion* completion) {
  return completion == nullptr ? 0 : completion->completion.usage.prompt_tokens;
}
int tutti_completion_completion_tokens(const tutti_completion* completion) {
  return completion == nullptr ? 0 : completion->completion.usage.completion_tokens;
}
void tutti_completion_free(tutti_completion* completion) { delete completion; }
