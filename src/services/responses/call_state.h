// Initial state of a response, from a call of the Responses API; and its final states. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "api/token_stream.h"
#include "api/types.h"
#include "base/status.h"
#include "protocol/responses/input_items.h"
#include "protocol/responses/request.h"
#include "protocol/responses/state.h"

namespace tutti::responses {

// Converts each item to one message, so that the items can be listed later. Tool calls and
// reasoning are separate messages until JoinItems().
std::vector<api::ChatMessage> MessagesOf(std::span<const protocol::InputItem> items);

// The model's output as one message per item. A tool call that was cut short is omitted, because
// its arguments are not valid JSON.
std::vector<api::ChatMessage> AnswerOf(const protocol::ResponseState& end);

// Prepares a prompt for its chat template: merges tool calls into the preceding assistant message
// and reasoning into the following one, and sets the names of tool results. Reasoning is kept for
// messages with tool calls, so that the model can continue it after the results. Other reasoning is
// dropped: templates do not show it for finished answers, and it would fill the context.
void JoinItems(api::Prompt* prompt);

// Initial public state of a response. `model`: served name. `conversation`: name of the dialog;
// empty: none.
protocol::ResponseState SkeletonOf(const protocol::ResponsesCall& call, std::string model,
                                   std::string conversation);

// Inserts the history between the instructions and the input of the call's prompt.
void InsertSaid(const std::vector<api::ChatMessage>& said_before, protocol::ResponsesCall* call);

// Sets the ids and the creation time of a new response.
void NameState(int64_t now_s, protocol::ResponseState* state);

// Makes `request` repeatable: gives a seed to a sampling request that has none. The response cache
// does not store such answers, because no other request has this seed. Temperature 0 needs no seed.
void SettleSeed(api::GenerateRequest* request);

// How a client ended a running answer.
enum class Cut {
  kNone,
  kCancel,
  kSteer,  // a steering message ended it early
};

// Final state of a response from the engine's status and finish reason. `state`: the state so far,
// with the whole text.
protocol::ResponseState EndOf(protocol::ResponseState state, const api::TokenStream& stream,
                              const api::StreamEvent& end, api::FinishReason finish, Cut cut,
                              int64_t now_s);
protocol::ResponseState Steered(protocol::ResponseState state);
protocol::ResponseState Failed(protocol::ResponseState state, const Status& why);

}  // namespace tutti::responses
