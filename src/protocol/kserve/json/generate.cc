#include "protocol/kserve/json/generate.h"

#include <utility>

#include "protocol/json/json_writer.h"
#include "protocol/kserve/json/elements.h"
#include "protocol/kserve/refusal.h"
#include "protocol/kserve/request.h"

namespace tutti::kserve {
namespace {

using protocol::Json;

Status ReadTensor(const ModelConfig& config, const TensorSpec& spec, const Json& value,
                  RequestBody* body) {
  if (FindInput(body->request, spec.name) != nullptr)
    return Bad("input '" + spec.name + "' is given twice");
  Tensor tensor{spec.name, spec.type, ShapeOf(value), {}};
  if (tensor.shape.empty()) {
    tensor.shape = {1};
    RETURN_IF_ERROR(ReadElements(Json(protocol::JsonArray{value}), &tensor));
  } else {
    RETURN_IF_ERROR(ReadElements(value, &tensor));
  }
  if (config.max_batch_size > 0) tensor.shape.insert(tensor.shape.begin(), 1);
  body->request.inputs.push_back(std::move(tensor));
  return OkStatus();
}

Status ReadMembers(const ModelConfig& config, const protocol::JsonObject& object, bool outer,
                   TimePoint now, RequestBody* body) {
  for (const auto& member : object) {
    const std::string_view key = member.key();
    const Json& value = member.value();
    if (value.is_null()) continue;
    if (outer && key == "id") {
      if (!value.is_string()) return Bad("'id' must be a string");
      body->request.id = protocol::TextOf(value);
    } else if (outer && key == "parameters") {
      if (!value.is_object()) return Bad("'parameters' must be an object");
      RETURN_IF_ERROR(ReadMembers(config, value.get_object(), false, now, body));
    } else if (const TensorSpec* spec = FindSpec(config.inputs, key)) {
      RETURN_IF_ERROR(ReadTensor(config, *spec, value, body));
    } else {
      protocol::JsonObject one;
      one.emplace(member.key(), value);
      RETURN_IF_ERROR(ReadParameters(Json(std::move(one)), now, body));
    }
  }
  return OkStatus();
}

}  // namespace

Result<RequestBody> ReadGenerate(const ModelConfig& config, std::string_view body, bool stream,
                                 const JsonReadOptions& options) {
  ASSIGN_OR_RETURN(const protocol::JsonDocument document,
                   protocol::ParseJson(body, kMaxJsonValues));
  if (!document.root().is_object()) return Bad("the body must be a JSON object");
  RequestBody out;
  RETURN_IF_ERROR(ReadMembers(config, document.root().get_object(), true, options.now, &out));
  const TensorSpec* flag = FindSpec(config.inputs, "stream");
  if (stream && flag != nullptr && flag->type == DataType::kBool &&
      FindInput(out.request, "stream") == nullptr) {
    RETURN_IF_ERROR(ReadTensor(config, *flag, Json(true), &out));
  }
  return out;
}

Result<std::string> GenerateBody(const std::string& id, const std::string& model,
                                 const InferResponse& response) {
  std::string body;
  protocol::JsonWriter json(&body);
  json.BeginObject();
  if (!id.empty()) json.Member("id", id);
  json.Member("model_name", model).Member("model_version", kModelVersion);
  for (const auto& [name, value] : response.parameters) WriteParameter(name, value, &json);
  for (const Tensor& output : response.outputs) {
    json.Key(output.name);
    RETURN_IF_ERROR(WriteElements(output, true, &json));
  }
  json.EndObject();
  return body;
}

}  // namespace tutti::kserve
