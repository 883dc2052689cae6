// Turns of chats over MQTT, and the same over HTTP, timed from before they are sent; used by `tutti
// bench mqtt`. Blocking; a client belongs to one thread.
//
// Definitions: accepted = the server's event that the message is durable; first = the first delta
// (MQTT) or piece of text (HTTP); end = the last event. All in seconds since sending.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "client/http_client.h"
#include "client/mqtt/connection.h"

namespace tutti::bench {

struct ChatAnswer {
  Status status;
  std::string text;
  double accepted_s = 0, first_s = 0, end_s = 0;
  double ended_at_s = 0;  // since the caller's epoch
  int events = 0;         // messages, or events of SSE
  int output_tokens = 0, prompt_tokens = 0, cached_tokens = 0;
  int64_t turn = 0;  // of the session, from 1
  bool lost_deltas = false;
};

struct ChatTurn {
  std::string session, text;
  int max_tokens = 64;
  bool ignore_eos = true;
  std::string cache_salt;  // only prompts of equal salt share the prefix cache; empty: none is sent
};

// One user over the native profile, without spacing.
class MqttTalker {
 public:
  static Result<std::unique_ptr<MqttTalker>> Connect(int port, const std::string& user);
  ChatAnswer RunTurn(const ChatTurn& request, TimePoint epoch);

 private:
  MqttTalker(std::unique_ptr<client::MqttConnection> connection, std::string base)
      : connection_(std::move(connection)), base_(std::move(base)) {}
  const std::unique_ptr<client::MqttConnection> connection_;
  const std::string base_;  // llm/v1/{user}
  int said_ = 0;
};

// A client of a project with JSON replies.
class ProjectTalker {
 public:
  // `min_interval`: between two sends.
  static Result<std::unique_ptr<ProjectTalker>> Connect(int port, const std::string& project,
                                                        Duration min_interval);
  // Sends all messages, and waits for all replies; in the order of arrival.
  std::vector<ChatAnswer> RunTurns(const std::vector<ChatTurn>& requests, TimePoint epoch);

 private:
  ProjectTalker(std::unique_ptr<client::MqttConnection> connection, std::string project,
                std::string client)
      : connection_(std::move(connection)),
        project_(std::move(project)),
        client_(std::move(client)) {}
  const std::unique_ptr<client::MqttConnection> connection_;
  const std::string project_, client_;
  int said_ = 0;
};

// The same over POST /v1/chat/completions, without a session.
ChatAnswer RunTurnOverHttp(const client::Server& server, const std::string& model,
                           const ChatTurn& request, TimePoint epoch);

// Pure: adds one event of the native profile to an incomplete answer; true: the answer has ended.
bool ReadNativeEvent(std::string_view payload, double since_sent_s, ChatAnswer* answer);

}  // namespace tutti::bench
