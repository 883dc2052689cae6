#include "services/auth/scopes.h"

#include <algorithm>

namespace tutti::auth {

std::string_view RouteClassName(RouteClass route) {
  switch (route) {
    case RouteClass::kPublic:
      return "public";
    case RouteClass::kGenerate:
      return "generate";
    case RouteClass::kEmbed:
      return "embed";
    case RouteClass::kTokenize:
      return "tokenize";
    case RouteClass::kModels:
      return "models";
    case RouteClass::kMetrics:
      return "metrics";
    case RouteClass::kAdmin:
      return "admin";
  }
  return "admin";
}

std::optional<RouteClass> FindRouteClass(std::string_view name) {
  for (const RouteClass route : kAllRouteClasses) {
    if (RouteClassName(route) == name) return route;
  }
  return std::nullopt;
}

bool HasModel(const Scopes& scopes, std::string_view model) {
  return scopes.models.empty() ||
         std::find(scopes.models.begin(), scopes.models.end(), model) != scopes.models.end();
}

}  // namespace tutti::auth
