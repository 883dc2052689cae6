// Turns of chats over MQTT, and the same over HTTP, timed from before they are sent, and what their
// samples say; used by `tutti bench mqtt`. Blocking; a client belongs to one thread.
//
// Definitions: accepted = the server's event that the message is durable; first = the first delta
// (MQTT) or piece of text (HTTP); end = the last event. All in seconds since sending.
#pragma once

#include <boost/json/object.hpp>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "client/http_client.h"
#include "client/mqtt/connection.h"
#include "mqtt/address.h"

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
class MqttChatUser {
 public:
  static Result<std::unique_ptr<MqttChatUser>> Connect(int port, const std::string& user);
  // The same to any server or broker; `prefix` of the users' topics, "llm/v1".
  static Result<std::unique_ptr<MqttChatUser>> Connect(const mqtt::Address& address,
                                                       const std::string& prefix,
                                                       const std::string& user);
  ChatAnswer RunTurn(const ChatTurn& request, TimePoint epoch);

 private:
  MqttChatUser(std::unique_ptr<client::MqttConnection> connection, std::string base)
      : connection_(std::move(connection)), base_(std::move(base)) {}
  const std::unique_ptr<client::MqttConnection> connection_;
  const std::string base_;  // {prefix}/{user}
  int said_ = 0;
};

// A client of a project with JSON replies.
class ProjectClient {
 public:
  // `min_interval`: between two sends.
  static Result<std::unique_ptr<ProjectClient>> Connect(int port, const std::string& project,
                                                        Duration min_interval);
  // Sends all messages, and waits for all replies; in the order of arrival.
  std::vector<ChatAnswer> RunTurns(const std::vector<ChatTurn>& requests, TimePoint epoch);

 private:
  ProjectClient(std::unique_ptr<client::MqttConnection> connection, std::string project,
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

// The rest evaluates samples: pure functions over plain values; any thread.
//
// A gate: a ratio and its limit. Times have goals instead, which never fail the bench.
struct MqttGate {
  std::string name;
  double measured = 0, limit = 0;
  bool at_most = true;  // else at least
  bool met() const { return at_most ? measured <= limit : measured >= limit; }
  std::string Line() const;  // "both / (A + B): 0.64, at most 0.75: met"
  boost::json::object Json() const;
};

// Answers of one level and transport.
struct TransportSummary {
  int answers = 0, failed = 0, lossy = 0;  // lossy: deltas were lost, the last event had it all
  double seconds = 0;                      // from the first sending to the last end
  double tokens_per_s = 0, events_per_s = 0;
  std::vector<double> accepted_s, first_s, end_s;  // of successful answers
};
TransportSummary Summarize(std::span<const ChatAnswer> answers, double seconds);
// One row of the table.
std::string SummaryLine(const std::string& name, const TransportSummary& summary);
boost::json::object SummaryJson(const TransportSummary& summary);

// Share of a dialog's prompt tokens that came from the prefix cache, over the turns after the first
// whose history was not cut (whose prompt is not shorter than the one before).
struct CachedShare {
  double share = 0;  // cached / prompt tokens
  int turns = 0, cut = 0;
};
CachedShare CachedShareOf(std::span<const ChatAnswer> turns);

// "word-0042": the secret of a client; contained in no other client's.
std::string SecretOf(int client);
// The other client whose secret an answer to `client` contains; -1: none.
int ForeignSecretIn(const std::string& text, int client, int clients);

}  // namespace tutti::bench
