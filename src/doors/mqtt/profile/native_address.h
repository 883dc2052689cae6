// NativeAddress: whose message it is and where its answers go: read from its topic and properties
// alone, before its payload is looked at. Pure.
//
// The user is the topic's: behind a broker the topic is the identity (the broker's rules let nobody
// else publish there), and where this process has authenticated the publisher, it must be the same.
#pragma once

#include <optional>
#include <string>

#include "base/status.h"
#include "doors/mqtt/profile/native_topics.h"
#include "mqtt/message_port.h"
#include "services/sessions/chat.h"
#include "wire/mqtt_topic.h"

namespace tutti::mqtt::profile {

struct NativeAddress {
  std::string tenant, user;
  std::string credential;      // as the message's
  std::string session;         // the topic's level
  bool authenticated = false;  // by this process
  std::string reply_topic;     // within the user's own
  std::optional<std::string> correlation;
  // OK, or why answers do not go where the message says: then there is none but this.
  Status refused;

  sessions::ChatUser Who() const { return {tenant, user, authenticated}; }
};

// `tenant`: of publishers that nobody here has authenticated. Errors: invalid_value (no topic of a
// session), insufficient_scope (the topic of another user); then there is nowhere to answer.
Result<NativeAddress> AddressOf(const NativeTopics& topics, const Message& message,
                                const std::string& tenant);

}  // namespace tutti::mqtt::profile
