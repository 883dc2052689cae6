// Final states of responses. Pure.
#pragma once

#include <cstdint>

#include "api/token_stream.h"
#include "api/types.h"
#include "base/status.h"
#include "protocol/responses/state.h"

namespace tutti::responses {

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
