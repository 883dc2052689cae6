// The table of topics: every kind that clients have to do with, of both profiles, and who may
// publish there, read there and be answered there. What is not in it nobody listens to, and nobody
// may use. Pure; any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace tutti::mqtt::profile {

enum class Topic : uint8_t {
  // --- the native profile ---
  kIn,
  kControl,
  kOut,
  kOwn,  // whatever else lies below a user's name: Response Topics
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
  kUnsaid,   // does not compile
  kNobody,   // no client
  kUser,     // the user whose name is in the topic
  kAnybody,  // who is logged in
  kMember,   // who takes part in the project
  kAdmin,    // those of them who administer
};

struct TopicRule {
  Topic topic;
  // {prefix} or {project} is the first part; {user} and {session} are one level each, {rest} any
  // number.
  std::string_view pattern;
  Party speaks;    // may publish there; this process listens unless it is nobody
  Party reads;     // may subscribe to it
  Party answered;  // may name it as a Response Topic

  constexpr bool of_project() const { return pattern.starts_with("{project}"); }
};

std::span<const TopicRule> TopicRules();

// The filter of a row's topics, `first` being the prefix or the project.
std::string FilterOf(const TopicRule& rule, std::string_view first);

}  // namespace tutti::mqtt::profile
