#include "protocol/responses/state.h"

#include <algorithm>

namespace tutti::protocol {

std::string MessageItemId(const ResponseState& state, size_t n) {
  return n == 0 ? state.item_id : state.item_id + "_" + std::to_string(n);
}

std::string CallItemId(const ResponseState& state, size_t n) {
  return "fc_" + state.item_id.substr(state.item_id.find('_') + 1) + "_" + std::to_string(n);
}

std::string ReasoningItemId(const ResponseState& state, size_t n) {
  const std::string first = "rs_" + state.item_id.substr(state.item_id.find('_') + 1);
  return n == 0 ? first : first + "_" + std::to_string(n);
}

std::vector<OutputItem> OutputOf(const ResponseState& state) {
  std::vector<OutputItem> items;
  size_t at = 0, messages = 0, thoughts = 0;
  auto token = state.tokens.begin();
  const auto say_until = [&](size_t end) {
    if (end <= at) return;
    items.push_back({MessageItemId(state, messages++), state.text.substr(at, end - at)});
    for (; token != state.tokens.end() && token->text_before < end; ++token)
      items.back().tokens.push_back(token->logprobs);
    at = end;
  };
  auto thought = state.reasoning.begin();
  const auto think_until = [&](size_t call) {
    for (; thought != state.reasoning.end() && thought->calls_before <= call; ++thought) {
      if (thought->text.empty()) continue;  // of a record that cannot be trusted
      say_until(std::min(thought->text_before, state.text.size()));
      items.push_back(
          {.id = ReasoningItemId(state, thoughts++), .text = thought->text, .reasoning = true});
    }
  };
  for (size_t i = 0; i < state.calls.size(); ++i) {
    think_until(i);
    say_until(std::min(state.calls[i].text_before, state.text.size()));
    items.push_back({.id = CallItemId(state, i), .call = state.calls[i].call});
  }
  think_until(SIZE_MAX);
  say_until(state.text.size());
  const bool answered = items.size() > thoughts;
  if ((state.status == ResponseStatus::kCompleted && !answered) ||
      (state.status == ResponseStatus::kIncomplete && items.empty()))
    items.push_back({.id = MessageItemId(state, 0)});
  return items;
}

std::string_view LastItemStatus(ResponseStatus status) {
  if (!IsFinal(status)) return "in_progress";
  return status == ResponseStatus::kCompleted ? "completed" : "incomplete";
}

}  // namespace tutti::protocol
