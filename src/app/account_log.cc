#include "app/account_log.h"

#include <optional>

#include "services/auth/grant.h"
#include "services/auth/key_text.h"
#include "wire/control.h"
#include "wire/json.h"

namespace tutti::app {
namespace {

constexpr size_t kMaxValues = 1024;

const wire::JsonObject* ObjectOf(const Result<wire::JsonDocument>& document) {
  return document.ok() && document->root().is_object() ? &document->root().get_object() : nullptr;
}

std::string TextOf(const wire::JsonObject& object, std::string_view name) {
  const wire::Json* const value = object.if_contains(name);
  return value != nullptr && value->is_string() ? std::string(value->get_string()) : std::string();
}

// A client may send a secret key in place of its name: log only the public id of such a key.
std::string Harmless(const std::string& name) {
  if (const std::optional<std::string_view> id = auth::KeyIdOf(name)) return std::string(*id);
  return auth::IsName(name) ? name : "-";
}

// Public ids of the key that was created, or of the keys that were revoked, with commas; else "-".
std::string IdsOf(const wire::JsonObject& answer) {
  if (const wire::Json* const key = answer.if_contains("key"); key != nullptr && key->is_object())
    return TextOf(key->get_object(), "id");
  std::string ids;
  if (const wire::Json* const revoked = answer.if_contains("revoked");
      revoked != nullptr && revoked->is_array()) {
    for (const wire::Json& id : revoked->get_array()) {
      if (id.is_string()) ids += (ids.empty() ? "" : ",") + std::string(id.get_string());
    }
  }
  return ids.empty() ? "-" : ids;
}

// Whether it would change an account.
bool Changes(std::string_view op) {
  return (op.starts_with("keys.") || op.starts_with("users.")) && !op.ends_with(".list");
}

}  // namespace

std::string AccountLog::Answer(std::string_view request,
                               const std::function<std::string(std::string_view)>& answer) {
  const bool was_open = authority_.IsOpen(/*loopback=*/true);
  std::string told = answer(request);
  const Result<wire::JsonDocument> asked = wire::ParseJson(request, kMaxValues);
  const wire::JsonObject* const object = ObjectOf(asked);
  if (log_ == nullptr || object == nullptr) return told;
  const std::string op(wire::ControlOperation(*object));
  if (!Changes(op)) return told;
  const Result<wire::JsonDocument> read = wire::ParseJson(told);
  const wire::JsonObject* const answered = ObjectOf(read);
  if (answered == nullptr) return told;
  const std::string code = TextOf(*answered, "code"), tenant = TextOf(*object, "tenant");
  const std::string name = TextOf(*object, "name");
  log_->Info("accounts.changed", {{"op", op},
                                  {"name", Harmless(name.empty() ? TextOf(*object, "key") : name)},
                                  {"id", IdsOf(*answered)},
                                  {"tenant", auth::IsName(tenant) ? tenant : "-"},
                                  {"result", code.empty() ? "ok" : code}});
  const bool is_open = authority_.IsOpen(/*loopback=*/true);
  if (was_open && !is_open)
    log_->Info("auth.closed",
               {{"why", "keys or users exist now; requests without one are refused"}});
  if (!was_open && is_open)
    log_->Warn("auth.open",
               {{"why", "the last key was deleted; every client on this machine is served"}});
  return told;
}

}  // namespace tutti::app
