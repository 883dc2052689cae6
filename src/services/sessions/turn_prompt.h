// Builds the prompt of a turn: system prompt, as much of the history as fits, and the new message.
// Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "api/types.h"
#include "base/status.h"
#include "services/sessions/context_window.h"
#include "services/sessions/history.h"

namespace tutti::sessions {

struct TurnPrompt {
  api::ChatPrompt prompt;
  int64_t first_place = 1;  // of the dialog's turns that went in, from here on
  // Left out now that were not before.
  int64_t dropped_turns = 0, dropped_items = 0;
};

// `items` are in order of place; earlier cuts have omitted those before `first_place`.
// `fixed_tokens`: tokens of everything except the items. Errors: context_length_exceeded.
Result<TurnPrompt> BuildPrompt(const ContextWindow& window, const std::string& system,
                               std::span<const Item> items, int64_t first_place,
                               const std::vector<api::ChatMessage>& input, int fixed_tokens);

}  // namespace tutti::sessions
