// Grant: tenant, scopes and limits of a key or user, and their JSON form, which the store and the
// commands `tutti keys` and `tutti users` use. Values; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "api/caller.h"
#include "base/status.h"
#include "protocol/json/json.h"
#include "protocol/json/json_writer.h"
#include "services/auth/scopes.h"

namespace tutti::auth {

inline constexpr size_t kMaxModelsOfAScope = 64;
inline constexpr size_t kMaxModelNameBytes = 256;
inline constexpr int64_t kMaxOfALimit = int64_t{1} << 40;

// Each limit is in [1, kMaxOfALimit]. services/admission enforces them.
using Limits = api::CallerLimits;

struct Grant {
  std::string tenant = "default";
  Scopes scopes;
  Limits limits;
  friend bool operator==(const Grant&, const Grant&) = default;
};

// Names of keys, users and tenants: 1 to 64 of [A-Za-z0-9_.-], because they appear in logs, topics
// and metrics. `param` names the field in errors. Errors: invalid_value.
bool IsName(std::string_view name);
Status CheckName(std::string_view name, std::string_view param);
// Like CheckName, for a new user or key; also refuses the reserved levels of the server's MQTT
// topics, because the name becomes a topic level.
Status CheckNewName(std::string_view name);

// {"routes":["embed"],"models":["m"]}; an empty or absent list means the default.
void WriteScopes(const Scopes& scopes, protocol::JsonWriter* json);
// {"requests_per_minute":60}: only those that are set.
void WriteLimits(const Limits& limits, protocol::JsonWriter* json);

// Errors: invalid_value, unknown_parameter, of the member at fault.
Result<Scopes> ReadScopes(const protocol::Json& value);
Result<Limits> ReadLimits(const protocol::Json& value);

// JSON text of scopes and limits, for database rows. Errors of GrantOfRow: record_corrupt.
std::string ScopesText(const Scopes& scopes);
std::string LimitsText(const Limits& limits);
Result<Grant> GrantOfRow(std::string_view tenant, std::string_view scopes, std::string_view limits);

}  // namespace tutti::auth
