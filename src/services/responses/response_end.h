// How an answer ended, as its response shows it. Pure.
#pragma once

#include <cstdint>

#include "api/token_stream.h"
#include "api/types.h"
#include "base/status.h"
#include "wire/response_state.h"

namespace tutti::responses {

// What somebody did to an answer under way.
enum class Cut {
  kNone,
  kCancel,
  kSteer,  // it ends where it was, because its dialog goes on elsewhere
};

// How a generation ended, as a response: what the engine's status and reason mean. `state`: as it
// was, with the whole text.
wire::ResponseState EndOf(wire::ResponseState state, const api::TokenStream& stream,
                          const api::StreamEvent& end, api::FinishReason finish, Cut cut,
                          int64_t now_s);
wire::ResponseState Steered(wire::ResponseState state);
wire::ResponseState Failed(wire::ResponseState state, const Status& why);

}  // namespace tutti::responses
