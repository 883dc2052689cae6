// Response: public state and event log of one answer, from its request until it is dropped. Shared
// by all its readers; only the strand writes it (ResponseWriter).
// ResponseReader: a read position in the log of a response.
//
// Thread-safe, except that a reader is for use by one thread at a time; nothing blocks.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/types.h"
#include "base/mutex.h"
#include "base/status.h"
#include "protocol/responses/state.h"
#include "services/responses/response_log.h"

namespace tutti::responses {

// Data of the `accepted` event, for a response that is a turn of a dialog.
struct TurnNote {
  std::string message_id;  // the client's
  int64_t turn = 0;
  int64_t position = 0;  // turns that had to end first, when it was accepted
};

// Initial data of a response; constant.
struct ResponseBase {
  std::string owner;                    // tenant; hidden from others
  protocol::ResponseState state;        // initial state
  std::vector<api::ChatMessage> input;  // what this call added to its dialog, or all of it
  std::optional<TurnNote> turn;
};

// Items that the prompt of this response omits and the previous prompt of the dialog included.
struct DroppedContext {
  int64_t turns = 0, items = 0;
  friend bool operator==(const DroppedContext&, const DroppedContext&) = default;
};

class Response {
 public:
  // `again`: an earlier process began this response, and readers may have seen more events than the
  // log holds yet.
  Response(ResponseBase base, size_t log_bytes, bool again = false)
      : base_(std::move(base)), again_(again), log_(log_bytes), state_(base_.state) {}

  const std::string& id() const { return base_.state.id; }
  const std::string& owner() const { return base_.owner; }
  const ResponseBase& base() const { return base_; }
  const ResponseLog& log() const { return log_; }
  ResponseLog& log() { return log_; }

  protocol::ResponseState State() const;  // a copy, with the text so far
  bool ended() const { return log_.ended(); }
  bool again() const { return again_; }
  DroppedContext dropped() const;

 private:
  friend class ResponseWriter;
  const ResponseBase base_;
  const bool again_;
  ResponseLog log_;
  mutable Mutex mutex_;
  protocol::ResponseState state_ GUARDED_BY(mutex_);
  DroppedContext dropped_ GUARDED_BY(mutex_);
};

// Error of a failed response, with its public code.
Status FailureOf(const protocol::ResponseState& state);

// Checks a client's `starting_after`: the number of an existing event, or -1 for none. `first`: log
// number of the event that the client's protocol counts as 0. Errors: invalid_value, with the last
// number. If an earlier process had sent more events than this one has repeated yet, greater
// numbers are accepted and the reader waits.
Status CheckPlace(const Response& response, int64_t starting_after, int64_t first = 0);

class ResponseReader {
 public:
  // Begins after event `starting_after` (-1: with the first). `waker` is called for new events; may
  // be null. Errors: tenant_concurrency (too many readers).
  static Result<ResponseReader> Attach(std::shared_ptr<Response> response, int64_t starting_after,
                                       std::shared_ptr<Waker> waker);
  ~ResponseReader();
  ResponseReader(ResponseReader&&) noexcept = default;
  ResponseReader& operator=(ResponseReader&&) = delete;

  // The next events in order; empty if there are none yet. Errors: expired (the events have been
  // dropped; State() still has the whole text).
  Result<std::vector<ResponseLog::Entry>> Next(size_t most = 64);
  bool ended() const { return ended_; }  // nothing comes any more
  const std::shared_ptr<Response>& response() const { return response_; }

 private:
  ResponseReader(std::shared_ptr<Response> response, int64_t starting_after,
                 std::shared_ptr<Waker> waker)
      : response_(std::move(response)), waker_(std::move(waker)), seen_(starting_after) {}

  std::shared_ptr<Response> response_;
  std::shared_ptr<Waker> waker_;
  int64_t seen_;
  bool ended_ = false;
};

}  // namespace tutti::responses
