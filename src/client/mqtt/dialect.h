// MqttDialect: how a question of a chat is said in one of the profiles that servers of ours speak
// over MQTT, and what the messages that answer it mean. Pure; no connection, no time.
//
// Native: users with sessions (llm/v1/{user}/{session}/in, out, ctl); answers stream, and what was
// lost on the way is asked for again. Project: {project}/user_input, answers below
// {project}/assistant_response; whole unless the project streams.
#pragma once

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

// What is asked; what is absent is the server's to choose.
struct MqttQuestion {
  // Of this turn, and no other: said twice it is answered once. Empty: MqttChat draws one.
  std::string id;
  std::string text;    // not empty
  std::string system;  // of this turn alone; empty: the dialog's own
  std::string model;   // empty: the server's first
  std::optional<double> temperature, top_p;
  std::optional<int64_t> top_k, seed, max_tokens;
  std::string template_arguments;  // a JSON object as text; empty: none
};

// Reads the messages that answer one question. One thread at a time.
class MqttReply {
 public:
  struct Told {
    std::string text;             // more of the answer
    std::string reasoning;        // and of what the model thinks first
    std::optional<MqttSend> say;  // to the server: send again what was lost
    bool ended = false;
    Status status;  // of a turn that ended without an answer: cancelled, or the server's error
  };

  virtual ~MqttReply() = default;
  // Messages that belong to others, and those already seen, tell nothing.
  virtual Told Take(const mqtt::Publish& message) = 0;
  // The server has taken the question for its own.
  virtual bool accepted() const = 0;
  // What to say after the connection was lost: the question again, or what to go on after.
  virtual MqttSend AfterLoss() const = 0;
  // What ends the turn; nothing: this profile cannot.
  virtual std::optional<MqttSend> Cancel() const = 0;
};

struct MqttItem {
  std::string role, content;
};

class MqttDialect {
 public:
  virtual ~MqttDialect() = default;

  virtual std::string replies() const = 0;  // the filter of answers
  virtual std::string status() const = 0;   // the filter of what servers say of themselves
  // Of a message: whether the server that it is of is there, or nothing.
  virtual std::optional<bool> OnlineIn(const mqtt::Publish& message) const = 0;
  // Whether the server says at once that it has taken a question.
  virtual bool tells_acceptance() const = 0;
  // Errors: invalid_value, naming what this profile cannot be asked.
  virtual Result<MqttSend> Ask(const MqttQuestion& question) const = 0;
  // Of a question that Ask takes.
  virtual std::unique_ptr<MqttReply> Reply(const MqttQuestion& question) const = 0;

  // What was said, the last 100 items; nothing: this profile does not tell.
  virtual std::optional<MqttSend> AskHistory(const std::string& id) const = 0;
  // Of a message: the history that was asked for under `id`, an error, or nothing.
  virtual std::optional<Result<std::vector<MqttItem>>> HistoryIn(const mqtt::Publish& message,
                                                                 const std::string& id) const = 0;
  // What clears the dialog.
  virtual MqttSend Clear(const std::string& id) const = 0;
  // Of a message: whether it was cleared, or nothing.
  virtual std::optional<Status> ClearedIn(const mqtt::Publish& message,
                                          const std::string& id) const = 0;
};

// `user`, `session`: levels of a topic, [A-Za-z0-9_.-]. Error: invalid_value.
Result<std::unique_ptr<MqttDialect>> MakeNativeDialect(const std::string& prefix,
                                                       const std::string& user,
                                                       const std::string& session);
// `client`: of this process alone, so that it gets no answers of others in its session.
Result<std::unique_ptr<MqttDialect>> MakeProjectDialect(const std::string& project,
                                                        const std::string& session,
                                                        const std::string& client);

}  // namespace tutti::client
