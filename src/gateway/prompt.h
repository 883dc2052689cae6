// Preparation of prompts: chat template, tokenizer, truncation. Pure; any thread.
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
  std::string text;  // the whole rendered prompt; empty for tokens and for fill-in-the-middle
};

// Name of the request field that holds the prompt: "messages" or "prompt".
std::string PromptParam(const api::Prompt& prompt);

// Renders and tokenizes a prompt. `now_unix_s` is the date that a template may print. `keep_last`
// (>= 1): keep at most this many tokens, the last ones. Errors: empty_prompt, token_out_of_range,
// invalid_value (no chat template; the template refused the chat), template_*, those of
// EncodeInfill().
Result<PreparedPrompt> PreparePrompt(const ServedModel& model, const api::Prompt& prompt,
                                     int64_t now_unix_s,
                                     std::optional<int> keep_last = std::nullopt);

}  // namespace tutti::gateway
