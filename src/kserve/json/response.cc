#include "kserve/json/response.h"

#include "kserve/json/elements.h"
#include "wire/json_writer.h"

namespace tutti::kserve {
namespace {

constexpr size_t kHeadBytes = 256;  // of an answer and of each output, with names of usual length

Status WriteOutput(const Tensor& output, bool binary, wire::JsonWriter* json) {
  json->BeginObject().Member("name", output.name);
  json->Member("datatype", NameOf(output.type));
  json->Key("shape").BeginArray();
  for (const int64_t dimension : output.shape) json->Int(dimension);
  json->EndArray();
  if (binary) {
    json->Key("parameters").BeginObject();
    json->Member("binary_data_size", static_cast<int64_t>(output.data.size())).EndObject();
  } else {
    json->Key("data");
    RETURN_IF_ERROR(WriteElements(output, false, json));
  }
  json->EndObject();
  return OkStatus();
}

}  // namespace

Result<ResponseBody> WriteInfer(const std::string& model, const RequestBody& asked,
                                const InferResponse& response) {
  ResponseBody body;
  wire::JsonWriter json(&body.text);
  json.BeginObject();
  if (!asked.request.id.empty()) json.Member("id", asked.request.id);
  json.Member("model_name", model).Member("model_version", kModelVersion);
  if (!response.parameters.empty()) {
    json.Key("parameters").BeginObject();
    for (const auto& [name, value] : response.parameters) WriteParameter(name, value, &json);
    json.EndObject();
  }
  json.Key("outputs").BeginArray();
  bool binary = false;
  for (const Tensor& output : response.outputs) {
    const bool blob = asked.Binary(output.name);
    binary = binary || blob;
    RETURN_IF_ERROR(WriteOutput(output, blob, &json));
  }
  json.EndArray().EndObject();
  if (!binary) return body;
  body.json_bytes = body.text.size();
  for (const Tensor& output : response.outputs) {
    if (asked.Binary(output.name)) body.text += output.data;
  }
  return body;
}

size_t EstimateInfer(const RequestBody& asked, const InferResponse& response) {
  size_t bytes = kHeadBytes + asked.request.id.size();
  for (const Tensor& output : response.outputs) {
    bytes += kHeadBytes;
    bytes += asked.Binary(output.name) ? output.data.size() : EstimateElements(output);
  }
  return bytes;
}

}  // namespace tutti::kserve
