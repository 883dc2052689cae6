#include "services/responses/response.h"

#include <algorithm>
#include <string>
#include <utility>

#include "protocol/error.h"

namespace tutti::responses {

protocol::ResponseState Response::State() const {
  const MutexLock lock(mutex_);
  return state_;
}

DroppedContext Response::dropped() const {
  const MutexLock lock(mutex_);
  return dropped_;
}

Status FailureOf(const protocol::ResponseState& state) {
  const Status named(StatusCode::kInternal, state.error_code, state.error_message);
  return Status(protocol::FindError(named).canonical, state.error_code, state.error_message)
      .WithParam(state.error_param);
}

Status CheckPlace(const Response& response, int64_t starting_after, int64_t first) {
  if (response.again() && !response.ended()) return OkStatus();
  const int64_t last = response.log().next() - 1 - first;
  if (starting_after <= std::max<int64_t>(last, -1)) return OkStatus();
  return InvalidArgument("invalid_value",
                         last < 0 ? std::string("starting_after: there is no event yet")
                                  : "starting_after: the last event there is has number " +
                                        std::to_string(last))
      .WithParam("starting_after");
}

Result<ResponseReader> ResponseReader::Attach(std::shared_ptr<Response> response,
                                              int64_t starting_after,
                                              std::shared_ptr<Waker> waker) {
  if (waker != nullptr && !response->log().Watch(waker))
    return ResourceExhausted("tenant_concurrency", "this response has too many readers");
  return ResponseReader(std::move(response), starting_after, std::move(waker));
}

ResponseReader::~ResponseReader() {
  if (response_ != nullptr && waker_ != nullptr) response_->log().Unwatch(waker_);
}

Result<std::vector<ResponseLog::Entry>> ResponseReader::Next(size_t most) {
  const bool over = response_->log().ended();
  ASSIGN_OR_RETURN(std::vector<ResponseLog::Entry> entries, response_->log().Read(seen_, most));
  if (entries.empty()) {
    ended_ = over;
    return entries;
  }
  seen_ = entries.back()->sequence;
  ended_ = entries.back()->terminal();
  return entries;
}

}  // namespace tutti::responses
