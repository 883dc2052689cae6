// Inbound frames of chat over a WebSocket (/v1/ws): messages and controls as over MQTT
// (native.h), with a `session` member in place of the topic, and subscriptions to jobs. The
// answers are the events that MQTT publishes to .../out, with the frame's `stream_id` appended if
// it had one. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"
#include "protocol/chat/native.h"
#include "protocol/schema/checked_object.h"

namespace tutti::protocol {

struct ChatFrame {
  enum class Verb {
    kMessage,  // of a session, or of the conversation that message.call names
    kControl,  // of a session or a turn; subscribe with response_id is its resume
    kJob,      // subscribe with job_id
    kAuth,     // credentials, when the upgrade request had none
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

// Ids that answers to the frame repeat. Set as far as they are known, also for a refused frame.
struct FrameTag {
  std::string stream_id;  // at the end of each event; empty: nothing is
  std::string id;         // the client's, of the message or verb; empty: none
};

// Errors: those of ParseJson, of the schema, of ReadTurn; missing_required_parameter.
Result<ChatFrame> ParseChatFrame(std::string_view text, const ParseOptions& options, FrameTag* tag);

// Whether an error means that the text is not a frame: it is not JSON, or has an unknown type.
bool IsNoFrame(const Status& refusal);

}  // namespace tutti::protocol
