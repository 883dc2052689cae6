#include "server/mqtt/profile/server_status.h"

#include "wire/json_writer.h"
#include "wire/load.h"

namespace tutti::mqtt::profile {

std::string OnlineJson(std::string_view version, std::span<const api::ModelInfo> models,
                       const api::LoadSnapshot& load) {
  std::string out;
  wire::JsonWriter json(&out);
  json.BeginObject().Member("online", true).Key("models").BeginArray();
  for (const api::ModelInfo& model : models) json.String(model.id);
  json.EndArray().Member("version", version).Key("load");
  wire::WriteLoad(load, &json);
  json.EndObject();
  return out;
}

std::string OfflineJson() { return R"({"online":false})"; }

}  // namespace tutti::mqtt::profile
