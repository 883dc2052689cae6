// Response: public state and event log of one answer, from its request until it is dropped. Shared
// by all its readers; only the strand writes it (ResponseWriter).
// ResponseLog: its events. ResponseReader: a read position in them.
//
// Thread-safe, except that a reader is for use by one thread at a time; nothing blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/token_stream.h"
#include "api/types.h"
#include "base/mutex.h"
#include "base/status.h"
#include "protocol/responses/events.h"
#include "protocol/responses/state.h"

namespace tutti::responses {

struct LogEntry {
  int64_t sequence = 0;
  protocol::ResponseEvent event;

  bool terminal() const { return protocol::IsTerminal(event); }
};

// ResponseLog: the append-only event log of one response; all servers read it.
//
// Entries are typed events, which each server renders for its clients. They are numbered from 0
// without gaps; exactly one is terminal, the last. One writer; any number of readers, each with its
// own cursor (the number of the last entry it has seen). Readers may come and go, and replay and
// live tail are the same operation. The log is bounded in bytes: the oldest entries are dropped
// first, and reading a dropped entry fails with `expired`. The terminal entry, which repeats the
// whole text, is never dropped.
//
// Thread-safe; nothing blocks.
class ResponseLog {
 public:
  explicit ResponseLog(size_t max_bytes) : max_bytes_(max_bytes) {}
  ResponseLog(const ResponseLog&) = delete;
  ResponseLog& operator=(const ResponseLog&) = delete;

  // --- the writer ---
  int64_t next() const;  // number of the next entry
  void Append(protocol::ResponseEvent event);
  // Wakes each watcher once for all entries appended since the last call.
  void Announce();
  // Called when the process ends and the next one will continue this response: nothing more is
  // appended here, and no terminal entry follows. Wakes the watchers.
  void Interrupt();

  // --- readers ---
  using Entry = std::shared_ptr<const LogEntry>;
  // At most `most` entries after `starting_after` (-1: from the first). Empty: there are none yet,
  // or the log has ended. Errors: expired (they were dropped).
  Result<std::vector<Entry>> Read(int64_t starting_after, size_t most) const;
  bool ended() const;  // the terminal entry is there
  // True after Interrupt(): no entry follows. A server whose connection ends with the process
  // notifies its client; a server whose client gets the end from the next process need not check.
  bool interrupted() const;
  int64_t first() const;  // the oldest entry that is still here
  size_t bytes() const;

  // Registers a waker for each Announce(); one waker may watch for several readers. Read once after
  // this call, to get entries from before it. False if too many different wakers watch.
  bool Watch(const std::shared_ptr<Waker>& waker);
  void Unwatch(const std::shared_ptr<Waker>& waker);

 private:
  const size_t max_bytes_;
  mutable Mutex mutex_;
  std::deque<Entry> entries_ GUARDED_BY(mutex_);
  int64_t next_ GUARDED_BY(mutex_) = 0;
  size_t bytes_ GUARDED_BY(mutex_) = 0;
  bool ended_ GUARDED_BY(mutex_) = false;
  bool interrupted_ GUARDED_BY(mutex_) = false;
  std::map<std::shared_ptr<Waker>, int> watchers_ GUARDED_BY(mutex_);
};

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
