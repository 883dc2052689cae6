// ResponseCursor: a position in the events of a response, in the numbering that clients see.
//
// The log of a turn begins with `accepted`, which only chats (MQTT, /v1/ws) show. For clients of
// the Responses API the first event is response.created with number 0, so the events of a turn have
// numbers lower by one than in the log. One thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "protocol/responses/events.h"
#include "services/responses/response.h"

namespace tutti::http {

class ResponseCursor {
 public:
  enum class Numbers {
    kResponses,  // numbers of the Responses API
    kLog,        // numbers of the log, used by chats
  };
  // Opens a cursor after event `starting_after` (-1: at the first). `waker` is woken when there are
  // more events. Errors: tenant_concurrency (too many readers), invalid_value (no such event).
  static Result<ResponseCursor> Open(const std::shared_ptr<responses::Response>& response,
                                     int64_t starting_after, std::shared_ptr<Waker> waker,
                                     Numbers numbers = Numbers::kResponses);

  struct Event {
    responses::ResponseLog::Entry entry;
    int64_t sequence = 0;  // in the numbering of this cursor

    std::string_view type() const { return protocol::EventType(entry->event); }
    std::string Json(const protocol::EventExtras& extras = {}) const {
      return protocol::EventJson(entry->event, sequence, extras);
    }
  };
  // The next few events; empty: none yet. Errors: expired (the events are no longer stored),
  // draining (Interrupted).
  Result<std::vector<Event>> Next();
  bool ended() const { return reader_.ended(); }  // there are no more events
  // Checks, after the end, that the response reached the position where this cursor began; a
  // response that was computed again may have ended earlier. Errors: invalid_value.
  Status Place() const;
  const std::shared_ptr<responses::Response>& response() const { return reader_.response(); }

  // The error when the server stops; the next process continues the response.
  static Status Interrupted() { return Unavailable("draining", "the server is shutting down"); }

 private:
  ResponseCursor(responses::ResponseReader reader, int64_t starting_after, int64_t first)
      : reader_(std::move(reader)), starting_after_(starting_after), first_(first) {}

  responses::ResponseReader reader_;
  int64_t starting_after_;
  int64_t first_;  // number in the log of the event that is number 0 here
};

}  // namespace tutti::http
