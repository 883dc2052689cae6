// NativeTopics: the topics of the native profile below a prefix of the operator's choice. What they
// are made of is wire/mqtt_topic.h's, which knows them below "llm/v1". Immutable; any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "wire/mqtt_topic.h"

namespace tutti::mqtt::profile {

class NativeTopics {
 public:
  // Error: invalid_value, for a prefix that is no topic name of plain levels.
  static Result<NativeTopics> Make(std::string prefix);

  const std::string& prefix() const { return prefix_; }

  // Nothing when it is no topic of a session.
  std::optional<wire::NativeTopic> Parse(std::string_view topic) const;
  // Whose status it is; nothing when it is no such topic.
  std::optional<std::string> ClientOf(std::string_view status_topic) const;

  std::string Of(std::string_view user) const;  // how all of the user's begin
  std::string Out(std::string_view user, std::string_view session) const;
  std::string ServerStatus(std::string_view node) const {
    return prefix_ + "/server/" + std::string(node) + "/status";
  }

  // Whether `user` may have its answers there. Errors: insufficient_scope for a topic of others,
  // invalid_value for no topic, and for one that its client publishes to.
  Status CheckResponse(std::string_view user, std::string_view topic) const;

 private:
  explicit NativeTopics(std::string prefix) : prefix_(std::move(prefix)) {}
  // As if below "llm/v1"; nothing when it is not below the prefix.
  std::optional<std::string> Canonical(std::string_view topic) const;

  std::string prefix_;
};

}  // namespace tutti::mqtt::profile
