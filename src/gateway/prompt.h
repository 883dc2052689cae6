// From a door's prompt to the tokens a model sees: template, tokeniser, truncation. Pure; any
// thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "api/types.h"
#include "base/status.h"
#include "base/types.h"
#include "gateway/served_model.h"

namespace tutti::gateway {

struct PreparedPrompt {
  std::vector<TokenId> tokens;
  std::string text;  // the rendered prompt, whole; empty for tokens, and for a text with a hole
};

// Where a request holds its prompt: "messages" or "prompt".
std::string PromptParam(const api::Prompt& prompt);

// Errors: empty_prompt, token_out_of_range, invalid_value (no chat template; the template refused
// the chat), template_*, those of EncodeInfill(). `now_unix_s` is the date a template may print.
// `keep_last`, from 1: at most so many tokens, the last ones.
Result<PreparedPrompt> PreparePrompt(const ServedModel& model, const api::Prompt& prompt,
                                     int64_t now_unix_s,
                                     std::optional<int> keep_last = std::nullopt);

}  // namespace tutti::gateway
