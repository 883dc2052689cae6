// Fill-in-the-middle prompts as tokens. Pure; any thread.
#pragma once

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

}  // namespace tutti::gateway
