// The topics of chat: a table of their kinds, the names of the native profile, and the address of a
// message to it. Pure; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "mqtt/message_port.h"
#include "protocol/chat/topic.h"
#include "services/sessions/chat.h"

namespace tutti::mqtt::chat {

// Every kind of topic of both profiles. Other topics are neither read nor allowed.
enum class Topic : uint8_t {
  // --- the native profile ---
  kIn,
  kControl,
  kOut,
  kOwn,  // other topics below a user's name: Response Topics
  kClientStatus,
  kServerStatus,
  // --- a project ---
  kUserInput,
  kTemplate,
  kClear,
  kDelete,
  kReply,
  kProjectStatus,
};

enum class Party : uint8_t {
  kUnset,    // unset; does not compile
  kNobody,   // no client
  kUser,     // the user whose name is in the topic
  kAnybody,  // every authenticated client
  kMember,   // a member of the project
  kAdmin,    // an administrator of the project
};

// One kind of topic, with the parties that may publish to it, subscribe to it, and use it as a
// Response Topic.
struct TopicRule {
  Topic topic;
  // Begins with {prefix} or {project}; {user} and {session} are one level each, {rest} is any
  // number of levels.
  std::string_view pattern;
  Party publishes;  // may publish; unless kNobody, this process subscribes
  Party reads;      // may subscribe
  Party answered;   // may use it as a Response Topic

  constexpr bool of_project() const { return pattern.starts_with("{project}"); }
};

std::span<const TopicRule> TopicRules();

// The topic filter of a row; `first` is the prefix or the project.
std::string FilterOf(const TopicRule& rule, std::string_view first);

// NativeTopics: the topics of the native profile below a configurable prefix. Their syntax is
// defined by protocol/chat/topic.h for the prefix "llm/v1". Immutable.
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

// Maximum size of correlation data: it is copied into every event, and must not make events much
// larger.
inline constexpr size_t kMaxCorrelationBytes = 4 << 10;

// NativeAddress: the sender of a message and the destination of its answers, read from the topic
// and the properties alone, before the payload is parsed.
//
// The topic determines the user: behind a broker, its access rules allow only this user to publish
// there. If this process has authenticated the publisher, the user must be the same.
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
