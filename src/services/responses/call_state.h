// Converts a call of the Responses API into the initial state of its response. Pure.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "api/types.h"
#include "wire/input_items.h"
#include "wire/response_state.h"
#include "wire/responses_request.h"

namespace tutti::responses {

// One message for each item, so that they can be listed again. A call, and reasoning, is a message
// of its own until JoinItems().
std::vector<api::ChatMessage> MessagesOf(std::span<const wire::InputItem> items);

// What the model said, a message for each item of the output. A call that was cut short is left
// out: its arguments are no JSON.
std::vector<api::ChatMessage> AnswerOf(const wire::ResponseState& end);

// Before a prompt is rendered: puts calls into the assistant's message that stands before them and
// reasoning into the one that stands behind it, as chat templates have them, and names the results
// of calls. Reasoning stays with messages that call functions, so that the model goes on with its
// thoughts when it has the results. That of other messages is left out: templates do not show what
// a model thought before an answer that was given, and it would fill the context.
void JoinItems(api::Prompt* prompt);

// The response as it is shown before anything of it is there. `model`: as it is served.
// `conversation`: the dialog's name; empty: none.
wire::ResponseState SkeletonOf(const wire::ResponsesCall& call, std::string model,
                               std::string conversation);

// Puts what was said before between the instructions and the input of the call's prompt.
void InsertSaid(const std::vector<api::ChatMessage>& said_before, wire::ResponsesCall* call);

// What its request does not say and its end must be found by: names and the time of its creation.
void NameState(int64_t now_s, wire::ResponseState* state);

}  // namespace tutti::responses
