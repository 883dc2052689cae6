// Grant: what a key or a user was given: a tenant, scopes, limits; and the same as JSON, which is
// how the store keeps it and how `tutti keys` and `tutti users` speak of it. Values; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "api/caller.h"
#include "base/status.h"
#include "services/auth/scopes.h"
#include "wire/json.h"
#include "wire/json_writer.h"

namespace tutti::auth {

inline constexpr size_t kMostModelsOfAScope = 64;
inline constexpr size_t kMostModelNameBytes = 256;
inline constexpr int64_t kMostOfALimit = int64_t{1} << 40;

// Each from 1 to kMostOfALimit. Kept here, and enforced by services/admission.
using Limits = api::CallerLimits;

struct Grant {
  std::string tenant = "default";
  Scopes scopes;
  Limits limits;
  friend bool operator==(const Grant&, const Grant&) = default;
};

// Names of keys, users and tenants: 1 to 64 of [A-Za-z0-9_.-]. They stand in logs, topics and
// metrics. `param` is what an error blames. Errors: invalid_value.
bool IsName(std::string_view name);
Status CheckName(std::string_view name, std::string_view param);
// Of a new user or key: the same, and no level of the server's own topics of MQTT, where the name
// stands too.
Status CheckNewName(std::string_view name);

// {"routes":["embed"],"models":["m"]}: a list that is empty or absent means the default.
void WriteScopes(const Scopes& scopes, wire::JsonWriter* json);
// {"requests_per_minute":60}: only those that are set.
void WriteLimits(const Limits& limits, wire::JsonWriter* json);

// Errors: invalid_value, unknown_parameter, of the member at fault.
Result<Scopes> ReadScopes(const wire::Json& value);
Result<Limits> ReadLimits(const wire::Json& value);

// The same as texts, for rows. Errors of reading: record_corrupt.
std::string ScopesText(const Scopes& scopes);
std::string LimitsText(const Limits& limits);
Result<Grant> GrantOfRow(std::string_view tenant, std::string_view scopes, std::string_view limits);

}  // namespace tutti::auth
