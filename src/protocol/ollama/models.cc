#include "protocol/ollama/models.h"

#include <algorithm>
#include <array>

#include "protocol/json/json.h"
#include "protocol/json/json_writer.h"
#include "protocol/ollama/response.h"

namespace tutti::protocol::ollama {
namespace {

// The first version with `logprobs`.
constexpr std::string_view kFollowedVersion = "0.12.11";

// Ollama shows a time centuries ahead for a model that stays loaded.
constexpr std::string_view kNever = "2318-01-01T00:00:00Z";

const std::string& TemplateOf(const api::ModelInfo& model) {
  static const std::string none;
  return model.tokenizer == nullptr ? none : model.tokenizer->chat_template;
}

bool Thinks(const api::ModelInfo& model) {
  constexpr std::array<std::string_view, 3> kMarks = {"enable_thinking", "<think>",
                                                      "reasoning_effort"};
  const std::string& text = TemplateOf(model);
  return std::any_of(kMarks.begin(), kMarks.end(),
                     [&](std::string_view mark) { return text.find(mark) != std::string::npos; });
}

void WriteCapabilities(const api::ModelInfo& model, JsonWriter* json) {
  json->Key("capabilities").BeginArray();
  for (const std::string_view each : Capabilities(model)) json->String(each);
  json->EndArray();
}

void WriteDetails(const api::ModelInfo& model, JsonWriter* json) {
  json->Key("details").BeginObject();
  json->Member("parent_model", model.parent)
      .Member("format", "")
      .Member("family", model.architecture);
  json->Key("families").BeginArray().String(model.architecture).EndArray();
  json->Member("parameter_size", "").Member("quantization_level", model.quantisation);
  json->Member("context_length", model.max_model_len);
  if (model.encoder.has_value() && model.encoder->width > 0)
    json->Member("embedding_length", model.encoder->width);
  json->EndObject();
}

// `write_rest` writes the members after the details.
template <typename WriteRest>
std::string ListBody(std::span<const api::ModelInfo> models, const WriteRest& write_rest) {
  JsonWriter json;
  json.BeginObject().Key("models").BeginArray();
  const auto write = [&](const api::ModelInfo& model, std::string_view name) {
    const std::string tagged = TaggedName(name);
    json.BeginObject().Member("name", tagged).Member("model", tagged);
    json.Member("size", model.status.memory_bytes).Member("digest", model.digest);
    WriteDetails(model, &json);
    write_rest(model, &json);
    json.EndObject();
  };
  for (const api::ModelInfo& model : models) {
    write(model, model.id);
    for (const std::string& alias : model.aliases) write(model, alias);
  }
  json.EndArray().EndObject();
  return json.Take();
}

// The sampling defaults as lines of a Modelfile: name, spaces, value.
std::string ParametersOf(const api::SamplingDefaults& defaults) {
  constexpr size_t kNameColumns = 30;
  std::string lines;
  const auto add = [&](std::string name, const auto& value) {
    if (!value.has_value()) return;
    name.resize(kNameColumns, ' ');
    if (!lines.empty()) lines += '\n';
    lines += name + ' ' + PrintJson(Json(*value));
  };
  add("temperature", defaults.temperature);
  add("top_k", defaults.top_k);
  add("top_p", defaults.top_p);
  add("min_p", defaults.min_p);
  add("repeat_penalty", defaults.repetition_penalty);
  return lines;
}

}  // namespace

std::vector<std::string_view> Capabilities(const api::ModelInfo& model) {
  std::vector<std::string_view> all;
  if (model.generates) {
    all.push_back("completion");
    if (!model.tool_format.empty()) all.push_back("tools");
    if (model.fills_middle) all.push_back("insert");
    if (Thinks(model)) all.push_back("thinking");
  } else if (model.encoder.has_value() && model.encoder->width > 0) {
    // Clients take a model with this capability as one that cannot chat.
    all.push_back("embedding");
  }
  return all;
}

std::string TaggedName(std::string_view name) {
  const size_t slash = name.rfind('/');
  const bool tagged =
      name.find(':', slash == std::string_view::npos ? 0 : slash) != std::string_view::npos;
  return std::string(name) + (tagged ? "" : ":latest");
}

std::string TagsBody(std::span<const api::ModelInfo> models) {
  return ListBody(models, [](const api::ModelInfo& model, JsonWriter* json) {
    json->Member("modified_at", TimeText(model.created_unix_s));
    WriteCapabilities(model, json);
  });
}

std::string RunningBody(std::span<const api::ModelInfo> models) {
  std::vector<api::ModelInfo> loaded(models.begin(), models.end());
  std::erase_if(loaded, [](const api::ModelInfo& model) {
    return model.status.state != api::ModelState::kLoaded;
  });
  return ListBody(loaded, [](const api::ModelInfo& model, JsonWriter* json) {
    const int64_t expires = model.status.expires_unix_s;
    json->Member("expires_at", expires == 0 ? std::string(kNever) : TimeText(expires));
    json->Member("size_vram", 0);
    json->Member("context_length", model.max_model_len);
  });
}

std::string ShowBody(const api::ModelInfo& model) {
  JsonWriter json;
  const std::string parameters = ParametersOf(model.sampling);
  json.BeginObject().Member("modelfile", "FROM " + model.id + "\n");
  if (!parameters.empty()) json.Member("parameters", parameters);
  json.Member("template", TemplateOf(model));
  WriteDetails(model, &json);
  json.Key("model_info").BeginObject();
  json.Member("general.architecture", model.architecture);
  json.Member(model.architecture + ".context_length", model.max_model_len);
  json.Member(model.architecture + ".vocab_size", model.vocab_size);
  if (model.encoder.has_value() && model.encoder->width > 0)
    json.Member(model.architecture + ".embedding_length", model.encoder->width);
  json.EndObject();
  WriteCapabilities(model, &json);
  json.Member("modified_at", TimeText(model.created_unix_s)).EndObject();
  return json.Take();
}

std::string VersionBody(std::string_view server) {
  return JsonWriter()
      .BeginObject()
      .Member("version", kFollowedVersion)
      .Member("tutti_version", server)
      .EndObject()
      .Take();
}

}  // namespace tutti::protocol::ollama
