#include "services/sessions/call_message.h"

#include <limits>
#include <utility>

namespace tutti::sessions {
namespace {

// The words of the schema.
BusyPolicy PolicyOf(std::string_view word) {
  if (word == "reject") return BusyPolicy::kReject;
  if (word == "interrupt") return BusyPolicy::kInterrupt;
  if (word == "rollback") return BusyPolicy::kRollback;
  if (word == "steer") return BusyPolicy::kSteer;
  return BusyPolicy::kEnqueue;
}

}  // namespace

std::vector<api::ChatMessage> MessagesOf(std::span<const wire::InputItem> items) {
  std::vector<api::ChatMessage> messages;
  for (const wire::InputItem& item : items) messages.push_back({item.role, item.text, ""});
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

Message MessageOf(wire::ResponsesCall call, wire::ResponseState skeleton) {
  Message message;
  message.id = std::move(call.message_id);
  message.input = MessagesOf(call.input);
  message.state = std::move(skeleton);
  message.system_prompt = std::move(call.instructions);
  message.policy = PolicyOf(call.policy);
  message.expected_last_item_id = std::move(call.expected_last_item_id);
  if (!call.truncate)
    message.window = {.limit = std::numeric_limits<int>::max(), .truncate = false};
  message.request = std::move(call.request);
  return message;
}

}  // namespace tutti::sessions
