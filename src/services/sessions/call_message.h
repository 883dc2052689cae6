// A call of the Responses API as a message of a dialog, whichever door it came by. Pure.
#pragma once

#include "services/responses/call_state.h"
#include "services/sessions/message.h"
#include "wire/response_state.h"
#include "wire/responses_request.h"

namespace tutti::sessions {

// Of a dialog as long as the service's window where the call lets old turns be left out, else as
// long as the model's own. `skeleton`: responses::SkeletonOf(call, ...).
Message MessageOf(wire::ResponsesCall call, wire::ResponseState skeleton);

}  // namespace tutti::sessions
