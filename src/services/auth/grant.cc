#include "services/auth/grant.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/quote.h"
#include "base/utf8.h"

namespace tutti::auth {
namespace {

using protocol::Json;
using protocol::JsonWriter;

Status Unknown(std::string_view scope, std::string_view name) {
  return InvalidArgument("unknown_parameter", std::string(scope) + " has no member " + Quote(name))
      .WithParam(std::string(scope));
}

std::string RouteNames() {
  std::string names;
  for (const RouteClass route : kAllRouteClasses) {
    if (route == RouteClass::kPublic) continue;
    names += (names.empty() ? "" : ", ") + std::string(RouteClassName(route));
  }
  return names;
}

Result<RouteClasses> ReadRoutes(const Json& value) {
  if (!value.is_array()) return BadValue("routes", "routes must be a list");
  if (value.get_array().empty()) return kAllButAdmin;
  RouteClasses routes;
  for (const Json& each : value.get_array()) {
    const std::optional<RouteClass> route =
        each.is_string() ? FindRouteClass(std::string_view(each.get_string())) : std::nullopt;
    if (!route.has_value() || *route == RouteClass::kPublic)
      return BadValue("routes",
                      (each.is_string() ? Quote(each.get_string()) : "an entry of routes") +
                          " is no route class; routes may be " + RouteNames());
    routes.Add(*route);
  }
  return routes;
}

Result<std::vector<std::string>> ReadModels(const Json& value) {
  if (!value.is_array() || value.get_array().size() > kMaxModelsOfAScope)
    return BadValue("models", "models must be a list of at most " +
                                  std::to_string(kMaxModelsOfAScope) + " names");
  std::vector<std::string> models;
  for (const Json& each : value.get_array()) {
    const std::string_view name =
        each.is_string() ? std::string_view(each.get_string()) : std::string_view();
    if (name.empty() || name.size() > kMaxModelNameBytes || !IsValidUtf8(name))
      return BadValue("models", "a model's name has 1 to " + std::to_string(kMaxModelNameBytes) +
                                    " bytes of UTF-8");
    models.emplace_back(name);
  }
  std::sort(models.begin(), models.end());
  models.erase(std::unique(models.begin(), models.end()), models.end());
  return models;
}

Status Corrupt(const Status& why) {
  return {StatusCode::kDataLoss, "record_corrupt",
          "the store has a key or user that cannot be read: " + why.message()};
}

}  // namespace

std::string_view RouteClassName(RouteClass route) {
  constexpr std::array<std::string_view, 7> kRouteNames = {
      "public", "generate", "embed", "tokenize", "models", "metrics", "admin"};
  static_assert(kRouteNames.size() == kAllRouteClasses.size());
  return kRouteNames[static_cast<size_t>(route)];
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

bool IsName(std::string_view name) {
  return !name.empty() && name.size() <= 64 && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.' || c == '-';
  });
}

Status CheckName(std::string_view name, std::string_view param) {
  if (IsName(name)) return OkStatus();
  return BadValue(std::string(param), "a " + std::string(param) +
                                          " has 1 to 64 characters of A-Z a-z 0-9 _ . -, not " +
                                          Quote(name));
}

Status CheckNewName(std::string_view name) {
  RETURN_IF_ERROR(CheckName(name, "name"));
  if (name == "." || name == "..")
    return BadValue("name", Quote(name) + " has a meaning in paths; choose another name");
  if (name != "server" && name != "jobs") return OkStatus();
  return BadValue("name", Quote(name) +
                              " is a level of the server's own topics over MQTT; choose "
                              "another name");
}

void WriteScopes(const Scopes& scopes, JsonWriter* json) {
  json->BeginObject().Key("routes").BeginArray();
  if (scopes.routes != kAllButAdmin) {
    for (const RouteClass route : kAllRouteClasses) {
      if (route != RouteClass::kPublic && scopes.routes.Has(route))
        json->String(RouteClassName(route));
    }
  }
  json->EndArray().Key("models").BeginArray();
  for (const std::string& model : scopes.models) json->String(model);
  json->EndArray().EndObject();
}

void WriteLimits(const Limits& limits, JsonWriter* json) {
  json->BeginObject();
  for (const auto& [name, member] : api::kCallerLimits) {
    if ((limits.*member).has_value()) json->Member(name, *(limits.*member));
  }
  json->EndObject();
}

Result<Scopes> ReadScopes(const Json& value) {
  if (!value.is_object()) return BadValue("scopes", "scopes must be an object");
  Scopes scopes;
  for (const auto& [name, each] : value.get_object()) {
    if (each.is_null() && (name == "routes" || name == "models"))
      continue;  // as shown: the default
    if (name == "routes") {
      ASSIGN_OR_RETURN(scopes.routes, ReadRoutes(each));
    } else if (name == "models") {
      ASSIGN_OR_RETURN(scopes.models, ReadModels(each));
    } else {
      return Unknown("scopes", std::string_view(name));
    }
  }
  return scopes;
}

Result<Scopes> ReadAskedScopes(const Json& value) {
  if (value.is_object()) {
    for (const auto& [name, each] : value.get_object()) {
      if ((name == "routes" || name == "models") && each.is_array() && each.get_array().empty())
        return BadValue(std::string(name), "an empty list allows nothing; leave " +
                                               Quote(std::string_view(name)) +
                                               " out, or give null for the default");
    }
  }
  return ReadScopes(value);
}

Result<Limits> ReadLimits(const Json& value) {
  if (!value.is_object()) return BadValue("limits", "limits must be an object");
  Limits limits;
  for (const auto& [name, each] : value.get_object()) {
    const auto found = std::find_if(
        api::kCallerLimits.begin(), api::kCallerLimits.end(),
        [key = std::string_view(name)](const auto& limit) { return limit.first == key; });
    if (found == api::kCallerLimits.end()) return Unknown("limits", std::string_view(name));
    if (each.is_null()) continue;
    if (!each.is_int64() || each.get_int64() < 1 || each.get_int64() > kMaxOfALimit)
      return BadValue(std::string(found->first), std::string(found->first) +
                                                     " must be a whole number from 1 to " +
                                                     std::to_string(kMaxOfALimit));
    limits.*found->second = each.get_int64();
  }
  return limits;
}

std::string ScopesText(const Scopes& scopes) {
  std::string text;
  JsonWriter json(&text);
  WriteScopes(scopes, &json);
  return text;
}

std::string LimitsText(const Limits& limits) {
  std::string text;
  JsonWriter json(&text);
  WriteLimits(limits, &json);
  return text;
}

Result<Grant> GrantOfRow(std::string_view tenant, std::string_view scopes,
                         std::string_view limits) {
  const Result<protocol::JsonDocument> scopes_json = protocol::ParseJson(scopes);
  if (!scopes_json.ok()) return Corrupt(scopes_json.status());
  const Result<protocol::JsonDocument> limits_json = protocol::ParseJson(limits);
  if (!limits_json.ok()) return Corrupt(limits_json.status());
  Result<Scopes> read_scopes = ReadScopes(scopes_json->root());
  if (!read_scopes.ok()) return Corrupt(read_scopes.status());
  const Result<Limits> read_limits = ReadLimits(limits_json->root());
  if (!read_limits.ok()) return Corrupt(read_limits.status());
  return Grant{std::string(tenant), *std::move(read_scopes), *read_limits};
}

}  // namespace tutti::auth
