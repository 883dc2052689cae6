// Preparation of prompts: chat template, tokenizer, truncation, fill-in-the-middle. Pure; any
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

// Tokens of a prompt with a suffix, in the order of the model family's training: begin-of-text if
// the model uses it, the context files, then prefix and suffix after their marker tokens. Text
// never yields special tokens. Errors: unsupported_parameter for "suffix" (the model has no such
// markers), invalid_utf8.
Result<std::vector<TokenId>> EncodeInfill(const ServedModel& model, const api::TextPrompt& prompt);

// Tokens that end the answer to `prompt`: those of the model, and for fill-in-the-middle also the
// marker tokens, which follow the answer in the training texts.
std::vector<TokenId> EndTokens(const ServedModel& model, const api::Prompt& prompt);

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
