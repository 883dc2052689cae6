#include "doors/mqtt/profile/server_status.h"

#include "wire/json_writer.h"

namespace tutti::mqtt::profile {

std::string OnlineJson(std::string_view version, std::span<const api::ModelInfo> models,
                       const api::LoadSnapshot& load) {
  std::string out;
  wire::JsonWriter json(&out);
  json.BeginObject().Member("online", true).Key("models").BeginArray();
  for (const api::ModelInfo& model : models) json.String(model.id);
  json.EndArray().Member("version", version).Key("load").BeginObject();
  json.Member("server_load", load.running + load.waiting).Member("running", load.running);
  json.Member("waiting", load.waiting).Member("lanes", load.lanes);
  json.Member("kv_blocks_used", load.kv_blocks_used);
  json.Member("kv_blocks_total", load.kv_blocks_total).EndObject().EndObject();
  return out;
}

std::string OfflineJson() { return R"({"online":false})"; }

}  // namespace tutti::mqtt::profile
