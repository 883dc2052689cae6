// Scopes: the classes of routes and the models that a caller may use.
//
// Every route of every server belongs to one RouteClass, so that a scope has the same meaning on
// all servers. Values; any thread.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::auth {

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

}  // namespace tutti::auth
