#include "services/auth/control.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <optional>

#include "base/quote.h"
#include "protocol/control.h"
#include "protocol/json/json.h"
#include "protocol/json/json_writer.h"
#include "services/auth/key_text.h"

namespace tutti::auth {
namespace {

using protocol::BadControl;
using protocol::Json;
using protocol::JsonObject;
using protocol::JsonWriter;

constexpr size_t kMaxValues = 1024;  // of one request

// The members of a request; all names are checked in advance.
class Members {
 public:
  explicit Members(const JsonObject& object) : object_(object) {}

  bool Has(std::string_view name) const { return Find(name) != nullptr; }
  Result<std::string> Text(std::string_view name) const {
    const Json* const value = Find(name);
    if (value == nullptr)
      return InvalidArgument("missing_required_parameter", std::string(name) + " is needed")
          .WithParam(std::string(name));
    return protocol::ControlText(*value, name);
  }

  // False where it is absent.
  Result<bool> Flag(std::string_view name) const {
    const Json* const value = Find(name);
    if (value != nullptr && !value->is_bool())
      return BadControl(name, std::string(name) + " must be true or false");
    return value != nullptr && value->get_bool();
  }

  // Seconds from 1 to kMaxSpanS.
  Result<std::optional<int64_t>> Span(std::string_view name) const {
    const Json* const value = Find(name);
    if (value == nullptr) return std::optional<int64_t>();
    ASSIGN_OR_RETURN(
        const int64_t seconds,
        protocol::ControlNumber(*value, name, 1, kMaxSpanS,
                                "from 1 to " + std::to_string(kMaxSpanS) + " seconds"));
    return std::optional<int64_t>(seconds);
  }

  Result<Grant> ReadGrant() const {
    Grant grant;
    if (Find("tenant") != nullptr) {
      ASSIGN_OR_RETURN(grant.tenant, Text("tenant"));
    }
    if (const Json* const scopes = Find("scopes")) {
      ASSIGN_OR_RETURN(grant.scopes, ReadAskedScopes(*scopes));
    }
    if (const Json* const limits = Find("limits")) {
      ASSIGN_OR_RETURN(grant.limits, ReadLimits(*limits));
    }
    return grant;
  }

  // The scopes and limits that are there; null stands for the default.
  Result<KeyChange> ReadChange() const {
    KeyChange change;
    if (const Json* const value = Find("scopes")) {
      ASSIGN_OR_RETURN(const Scopes scopes, ReadAskedScopes(*value));
      if (value->get_object().contains("routes")) change.routes = scopes.routes;
      if (value->get_object().contains("models")) change.models = scopes.models;
    }
    if (const Json* const value = Find("limits")) {
      ASSIGN_OR_RETURN(const Limits limits, ReadLimits(*value));
      for (const auto& [name, limit] : api::kCallerLimits) {
        if (value->get_object().contains(name)) change.limits.emplace_back(limit, limits.*limit);
      }
    }
    return change;
  }

 private:
  const Json* Find(std::string_view name) const {  // null counts as absent
    const Json* const value = object_.if_contains(name);
    return value == nullptr || value->is_null() ? nullptr : value;
  }

  const JsonObject& object_;
};

void MemberOrNull(std::string_view name, std::optional<int64_t> value, JsonWriter* json) {
  json->Key(name);
  if (value.has_value()) {
    json->Int(*value);
  } else {
    json->Null();
  }
}

// Writes the effective scopes: unlike in a row, an empty list would read as nothing allowed.
void WriteShownScopes(const Scopes& scopes, JsonWriter* json) {
  json->BeginObject().Key("routes");
  if (scopes.routes == kAllButAdmin) {
    json->Null();
  } else {
    json->BeginArray();
    for (const RouteClass route : kAllRouteClasses) {
      if (route != RouteClass::kPublic && scopes.routes.Has(route))
        json->String(RouteClassName(route));
    }
    json->EndArray();
  }
  json->Key("models");
  if (scopes.models.empty()) {
    json->Null();
  } else {
    json->BeginArray();
    for (const std::string& model : scopes.models) json->String(model);
    json->EndArray();
  }
  json->EndObject();
}

void WriteGrant(const Grant& grant, JsonWriter* json) {
  json->Member("tenant", grant.tenant).Key("scopes");
  WriteShownScopes(grant.scopes, json);
  json->Key("limits");
  WriteLimits(grant.limits, json);
}

void WriteKey(const KeyRecord& key, int64_t now_s, JsonWriter* json) {
  json->BeginObject().Member("id", key.id).Member("name", key.name);
  json->Member("state", key.revoked_s.has_value() ? "revoked"
                        : IsActive(key, now_s)    ? "active"
                                                  : "expired");
  WriteGrant(key.grant, json);
  json->Member("created_s", key.created_s);
  MemberOrNull("expires_s", key.expires_s, json);
  MemberOrNull("revoked_s", key.revoked_s, json);
  MemberOrNull("used_s", key.used_s, json);
  json->EndObject();
}

void WriteUser(const UserRecord& user, JsonWriter* json) {
  json->BeginObject().Member("name", user.name).Member("enabled", user.enabled);
  WriteGrant(user.grant, json);
  json->Member("created_s", user.created_s).EndObject();
}

// Each writes the members of its answer behind "ok".
struct Call {
  Authenticator& authority;
  Members members;
  int64_t now_s;
  JsonWriter* json;
};

void WriteIssued(const IssuedKey& key, const Call& call) {
  call.json->Key("key");
  WriteKey(key.record, call.now_s, call.json);
  call.json->Member("secret", key.text);
}

Status CreateKey(const Call& call) {
  KeySpec spec;
  ASSIGN_OR_RETURN(spec.name, call.members.Text("name"));
  ASSIGN_OR_RETURN(spec.grant, call.members.ReadGrant());
  ASSIGN_OR_RETURN(const std::optional<int64_t> life_s, call.members.Span("expires_in_s"));
  if (life_s.has_value()) spec.expires_s = call.now_s + *life_s;
  ASSIGN_OR_RETURN(const IssuedKey key, call.authority.accounts().CreateKey(spec, call.now_s));
  WriteIssued(key, call);
  return OkStatus();
}

Status RotateKey(const Call& call) {
  ASSIGN_OR_RETURN(const std::string name, call.members.Text("name"));
  ASSIGN_OR_RETURN(const std::optional<int64_t> grace_s, call.members.Span("grace_s"));
  ASSIGN_OR_RETURN(const IssuedKey key, call.authority.accounts().RotateKey(
                                            name, grace_s.value_or(kDefaultGraceS), call.now_s));
  WriteIssued(key, call);
  return OkStatus();
}

// Notes in the answer that the change is in effect but not stored: a restart undoes it.
void MarkUnwritten(const Call& call) {
  if (call.authority.accounts().unwritten()) call.json->Member("written", false);
}

Status RevokeKeys(const Call& call) {
  ASSIGN_OR_RETURN(const std::string key, call.members.Text("key"));
  ASSIGN_OR_RETURN(const std::vector<std::string> ids,
                   call.authority.accounts().RevokeKeys(key, call.now_s));
  call.json->Key("revoked").BeginArray();
  for (const std::string& id : ids) call.json->String(id);
  call.json->EndArray();
  MarkUnwritten(call);
  return OkStatus();
}

void WriteKeys(const std::vector<KeyRecord>& keys, const Call& call) {
  call.json->Key("keys").BeginArray();
  for (const KeyRecord& key : keys) WriteKey(key, call.now_s, call.json);
  call.json->EndArray();
}

Status ListKeys(const Call& call) {
  ASSIGN_OR_RETURN(const std::vector<KeyRecord> keys, call.authority.accounts().Keys());
  WriteKeys(keys, call);
  return OkStatus();
}

Status UpdateKeys(const Call& call) {
  ASSIGN_OR_RETURN(const std::string key, call.members.Text("key"));
  ASSIGN_OR_RETURN(const KeyChange change, call.members.ReadChange());
  if (change.empty()) {
    return InvalidArgument("missing_required_parameter",
                           "nothing would change; send scopes, limits or both");
  }
  ASSIGN_OR_RETURN(const std::vector<KeyRecord> keys,
                   call.authority.accounts().ChangeKeys(key, change, call.now_s));
  WriteKeys(keys, call);
  return OkStatus();
}

// Password of a new user; with "no_password", a random one that is not disclosed.
Result<std::string> PasswordOf(const Members& members) {
  ASSIGN_OR_RETURN(const bool none, members.Flag("no_password"));
  if (!none) return members.Text("password");
  if (members.Has("password"))
    return BadControl("no_password", "a user with a password cannot be one without");
  return MakeKeyText();
}

Status CreateUser(const Call& call) {
  UserRecord user{.name = {}, .password_hash = {}, .grant = {}, .created_s = call.now_s};
  ASSIGN_OR_RETURN(user.name, call.members.Text("name"));
  RETURN_IF_ERROR(CheckNewName(user.name));  // before the work of a hash
  ASSIGN_OR_RETURN(user.grant, call.members.ReadGrant());
  ASSIGN_OR_RETURN(const std::string password, PasswordOf(call.members));
  ASSIGN_OR_RETURN(user.password_hash, call.authority.HashNewPassword(password));
  return call.authority.accounts().CreateUser(user);
}

Status ChangePassword(const Call& call) {
  ASSIGN_OR_RETURN(const std::string name, call.members.Text("name"));
  ASSIGN_OR_RETURN(const std::string password, call.members.Text("password"));
  ASSIGN_OR_RETURN(const std::string hash, call.authority.HashNewPassword(password));
  return call.authority.accounts().ChangePassword(name, hash);
}

Status EnableUser(const Call& call) {
  ASSIGN_OR_RETURN(const std::string name, call.members.Text("name"));
  return call.authority.accounts().EnableUser(name, true);
}

Status DisableUser(const Call& call) {
  ASSIGN_OR_RETURN(const std::string name, call.members.Text("name"));
  RETURN_IF_ERROR(call.authority.accounts().EnableUser(name, false));
  MarkUnwritten(call);
  return OkStatus();
}

Status RemoveUser(const Call& call) {
  ASSIGN_OR_RETURN(const std::string name, call.members.Text("name"));
  return call.authority.accounts().RemoveUser(name);
}

Status ListUsers(const Call& call) {
  ASSIGN_OR_RETURN(const std::vector<UserRecord> users, call.authority.accounts().Users());
  call.json->Key("users").BeginArray();
  for (const UserRecord& user : users) WriteUser(user, call.json);
  call.json->EndArray();
  return OkStatus();
}

struct Operation {
  std::string_view name;
  Status (*run)(const Call&);
  std::array<std::string_view, 6> members;  // accepted members in addition to "op"
};

constexpr auto kOperations = std::to_array<Operation>({
    {"keys.create", &CreateKey, {"name", "tenant", "scopes", "limits", "expires_in_s"}},
    {"keys.list", &ListKeys, {}},
    {"keys.update", &UpdateKeys, {"key", "scopes", "limits"}},
    {"keys.revoke", &RevokeKeys, {"key"}},
    {"keys.rotate", &RotateKey, {"name", "grace_s"}},
    {"users.create",
     &CreateUser,
     {"name", "password", "no_password", "tenant", "scopes", "limits"}},
    {"users.list", &ListUsers, {}},
    {"users.password", &ChangePassword, {"name", "password"}},
    {"users.enable", &EnableUser, {"name"}},
    {"users.disable", &DisableUser, {"name"}},
    {"users.delete", &RemoveUser, {"name"}},
});

Result<const Operation*> FindOperation(const JsonObject& request) {
  const std::string_view name = protocol::ControlOperation(request);
  const auto found = std::find_if(kOperations.begin(), kOperations.end(),
                                  [&](const Operation& each) { return each.name == name; });
  if (found == kOperations.end()) return BadControl("op", "there is no operation " + Quote(name));
  for (const auto& [member, value] : request) {
    const std::string_view key = member;
    const auto known = std::find(found->members.begin(), found->members.end(), key);
    if (key != "op" && (key.empty() || known == found->members.end()))
      return InvalidArgument("unknown_parameter",
                             std::string(name) + " has no member " + Quote(key));
  }
  return &*found;
}

}  // namespace

Result<std::string> HandleControl(Authenticator& authority, std::string_view request,
                                  int64_t now_s) {
  return protocol::AnswerControl(request, kMaxControlRequestBytes, kMaxValues,
                                 [&](const JsonObject& object, JsonWriter* json) -> Status {
                                   ASSIGN_OR_RETURN(const Operation* const operation,
                                                    FindOperation(object));
                                   return operation->run({authority, Members(object), now_s, json});
                                 });
}

}  // namespace tutti::auth
