#include "app/control.h"

#include <ctime>
#include <map>

#include "services/auth/caller.h"
#include "services/auth/control.h"
#include "services/usage/control.h"
#include "wire/json_writer.h"

namespace tutti::app {
namespace {

// Those of revoked keys too, for as long as the store knows them.
Result<std::map<std::string, std::string>> KeyNames(auth::Accounts& accounts) {
  ASSIGN_OR_RETURN(const std::vector<auth::KeyRecord> keys, accounts.Keys());
  std::map<std::string, std::string> names;
  for (const auth::KeyRecord& key : keys)
    names.emplace(auth::CredentialOf(auth::PrincipalKind::kKey, key.id), key.name);
  return names;
}

}  // namespace

std::string AnswerControl(store::Store& store, auth::Authority& authority,
                          std::string_view request) {
  if (usage::IsUsageRequest(request)) {
    return usage::HandleControl(
        store, [&authority] { return KeyNames(authority.accounts()); }, request);
  }
  return auth::HandleControl(authority, request, std::time(nullptr));
}

std::string ModelsAnswer(const std::vector<api::ModelInfo>& models) {
  std::string answer;
  wire::JsonWriter json(&answer);
  json.BeginObject().Member("ok", true).Key("models").BeginArray();
  for (const api::ModelInfo& model : models) json.String(model.id);
  json.EndArray().EndObject();
  return answer;
}

}  // namespace tutti::app
