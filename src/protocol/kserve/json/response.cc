#include "protocol/kserve/json/response.h"

#include <chrono>

#include "protocol/json/json_writer.h"
#include "protocol/kserve/json/elements.h"
#include "protocol/kserve/tensor.h"
#include "protocol/kserve/test_models.h"

namespace tutti::kserve {
namespace {

constexpr size_t kHeadBytes = 256;  // of an answer and of each output, with names of usual length

Status WriteOutput(const Tensor& output, bool binary, protocol::JsonWriter* json) {
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
  protocol::JsonWriter json(&body.text);
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

Result<std::string> GenerateBody(const std::string& id, const std::string& model,
                                 const InferResponse& response) {
  protocol::JsonWriter json;
  json.BeginObject();
  if (!id.empty()) json.Member("id", id);
  json.Member("model_name", model).Member("model_version", kModelVersion);
  for (const auto& [name, value] : response.parameters) WriteParameter(name, value, &json);
  for (const Tensor& output : response.outputs) {
    json.Key(output.name);
    RETURN_IF_ERROR(WriteElements(output, true, &json));
  }
  json.EndObject();
  return json.Take();
}

namespace {

using protocol::JsonWriter;

void WriteCount(std::string_view name, uint64_t count, JsonWriter* json) {
  json->Key(name).Raw(std::to_string(count));
}

void WriteDimensions(const char* name, bool batched, const Shape& dims, JsonWriter* json) {
  json->Key(name).BeginArray();
  if (batched) json->Int(-1);
  for (const int64_t dimension : dims) json->Int(dimension);
  json->EndArray();
}

void WriteMetadata(const TensorSpec& spec, bool batched, JsonWriter* json) {
  json->BeginObject();
  json->Member("name", spec.name).Member("datatype", NameOf(spec.type));
  WriteDimensions("shape", batched, spec.dims, json);
  json->EndObject();
}

// --- the configuration ---

void WriteTensor(const TensorSpec& spec, bool input, JsonWriter* json) {
  json->BeginObject();
  json->Member("name", spec.name).Member("data_type", ConfigNameOf(spec.type));
  if (input) json->Member("format", "FORMAT_NONE");
  WriteDimensions("dims", false, spec.dims, json);
  if (input) json->Member("optional", spec.optional);
  json->EndObject();
}

void WriteControl(const char* name, const char* kind, bool correlation_id, JsonWriter* json) {
  json->BeginObject().Member("name", name);
  json->Key("control").BeginArray().BeginObject();
  json->Member("kind", kind);
  if (correlation_id) {
    json->Member("data_type", "TYPE_UINT64");
  } else {
    json->Key("int32_false_true").BeginArray().Int(0).Int(1).EndArray();
  }
  json->EndObject().EndArray().EndObject();
}

void WriteSequences(const ModelConfig& config, JsonWriter* json) {
  json->Key("sequence_batching").BeginObject();
  const auto idle = std::chrono::duration_cast<std::chrono::microseconds>(kSequenceIdle);
  json->Member("max_sequence_idle_microseconds", int64_t{idle.count()});
  if (config.scheduling == ModelConfig::Scheduling::kSequence) {
    json->Key("direct").BeginObject().EndObject();
  } else {
    json->Key("oldest").BeginObject();
    json->Member("max_candidate_sequences", int64_t{kMaxSequences}).EndObject();
  }
  json->Key("control_input").BeginArray();
  WriteControl("START", "CONTROL_SEQUENCE_START", false, json);
  WriteControl("READY", "CONTROL_SEQUENCE_READY", false, json);
  if (config.controls_end) WriteControl("END", "CONTROL_SEQUENCE_END", false, json);
  if (config.controls_corrid) WriteControl("CORRID", "CONTROL_SEQUENCE_CORRID", true, json);
  json->EndArray().EndObject();
}

void WriteScheduling(const ModelConfig& config, JsonWriter* json) {
  using Scheduling = ModelConfig::Scheduling;
  switch (config.scheduling) {
    case Scheduling::kNone:
      return;
    case Scheduling::kDynamicBatching:
      json->Key("dynamic_batching").BeginObject();
      json->Key("preferred_batch_size").BeginArray();
      if (config.preferred_batch > 0) json->Int(config.preferred_batch);
      json->EndArray();
      json->Member("max_queue_delay_microseconds", config.max_queue_delay_us).EndObject();
      return;
    case Scheduling::kSequence:
    case Scheduling::kOldestSequence:
      return WriteSequences(config, json);
  }
}

// --- statistics ---

void WriteStat(const char* name, const DurationStat& stat, JsonWriter* json) {
  json->Key(name).BeginObject();
  WriteCount("count", stat.count, json);
  WriteCount("ns", stat.ns, json);
  json->EndObject();
}

void WriteStatistics(const StatisticsSnapshot& model, JsonWriter* json) {
  json->BeginObject();
  json->Member("name", model.name).Member("version", model.version);
  json->Member("last_inference", model.last_inference_ms);
  WriteCount("inference_count", model.inference_count, json);
  WriteCount("execution_count", model.execution_count, json);
  json->Key("inference_stats").BeginObject();
  WriteStat("success", model.success, json);
  WriteStat("fail", model.fail, json);
  WriteStat("queue", model.queue, json);
  WriteStat("compute_input", model.input, json);
  WriteStat("compute_infer", model.infer, json);
  WriteStat("compute_output", model.output, json);
  WriteStat("cache_hit", {}, json);
  WriteStat("cache_miss", {}, json);
  json->EndObject();
  json->Key("batch_stats").BeginArray();
  for (const BatchStat& batch : model.batches) {
    json->BeginObject();
    WriteCount("batch_size", batch.batch_size, json);
    WriteStat("compute_input", batch.input, json);
    WriteStat("compute_infer", batch.infer, json);
    WriteStat("compute_output", batch.output, json);
    json->EndObject();
  }
  json->EndArray();
  json->EndObject();
}

}  // namespace

std::string ServerMetadataBody(const ServerMetadata& metadata) {
  JsonWriter json;
  json.BeginObject().Member("name", metadata.name).Member("version", metadata.version);
  json.Key("extensions").BeginArray();
  for (const std::string& extension : metadata.extensions) json.String(extension);
  json.EndArray().EndObject();
  return json.Take();
}

std::string ModelMetadataBody(const ModelConfig& config) {
  const bool batched = config.max_batch_size > 0;
  JsonWriter json;
  json.BeginObject().Member("name", config.name);
  json.Key("versions").BeginArray().String(kModelVersion).EndArray();
  json.Member("platform", config.platform);
  json.Key("inputs").BeginArray();
  for (const TensorSpec& input : config.inputs) {
    if (!input.alias) WriteMetadata(input, batched, &json);
  }
  json.EndArray().Key("outputs").BeginArray();
  for (const TensorSpec& output : config.outputs) WriteMetadata(output, batched, &json);
  json.EndArray().EndObject();
  return json.Take();
}

std::string ModelConfigBody(const ModelConfig& config) {
  JsonWriter json;
  json.BeginObject();
  json.Member("name", config.name)
      .Member("platform", config.platform)
      .Member("backend", config.backend);
  json.Key("version_policy").BeginObject().Key("latest").BeginObject();
  json.Member("num_versions", 1).EndObject().EndObject();
  json.Member("max_batch_size", config.max_batch_size);
  json.Key("input").BeginArray();
  for (const TensorSpec& input : config.inputs) {
    if (!input.alias) WriteTensor(input, true, &json);
  }
  json.EndArray().Key("output").BeginArray();
  for (const TensorSpec& output : config.outputs) WriteTensor(output, false, &json);
  json.EndArray();
  json.Key("instance_group").BeginArray().BeginObject();
  json.Member("name", config.name + "_0").Member("kind", "KIND_CPU").Member("count", 1);
  json.EndObject().EndArray();
  WriteScheduling(config, &json);
  json.Key("parameters").BeginObject();
  for (const auto& [name, value] : config.parameters) {
    json.Key(name).BeginObject().Member("string_value", value).EndObject();
  }
  json.EndObject();
  json.Key("model_transaction_policy").BeginObject();
  json.Member("decoupled", config.decoupled).EndObject();
  json.EndObject();
  return json.Take();
}

std::string StatisticsBody(const std::vector<StatisticsSnapshot>& models) {
  JsonWriter json;
  json.BeginObject().Key("model_stats").BeginArray();
  for (const StatisticsSnapshot& model : models) WriteStatistics(model, &json);
  json.EndArray().EndObject();
  return json.Take();
}

std::string IndexBody(const std::vector<IndexEntry>& index) {
  JsonWriter json;
  json.BeginArray();
  for (const IndexEntry& entry : index) {
    json.BeginObject().Member("name", entry.name).Member("version", entry.version);
    json.Member("state", entry.ready ? "READY" : "UNAVAILABLE").Member("reason", entry.reason);
    json.EndObject();
  }
  json.EndArray();
  return json.Take();
}

std::string TruthBody(std::string_view model, const char* what, bool holds) {
  JsonWriter json;
  json.BeginObject();
  if (!model.empty()) json.Member("name", model);
  json.Member(what, holds).EndObject();
  return json.Take();
}

}  // namespace tutti::kserve
