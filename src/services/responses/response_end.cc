#include "services/responses/response_end.h"

#include <utility>

#include "protocol/error.h"
#include "services/responses/responses.h"

namespace tutti::responses {

using protocol::ResponseState;
using protocol::ResponseStatus;

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
