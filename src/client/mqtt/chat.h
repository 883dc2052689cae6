// MqttChat: one dialog with a server over MQTT, question by question. Blocking; one thread at a
// time.
//
// A connection that is lost is made again, also in the middle of an answer: the question is said
// again, or what is missing of the answer asked for; the server answers once. Where a server asks a
// client to wait (rate_limit_exceeded with retry-after), it waits as told and says it again.
//
// Behind a broker a question is kept for a server that is away. So the chat reads what servers say
// of themselves, where the broker lets it: with all of them offline it asks nothing. Where it hears
// nothing of them, the server must take the question within `acceptance`.
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
  Duration silence = std::chrono::minutes(10);      // of the server, before a turn is given up
  Duration absence = std::chrono::seconds(5);       // likewise, where nobody had subscribed
  Duration acceptance = std::chrono::seconds(30);   // until it says that it took the question
  Duration reconnect = std::chrono::seconds(30);    // how long it is tried
  Duration longest_hold = std::chrono::minutes(5);  // a server that asks for more is not waited for
};

class MqttChat {
 public:
  using Stopped = MqttConnection::Stopped;
  // What it stands on; by default the network and the time of this machine.
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
    std::function<void(Duration)> on_hold;          // the server asks to wait so long; may be empty
    Stopped stopped;                                // may be empty
    // What holds the answer up, for people: a lost connection, a server that went. May be empty.
    std::function<void(const std::string&)> on_notice = nullptr;
    std::function<void(std::string_view)> on_reasoning = nullptr;  // a piece of it; may be empty
  };
  // Errors: unavailable (no server is there, or none answers); cancelled (stopped; then the server
  // is told to end the turn); those of the dialect and of the connection; what the server says, its
  // code as the reason.
  Status Ask(const MqttQuestion& question, const Callbacks& callbacks);

  // Errors: unimplemented, where the profile has no such thing.
  Result<std::vector<MqttItem>> History(const Stopped& stopped = nullptr);
  // What was said is forgotten, in the dialog that this one is.
  Status Clear(const Stopped& stopped = nullptr);
  // Goes on with another dialog of the same server.
  Status GoOnWith(std::unique_ptr<MqttDialect> dialect);

 private:
  MqttChat(const MqttChatOptions& options, std::unique_ptr<MqttDialect> dialect, World world)
      : options_(options), dialect_(std::move(dialect)), world_(std::move(world)) {}
  TimePoint Now() const { return world_.clock->Now(); }
  Status Connect(const Stopped& stopped);
  // Connects again, and again, for `reconnect`.
  Status Reconnect(const Stopped& stopped);
  // The same after a loss, which is told.
  Status Recover(const Status& lost, const Callbacks& callbacks);
  // A connection, and a server that may be there. Errors: unavailable; as Reconnect.
  Status FindServer(const Callbacks& callbacks);
  // Whether `message` was a server's word of itself; then it is noted.
  bool Note(const mqtt::Publish& message);
  bool AllAreOffline() const;
  Status Offline() const;
  // `hold`: how long the server wants to hear nothing.
  Status AskOnce(const MqttQuestion& question, const MqttSend& said, Duration hold,
                 const Callbacks& callbacks);
  Status Cancel(MqttReply& reply);
  // Says `message`, and gives each that comes to `take` until that says true.
  Status Exchange(const MqttSend& message, Duration patience,
                  const std::function<bool(const mqtt::Publish&)>& take, const Stopped& stopped);

  const MqttChatOptions options_;
  std::unique_ptr<MqttDialect> dialect_;
  const World world_;
  std::unique_ptr<MqttConnection> connection_;  // null: lost
  std::map<std::string, bool> servers_;         // whether they are there, by topic, as they say
};

// Letters and digits that nobody else has drawn: for ids of clients, sessions and messages.
std::string RandomName(const std::string& prefix);

}  // namespace tutti::client
