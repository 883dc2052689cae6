#include "model/adapters/lora_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cmath>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <system_error>
#include <utility>

#include "base/quote.h"
#include "files/digest.h"
#include "files/refuse.h"
#include "files/source.h"
#include "gguf/metadata.h"
#include "model/decoder_tensors.h"
#include "model/json_file.h"
#include "safetensors/checkpoint.h"
#include "safetensors/file.h"

namespace tutti::model {
namespace {

using files::Refuse;

constexpr std::string_view kConfigName = "adapter_config.json";
constexpr std::string_view kWeightsName = "adapter_model.safetensors";

// Greatest magnitude of alpha, so that no scale overflows.
constexpr double kMaxAlpha = 1e6;

// The two matrices of a module while the tensors are sorted.
struct Pair {
  const StoredTensor* a = nullptr;
  const StoredTensor* b = nullptr;
};

Status RefuseTarget(std::string_view tensor, std::string_view fault) {
  return Refuse("adapter_target", "tensor {}: {}", Quote(tensor, 128), fault);
}

// Sets the rank's part of each scale, after checks of the pairs. `scale_of(name, rank)`.
template <typename ScaleOf>
Status AddModules(const std::map<std::string, Pair>& pairs, const ScaleOf& scale_of,
                  LoraFile& file) {
  if (pairs.empty()) return Refuse("adapter_config", "the adapter has no matrices");
  for (const auto& [target, pair] : pairs) {
    if (pair.a == nullptr || pair.b == nullptr) {
      const StoredTensor* const other = pair.a == nullptr ? pair.b : pair.a;
      return RefuseTarget(
          other->name, pair.a == nullptr ? "lora_A of it is missing" : "lora_B of it is missing");
    }
    for (const StoredTensor* tensor : {pair.a, pair.b}) {
      if (!tensor->unreadable.empty()) return RefuseTarget(tensor->name, tensor->unreadable);
      if (tensor->shape.dims != 2)
        return Refuse("adapter_shape", "tensor {} has {} dimensions, not 2",
                      Quote(tensor->name, 128), tensor->shape.dims);
    }
    const int64_t rank = pair.a->shape.rows();
    if (pair.b->shape.columns() != rank) {
      return Refuse("adapter_shape", "tensor {} has {} columns, and its lora_A has {} rows",
                    Quote(pair.b->name, 128), pair.b->shape.columns(), rank);
    }
    if (rank < 1 || rank > kMaxLoraRank) {
      return Refuse("adapter_config", "tensor {} has rank {}; the limit is {}",
                    Quote(pair.a->name, 128), rank, kMaxLoraRank);
    }
    ASSIGN_OR_RETURN(const double scale, scale_of(target, static_cast<int>(rank)));
    file.modules.push_back({target, pair.a, pair.b, static_cast<float>(scale)});
  }
  return OkStatus();
}

// --- GGUF ---

Status CheckGgufKeys(const gguf::Header& header, const Family& family) {
  ASSIGN_OR_RETURN(const std::string_view kind, gguf::GetString(header, "adapter.type"));
  if (kind != "lora")
    return Refuse("adapter_config", "adapter.type is {}; only lora is supported", Quote(kind));
  ASSIGN_OR_RETURN(const std::string_view base, gguf::GetString(header, "general.architecture"));
  if (base != family.architecture) {
    return Refuse("adapter_config", "the adapter is for {} models, and the model is {}",
                  Quote(base), family.architecture);
  }
  if (header.Find("adapter.alora.invocation_tokens"))
    return Refuse("adapter_config", "adapters that begin at invocation tokens are not supported");
  return OkStatus();
}

Result<double> GgufAlpha(const gguf::Header& header) {
  const auto value = header.Find("adapter.lora.alpha");
  if (!value) return Refuse("gguf_key", "key adapter.lora.alpha is missing");
  if (value->type != gguf::ValueType::kFloat32)
    return Refuse("gguf_type", "key adapter.lora.alpha is not a float32");
  const auto alpha = gguf::LoadUnaligned<float>(value->data);
  if (!(std::fabs(alpha) <= static_cast<float>(kMaxAlpha)))
    return Refuse("adapter_config", "adapter.lora.alpha is {}, limit {}", alpha, kMaxAlpha);
  return static_cast<double>(alpha);
}

// --- peft ---

// Keys that change no answer of a finished adapter.
constexpr std::string_view kIgnoredKeys[] = {"auto_mapping",
                                             "base_model_name_or_path",
                                             "bias",
                                             "corda_config",
                                             "ensure_weight_tying",
                                             "eva_config",
                                             "exclude_modules",
                                             "inference_mode",
                                             "init_lora_weights",
                                             "layers_pattern",
                                             "layers_to_transform",
                                             "loftq_config",
                                             "lora_dropout",
                                             "lora_ga_config",
                                             "megatron_config",
                                             "megatron_core",
                                             "peft_version",
                                             "revision",
                                             "runtime_config",
                                             "target_modules",
                                             "task_type",
                                             "qalora_group_size"};
constexpr std::string_view kReadKeys[] = {
    "alpha_pattern", "fan_in_fan_out", "lora_alpha", "peft_type", "r",
    "rank_pattern",  "use_rslora"};
// Keys of other arithmetic, which are refused if they are set.
constexpr std::pair<std::string_view, std::string_view> kRefusedKeys[] = {
    {"use_dora", "DoRA is not supported"},
    {"use_qalora", "QA-LoRA is not supported"},
    {"use_bdlora", "block-diagonal LoRA is not supported"},
    {"lora_bias", "biases of adapters are not supported"},
    {"modules_to_save", "whole modules in adapters are not supported"},
    {"trainable_token_indices", "trained tokens in adapters are not supported"},
    {"target_parameters", "adapters of parameters, such as experts, are not supported"},
    {"layer_replication", "replicated layers are not supported"},
    {"alora_invocation_tokens", "adapters that begin at invocation tokens are not supported"},
    {"arrow_config", "Arrow is not supported"},
    {"fan_in_fan_out", "transposed matrices are not supported"},
};

template <typename Names>
bool Contains(const Names& names, std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

// Null, false, and empty lists and objects mean that nothing is asked for.
bool IsSet(const boost::json::value& value) {
  if (value.is_bool()) return value.get_bool();
  if (value.is_array()) return !value.get_array().empty();
  if (value.is_object()) return !value.get_object().empty();
  return !value.is_null();
}

Status CheckKeys(const JsonFile& config, std::vector<std::string>& remarks) {
  ASSIGN_OR_RETURN(const std::string type, config.StringOr("peft_type", "LORA"));
  if (type != "LORA")
    return Refuse("adapter_config", "peft_type is {}; only LORA is supported", Quote(type));
  for (const auto& [key, fault] : kRefusedKeys) {
    const boost::json::value* value = config.Find(key);
    if (value != nullptr && IsSet(*value)) return Refuse("adapter_config", "{}: {}", key, fault);
  }
  ASSIGN_OR_RETURN(const std::string bias, config.StringOr("bias", "none"));
  if (bias != "none")
    return Refuse("adapter_config", "bias: {}: biases of adapters are not supported", Quote(bias));
  for (const auto& member : config.members()) {
    const std::string_view key(member.key().data(), member.key().size());
    const auto refused = [&](const auto& of) { return of.first == key; };
    if (Contains(kIgnoredKeys, key) || Contains(kReadKeys, key) || !IsSet(member.value()) ||
        std::any_of(std::begin(kRefusedKeys), std::end(kRefusedKeys), refused))
      continue;
    remarks.push_back(
        fmt::format("{} has the unknown key {}, which is ignored", kConfigName, Quote(key)));
  }
  return OkStatus();
}

// The numbers of a pattern object, by module names. peft matches a key as a regular expression
// against the end of a module's name; names with dots are what files have, and other expressions
// are refused.
class Pattern {
 public:
  static Result<Pattern> Read(const JsonFile& config, std::string_view key) {
    Pattern pattern;
    const boost::json::value* value = config.Find(key);
    if (value == nullptr) return pattern;
    if (!value->is_object()) return Refuse("adapter_config", "{} is not an object of numbers", key);
    for (const auto& member : value->get_object()) {
      std::string name(member.key().data(), member.key().size());
      const bool anchored = name.starts_with('^');
      if (anchored) name.erase(0, 1);
      for (size_t at = 0; (at = name.find("\\.", at)) != std::string::npos; ++at) name.erase(at, 1);
      if (name.find_first_of("*+?()[]{}|^$\\") != std::string::npos) {
        return Refuse("adapter_config", "{}: {} is not the name of a module", key,
                      Quote(std::string_view(member.key().data(), member.key().size())));
      }
      const boost::json::value& number = member.value();
      if (!number.is_number() || !(std::fabs(number.to_number<double>()) <= kMaxAlpha)) {
        return Refuse("adapter_config", "{}: {} is no number from -{} to {}", key, Quote(name),
                      kMaxAlpha, kMaxAlpha);
      }
      pattern.entries_.push_back({std::move(name), anchored, number.to_number<double>()});
    }
    return pattern;
  }
  // The number of the first key that names the module.
  std::optional<double> Find(std::string_view module) const {
    for (const Entry& entry : entries_) {
      if (module == entry.name) return entry.value;
      if (!entry.anchored && module.size() > entry.name.size() && module.ends_with(entry.name) &&
          module[module.size() - entry.name.size() - 1] == '.')
        return entry.value;
    }
    return std::nullopt;
  }

 private:
  struct Entry {
    std::string name;
    bool anchored;
    double value;
  };
  std::vector<Entry> entries_;
};

struct PeftScale {
  double alpha = 0;
  int rank = 0;
  bool by_root = false;  // rank-stabilised: alpha / sqrt(rank)
  Pattern ranks, alphas;

  static Result<PeftScale> Read(const JsonFile& config) {
    PeftScale scale;
    ASSIGN_OR_RETURN(scale.rank, config.Int("r", 1, kMaxLoraRank));
    ASSIGN_OR_RETURN(scale.alpha, config.FloatOr("lora_alpha", 8, -kMaxAlpha, kMaxAlpha));
    ASSIGN_OR_RETURN(scale.by_root, config.BoolOr("use_rslora", false));
    ASSIGN_OR_RETURN(scale.ranks, Pattern::Read(config, "rank_pattern"));
    ASSIGN_OR_RETURN(scale.alphas, Pattern::Read(config, "alpha_pattern"));
    return scale;
  }
  // `module`: as peft names it, "model.layers.0.mlp.up_proj".
  Result<double> Of(std::string_view module, int stored_rank) const {
    const double stated = ranks.Find(module).value_or(rank);
    if (stated != stored_rank) {
      return Refuse("adapter_config", "{} has rank {}, and {} states {}", Quote(module, 128),
                    stored_rank, kConfigName, stated);
    }
    const double divisor = by_root ? std::sqrt(static_cast<double>(stored_rank)) : stored_rank;
    return alphas.Find(module).value_or(alpha) / divisor;
  }
};

// "model.layers.0.mlp.up_proj" of "base_model.model.model.layers.0.mlp.up_proj.lora_A.weight", and
// which matrix it is. Nothing for tensors of other kinds.
struct PeftName {
  std::string module;
  bool is_a;
};
std::optional<PeftName> ParsePeftName(std::string_view name) {
  constexpr std::string_view kBase = "base_model.model.";
  if (name.starts_with(kBase)) name.remove_prefix(kBase.size());
  for (const bool is_a : {true, false}) {
    // Old versions of peft wrote the adapter's name between the two.
    for (const std::string_view end : {".weight", ".default.weight"}) {
      const std::string whole = (is_a ? ".lora_A" : ".lora_B") + std::string(end);
      if (!name.ends_with(whole)) continue;
      return PeftName{std::string(name.substr(0, name.size() - whole.size())), is_a};
    }
  }
  return std::nullopt;
}

std::string_view FaultOfPeftTensor(std::string_view name) {
  if (name.find("lora_magnitude_vector") != std::string_view::npos) return "DoRA is not supported";
  if (name.find("lora_embedding_") != std::string_view::npos)
    return "adapters of embeddings are not supported";
  if (name.ends_with(".lora_B.bias")) return "biases of adapters are not supported";
  return "it is not lora_A or lora_B of a matrix; whole modules are not supported";
}

// GGUF's name of a module's matrix, without ".weight". Models with several parts have names before
// those of the text's layers.
std::string TargetOf(const Family& family, std::string_view module) {
  for (const std::string_view prefix :
       {"model.language_model.", "language_model.model.", "model.text_model.", "text_model."}) {
    if (!module.starts_with(prefix)) continue;
    return TargetOf(family, "model." + std::string(module.substr(prefix.size())));
  }
  std::string target = GgufName(family, std::string(module) + ".");
  if (target.ends_with('.')) target.pop_back();
  return target;
}

}  // namespace

bool IsLoraFolder(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path + "/" + std::string(kConfigName), ignored);
}

bool IsLoraGguf(const gguf::Header& header) {
  const auto type = gguf::GetStringOr(header, "general.type", "");
  return type.ok() && *type == "adapter";
}

Result<LoraFile> LoraFile::Open(const std::string& path, const Family& family,
                                const std::string& root) {
  std::error_code ignored;
  const std::string whole = root.empty() ? path : root + "/" + path;
  if (!std::filesystem::is_directory(whole, ignored)) {
    ASSIGN_OR_RETURN(auto file, gguf::File::Open(path, root));
    return FromGguf(std::move(file), family);
  }
  ASSIGN_OR_RETURN(const files::Folder folder, files::Folder::Open(path, root));
  const std::string name(kConfigName);
  ASSIGN_OR_RETURN(const std::optional<std::string> config,
                   ReadIfThere(folder, name, MaxConfigBytes(name)));
  if (!config)
    return InvalidArgument("model_not_found", fmt::format("the folder has no {}", kConfigName));
  auto source = folder.OpenSource(std::string(kWeightsName), safetensors::kTruncated);
  if (!source.ok()) return std::move(source).status().WithContext(std::string(kWeightsName));
  ASSIGN_OR_RETURN(auto weights, safetensors::File::FromSource(*std::move(source)));
  ASSIGN_OR_RETURN(const std::string headers, weights->HeaderDigest());
  ASSIGN_OR_RETURN(
      LoraFile opened,
      FromPeft(*config, MakeTensorStore(safetensors::Checkpoint::Of(weights)), family));
  files::Sha256 digest;
  digest.Update(std::as_bytes(std::span(*config)));
  digest.Update(std::as_bytes(std::span(headers)));
  opened.front_digest = digest.FinishHex();
  return opened;
}

Result<LoraFile> LoraFile::FromGguf(std::shared_ptr<const gguf::File> file, const Family& family) {
  if (!IsLoraGguf(file->header()))
    return Refuse("adapter_config", "general.type of the GGUF is not adapter");
  RETURN_IF_ERROR(CheckGgufKeys(file->header(), family));
  ASSIGN_OR_RETURN(const double alpha, GgufAlpha(file->header()));
  LoraFile opened;
  opened.form = Form::kGguf;
  ASSIGN_OR_RETURN(opened.front_digest, file->HeaderDigest());
  opened.tensors = MakeTensorStore(std::move(file));
  std::map<std::string, Pair> pairs;
  for (const StoredTensor& tensor : opened.tensors->tensors()) {
    constexpr std::string_view kA = ".weight.lora_a", kB = ".weight.lora_b";
    const std::string_view name = tensor.name;
    if (name.ends_with(kA)) {
      pairs[std::string(name.substr(0, name.size() - kA.size()))].a = &tensor;
    } else if (name.ends_with(kB)) {
      pairs[std::string(name.substr(0, name.size() - kB.size()))].b = &tensor;
    } else {
      return RefuseTarget(name, "it is not lora_a or lora_b of a matrix");
    }
  }
  // Source: llama.cpp's llama_adapter_lora_weight::get_scale; an alpha of 0 is none.
  const auto scale_of = [&](std::string_view, int rank) -> Result<double> {
    return alpha == 0 ? 1.0 : alpha / rank;
  };
  RETURN_IF_ERROR(AddModules(pairs, scale_of, opened));
  return opened;
}

Result<LoraFile> LoraFile::FromPeft(std::string_view config_json,
                                    std::unique_ptr<TensorStore> tensors, const Family& family) {
  ASSIGN_OR_RETURN(const JsonFile config, JsonFile::Parse(config_json, std::string(kConfigName)));
  LoraFile opened;
  opened.form = Form::kTransformers;
  RETURN_IF_ERROR(CheckKeys(config, opened.remarks));
  ASSIGN_OR_RETURN(const PeftScale scale, PeftScale::Read(config));
  opened.tensors = std::move(tensors);
  std::map<std::string, Pair> pairs;
  std::map<std::string, std::string> modules;  // by target: the pattern's keys name them
  for (const StoredTensor& tensor : opened.tensors->tensors()) {
    const std::optional<PeftName> name = ParsePeftName(tensor.name);
    if (!name) return RefuseTarget(tensor.name, FaultOfPeftTensor(tensor.name));
    const std::string target = TargetOf(family, name->module);
    const StoredTensor*& place = name->is_a ? pairs[target].a : pairs[target].b;
    if (place != nullptr) return RefuseTarget(tensor.name, "another tensor is the same matrix");
    place = &tensor;
    modules[target] = name->module;
  }
  RETURN_IF_ERROR(AddModules(
      pairs, [&](const std::string& target, int rank) { return scale.Of(modules[target], rank); },
      opened));
  return opened;
}

}  // namespace tutti::model
