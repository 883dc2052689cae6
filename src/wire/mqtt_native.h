// Payloads of MQTT's native profile as pure functions, which chat over a WebSocket has too
// (chat_frame.h). The topics are those of mqtt_topic.h; the events of a turn are those of
// response_events.h as on SSE, with `accepted` before them, so that their numbers are higher by
// one. What is written here answers what came on .../ctl.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/types.h"
#include "base/status.h"
#include "wire/request_placement.h"
#include "wire/responses_request.h"

namespace tutti::wire {

// .../in: one message of a session. The call's message_id is never empty, and its turn is stored
// and outlives its client (`store` and `background` are true); the session stands in the topic, and
// its dialog is cut where it is too long, unless `truncation` is "disabled".
struct MqttMessage {
  ResponsesCall call;
  std::string project;  // whose settings apply; empty: the default's
};
// Errors: those of ParseJson, of the schema and of ReadTurn.
Result<MqttMessage> ParseMqttMessage(std::string_view payload, const ParseOptions& options);
// `scope`: kChatMessage where it came in a frame.
Result<MqttMessage> ReadMqttMessage(const Json& root, const ParseOptions& options,
                                    Scope scope = kMqttMessage);

// .../ctl
struct MqttControl {
  enum class Verb {
    kCancel,     // ends the turn of response_id, or the one that runs
    kResume,     // sends the events of response_id again, after `starting_after`
    kHistory,    // tells the last `limit` items
    kFork,       // makes the session `into` with this one's history, as it was at `version`
    kClear,      // forgets what was said; what runs or waits is cancelled
    kSubscribe,  // tells the states of the durable job job_id, behind `starting_after`
    kPing,       // answers pong
  };
  Verb verb = Verb::kPing;
  std::string id;                         // the client's, echoed in what answers; may be empty
  std::string project;                    // as in a message
  std::string response_id;                // cancel; needed by resume
  std::string job_id;                     // needed by subscribe
  std::optional<int64_t> starting_after;  // resume, subscribe: the last event seen; absent: none
  int limit = 20;                         // history, 1 to 100
  std::string into;                       // needed by fork: a topic level
  std::optional<int64_t> version;         // fork; absent: now
};
// What each verb is called; what is not in here nobody can ask for.
struct MqttVerb {
  MqttControl::Verb verb;
  std::string_view name;
};
std::span<const MqttVerb> MqttVerbs();
Result<MqttControl> ParseMqttControl(std::string_view payload, const ParseOptions& options);
// `object` was checked as one, or as a frame whose `type` is one of MqttVerbs().
Result<MqttControl> ReadMqttControl(const CheckedObject& object);

// The client's id out of a payload that was refused, for the error that answers it; empty when none
// can be read.
std::string MessageIdOf(std::string_view payload);

struct HistoryItem {
  api::Role role = api::Role::kUser;
  std::string content;
  int64_t turn = 0;
};

// All leave `id` out where it is empty.
std::string PongEvent(std::string_view id, int64_t now_ms);  // unix milliseconds
std::string HistoryEvent(std::string_view id, std::string_view session, int64_t version,
                         std::span<const HistoryItem> items);
std::string ForkedEvent(std::string_view id, std::string_view session, std::string_view into,
                        int64_t version);
std::string ClearedEvent(std::string_view id, std::string_view session);
// A turn that was to end has ended, or there was none (`response_id` empty).
std::string CancelledEvent(std::string_view id, std::string_view response_id);

}  // namespace tutti::wire
