// MqttChat: one dialog with a server over MQTT, one question at a time. Blocking; used by one
// thread at a time.
//
// A lost connection is opened again, also in the middle of an answer: the question is sent again,
// or the missing part of the answer is requested; the server answers each question once. If a
// server asks the client to wait (rate_limit_exceeded with retry-after), the chat waits for that
// time and sends the question again.
//
// A broker keeps questions for a server that is away. Therefore the chat reads the status that
// servers publish, if the broker allows it, and sends no question while all of them are offline. If
// it has no status of a server, a server must accept the question within `acceptance`.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "client/mqtt/connection.h"
#include "client/mqtt/dialect.h"

namespace tutti::client {

struct MqttChatOptions {
  MqttOptions connection;
  Duration silence = std::chrono::minutes(10);      // of the server, after which the turn fails
  Duration absence = std::chrono::seconds(5);       // the same, if the topic has no subscriber
  Duration acceptance = std::chrono::seconds(30);   // for the server to accept the question
  Duration reconnect = std::chrono::seconds(30);    // how long reconnecting is tried
  Duration longest_hold = std::chrono::minutes(5);  // longest wait that a server may ask for
};

class MqttChat {
 public:
  using Stopped = MqttConnection::Stopped;
  // Clock, sleep and network of the chat; by default those of this machine.
  struct World {
    const Clock* clock = nullptr;  // outlives the chat
    std::function<void(Duration)> sleep;
    std::function<Result<std::unique_ptr<MqttConnection>>(const MqttOptions&, const Stopped&)> dial;
  };

  // Connects and subscribes. Errors: those of MqttConnection.
  static Result<std::unique_ptr<MqttChat>> Begin(const MqttChatOptions& options,
                                                 std::unique_ptr<MqttDialect> dialect);
  static Result<std::unique_ptr<MqttChat>> Begin(const MqttChatOptions& options,
                                                 std::unique_ptr<MqttDialect> dialect, World world);

  struct Callbacks {
    std::function<void(std::string_view)> on_text;  // a piece of the answer
    std::function<void(Duration)> on_hold;          // the server asks for this wait; may be empty
    Stopped stopped;                                // may be empty
    // Reasons for a delay, as text for people: a lost connection, a server that went offline. May
    // be empty.
    std::function<void(const std::string&)> on_notice = nullptr;
    std::function<void(std::string_view)> on_reasoning = nullptr;  // a piece of it; may be empty
  };
  // Errors: unavailable (no server is online, or none answers); cancelled (`stopped` returned true;
  // the server is then asked to end the turn); those of the dialect and of the connection; an error
  // of the server, with its code as the reason.
  Status Ask(const MqttQuestion& question, const Callbacks& callbacks);

  // The items of the dialog. Errors: unimplemented, if the profile has no history.
  Result<std::vector<MqttItem>> History(const Stopped& stopped = nullptr);
  // Deletes the items of this dialog at the server.
  Status Clear(const Stopped& stopped = nullptr);
  // Continues with another dialog of the same server.
  Status GoOnWith(std::unique_ptr<MqttDialect> dialect);

 private:
  MqttChat(const MqttChatOptions& options, std::unique_ptr<MqttDialect> dialect, World world)
      : options_(options), dialect_(std::move(dialect)), world_(std::move(world)) {}
  TimePoint Now() const { return world_.clock->Now(); }
  Status Connect(const Stopped& stopped);
  // Tries to connect until it succeeds or `reconnect` is over.
  Status Reconnect(const Stopped& stopped);
  // Reconnect() after a loss, which is reported to on_notice.
  Status Recover(const Status& lost, const Callbacks& callbacks);
  // Ensures a connection and a server that may be online. Errors: unavailable; those of
  // Reconnect().
  Status FindServer(const Callbacks& callbacks);
  // Records the status of a server if `message` is one; returns whether it is.
  bool Note(const mqtt::Publish& message);
  bool AllAreOffline() const;
  Status Offline() const;
  // `hold`: how long the server wants to receive nothing.
  Status AskOnce(const MqttQuestion& question, const MqttSend& said, Duration hold,
                 const Callbacks& callbacks);
  Status Cancel(MqttReply& reply);
  // Sends `message`, and passes incoming messages to `take` until `take` returns true.
  Status Exchange(const MqttSend& message, Duration patience,
                  const std::function<bool(const mqtt::Publish&)>& take, const Stopped& stopped);

  const MqttChatOptions options_;
  std::unique_ptr<MqttDialect> dialect_;
  const World world_;
  std::unique_ptr<MqttConnection> connection_;  // null: no connection
  std::map<std::string, bool> servers_;         // whether a server is online, by its status topic
};

// `prefix` and random letters and digits, for ids of clients, sessions and messages.
std::string RandomName(const std::string& prefix);

}  // namespace tutti::client
