// NativeTopics: the topics of the native profile below a configurable prefix. Their syntax is
// defined by protocol/chat/topic.h for the prefix "llm/v1". Immutable; any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "protocol/chat/topic.h"

namespace tutti::mqtt::chat {

class NativeTopics {
 public:
  // Error: invalid_value, for a prefix that is no topic name of plain levels.
  static Result<NativeTopics> Make(std::string prefix);

  const std::string& prefix() const { return prefix_; }

  // Parses a topic of a session; nothing for other topics.
  std::optional<protocol::NativeTopic> Parse(std::string_view topic) const;
  // The user of a client's status topic; nothing for other topics.
  std::optional<std::string> ClientOf(std::string_view status_topic) const;

  std::string Of(std::string_view user) const;  // prefix of all topics of the user
  std::string Out(std::string_view user, std::string_view session) const;
  std::string ServerStatus(std::string_view node) const {
    return prefix_ + "/server/" + std::string(node) + "/status";
  }

  // Checks whether answers to `user` may be sent to `topic`. Errors: insufficient_scope for a topic
  // of another user; invalid_value for an invalid topic, and for one that the client publishes to.
  Status CheckResponse(std::string_view user, std::string_view topic) const;

 private:
  explicit NativeTopics(std::string prefix) : prefix_(std::move(prefix)) {}
  // The topic with the prefix replaced by "llm/v1"; nothing if it is not below the prefix.
  std::optional<std::string> Canonical(std::string_view topic) const;

  std::string prefix_;
};

}  // namespace tutti::mqtt::chat
