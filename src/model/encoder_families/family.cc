#include "model/encoder_families/family.h"

#include <algorithm>
#include <utility>

#include "base/quote.h"
#include "model/config.h"

namespace tutti::model {
namespace {

namespace json = boost::json;

constexpr const EncoderFamily* kEncoderFamilies[] = {
    &kBert,       &kRoberta, &kXlmRoberta, &kCamembert,  &kNomicBertFamily, &kModernBert, &kMpnet,
    &kDistilBert, &kNewBert, &kGte,        &kJinaBertV2, &kJinaV3,          &kDebertaV2};

bool IsClassOf(const EncoderFamily& family, std::string_view name) {
  if (!name.starts_with(family.class_prefix)) return false;
  const std::string_view rest = name.substr(family.class_prefix.size());
  return rest.starts_with("Model") || rest.starts_with("For");
}

std::string Weight(std::string_view prefix, std::string_view name) {
  return std::string(prefix).append(name).append(".weight");
}

}  // namespace

const EncoderFamily* EncoderFamilyOf(std::string_view architecture) {
  for (const EncoderFamily* family : kEncoderFamilies)
    if (family->architecture == architecture) return family;
  return nullptr;
}

const EncoderFamily* EncoderFamilyOfGguf(std::string_view architecture) {
  const EncoderFamily* family = EncoderFamilyOf(architecture);
  return family != nullptr && family->in_gguf ? family : nullptr;
}

const EncoderFamily* EncoderFamilyOfConfig(const JsonFile& file) {
  const json::value* stated = file.Find("model_type");
  if (stated == nullptr) {
    for (const EncoderFamily* family : kEncoderFamilies)
      if (IsClassOf(*family, ClassOf(file))) return family;
    return nullptr;
  }
  const json::string* type = stated->if_string();
  if (type == nullptr) return nullptr;
  // Jina's files of version 2 call themselves BERT.
  const json::value* positions = file.Find("position_embedding_type");
  if (*type == "bert" && positions != nullptr && *positions == "alibi") return &kJinaBertV2;
  for (const EncoderFamily* family : kEncoderFamilies)
    if (*type == family->model_type) return family;
  return nullptr;
}

std::string KnownEncoderTypes() {
  std::string list;
  for (const EncoderFamily* family : kEncoderFamilies) {
    if (family->model_type.empty()) continue;
    list.append(list.empty() ? "" : ", ").append(family->model_type);
  }
  return list;
}

std::string KnownGgufEncoders() {
  std::string list;
  for (const EncoderFamily* family : kEncoderFamilies) {
    if (family->in_gguf) list.append(list.empty() ? "" : ", ").append(family->architecture);
  }
  return list;
}

EncoderNaming NamingOf(const EncoderFamily& family, const TensorStore& store) {
  const auto fits = [&](const EncoderNames& names, std::string_view prefix) {
    if (store.Find(Weight(prefix, names.words)) == nullptr) return false;
    if (family.names.size() == 1) return true;
    const std::string layer = std::string(prefix).append(names.layers).append("0.");
    const std::string_view up = names.gate_up.empty() ? names.up : names.gate_up;
    return store.Find(Weight(layer, names.attn_output)) != nullptr &&
           store.Find(Weight(layer, up)) != nullptr;
  };
  for (const EncoderNames& names : family.names) {
    if (fits(names, "")) return {&names, ""};
    for (const std::string_view prefix : family.prefixes)
      if (fits(names, prefix)) return {&names, prefix};
  }
  return {&family.names.front(), ""};
}

const EncoderNames& GgufNamesOf(const EncoderFamily& family, bool gate_apart) {
  for (const EncoderNames& names : family.names)
    if (names.gate.empty() != gate_apart) return names;
  return family.names.front();
}

Status RefuseUnless(const JsonFile& file, std::string_view key, std::string_view supported) {
  const auto value = file.StringOr(key, std::string(supported));
  if (!value.ok()) return value.status();
  if (std::string_view(*value) == supported) return OkStatus();
  return file.Refuse(key, "{} is not supported, only {}", Quote(*value), supported);
}

Status ReadBertShape(const JsonFile& file, int default_types, EncoderConfig& config,
                     std::string_view eps_key) {
  ASSIGN_OR_RETURN(config.layers, file.Int("num_hidden_layers", 1, kMaxLayers));
  ASSIGN_OR_RETURN(config.width, file.Int("hidden_size", 1, kMaxWidth));
  ASSIGN_OR_RETURN(config.feed_forward, file.Int("intermediate_size", 1, kMaxFeedForward));
  ASSIGN_OR_RETURN(config.heads, file.Int("num_attention_heads", 1, kMaxHeads));
  ASSIGN_OR_RETURN(config.vocab_size, file.Int("vocab_size", 1, kMaxVocabulary));
  ASSIGN_OR_RETURN(config.positions, file.Int("max_position_embeddings", 1, kMaxContext));
  ASSIGN_OR_RETURN(config.token_types, file.IntOr("type_vocab_size", default_types, 0, 64));
  ASSIGN_OR_RETURN(const double eps, file.FloatOr(eps_key, 1e-12, 0, 1));
  config.norm_eps = static_cast<float>(eps);
  return OkStatus();
}

Status ReadFirstPosition(const JsonFile& file, EncoderConfig& config) {
  ASSIGN_OR_RETURN(const int pad, file.IntOr("pad_token_id", 1, 0, config.positions - 2));
  config.first_position = pad + 1;
  return OkStatus();
}

Status ReadRopeParameters(const JsonFile& file, std::string_view kind, double* base) {
  constexpr std::string_view kKey = "rope_parameters";
  const json::value* found = file.Find(kKey);
  if (found == nullptr || !found->is_object()) return OkStatus();
  if (!kind.empty()) {
    found = found->get_object().if_contains(kind);
    if (found == nullptr || !found->is_object()) return OkStatus();
  }
  const json::object& rope = found->get_object();
  const json::value* type = rope.if_contains("rope_type");
  if (type != nullptr && (!type->is_string() || type->get_string() != "default"))
    return file.Refuse(kKey, "of another type than default are not supported");
  const json::value* theta = rope.if_contains("rope_theta");
  if (theta == nullptr) return OkStatus();
  *base = theta->is_double() || theta->is_int64() ? theta->to_number<double>() : 0;
  if (*base >= 1 && *base <= 1e9) return OkStatus();
  return file.Refuse(kKey, "rope_theta must be 1 to 1e9");
}

Result<Activation> ReadActivationOf(const JsonFile& file, std::string_view key,
                                    std::string_view fallback) {
  ASSIGN_OR_RETURN(const std::string name, file.StringOr(key, std::string(fallback)));
  constexpr std::pair<std::string_view, Activation> kKnown[] = {
      {"gelu", Activation::kGelu}, {"relu", Activation::kRelu}, {"tanh", Activation::kTanh}};
  for (const auto& [known, activation] : kKnown)
    if (name == known) return activation;
  return file.Refuse(key, "{} is not supported (gelu, relu, tanh)", Quote(name));
}

}  // namespace tutti::model
