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
  std::string text;  // the rendered prompt; empty for token prompts
};

// Errors: empty_prompt, token_out_of_range, invalid_value (no chat template; the template refused
// the chat), template_*. `now_unix_s` is the date a template may print.
Result<PreparedPrompt> PreparePrompt(const ServedModel& model, const api::Prompt& prompt,
                                     int64_t now_unix_s);

// Bytes of text (or of token ids) a prompt holds: what decides where it is prepared and what it
// weighs in the queue.

}  // namespace tutti::gateway
