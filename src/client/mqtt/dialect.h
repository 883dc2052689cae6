// MqttDialect: encodes the questions of a chat for one of the profiles of a Tutti server over MQTT,
// and decodes the messages that answer them. Pure; no connection, no clock.
//
// Native profile: users with sessions (llm/v1/{user}/{session}/in, out, ctl); answers are streamed,
// and lost pieces are requested again. Project profile: questions to {project}/user_input, answers
// below {project}/assistant_response; whole answers, unless the project streams.
#pragma once

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "client/mqtt/session.h"
#include "mqtt/packet.h"

namespace tutti::client {

// --- readers of payloads and properties, for both profiles ---

// The payload as an object; an empty one for anything else.
boost::json::object ObjectOf(std::string_view payload);
// Members of an object; absent or of another kind: "", nothing.
std::string TextAt(const boost::json::object& object, std::string_view name);
std::optional<int64_t> NumberAt(const boost::json::object& object, std::string_view name);
const boost::json::object* ObjectAt(const boost::json::object& object, std::string_view name);

// The texts of the messages in a response object's output, one after the other; reasoning and calls
// are left out. Nothing: there is no message.
std::optional<std::string> OutputTextIn(const boost::json::object& response);

// A user property of a message, or "".
std::string PropertyOf(const mqtt::Publish& message, std::string_view name);

// {"code": ..., "message": ..., "retry_after_ms": ...} as a Status: its reason is the code.
Status ErrorIn(const boost::json::object& error);

// One level of a topic that a name may be; `what` for the message. Error: invalid_value.
Status CheckLevel(const std::string& name, const char* what);

// --- the dialects ---

// A question; the server chooses the values of absent fields.
struct MqttQuestion {
  // Id of the turn, unique: a question that is sent twice with one id is answered once. Empty:
  // MqttChat draws one.
  std::string id;
  std::string text;    // not empty
  std::string system;  // for this turn alone; empty: that of the dialog
  std::string model;   // empty: the server's default
  std::optional<double> temperature, top_p;
  std::optional<int64_t> top_k, seed, max_tokens;
  std::string template_arguments;  // a JSON object as text; empty: none
};

// Decodes the messages that answer one question. One thread at a time.
class MqttReply {
 public:
  struct Update {
    std::string text;              // next piece of the answer
    std::string reasoning;         // next piece of the reasoning before the answer
    std::optional<MqttSend> send;  // to be sent to the server: a request for lost pieces
    bool ended = false;
    Status status;  // not OK: the turn ended without an answer (cancelled, or an error)
  };

  virtual ~MqttReply() = default;
  // Decodes a message. One of another question, or a repeated one, gives an empty result.
  virtual Update Take(const mqtt::Publish& message) = 0;
  // Whether the server has accepted the question.
  virtual bool accepted() const = 0;
  // The message to send after a lost connection: the question again, or a request to continue the
  // answer.
  virtual MqttSend AfterLoss() const = 0;
  // The message that cancels the turn; nothing if the profile has none.
  virtual std::optional<MqttSend> Cancel() const = 0;
};

struct MqttItem {
  std::string role, content;
};

class MqttDialect {
 public:
  virtual ~MqttDialect() = default;

  virtual std::string replies() const = 0;  // topic filter of answers
  virtual std::string status() const = 0;   // topic filter of the servers' status messages
  // Whether the server that sent this status message is online; nothing for other messages.
  virtual std::optional<bool> OnlineIn(const mqtt::Publish& message) const = 0;
  // Whether the profile has a message with which the server accepts a question.
  virtual bool has_acceptance() const = 0;
  // Encodes a question. Errors: invalid_value, naming a field that the profile does not have.
  virtual Result<MqttSend> Ask(const MqttQuestion& question) const = 0;
  // Makes the decoder for the answer to `question`, which Ask() must have accepted.
  virtual std::unique_ptr<MqttReply> Reply(const MqttQuestion& question) const = 0;

  // The message that requests the last 100 items of the dialog; nothing if the profile has no
  // history.
  virtual std::optional<MqttSend> AskHistory(const std::string& id) const = 0;
  // Decodes the history requested under `id`, or an error; nothing for other messages.
  virtual std::optional<Result<std::vector<MqttItem>>> HistoryIn(const mqtt::Publish& message,
                                                                 const std::string& id) const = 0;
  // The message that clears the dialog.
  virtual MqttSend Clear(const std::string& id) const = 0;
  // Decodes the result of Clear() with `id`; nothing for other messages.
  virtual std::optional<Status> ClearedIn(const mqtt::Publish& message,
                                          const std::string& id) const = 0;
};

// `user`, `session`: levels of a topic, [A-Za-z0-9_.-]. Error: invalid_value.
Result<std::unique_ptr<MqttDialect>> MakeNativeDialect(const std::string& prefix,
                                                       const std::string& user,
                                                       const std::string& session);
// `client`: unique to this process, so that it does not get answers to other clients in its
// session.
Result<std::unique_ptr<MqttDialect>> MakeProjectDialect(const std::string& project,
                                                        const std::string& session,
                                                        const std::string& client);

}  // namespace tutti::client
