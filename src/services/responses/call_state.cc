#include "services/responses/call_state.h"

#include <utility>

#include "services/responses/ids.h"

namespace tutti::responses {

std::vector<api::ChatMessage> MessagesOf(std::span<const wire::InputItem> items) {
  std::vector<api::ChatMessage> messages;
  for (const wire::InputItem& item : items)
    messages.push_back({item.role, item.text, "", item.part_ends});
  return messages;
}

wire::ResponseState SkeletonOf(const wire::ResponsesCall& call, std::string model,
                               std::string conversation) {
  wire::ResponseState state;
  state.status =
      call.background ? wire::ResponseStatus::kQueued : wire::ResponseStatus::kInProgress;
  state.background = call.background;
  state.store = call.store;
  state.model = std::move(model);
  state.instructions = call.instructions;
  state.max_output_tokens = call.request.sampling.max_tokens;
  state.temperature = call.request.sampling.temperature;
  state.top_p = call.request.sampling.top_p;
  state.service_tier = call.service_tier;
  state.truncation = call.truncate ? "auto" : "disabled";
  state.metadata = call.metadata;
  state.previous_response_id = call.previous_response_id;
  state.conversation = std::move(conversation);
  return state;
}

void InsertSaid(const std::vector<api::ChatMessage>& said_before, wire::ResponsesCall* call) {
  auto& messages = std::get<api::ChatPrompt>(call->request.prompt).messages;
  messages.insert(messages.end() - static_cast<ptrdiff_t>(call->input.size()), said_before.begin(),
                  said_before.end());
}

void NameState(int64_t now_s, wire::ResponseState* state) {
  if (state->id.empty()) state->id = NewId("resp_");
  if (state->item_id.empty()) state->item_id = NewId("msg_");
  if (state->created_s == 0) state->created_s = now_s;
}

}  // namespace tutti::responses
