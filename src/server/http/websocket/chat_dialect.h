// ChatDialect: chat sessions of a user over one WebSocket (/v1/ws). Frames and events are those of
// MQTT's native profile, byte for byte, except that a frame names its session, which is part of the
// topic in MQTT; sessions::Chat defines their meaning. Each message goes to its session at once;
// the session decides about order and policies. Turns outlive the connection.
//
// Owned by its SocketHandler; used on the connection's thread, except Understand().
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "protocol/chat/chat_frame.h"
#include "protocol/schema/checked_object.h"
#include "protocol/schema/query_parameters.h"
#include "server/http/connection/connection.h"
#include "server/http/memory_budget.h"
#include "server/http/websocket/chat_answer.h"
#include "server/http/websocket/socket_clients.h"
#include "server/http/websocket/socket_host.h"
#include "services/sessions/chat.h"

namespace tutti::http {

class ChatDialect final : private ChatHost {
 public:
  using Tag = protocol::FrameTag;
  struct Understood {
    Tag tag;
    Result<protocol::ChatFrame> message = Internal("nothing was read");
  };
  static Understood Understand(std::string_view text, const protocol::ParseOptions& options);
  // The credential in the frame; null if there is none.
  static const std::string* TokenOf(const protocol::ChatFrame& frame);
  // Whether this refusal ends the connection at once.
  static bool EndsIt(const Status& refusal) { return protocol::IsNoFrame(refusal); }

  ChatDialect(Connection& connection, SocketHost& host) : connection_(connection), host_(host) {}

  // Reads the options in the URL, before the upgrade. Errors: invalid_value, unknown_parameter.
  Status Open();
  // Called when the caller is authenticated. Errors: insufficient_scope (the URL names another
  // user), invalid_value (the URL's user name is malformed).
  Status Identified();
  void Begin();  // called after Identified(), when the socket is open

  void Take(protocol::ChatFrame frame, Tag tag, BudgetShare share);
  void SendError(const Status& why, const Tag& tag) {
    SendError(why, Connection::Origin::kServer, tag);
  }
  // Sends a few events of each answer in turn, so that no answer waits for the end of another.
  void Pump();
  // Whether nothing runs. Followed jobs do not count: they must not delay the end of the
  // connection.
  bool idle() const;

 private:
  struct Verb {
    std::string session;
    protocol::MqttControl control;
    Tag tag;
  };

  void TakeMessage(protocol::ChatFrame frame, Tag tag, BudgetShare share);
  void TakeControl(protocol::ChatFrame frame, Tag tag);
  void Follow(std::string job_id, int64_t version, Tag tag);
  void Cancel(const protocol::ChatFrame& frame, Tag tag);
  void CancelOf(const std::shared_ptr<responses::Response>& response, Tag tag);
  void Resume(const protocol::ChatFrame& frame, Tag tag);
  // Looks up the response, if the user may see it.
  void Find(const std::string& response_id, Tag tag,
            std::function<void(const std::shared_ptr<responses::Response>&)> then);
  // The response of that dialog that is being sent here, or the next one; null: none.
  std::shared_ptr<responses::Response> RunningOf(const sessions::SessionKey& key) const;
  void RunVerbs();  // runs the next waiting verb, if none runs

  // Whether a new long answer may begin, and whether there is a place for it. If not, an error is
  // sent.
  bool MayBegin(const Tag& tag);
  bool HasPlace(const Tag& tag);
  // Errors: insufficient_scope.
  Status CheckUser() const;
  std::shared_ptr<ChatAnswer> AddAnswer(Tag tag);
  void Sweep();

  // --- ChatHost ---
  void Send(std::string event, const Tag& tag) override;
  void SendError(const Status& why, Connection::Origin origin, const Tag& tag) override;
  void Refuse(const Status& why, Connection::Origin origin, const Tag& tag) override;
  void Supersede(ChatAnswer& newer) override;
  May MaySend(const ChatAnswer& answer) const override;
  bool Sends(const responses::Response& response) const override;
  void Changed() override { Pump(); }

  const sessions::Chat& chat() const { return *connection_.context().deps.chat; }

  Connection& connection_;
  SocketHost& host_;
  protocol::ChatQuery query_;
  sessions::ChatUser user_;  // without a name if the caller can have no sessions
  SocketClients::Place place_;
  std::vector<std::shared_ptr<ChatAnswer>> answers_;
  size_t turn_ = 0;  // index of the answer that is pumped first
  bool pumping_ = false;
  std::deque<Verb> verbs_;  // waiting: answers may be long, so verbs run one at a time
  bool verb_runs_ = false;
  size_t looking_ = 0;  // number of running look-ups of responses
};

}  // namespace tutti::http
