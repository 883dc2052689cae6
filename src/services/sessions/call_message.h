// A call of the Responses API as what the services take, whichever door it came by: the skeleton of
// its response, and a message of a dialog. Pure.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "api/types.h"
#include "services/sessions/message.h"
#include "wire/input_items.h"
#include "wire/response_state.h"
#include "wire/responses_request.h"

namespace tutti::sessions {

std::vector<api::ChatMessage> MessagesOf(std::span<const wire::InputItem> items);

// The response as it is shown before anything of it is there. `model`: as it is served.
// `conversation`: the dialog's name; empty: none.
wire::ResponseState SkeletonOf(const wire::ResponsesCall& call, std::string model,
                               std::string conversation);

// Of a dialog as long as the service's window where the call lets old turns be left out, else as
// long as the model's own. `skeleton`: SkeletonOf(call, ...).
Message MessageOf(wire::ResponsesCall call, wire::ResponseState skeleton);

}  // namespace tutti::sessions
