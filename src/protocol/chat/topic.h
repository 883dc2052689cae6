// MQTT topic names: valid levels, the topics of the native profile, and the topics to which an
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

namespace tutti::protocol {

inline constexpr size_t kMaxTopicBytes = 512;
inline constexpr size_t kMaxTopicLevels = 16;

// [A-Za-z0-9_.-], at least one.
bool IsTopicLevel(std::string_view name);
// Checks that field `name` is empty or a topic level. Errors: invalid_value for `param`.
Status CheckLevel(const std::string& name, const char* param);

// Whether `name` is valid for a user: a topic level of at most 128 bytes that is not reserved.
bool IsUserLevel(std::string_view name);

// Whether all levels are valid, and the limits of levels and bytes are kept.
bool IsTopicName(std::string_view topic);

enum class NativeChannel { kIn, kCtl, kOut };

struct NativeTopic {
  std::string user, session;
  NativeChannel channel = NativeChannel::kIn;
  friend bool operator==(const NativeTopic&, const NativeTopic&) = default;
};

// nullopt if it is not the topic of a session.
std::optional<NativeTopic> ParseNativeTopic(std::string_view topic);
std::string BuildNativeTopic(const NativeTopic& topic);

// Checks a client's reply topic, which replaces .../out: it must be a topic of the client, but not
// one that the server subscribes to, because the server would answer itself. Errors:
// insufficient_scope (another client's topic), invalid_value (not a topic).
Status CheckResponseTopic(std::string_view user, std::string_view topic);

}  // namespace tutti::protocol
