// The table of topics: every kind of topic of both profiles, with the parties that may publish to
// it, subscribe to it, and use it as a Response Topic. Other topics are neither read nor allowed.
// Pure; any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace tutti::mqtt::chat {

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

}  // namespace tutti::mqtt::chat
