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

Message MessageOf(protocol::ResponsesCall call, protocol::ResponseState skeleton) {
  Message message;
  message.id = std::move(call.message_id);
  message.input = responses::MessagesOf(call.input);
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
