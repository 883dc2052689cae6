#include "model/text_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/quote.h"
#include "model/config_parameters.h"

namespace tutti::model {
namespace {

// Multimodal models whose text part is not a plain decoder.
constexpr std::string_view kOtherAttention[] = {"colpali", "mllama", "paligemma"};

std::string TypeOf(const JsonFile& config) {
  const boost::json::value* type = config.Find("model_type");
  const boost::json::string* text = type == nullptr ? nullptr : type->if_string();
  return text == nullptr ? "" : std::string(text->data(), text->size());
}

// The family of a file without model_type, by its class: "Qwen3MoeForCausalLM" is qwen3_moe.
const Family* FamilyOfClass(const JsonFile& config) {
  std::string_view left = ClassOf(config);
  constexpr std::string_view kEnd = "ForCausalLM";
  if (!left.ends_with(kEnd)) return nullptr;
  left.remove_suffix(kEnd.size());
  std::string type;
  for (const char c : left) {
    const bool capital = c >= 'A' && c <= 'Z';
    if (capital && !type.empty()) type += '_';
    type += capital ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return FamilyOfModelType(type);
}

const Family* FamilyOf(const JsonFile& config) {
  const std::string type = TypeOf(config);
  return type.empty() ? FamilyOfClass(config) : FamilyOfModelType(type);
}

// The text_config as a file of its own, with the keys of the outer file that apply to it.
JsonFile Inner(const JsonFile& config) {
  boost::json::object keys = config.Find("text_config")->get_object();
  for (const char* key : {"tie_word_embeddings", "quantization_config", "compression_config"})
    if (const boost::json::value* outer = config.Find(key)) keys[key] = *outer;
  return JsonFile::Of(std::move(keys), config.name() + ": text_config");
}

bool HasTextConfig(const JsonFile& config) {
  const boost::json::value* inner = config.Find("text_config");
  return inner != nullptr && inner->is_object();
}

// If both exist, rope_scaling replaces rope_parameters, as in transformers; but in Gemma 3 it
// replaces only the part for full attention.
void ChooseRope(const Family& family, const std::string& name, boost::json::object& keys,
                std::vector<std::string>& remarks) {
  const boost::json::value* scaling = keys.if_contains("rope_scaling");
  const bool there = scaling != nullptr && scaling->is_object() && !scaling->get_object().empty();
  if (!there || family.rope_of_layers || !keys.contains("rope_parameters")) return;
  if (!keys.at("rope_parameters").is_null())
    remarks.push_back(name + ": rope_parameters is not used: rope_scaling is there too");
  keys.erase("rope_parameters");
}

// Ignores sliding_window for families whose transformers class does not implement it.
void DropWindow(const Family& family, const std::string& name, boost::json::object& keys,
                std::vector<std::string>& remarks) {
  const boost::json::value* window = keys.if_contains("sliding_window");
  const auto& known = family.config_keys;
  if (window == nullptr || std::find(known.begin(), known.end(), "sliding_window") != known.end())
    return;
  if (!window->is_null()) {
    remarks.push_back(
        fmt::format("{}: sliding_window is not used: {} has none", name, family.model_type));
  }
  keys.erase("sliding_window");
}

// Files of transformers 5.24 have the sizes of layers without a window in per_layer_config, older
// ones in keys of their own.
Status ReadLayerConfig(const JsonFile& config, boost::json::object& keys) {
  constexpr const char* kByLayer = "per_layer_config";
  constexpr std::pair<const char*, const char*> kSizes[] = {
      {"head_dim", "global_head_dim"}, {"num_key_value_heads", "num_global_key_value_heads"}};
  const boost::json::value* value = keys.if_contains(kByLayer);
  if (value == nullptr || value->is_null()) {
    // Without this the number of heads has no effect.
    const boost::json::value* equal = keys.if_contains("attention_k_eq_v");
    if (equal == nullptr || *equal != true) keys.erase("num_global_key_value_heads");
    return OkStatus();
  }
  if (!value->is_object()) return config.Refuse(kByLayer, "must be an object");
  const boost::json::object layers = value->get_object();
  const boost::json::value* kinds = keys.if_contains("layer_types");
  const size_t count = kinds != nullptr && kinds->is_array() ? kinds->get_array().size() : 0;
  // Each layer of full attention is named, and the others are not.
  size_t full = 0, named = 0;
  for (size_t i = 0; i < count; ++i) {
    if (kinds->get_array()[i] != "full_attention") continue;
    ++full;
    const boost::json::value* layer = layers.if_contains(std::to_string(i));
    named += layer != nullptr && layer->is_object() && *layer == layers.begin()->value();
  }
  for (const auto& [size, key] : kSizes) keys.erase(key);
  keys.erase(kByLayer);
  if (layers.empty()) return OkStatus();
  if (named != full || named != layers.size()) {
    return config.Refuse(
        kByLayer, "does not name all layers of full_attention, and those alone, with equal sizes");
  }
  for (const auto& size : layers.begin()->value().get_object()) {
    const auto* const known = std::find_if(
        std::begin(kSizes), std::end(kSizes),
        [&](const std::pair<const char*, const char*>& each) { return size.key() == each.first; });
    if (known == std::end(kSizes))
      return config.Refuse(kByLayer, "has {}, which is not supported", Quote(size.key()));
    keys[known->second] = size.value();
  }
  return OkStatus();
}

}  // namespace

const Family* FamilyOfConfig(const JsonFile& config) {
  if (const Family* family = FamilyOf(config)) return family;
  return HasTextConfig(config) ? FamilyOf(Inner(config)) : nullptr;
}

Result<TextConfig> TextConfig::Read(const JsonFile& config, std::vector<std::string>& remarks) {
  const std::string type = TypeOf(config);
  const Family* family = FamilyOf(config);
  const bool wrapped = family == nullptr && HasTextConfig(config);
  const JsonFile said = wrapped ? Inner(config) : config;
  if (wrapped) family = FamilyOf(said);
  if (family == nullptr) {
    const std::string inner = wrapped ? TypeOf(said) : "";
    return config.Refuse("model_type", "is {}{}, which is not supported ({} are)", Quote(type),
                         inner.empty() ? "" : " with text of " + Quote(inner), KnownModelTypes());
  }
  if (wrapped) {
    for (const std::string_view other : kOtherAttention) {
      if (type != other) continue;
      return config.Refuse(
          "model_type",
          "is {}, whose texts attend otherwise than a decoder's, which is not supported",
          Quote(type));
    }
    remarks.push_back(fmt::format(
        "the text part ({}) of a {} model is served: pictures and other inputs are not read",
        family->model_type, Quote(type)));
  }
  boost::json::object keys = said.members();
  DropWindow(*family, said.name(), keys, remarks);
  ChooseRope(*family, said.name(), keys, remarks);
  JsonFile read = JsonFile::Of(keys, said.name());
  RETURN_IF_ERROR(CheckConfigKeys(*family, read, remarks));
  if (!family->config_defaults.empty()) {
    // A constant of this program: it parses.
    const boost::json::value defaults =
        boost::json::parse({family->config_defaults.data(), family->config_defaults.size()});
    for (const auto& [key, value] : defaults.get_object())
      if (!keys.contains(key)) keys[key] = value;
    // Some folders state the number of layers by the list of their kinds alone.
    const boost::json::value* kinds =
        family->layer_list.empty() ? nullptr : keys.if_contains(family->layer_list);
    if (!keys.contains("num_hidden_layers") && kinds != nullptr && kinds->is_array()) {
      const auto layers = static_cast<int64_t>(kinds->get_array().size());
      keys["num_hidden_layers"] = layers;
    }
    if (family->layers_differ) RETURN_IF_ERROR(ReadLayerConfig(said, keys));
    read = JsonFile::Of(std::move(keys), said.name());
  }
  return TextConfig{family, std::move(read), wrapped};
}

}  // namespace tutti::model
