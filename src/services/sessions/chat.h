// Chat: what users and their sessions mean by whichever door they come (MQTT's native profile, the
// WebSocket /v1/ws): which dialog a session is, who may see which response, and the verbs that one
// event answers. Frames, topics and the events of an answer are the doors' own.
//
// Immutable; any thread. `told` is called once, on the responses' strand or at once; not any more
// once the sessions are gone. What it is made from outlives it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "services/sessions/message.h"
#include "services/sessions/sessions.h"
#include "wire/mqtt_native.h"

namespace tutti::sessions {

struct ChatUser {
  std::string tenant;
  std::string name;    // wire::IsUserLevel
  bool known = false;  // this process has authenticated it; else a broker's topic names it
};

// The dialog of one of the user's sessions. A tenant's users share neither sessions nor, therefore,
// what was said there.
SessionKey ChatKey(const ChatUser& user, std::string project, std::string_view session);

// Whether the user may see a response of its tenant, by the dialog that it names: its own
// sessions', and those of no chat user where this process knows who asks.
bool MayRead(const ChatUser& user, std::string_view conversation);

struct ChatOptions {
  struct Project {
    std::string name, tenant;
  };
  std::string default_project = "default";  // of messages that name none
  std::vector<Project> projects;            // that may be named
  // Whether a session may say one more thing now; on the strand, of each new message that is else
  // taken. Empty: it always may. It outlives the dialogs. Errors: rate_limit_exceeded, with
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
  // Whether a message may name that project. Errors: not_found.
  Status CheckProject(const ChatUser& user, const std::string& project) const;
  // What a session's message is asked for when all else is well (Message::admit); empty: nothing.
  std::function<Result<Admitted>()> AdmissionOf(const SessionKey& key) const;

  // history, fork, clear or ping; not cancel and resume, which are the door's. The event that
  // answers it; errors: those of the service, request_too_large.
  using Told = std::function<void(Result<std::string> event)>;
  void Carry(const ChatUser& user, const std::string& session, const wire::MqttControl& control,
             Told told) const;

 private:
  void TellHistory(const SessionKey& key, const std::string& session,
                   const wire::MqttControl& control, Told told) const;

  const ChatOptions options_;
  Sessions& sessions_;
};

}  // namespace tutti::sessions
