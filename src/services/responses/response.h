// Response: one answer, from its request to long after its end, as all see it who may: its state
// and its event log. Shared by whoever looks at it; written on the strand alone (ResponseWriter).
// ResponseReader: a place in its log.
//
// Thread-safe but for the reader, which belongs to one thread at a time; nothing blocks.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/types.h"
#include "base/mutex.h"
#include "base/status.h"
#include "services/responses/response_log.h"
#include "wire/response_state.h"

namespace tutti::responses {

// Of a response that is a dialog's turn: what its `accepted` event tells.
struct TurnNote {
  std::string message_id;  // the client's
  int64_t turn = 0;
  int64_t position = 0;  // turns that had to end first, when it was accepted
};

// What a response began with; constant from then on.
struct ResponseBase {
  std::string owner;                    // tenant; nobody else finds it
  wire::ResponseState state;            // as it was at first
  std::vector<api::ChatMessage> input;  // what this call added to its dialog, or all of it
  std::optional<TurnNote> turn;
};

// What was left out of a response's prompt now, having been in the one before.
struct DroppedContext {
  int64_t turns = 0, items = 0;
  friend bool operator==(const DroppedContext&, const DroppedContext&) = default;
};

class Response {
 public:
  // `again`: an earlier process began with it, and readers may have seen more than there is yet.
  Response(ResponseBase base, size_t log_bytes, bool again = false)
      : base_(std::move(base)), again_(again), log_(log_bytes), state_(base_.state) {}

  const std::string& id() const { return base_.state.id; }
  const std::string& owner() const { return base_.owner; }
  const ResponseBase& base() const { return base_; }
  const ResponseLog& log() const { return log_; }
  ResponseLog& log() { return log_; }

  wire::ResponseState State() const;  // a copy, with the text so far
  bool ended() const { return log_.ended(); }
  bool again() const { return again_; }
  DroppedContext dropped() const;

 private:
  friend class ResponseWriter;
  const ResponseBase base_;
  const bool again_;
  ResponseLog log_;
  mutable Mutex mutex_;
  wire::ResponseState state_ GUARDED_BY(mutex_);
  DroppedContext dropped_ GUARDED_BY(mutex_);
};

// What a failed response failed of, with the code it shows.
Status FailureOf(const wire::ResponseState& state);

// Whether events may be asked for behind that number: one that has been told, or none (-1).
// `first`: what the log calls the event that is number 0 where this is asked. Errors:
// invalid_value, with the last number there is. Where an earlier process had told more than this
// one has come to again, a reader that saw it waits instead.
Status CheckPlace(const Response& response, int64_t starting_after, int64_t first = 0);

class ResponseReader {
 public:
  // Begins behind event `starting_after` (-1: with the first). `waker` is told of more; may be
  // null. Errors: tenant_concurrency (too many readers).
  static Result<ResponseReader> Attach(std::shared_ptr<Response> response, int64_t starting_after,
                                       std::shared_ptr<api::StreamWaker> waker);
  ~ResponseReader();
  ResponseReader(ResponseReader&&) noexcept = default;
  ResponseReader& operator=(ResponseReader&&) = delete;

  // The next events in order; none: not yet. Errors: expired (the reader is too late, or asks for
  // what is gone; State() still tells all).
  Result<std::vector<ResponseLog::Entry>> Next(size_t most = 64);
  bool ended() const { return ended_; }  // nothing comes any more
  const std::shared_ptr<Response>& response() const { return response_; }

 private:
  ResponseReader(std::shared_ptr<Response> response, int64_t starting_after,
                 std::shared_ptr<api::StreamWaker> waker)
      : response_(std::move(response)), waker_(std::move(waker)), seen_(starting_after) {}

  std::shared_ptr<Response> response_;
  std::shared_ptr<api::StreamWaker> waker_;
  int64_t seen_;
  bool ended_ = false;
};

}  // namespace tutti::responses
