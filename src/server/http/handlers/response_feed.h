// ResponseFeed: sends a response of the Responses API over one connection: its events as they come,
// or the whole object once it has ended. The feed does not own the response, which continues
// without it. Owned by a handler; used on its thread.
//
// ResponseCursor: a position in the events of a response, in the numbering that clients see;
// sockets use it without a feed. One thread at a time.
//
// The log of a turn begins with `accepted`, which only chats (MQTT, /v1/ws) show. For clients of
// the Responses API the first event is response.created with number 0, so the events of a turn have
// numbers lower by one than in the log.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "base/status.h"
#include "protocol/responses/events.h"
#include "server/http/handlers/event_stream.h"
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
  // draining (the server stops, and the next process continues the response).
  Result<std::vector<Event>> Next();
  bool ended() const { return reader_.ended(); }  // there are no more events
  // Checks, after the end, that the response reached the position where this cursor began; a
  // response that was computed again may have ended earlier. Errors: invalid_value.
  Status Place() const;
  const std::shared_ptr<responses::Response>& response() const { return reader_.response(); }

 private:
  ResponseCursor(responses::ResponseReader reader, int64_t starting_after, int64_t first)
      : reader_(std::move(reader)), starting_after_(starting_after), first_(first) {}

  responses::ResponseReader reader_;
  int64_t starting_after_;
  int64_t first_;  // number in the log of the event that is number 0 here
};

class ResponseFeed {
 public:
  explicit ResponseFeed(Connection& connection) : connection_(connection), events_(connection) {}
  ~ResponseFeed();

  // Streams server-sent events after number `starting_after` (-1: from the first) up to the
  // terminal one. Error: there is no such number (CheckPlace). `ignored`: names of unknown fields,
  // for the head. `obfuscated`: deltas get random padding. `asked`: the head waits for the result
  // of the cache look-up.
  void Stream(const std::shared_ptr<responses::Response>& response, int64_t starting_after,
              std::vector<std::string> ignored, bool obfuscated, bool asked = false);
  // Sends the response object when it has ended. A failed response gives its error as the HTTP
  // answer, or, for requests other than for the answer, the object with status failed.
  enum class Failed { kError, kObject };
  void Whole(const std::shared_ptr<responses::Response>& response, std::vector<std::string> ignored,
             Failed failed = Failed::kError);
  // Sends the response object after its first event; if the response is stored, its request is
  // durable by then.
  void Begun(const std::shared_ptr<responses::Response>& response,
             std::vector<std::string> ignored);

  void Pump();
  TimePoint Due() const;
  void OnTimer(TimePoint now);

 private:
  bool Attach(const std::shared_ptr<responses::Response>& response, int64_t starting_after);
  void PumpEvents();
  protocol::EventExtras ExtrasOf(const ResponseCursor::Event& event);
  void PumpWhole();
  void PumpBegun();
  void FailEvents(const Status& status,
                  std::string frames);              // `frames` and an error end the stream
  void Leave(const responses::Response& response);  // with an error, if it was interrupted
  void Stop();

  Connection& connection_;
  std::optional<ResponseCursor> cursor_;
  enum class Shows { kEvents, kWhole, kBegun };
  Shows shows_ = Shows::kWhole;
  Failed failed_ = Failed::kError;
  std::optional<Random> padding_;  // padding of deltas; absent: not requested
  std::vector<std::string> ignored_;
  EventStream events_;
};

}  // namespace tutti::http
