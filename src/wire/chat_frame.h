// Frames of chat over a WebSocket (/v1/ws) as pure functions: what users say to their sessions and
// want of them, as over MQTT (mqtt_native.h) but for the session, which stands in a topic there;
// and jobs to be followed. They are answered by the events that MQTT has on .../out, each with the
// frame's `stream_id` at its end where it gave one.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"
#include "wire/mqtt_native.h"
#include "wire/request_placement.h"

namespace tutti::wire {

struct ChatFrame {
  enum class Verb {
    kMessage,  // of a session, or of the conversation that message.call names
    kControl,  // of a session or a turn; subscribe with response_id is its resume
    kJob,      // subscribe with job_id
    kAuth,     // who asks, where the upgrade did not say
  };
  Verb verb = Verb::kControl;
  std::string session;          // message, control; empty: none is named
  MqttMessage message;          // message
  MqttControl control;          // control
  std::string conversation;     // control: cancel, in place of a session
  std::string job_id;           // job
  int64_t starting_after = -1;  // job: the last version seen; -1: none
  std::string token;            // auth
};

// What the frame's answers carry. Set as far as it is known, also of a frame that is refused.
struct FrameTag {
  std::string stream_id;  // at the end of each event; empty: nothing is
  std::string id;         // the client's, of the message or verb; empty: none
};

// Errors: those of ParseJson, of the schema, of ReadTurn; missing_required_parameter.
Result<ChatFrame> ParseChatFrame(std::string_view text, const ParseOptions& options, FrameTag* tag);

// Whether what was refused with that was no frame at all: no JSON, or of no type that there is.
bool IsNoFrame(const Status& refusal);

}  // namespace tutti::wire
