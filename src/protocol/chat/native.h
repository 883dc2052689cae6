// JSON payloads of the native MQTT profile, which chat over a WebSocket also uses (chat_frame.h).
// The topics are in topic.h. The events of a turn are those of responses/events.h with
// `accepted` before them, so that their numbers are higher by one than on SSE. The events in this
// header answer messages on .../ctl. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "api/types.h"
#include "base/status.h"
#include "protocol/responses/request.h"
#include "protocol/schema/checked_object.h"

namespace tutti::protocol {

// Payload of .../in: one message of a session. The call's message_id is never empty. Its turn is
// stored and outlives its client (`store` and `background` are true). The topic names the session.
// A dialog that is too long is truncated unless `truncation` is "disabled".
struct MqttMessage {
  ResponsesCall call;
  std::string project;  // project whose settings apply; empty: the default
};
// Errors: those of ParseJson, of the schema and of ReadTurn.
Result<MqttMessage> ParseMqttMessage(std::string_view payload, const ParseOptions& options);
// `scope`: kChatMessage for a message in a WebSocket frame.
Result<MqttMessage> ReadMqttMessage(const Json& root, const ParseOptions& options,
                                    Scope scope = kMqttMessage);

// .../ctl
struct MqttControl {
  enum class Verb {
    kCancel,     // ends the turn of response_id, or the running one
    kResume,     // sends the events of response_id again, after `starting_after`
    kHistory,    // returns the last `limit` items
    kFork,       // makes the session `into` with this one's history, as it was at `version`
    kClear,      // deletes the items; cancels running and waiting turns
    kSubscribe,  // sends the states of the durable job job_id after `starting_after`
    kPing,       // answers pong
  };
  Verb verb = Verb::kPing;
  std::string id;                         // the client's, echoed in answers; may be empty
  std::string project;                    // as in a message
  std::string response_id;                // for cancel; required by resume
  std::string job_id;                     // required by subscribe
  std::optional<int64_t> starting_after;  // resume, subscribe: the last event seen; absent: none
  int limit = 20;                         // history, 1 to 100
  std::string into;                       // required by fork: a topic level
  std::optional<int64_t> version;         // fork; absent: now
};
// Names of all verbs.
struct MqttVerb {
  MqttControl::Verb verb;
  std::string_view name;
};
std::span<const MqttVerb> MqttVerbs();
Result<MqttControl> ParseMqttControl(std::string_view payload, const ParseOptions& options);
// `object` is checked as a control message, or as a frame whose `type` is one of MqttVerbs().
Result<MqttControl> ReadMqttControl(const CheckedObject& object);

// The client's id in a refused payload, for the error event; empty if it cannot be read.
std::string MessageIdOf(std::string_view payload);

struct HistoryItem {
  api::Role role = api::Role::kUser;
  std::string content;
  int64_t turn = 0;
};

// All of these omit an empty `id`.
std::string PongEvent(std::string_view id, int64_t now_ms);  // unix milliseconds
std::string HistoryEvent(std::string_view id, std::string_view session, int64_t version,
                         std::span<const HistoryItem> items);
std::string ForkedEvent(std::string_view id, std::string_view session, std::string_view into,
                        int64_t version);
std::string ClearedEvent(std::string_view id, std::string_view session);
// Answer to cancel: the turn has ended, or there was none (`response_id` empty).
std::string CancelledEvent(std::string_view id, std::string_view response_id);

}  // namespace tutti::protocol
