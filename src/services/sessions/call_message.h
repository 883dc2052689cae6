// A call of the Responses API as a message of a dialog, whichever server it came by. Pure.
#pragma once

#include "protocol/responses/request.h"
#include "protocol/responses/state.h"
#include "services/responses/call_state.h"
#include "services/sessions/message.h"

namespace tutti::sessions {

// Makes the message. If the call allows truncation, the prompt is limited to the service's context
// window and omits old turns; otherwise only the model's context limits it. `skeleton`:
// responses::SkeletonOf(call, ...).
Message MessageOf(protocol::ResponsesCall call, protocol::ResponseState skeleton);

}  // namespace tutti::sessions
