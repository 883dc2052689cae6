// Names of MQTT topics as text: what may be a level, the topics of the native profile, and where an
// answer may be published. Pure.
//
//   llm/v1/{user}/{session}/in     a message of the client
//   llm/v1/{user}/{session}/ctl    what it wants of a turn or of the session
//   llm/v1/{user}/{session}/out    what the server answers
//   llm/v1/{user}/status           whether the client is there: its Will
//   llm/v1/server/{node}/status    whether the server is there
//   llm/v1/jobs/{pool}             stateless jobs
//
// `server` and `jobs` are therefore no names of users.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace tutti::wire {

inline constexpr size_t kMaxTopicBytes = 512;
inline constexpr size_t kMaxTopicLevels = 16;

// [A-Za-z0-9_.-], at least one.
bool IsTopicLevel(std::string_view name);
// Of a field that is one, or is not given (empty). Errors: invalid_value, of `param`.
Status CheckLevel(const std::string& name, const char* param);

// Whether a user can be called so: a level of at most 128 bytes that topics give no other meaning.
bool IsUserLevel(std::string_view name);

// All levels are such, and they are few and short enough.
bool IsTopicName(std::string_view topic);

enum class NativeChannel { kIn, kCtl, kOut };

struct NativeTopic {
  std::string user, session;
  NativeChannel channel = NativeChannel::kIn;
  friend bool operator==(const NativeTopic&, const NativeTopic&) = default;
};

// Nothing when it is no topic of a session.
std::optional<NativeTopic> ParseNativeTopic(std::string_view topic);
std::string BuildNativeTopic(const NativeTopic& topic);

// What a client may ask answers to be published to, in place of .../out: a topic of its own, none
// of a client's own channels (the server would speak to itself). Whatever else it is, nothing is
// published there. Errors: insufficient_scope for a topic of others, invalid_value for no topic.
Status CheckResponseTopic(std::string_view user, std::string_view topic);

}  // namespace tutti::wire
