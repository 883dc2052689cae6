#include "protocol/ollama/models.h"

#include <algorithm>
#include <array>
#include <cstdio>

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

// As Ollama writes it: "134.52M", "7B", "1.2B". Nothing for 0, which is not known.
std::string CountText(int64_t count) {
  constexpr double kThousand = 1e3, kMillion = 1e6, kBillion = 1e9;
  const auto number = static_cast<double>(count);
  const auto with = [&](double unit, int digits, const char* letter) {
    const bool whole = count % static_cast<int64_t>(unit) == 0;
    std::array<char, 32> text{};
    const int length = std::snprintf(text.data(), text.size(), "%.*f%s", whole ? 0 : digits,
                                     number / unit, letter);
    return std::string(text.data(), static_cast<size_t>(length));
  };
  if (number >= kBillion) return with(kBillion, 1, "B");
  if (number >= kMillion) return with(kMillion, 2, "M");
  if (number >= kThousand) return with(kThousand, 0, "K");
  return count == 0 ? "" : std::to_string(count);
}

void WriteDetails(const api::ModelInfo& model, JsonWriter* json) {
  json->Key("details").BeginObject();
  json->Member("parent_model", model.parent)
      .Member("format", model.files.format)
      .Member("family", model.architecture);
  json->Key("families").BeginArray().String(model.architecture).EndArray();
  json->Member("parameter_size", CountText(model.files.parameters));
  json->Member("quantization_level",
               model.files.type.empty() ? model.quantisation : model.files.type);
  json->Member("context_length", model.max_model_len);
  if (model.encoder.has_value() && model.encoder->width > 0)
    json->Member("embedding_length", model.encoder->width);
  json->EndObject();
}

int64_t ModifiedAt(const api::ModelInfo& model) {
  return model.files.modified_unix_s > 0 ? model.files.modified_unix_s : model.created_unix_s;
}

// `size_of` is the size of a model, and `write_rest` writes the members after the details.
template <typename SizeOf, typename WriteRest>
std::string ListBody(std::span<const api::ModelInfo> models, const SizeOf& size_of,
                     const WriteRest& write_rest) {
  JsonWriter json;
  json.BeginObject().Key("models").BeginArray();
  const auto write = [&](const api::ModelInfo& model, std::string_view name) {
    const std::string tagged = TaggedName(name);
    json.BeginObject().Member("name", tagged).Member("model", tagged);
    json.Member("size", size_of(model)).Member("digest", model.digest);
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
  return ListBody(
      models, [](const api::ModelInfo& model) { return model.files.bytes; },
      [](const api::ModelInfo& model, JsonWriter* json) {
        json->Member("modified_at", TimeText(ModifiedAt(model)));
        WriteCapabilities(model, json);
      });
}

std::string RunningBody(std::span<const api::ModelInfo> models) {
  std::vector<api::ModelInfo> loaded(models.begin(), models.end());
  std::erase_if(loaded, [](const api::ModelInfo& model) {
    return model.status.state != api::ModelState::kLoaded;
  });
  const auto memory_of = [](const api::ModelInfo& model) { return model.status.memory_bytes; };
  return ListBody(loaded, memory_of, [](const api::ModelInfo& model, JsonWriter* json) {
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
  if (model.files.parameters > 0) json.Member("general.parameter_count", model.files.parameters);
  json.Member(model.architecture + ".context_length", model.max_model_len);
  json.Member(model.architecture + ".vocab_size", model.vocab_size);
  if (model.encoder.has_value() && model.encoder->width > 0)
    json.Member(model.architecture + ".embedding_length", model.encoder->width);
  json.EndObject();
  WriteCapabilities(model, &json);
  json.Member("modified_at", TimeText(ModifiedAt(model))).EndObject();
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

std::string StatusLine(std::string_view status) {
  return JsonWriter().BeginObject().Member("status", status).EndObject().Take() + "\n";
}

std::string BlobLine(const api::PullBlob& blob) {
  constexpr size_t kShownDigits = 12;
  const std::string_view digest = blob.digest;
  const size_t colon = digest.find(':');
  JsonWriter json;
  json.BeginObject().Member("status",
                            "pulling " + std::string(digest.substr(colon + 1, kShownDigits)));
  json.Member("digest", digest).Member("total", static_cast<int64_t>(blob.total));
  // Ollama leaves out the zero of a file of which nothing has come yet.
  if (blob.fetched > 0) json.Member("completed", static_cast<int64_t>(blob.fetched));
  json.EndObject();
  return json.Take() + "\n";
}

}  // namespace tutti::protocol::ollama
