// Inbound messages of the Responses API over WebSocket. The events of a response are those of
// responses/events.h, as on SSE, with the `stream_id` of the request appended if it had one. Pure
// functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "protocol/error.h"
#include "protocol/responses/request.h"
#include "protocol/schema/checked_object.h"

namespace tutti::protocol {

struct SocketMessage {
  enum class Verb {
    kCreate,     // response.create: the body of POST /v1/responses
    kCancel,     // response.cancel: ends response_id
    kSubscribe,  // sends the events of response_id, or of job_id, after starting_after
    kPing,       // answers pong
    kAuth,       // credentials, when the upgrade request had none
  };
  Verb verb = Verb::kPing;
  std::string stream_id;        // create, subscribe: of the channel; empty: that without a name
  ResponsesCall call;           // create; always a stream, never in the background
  std::string response_id;      // cancel, subscribe; empty: job_id is given
  std::string job_id;           // subscribe: a durable job
  int64_t starting_after = -1;  // subscribe: the last event seen; -1: none
  std::string id;               // ping: the client's, echoed; may be empty
  std::string token;            // auth: a key or a signed token
};

// `stream_id` is set as soon as it is known, also of a message that is refused otherwise. Errors:
// those of ParseJson, of the schema and of ParseResponses.
Result<SocketMessage> ParseSocketMessage(std::string_view text, const ParseOptions& options,
                                         std::string* stream_id);

// Appends the member `stream_id` to a JSON object; does nothing if the id is empty.
std::string WithStreamId(std::string object, std::string_view stream_id);

// {"type":"error","status":400,"error":{...}}; `error` is the same as in an HTTP body.
std::string SocketError(const ErrorView& error, std::string_view stream_id,
                        std::optional<ContextNumbers> context = std::nullopt);

std::string SocketPong(std::string_view id);  // left out where it is empty

}  // namespace tutti::protocol
