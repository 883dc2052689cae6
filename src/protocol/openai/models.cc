#include "protocol/openai/models.h"

#include "api/encoding.h"
#include "api/models.h"
#include "protocol/json/json_writer.h"
#include "protocol/schema/rows.h"
#include "protocol/schema/table_fields.h"

namespace tutti::protocol {
namespace {

// Writes the sampling defaults of requests.
void WriteSampling(const api::SamplingDefaults& defaults, JsonWriter* json) {
  json->Key("default_sampling_params").BeginObject();
  if (defaults.temperature) json->Member("temperature", *defaults.temperature);
  if (defaults.top_k) json->Member("top_k", *defaults.top_k);
  if (defaults.top_p) json->Member("top_p", *defaults.top_p);
  if (defaults.min_p) json->Member("min_p", *defaults.min_p);
  if (defaults.repetition_penalty) json->Member("repetition_penalty", *defaults.repetition_penalty);
  json->EndObject();
}

// As llama.cpp's router, which knows no failed state: such a model is unloaded, and failed.
void WriteStatus(const api::ModelStatus& status, JsonWriter* json) {
  const bool failed = status.state == api::ModelState::kFailed;
  json->Key("status").BeginObject();
  json->Member("value", failed ? "unloaded" : api::ModelStateName(status.state));
  if (failed) json->Member("failed", true).Member("exit_code", 1).Member("error", status.failure);
  json->Member("pinned", status.pinned);
  if (status.memory_bytes > 0) json->Member("memory_bytes", status.memory_bytes);
  if (status.expires_unix_s > 0) json->Member("expires_at", status.expires_unix_s);
  json->EndObject();
}

void WriteModel(const api::ModelInfo& model, std::string_view id, JsonWriter* json) {
  json->BeginObject()
      .Member("id", id)
      .Member("object", "model")
      .Member("created", model.created_unix_s)
      .Member("owned_by", "tutti")
      .Member("root", model.id);
  model.parent.empty() ? json->Member("parent", nullptr) : json->Member("parent", model.parent);
  json->Member("max_model_len", model.max_model_len);
  json->Key("permission").BeginArray().EndArray();
  json->Key("tasks").BeginArray();
  for (const std::string_view task : TasksOf(model)) json->String(task);
  json->EndArray();
  const api::ModelState state = model.status.state;
  json->Member("digest", model.digest)
      .Member("state", state == api::ModelState::kLoaded ? "ready" : api::ModelStateName(state));
  WriteStatus(model.status, json);
  if (!model.tool_format.empty()) json->Member("tool_format", model.tool_format);
  if (!model.sampling.empty()) WriteSampling(model.sampling, json);
  json->EndObject();
}

// {"embedding":{"pooling"}}, or {"reranker":{"id2label","label2id"}} and the same for "classifier".
void WriteModelType(const api::ModelInfo& model, JsonWriter* json) {
  json->Key("model_type").BeginObject();
  if (model.encoder.has_value() && model.encoder->width > 0) {
    json->Key("embedding").BeginObject().Member("pooling", model.encoder->pooling).EndObject();
  } else if (model.encoder.has_value()) {
    const std::vector<std::string>& labels = model.encoder->labels;
    json->Key(api::Ranks(model) ? "reranker" : "classifier").BeginObject();
    json->Key("id2label").BeginObject();
    for (size_t i = 0; i < labels.size(); ++i) json->Member(std::to_string(i), labels[i]);
    json->EndObject().Key("label2id").BeginObject();
    for (size_t i = 0; i < labels.size(); ++i) json->Member(labels[i], static_cast<int>(i));
    json->EndObject().EndObject();
  } else {
    json->Key("generator").BeginObject().EndObject();
  }
  json->EndObject();
}

}  // namespace

const api::ModelInfo& MainEncoder(std::span<const api::ModelInfo> models) {
  for (const auto output : {api::EncodeOutput::kPooled, api::EncodeOutput::kScores}) {
    if (const api::ModelInfo* model = api::DefaultEncoder(models, output)) return *model;
  }
  return models.front();
}

std::vector<std::string_view> TasksOf(const api::ModelInfo& model) {
  std::vector<std::string_view> tasks;
  if (model.generates) tasks.push_back("generate");
  if (model.fills_middle) tasks.push_back("infill");
  if (!model.encoder.has_value()) return tasks;
  if (model.encoder->width > 0) tasks.push_back("embed");
  if (api::Ranks(model)) {
    tasks.insert(tasks.end(), {"rerank", "score"});
  } else if (!model.encoder->labels.empty()) {
    tasks.push_back("classify");
  }
  return tasks;
}

std::string ModelListBody(std::span<const api::ModelInfo> models) {
  JsonWriter json;
  json.BeginObject().Member("object", "list").Key("data").BeginArray();
  for (const api::ModelInfo& model : models) WriteModel(model, model.id, &json);
  for (const api::ModelInfo& model : models) {
    for (const std::string& alias : model.aliases) WriteModel(model, alias, &json);
  }
  json.EndArray().EndObject();
  return json.Take();
}

std::string ModelBody(const api::ModelInfo& model, std::string_view id) {
  JsonWriter json;
  WriteModel(model, id, &json);
  return json.Take();
}

Result<ModelCall> ParseModelCall(const Json& body, const ParseOptions& options) {
  static const TableFields::Rows rows = {Required(Text("model", 0, 1, kNameBytes))};
  IgnoredFields ignored;
  ASSIGN_OR_RETURN(const TableFields fields,
                   TableFields::Check(rows, body, "", options.strict, &ignored));
  return ModelCall{fields.Text("model"), ignored.names()};
}

std::string TokenizerInfoBody(const api::ModelInfo& model) {
  const api::TokenizerInfo& info = *model.tokenizer;
  JsonWriter json;
  json.BeginObject().Member("tokenizer_class", "PreTrainedTokenizerFast");
  json.Member("model_max_length", model.max_model_len);
  json.Member("add_bos_token", info.add_bos).Member("add_eos_token", info.add_eos);
  json.MemberOrNull("bos_token", info.bos);
  json.MemberOrNull("eos_token", info.eos);
  json.MemberOrNull("unk_token", info.unk);
  json.MemberOrNull("pad_token", info.pad);
  json.MemberOrNull("chat_template", info.chat_template);
  json.EndObject();
  return json.Take();
}

std::string InfoBody(const api::ModelInfo& model, const InfoLimits& limits) {
  JsonWriter json;
  json.BeginObject().Member("model_id", model.id).Member("model_sha", model.digest);
  json.Member("model_dtype", model.quantisation).Member("served_model_name", model.id);
  WriteModelType(model, &json);
  json.Member("max_concurrent_requests", limits.connections);
  json.Member("max_input_length", model.max_model_len);
  const api::EncoderInfo encoder = model.encoder.value_or(api::EncoderInfo{});
  json.Member("max_batch_tokens", encoder.batch_tokens);
  json.Member("max_batch_requests", encoder.batch_items);
  json.Member("max_client_batch_size", api::kMaxEncodeInputs).Member("auto_truncate", false);
  json.Member("tokenization_workers", limits.tokenizers);
  json.Member("version", limits.version).Member("sha", nullptr).Member("docker_label", nullptr);
  json.EndObject();
  return json.Take();
}

}  // namespace tutti::protocol
