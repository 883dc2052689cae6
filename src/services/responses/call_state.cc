#include "services/responses/call_state.h"

#include <utility>

#include "base/random.h"
#include "protocol/error.h"
#include "protocol/responses/state.h"
#include "services/responses/responses.h"

namespace tutti::responses {

using protocol::ResponseState;
using protocol::ResponseStatus;

std::vector<api::ChatMessage> MessagesOf(std::span<const protocol::InputItem> items) {
  std::vector<api::ChatMessage> messages;
  messages.reserve(items.size());
  for (const protocol::InputItem& item : items) messages.push_back(protocol::MessageOf(item));
  return messages;
}

std::vector<api::ChatMessage> AnswerOf(const protocol::ResponseState& end) {
  std::vector<api::ChatMessage> messages;
  const std::vector<protocol::OutputItem> output = protocol::OutputOf(end);
  for (size_t i = 0; i < output.size(); ++i) {
    const bool cut = i + 1 == output.size() && end.status != protocol::ResponseStatus::kCompleted;
    if (output[i].call.has_value() && cut) break;
    api::ChatMessage& message = messages.emplace_back();
    message.role = api::Role::kAssistant;
    (output[i].reasoning ? message.reasoning : message.content) = output[i].text;
    if (output[i].call.has_value()) message.tool_calls = {*output[i].call};
  }
  return messages;
}

namespace {

bool IsAssistant(const std::vector<api::ChatMessage>& messages) {
  return !messages.empty() && messages.back().role == api::Role::kAssistant;
}

void AddThought(std::string thought, std::string* reasoning) {
  if (!reasoning->empty() && !thought.empty()) *reasoning += '\n';
  *reasoning += thought;
}

// Extends the answer: with a call, or with text after reasoning.
void Extend(api::ChatMessage* before, api::ChatMessage message) {
  if (!message.content.empty()) {
    before->content += message.content;
    before->part_ends.clear();
  }
  AddThought(std::move(message.reasoning), &before->reasoning);
  for (api::ToolCall& call : message.tool_calls) before->tool_calls.push_back(std::move(call));
}

}  // namespace

void JoinItems(api::Prompt* prompt) {
  auto* chat = std::get_if<api::ChatPrompt>(prompt);
  if (chat == nullptr) return;
  std::vector<api::ChatMessage> joined;
  joined.reserve(chat->messages.size());
  std::string thought;  // which no message has yet
  // An answer that has nothing but reasoning is an empty one, or roles would not alternate.
  const auto end_answer = [&] {
    if (!std::exchange(thought, {}).empty() && !IsAssistant(joined))
      joined.push_back({api::Role::kAssistant, "", ""});
  };
  for (api::ChatMessage& message : chat->messages) {
    if (protocol::IsReasoning(message)) {
      AddThought(std::move(message.reasoning), &thought);
      continue;
    }
    if (message.role != api::Role::kAssistant) {
      end_answer();
      joined.push_back(std::move(message));
      continue;
    }
    const bool calls_alone = message.content.empty() && !message.tool_calls.empty();
    const bool goes_on =
        !thought.empty() && IsAssistant(joined) && joined.back().tool_calls.empty();
    AddThought(std::exchange(message.reasoning, {}), &thought);
    message.reasoning = std::exchange(thought, {});
    if (IsAssistant(joined) && (calls_alone || goes_on)) {
      Extend(&joined.back(), std::move(message));
    } else {
      joined.push_back(std::move(message));
    }
  }
  end_answer();
  for (api::ChatMessage& message : joined) {
    if (message.tool_calls.empty()) message.reasoning.clear();
  }
  chat->messages = std::move(joined);
}

protocol::ResponseState SkeletonOf(const protocol::ResponsesCall& call, std::string model,
                                   std::string conversation) {
  protocol::ResponseState state;
  state.status =
      call.background ? protocol::ResponseStatus::kQueued : protocol::ResponseStatus::kInProgress;
  state.background = call.background;
  state.store = call.store;
  state.model = std::move(model);
  state.instructions = call.instructions;
  state.max_output_tokens = call.request.sampling.max_tokens;
  state.temperature = call.request.sampling.temperature;
  state.top_p = call.request.sampling.top_p;
  state.logprobs = call.request.sampling.logprobs;
  state.service_tier = call.service_tier;
  state.truncation = call.truncate ? "auto" : "disabled";
  state.metadata = call.metadata;
  if (const auto* chat = std::get_if<api::ChatPrompt>(&call.request.prompt)) {
    state.tools = chat->tools;
    state.tool_choice = chat->tool_choice;
    state.parallel_tool_calls = chat->parallel_tool_calls;
  }
  state.previous_response_id = call.previous_response_id;
  state.conversation = std::move(conversation);
  return state;
}

void InsertSaid(const std::vector<api::ChatMessage>& said_before, protocol::ResponsesCall* call) {
  auto& messages = std::get<api::ChatPrompt>(call->request.prompt).messages;
  messages.insert(messages.end() - static_cast<ptrdiff_t>(call->input.size()), said_before.begin(),
                  said_before.end());
}

void NameState(int64_t now_s, protocol::ResponseState* state) {
  if (state->id.empty()) state->id = NewId("resp_");
  if (state->item_id.empty()) state->item_id = NewId("msg_");
  if (state->created_s == 0) state->created_s = now_s;
}

void SettleSeed(api::GenerateRequest* request) {
  if (request->sampling.seed.has_value() || request->sampling.temperature == 0) return;
  request->sampling.seed = NewSeed();
  request->cache.no_store = true;
}

ResponseState Failed(ResponseState state, const Status& why) {
  const protocol::ErrorView view = protocol::ViewError(why);
  state.status = ResponseStatus::kFailed;
  state.error_code = view.code;
  state.error_message = view.message;
  state.error_param = view.param;
  return state;
}

ResponseState Steered(ResponseState state) {
  state.status = ResponseStatus::kIncomplete;
  state.incomplete_reason = kSteered;
  return state;
}

ResponseState EndOf(ResponseState state, const api::TokenStream& stream,
                    const api::StreamEvent& end, api::FinishReason finish, Cut cut, int64_t now_s) {
  state.usage = end.usage;
  if (cut == Cut::kCancel) {
    state.status = ResponseStatus::kCancelled;
  } else if (cut == Cut::kSteer && !stream.status().ok()) {
    return Steered(std::move(state));
  } else if (!stream.status().ok()) {
    return Failed(std::move(state), stream.status());
  } else if (finish == api::FinishReason::kLength) {
    state.status = ResponseStatus::kIncomplete;
    state.incomplete_reason = "max_output_tokens";
  } else {
    state.status = ResponseStatus::kCompleted;
    state.completed_s = now_s;
  }
  return state;
}

}  // namespace tutti::responses
