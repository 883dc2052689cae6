// Grant: tenant, scopes and limits of a key or user, and their JSON form, which the store and the
// commands `tutti keys` and `tutti users` use. Scopes: the classes of routes and the models that a
// caller may use. Values; any thread.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/caller.h"
#include "base/status.h"
#include "protocol/json/json.h"
#include "protocol/json/json_writer.h"

namespace tutti::auth {

// Every route of every server belongs to one class, so that a scope has the same meaning on all
// servers.
enum class RouteClass : uint8_t {
  kPublic,    // health: no authentication
  kGenerate,  // text out of a decoder, sessions and jobs with it
  kEmbed,     // vectors, ranks, scores
  kTokenize,
  kModels,   // what is served, and how: lists, metadata, statistics
  kMetrics,  // for the operator's scraper
  kAdmin,    // changes the server, or reveals data about callers
};

inline constexpr std::initializer_list<RouteClass> kAllRouteClasses = {
    RouteClass::kPublic, RouteClass::kGenerate, RouteClass::kEmbed, RouteClass::kTokenize,
    RouteClass::kModels, RouteClass::kMetrics,  RouteClass::kAdmin};

// "generate"; what `tutti keys` and tokens call it.
std::string_view RouteClassName(RouteClass route);
std::optional<RouteClass> FindRouteClass(std::string_view name);

// A set of classes. kPublic is in every one.
class RouteClasses {
 public:
  constexpr RouteClasses() = default;  // kPublic alone
  constexpr RouteClasses(std::initializer_list<RouteClass> classes) {
    for (const RouteClass each : classes) Add(each);
  }
  constexpr void Add(RouteClass route) { bits_ |= 1U << static_cast<unsigned>(route); }
  constexpr bool Has(RouteClass route) const {
    return (bits_ >> static_cast<unsigned>(route) & 1U) != 0;
  }
  friend constexpr bool operator==(RouteClasses, RouteClasses) = default;

 private:
  uint32_t bits_ = 1U << static_cast<unsigned>(RouteClass::kPublic);
};

// Default scope of keys and users.
inline constexpr RouteClasses kAllButAdmin = {RouteClass::kGenerate, RouteClass::kEmbed,
                                              RouteClass::kTokenize, RouteClass::kModels,
                                              RouteClass::kMetrics};

struct Scopes {
  RouteClasses routes = kAllButAdmin;
  std::vector<std::string> models;  // by the names they are served under; none: all
  friend bool operator==(const Scopes&, const Scopes&) = default;
};

// Whether `scopes` hold for the model of that name.
bool HasModel(const Scopes& scopes, std::string_view model);

// Access rules that routes of several servers share: a caller needs one of these scopes.
namespace rules {

inline constexpr RouteClasses kAnybody = {RouteClass::kPublic}, kGenerate = {RouteClass::kGenerate},
                              kEmbed = {RouteClass::kEmbed}, kTokenize = {RouteClass::kTokenize},
                              kModels = {RouteClass::kModels}, kMetrics = {RouteClass::kMetrics};
// Routes that change the server. On an open server only clients on this machine may use them
// (MayUse).
inline constexpr RouteClasses kOperate = {RouteClass::kAdmin};
// Routes on which the model decides between generating and encoding.
inline constexpr RouteClasses kWork = {RouteClass::kGenerate, RouteClass::kEmbed};
// Routes of every authenticated caller: about itself, and those that are not offered, where it gets
// the error that explains this.
inline constexpr RouteClasses kKnown = {RouteClass::kGenerate, RouteClass::kEmbed,
                                        RouteClass::kTokenize, RouteClass::kModels,
                                        RouteClass::kMetrics,  RouteClass::kAdmin};

}  // namespace rules

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
// topics, because the name becomes a topic level, and "." and "..", because it becomes a part of a
// path.
Status CheckNewName(std::string_view name);

// {"routes":["embed"],"models":["m"]}; an empty or absent list means the default.
void WriteScopes(const Scopes& scopes, protocol::JsonWriter* json);
// {"requests_per_minute":60}: only those that are set.
void WriteLimits(const Limits& limits, protocol::JsonWriter* json);

// Errors: invalid_value, unknown_parameter, of the member at fault.
Result<Scopes> ReadScopes(const protocol::Json& value);
// Those that an operator asks for. As ReadScopes, but an empty list is refused: it would read as
// nothing allowed, and mean everything.
Result<Scopes> ReadAskedScopes(const protocol::Json& value);
Result<Limits> ReadLimits(const protocol::Json& value);

// JSON text of scopes and limits, for database rows. Errors of GrantOfRow: record_corrupt.
std::string ScopesText(const Scopes& scopes);
std::string LimitsText(const Limits& limits);
Result<Grant> GrantOfRow(std::string_view tenant, std::string_view scopes, std::string_view limits);

}  // namespace tutti::auth
