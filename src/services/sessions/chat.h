// Chat: the common logic of the chat protocols (native MQTT profile, WebSocket /v1/ws): maps a
// user's session to its dialog, checks access to responses, and executes the verbs that one event
// answers. Each protocol implements its own frames, topics and response events.
//
// Immutable; any thread. `done` is called once, on the responses' strand or at once, and never
// after the Sessions are destroyed. The Sessions must outlive it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "protocol/chat/native.h"
#include "services/sessions/message.h"
#include "services/sessions/sessions.h"

namespace tutti::sessions {

struct ChatUser {
  std::string tenant;
  std::string name;    // protocol::IsUserLevel
  bool known = false;  // this process has authenticated it; else a broker's topic names it
};

// Dialog of a user's session. The key contains the user's name, so users of a tenant do not share
// sessions.
SessionKey ChatKey(const ChatUser& user, std::string project, std::string_view session);

// Whether the user may read a response of its tenant, which belongs to dialog `conversation`.
// Allowed: the user's own sessions and, for users that this process has authenticated, dialogs that
// belong to no chat user.
bool MayRead(const ChatUser& user, std::string_view conversation);

struct ChatOptions {
  struct Project {
    std::string name, tenant;
  };
  std::string default_project = "default";  // of messages that name none
  std::vector<Project> projects;            // that may be named
  // Rate limit of a session; called on the strand for each new message that passed all other
  // checks. Empty: no limit. It must outlive the Sessions. Errors: rate_limit_exceeded, with
  // retry-after.
  std::function<Result<Admitted>(const SessionKey&)> admit;
  std::function<int64_t()> unix_ms;  // the wall clock
};

class Chat {
 public:
  Chat(ChatOptions options, Sessions& sessions)
      : options_(std::move(options)), sessions_(sessions) {}

  // `project`: as asked for; empty: the default one.
  SessionKey KeyOf(const ChatUser& user, const std::string& project,
                   std::string_view session) const;
  // OK if a message may name that project. Errors: not_found.
  Status CheckProject(const ChatUser& user, const std::string& project) const;
  // The Message::admit callback for messages of that session; empty: no limit.
  std::function<Result<Admitted>()> AdmissionOf(const SessionKey& key) const;

  // Executes history, fork, clear or ping, and passes the answering event to `done`. The servers
  // themselves implement cancel, resume and subscribe. Errors: those of Sessions;
  // request_too_large.
  using Callback = std::function<void(Result<std::string> event)>;
  void Carry(const ChatUser& user, const std::string& session, const protocol::MqttControl& control,
             Callback done) const;

 private:
  void SendHistory(const SessionKey& key, const std::string& session,
                   const protocol::MqttControl& control, Callback done) const;

  const ChatOptions options_;
  Sessions& sessions_;
};

}  // namespace tutti::sessions
