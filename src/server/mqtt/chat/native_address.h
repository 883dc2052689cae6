// NativeAddress: the sender of a message and the destination of its answers, read from the topic
// and the properties alone, before the payload is parsed. Pure.
//
// The topic determines the user: behind a broker, its access rules allow only this user to publish
// there. If this process has authenticated the publisher, the user must be the same.
#pragma once

#include <optional>
#include <string>

#include "base/status.h"
#include "mqtt/message_port.h"
#include "protocol/chat/topic.h"
#include "server/mqtt/chat/native_topics.h"
#include "services/sessions/chat.h"

namespace tutti::mqtt::chat {

struct NativeAddress {
  std::string tenant, user;
  std::string credential;      // credential of the message
  std::string session;         // level of the topic
  bool authenticated = false;  // by this process
  std::string reply_topic;     // within the user's topics
  std::optional<std::string> correlation;
  // Not OK: why the message's Response Topic was refused; then the only answer is this error.
  Status refused;

  sessions::ChatUser Who() const { return {tenant, user, authenticated}; }
};

// `tenant`: tenant of publishers that this process has not authenticated. Errors, which cannot be
// answered: invalid_value (no topic of a session), insufficient_scope (the topic of another user).
Result<NativeAddress> AddressOf(const NativeTopics& topics, const Message& message,
                                const std::string& tenant);

}  // namespace tutti::mqtt::chat
