#include "services/sessions/turn_prompt.h"

#include <utility>

namespace tutti::sessions {

Result<TurnPrompt> BuildPrompt(const ContextWindow& window, const std::string& system,
                               std::span<const Item> items, int64_t first_place,
                               const std::vector<api::ChatMessage>& input, int fixed_tokens) {
  std::vector<int64_t> places;  // of each turn, oldest first
  std::vector<int> tokens;      // of each turn, oldest first
  for (const Item& item : items) {
    if (item.place < first_place) continue;
    if (places.empty() || places.back() != item.place) {
      places.push_back(item.place);
      tokens.push_back(0);
    }
    tokens.back() += item.tokens;
  }
  ASSIGN_OR_RETURN(const ContextCut cut, FitContext(window, tokens, 0, fixed_tokens));
  TurnPrompt built;
  built.dropped_turns = static_cast<int64_t>(cut.dropped);
  built.first_place = first_place;
  if (cut.first > 0)
    built.first_place = cut.first < places.size() ? places[cut.first] : places.back() + 1;
  std::vector<api::ChatMessage>& messages = built.prompt.messages;
  if (!system.empty()) messages.push_back({api::Role::kSystem, system, {}});
  for (const Item& item : items) {
    if (item.place >= built.first_place) {
      // Arguments that were cut short are no JSON, which templates cannot show.
      if (!item.call.has_value() || !item.incomplete) messages.push_back(MessageOf(item));
    } else if (item.place >= first_place) {
      ++built.dropped_items;
    }
  }
  messages.insert(messages.end(), input.begin(), input.end());
  return built;
}

}  // namespace tutti::sessions
