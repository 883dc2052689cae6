#include "wire/response_output.h"

#include <algorithm>

namespace tutti::wire {

std::string MessageItemId(const ResponseState& state, size_t n) {
  return n == 0 ? state.item_id : state.item_id + "_" + std::to_string(n);
}

std::string CallItemId(const ResponseState& state, size_t n) {
  return "fc_" + state.item_id.substr(state.item_id.find('_') + 1) + "_" + std::to_string(n);
}

std::vector<OutputItem> OutputOf(const ResponseState& state) {
  std::vector<OutputItem> items;
  size_t at = 0, messages = 0;
  const auto say_until = [&](size_t end) {
    if (end <= at) return;
    items.push_back({MessageItemId(state, messages++), state.text.substr(at, end - at)});
    at = end;
  };
  for (size_t i = 0; i < state.calls.size(); ++i) {
    say_until(std::min(state.calls[i].text_before, state.text.size()));
    items.push_back({.id = CallItemId(state, i), .call = state.calls[i].call});
  }
  say_until(state.text.size());
  const bool ended_well =
      state.status == ResponseStatus::kCompleted || state.status == ResponseStatus::kIncomplete;
  if (items.empty() && ended_well) items.push_back({.id = MessageItemId(state, 0)});
  return items;
}

std::string_view LastItemStatus(ResponseStatus status) {
  if (!IsFinal(status)) return "in_progress";
  return status == ResponseStatus::kCompleted ? "completed" : "incomplete";
}

}  // namespace tutti::wire
