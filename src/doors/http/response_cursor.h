// ResponseCursor: a place among the events of a response as clients number them.
//
// `accepted`, with which the log of a dialog's turn begins, is that of chats (MQTT, /v1/ws). For
// clients of the Responses API the first event is response.created, and it has number 0: of a turn
// their numbers are lower by one than in the log. One thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "services/responses/response.h"

namespace tutti::http {

class ResponseCursor {
 public:
  enum class Numbers {
    kResponses,  // of the Responses API
    kLog,        // of the log, and of chats
  };
  // Behind event `starting_after` (-1: at the first). `waker` is told of more. Errors:
  // tenant_concurrency (too many readers), invalid_value (there is no such event).
  static Result<ResponseCursor> Open(const std::shared_ptr<responses::Response>& response,
                                     int64_t starting_after,
                                     std::shared_ptr<api::StreamWaker> waker,
                                     Numbers numbers = Numbers::kResponses);

  struct Event {
    std::string_view type;  // lives as long as the program
    std::string json;
  };
  // The next few; none: not yet. Errors: expired (they are gone), draining (Interrupted).
  Result<std::vector<Event>> Next();
  bool ended() const { return reader_.ended(); }  // nothing comes any more
  // Of one that has ended: whether it had come to where this began. One that was made again may
  // have ended before. Errors: invalid_value.
  Status Place() const;
  const std::shared_ptr<responses::Response>& response() const { return reader_.response(); }

  // The next process goes on with it.
  static Status Interrupted() { return Unavailable("draining", "the server is shutting down"); }

 private:
  ResponseCursor(responses::ResponseReader reader, int64_t starting_after, int64_t first)
      : reader_(std::move(reader)), starting_after_(starting_after), first_(first) {}

  responses::ResponseReader reader_;
  int64_t starting_after_;
  int64_t first_;  // what the log calls the event that is number 0 here
};

}  // namespace tutti::http
