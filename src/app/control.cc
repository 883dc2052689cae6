#include "app/control.h"

#include <ctime>

#include "services/auth/control.h"
#include "services/usage/control.h"
#include "wire/json_writer.h"

namespace tutti::app {

std::string AnswerControl(store::Store& store, auth::Authority& authority,
                          std::string_view request) {
  if (usage::IsUsageRequest(request)) return usage::HandleControl(store, request);
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
