// ChatDialect: users and their sessions over one WebSocket (/v1/ws), as MQTT's native profile has
// them: the same frames but for the session, which stands in a topic there, the same events to the
// byte, what both mean in sessions::Chat. Each message goes to its session at once, which has its
// own order and policies; turns outlive the connection.
//
// Owned by its SocketExchange; its thread, but for Understand().
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "doors/http/chat_answer.h"
#include "doors/http/connection.h"
#include "doors/http/memory_budget.h"
#include "doors/http/socket_host.h"
#include "services/sessions/chat.h"
#include "wire/chat_frame.h"
#include "wire/query_parameters.h"
#include "wire/request_placement.h"

namespace tutti::http {

class ChatDialect final : private ChatHost {
 public:
  using Tag = wire::FrameTag;
  struct Understood {
    Tag tag;
    Result<wire::ChatFrame> message = Internal("nothing was read");
  };
  static Understood Understand(std::string_view text, const wire::ParseOptions& options);
  // Null where it says nothing of who asks.
  static const std::string* TokenOf(const wire::ChatFrame& frame);
  // Whether what was refused with that ends the connection at once.
  static bool EndsIt(const Status& refusal) { return wire::IsNoFrame(refusal); }

  ChatDialect(Connection& connection, SocketHost& host) : connection_(connection), host_(host) {}

  // Before the upgrade: what is asked for in the URL. Errors: invalid_value, unknown_parameter.
  Status Open();
  // Who asks is known. Errors: insufficient_scope (the URL names another user), invalid_value (what
  // it names is no user).
  Status Identified();
  void Begin();  // and there is a socket

  void Take(wire::ChatFrame frame, Tag tag, BudgetShare share);
  void SayError(const Status& why, const Tag& tag) {
    SayError(why, Connection::Origin::kDoor, tag);
  }
  // Answer by answer, a few events each, so that none waits for another's to end.
  void Pump();
  // Who follows a job waits for what others do: that holds up no end.
  bool idle() const;

 private:
  struct Verb {
    std::string session;
    wire::MqttControl control;
    Tag tag;
  };

  void TakeMessage(wire::ChatFrame frame, Tag tag, BudgetShare share);
  void TakeControl(wire::ChatFrame frame, Tag tag);
  void Follow(std::string job_id, int64_t version, Tag tag);
  void Cancel(const wire::ChatFrame& frame, Tag tag);
  void CancelOf(const std::shared_ptr<responses::Response>& response, Tag tag);
  void Resume(const wire::ChatFrame& frame, Tag tag);
  // The response of that id, if the user may see it.
  void Find(const std::string& response_id, Tag tag,
            std::function<void(const std::shared_ptr<responses::Response>&)> then);
  // Of that dialog, what is being answered here, or else comes first; null: nothing.
  std::shared_ptr<responses::Response> RunningOf(const sessions::SessionKey& key) const;
  void RunVerbs();  // the next that waits, if none runs

  // Whether something may be begun that is answered over a time, and whether there is a place for
  // it; it is told if not.
  bool MayBegin(const Tag& tag);
  bool HasPlace(const Tag& tag);
  // Errors: insufficient_scope.
  Status CheckUser() const;
  std::shared_ptr<ChatAnswer> AddAnswer(Tag tag);
  void Sweep();

  // --- ChatHost ---
  void Say(std::string event, const Tag& tag) override;
  void SayError(const Status& why, Connection::Origin origin, const Tag& tag) override;
  void Refuse(const Status& why, Connection::Origin origin, const Tag& tag) override;
  void Supersede(ChatAnswer& newer) override;
  May MayTell(const ChatAnswer& answer) const override;
  bool Tells(const responses::Response& response) const override;
  void Changed() override { Pump(); }

  const sessions::Chat& chat() const { return *connection_.context().deps.chat; }

  Connection& connection_;
  SocketHost& host_;
  wire::ChatQuery query_;
  sessions::ChatUser user_;  // without a name where who asks can have no sessions
  std::vector<std::shared_ptr<ChatAnswer>> answers_;
  size_t turn_ = 0;  // who is pumped first
  bool pumping_ = false;
  std::deque<Verb> verbs_;  // that wait: their answers may be long, so one follows the other
  bool verb_runs_ = false;
  size_t looking_ = 0;  // responses that are being looked for
};

}  // namespace tutti::http
