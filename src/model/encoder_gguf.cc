#include "model/encoder_gguf.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <span>
#include <vector>

#include "base/quote.h"
#include "gguf/metadata.h"
#include "model/config.h"
#include "model/encoder_families/family.h"
#include "model/hyper_parameters.h"

namespace tutti::model {
namespace {

// A part of a name that ends with a dot in the files: "attn_q." of "blk.3.attn_q.weight".
struct RenamedPart {
  std::string_view gguf;
  std::string_view EncoderNames::*name;
};
// If two rows have the same beginning, the first name that the family has is used.
constexpr RenamedPart kOuter[] = {
    {"token_embd.", &EncoderNames::words},
    {"position_embd.", &EncoderNames::positions},
    {"token_types.", &EncoderNames::types},
    {"token_embd_norm.", &EncoderNames::embedding_norm},
    {"output_norm.", &EncoderNames::final_norm},
    {"cls.output.", &EncoderNames::head_out},
    {"cls.norm.", &EncoderNames::head_norm},
    {"cls.", &EncoderNames::head_dense},
};
constexpr RenamedPart kInner[] = {
    {"attn_q.", &EncoderNames::q},
    {"attn_k.", &EncoderNames::k},
    {"attn_v.", &EncoderNames::v},
    {"attn_qkv.", &EncoderNames::qkv},
    {"attn_output.", &EncoderNames::attn_output},
    {"attn_output_norm.", &EncoderNames::attn_norm},
    {"attn_norm.", &EncoderNames::attn_norm},  // of families with norms first
    {"ffn_up.", &EncoderNames::gate_up},
    {"ffn_up.", &EncoderNames::up},
    {"ffn_gate.", &EncoderNames::gate},
    {"ffn_down.", &EncoderNames::down},
    {"layer_output_norm.", &EncoderNames::ffn_norm},
    {"ffn_norm.", &EncoderNames::ffn_norm},
};

// Nothing for a name that is no encoder's.
std::optional<std::string> Rename(std::span<const RenamedPart> parts, const EncoderNames& names,
                                  std::string_view name) {
  for (const RenamedPart& part : parts) {
    const std::string_view renamed = names.*part.name;
    if (renamed.empty() || !name.starts_with(part.gguf)) continue;
    return std::string(renamed).append(".").append(name.substr(part.gguf.size()));
  }
  return std::nullopt;
}

std::string_view ArchitectureOf(const gguf::Header& header) {
  const auto name = gguf::GetStringOr(header, "general.architecture", "");
  return name.ok() ? *name : std::string_view();
}

// A GGUF store under other names.
class RenamedStore final : public ViewStore {
 public:
  explicit RenamedStore(const std::shared_ptr<const gguf::File>& file)
      : ViewStore(MakeTensorStore(file)) {
    const std::string_view architecture = ArchitectureOf(file->header());
    const bool gate_apart = files().Find("blk.0.ffn_gate.weight") != nullptr;
    for (StoredTensor tensor : files().tensors()) {
      tensor.name = TransformersName(architecture, tensor.name, gate_apart);
      Add(std::move(tensor));
    }
  }

  Status Read(const StoredTensor& tensor, uint64_t offset,
              std::span<std::byte> out) const override {
    return files().Read(tensor, offset, out);  // by the same index
  }
  Result<std::vector<float>> ReadFloats(const StoredTensor& tensor) const override {
    return files().ReadFloats(tensor);
  }
};

Result<int> RowsOf(const gguf::File& file, std::string_view name, int limit) {
  const gguf::TensorInfo* table = file.FindTensor(name);
  if (table == nullptr) {
    return InvalidArgument("model_tensor_missing",
                           fmt::format("the file does not have the tensor {}", name));
  }
  if (table->shape.dims != 2 || table->shape.rows() < 1 || table->shape.rows() > limit) {
    return RefuseParameter("tensor {} is {}, not a table of 1 to {} rows", name,
                           table->shape.ToString(), limit);
  }
  return static_cast<int>(table->shape.rows());
}

Status ReadShape(const gguf::File& file, const HyperParameters& keys, EncoderConfig& config) {
  RETURN_IF_ERROR(ReadInt(keys, "block_count", 1, kMaxLayers, &config.layers));
  RETURN_IF_ERROR(ReadInt(keys, "embedding_length", 1, kMaxWidth, &config.width));
  RETURN_IF_ERROR(ReadInt(keys, "feed_forward_length", 1, kMaxFeedForward, &config.feed_forward));
  RETURN_IF_ERROR(ReadInt(keys, "attention.head_count", 1, kMaxHeads, &config.heads));
  RETURN_IF_ERROR(ReadInt(keys, "context_length", 1, kMaxContext, &config.max_tokens));
  ASSIGN_OR_RETURN(const double eps, keys.Float("attention.layer_norm_epsilon", 0, 1));
  config.norm_eps = static_cast<float>(eps);
  ASSIGN_OR_RETURN(const bool causal, keys.BoolOr("attention.causal", false));
  if (causal) return RefuseParameter("attention.causal is true, which is not supported");
  ASSIGN_OR_RETURN(config.vocab_size, RowsOf(file, "token_embd.weight", kMaxVocabulary));
  const EncoderFamily* family = EncoderFamilyOfGguf(config.architecture);
  config.positions = config.max_tokens;
  if (family->describe_gguf != nullptr) RETURN_IF_ERROR(family->describe_gguf(keys, config));
  if (config.has_position_table()) {
    ASSIGN_OR_RETURN(config.positions, RowsOf(file, "position_embd.weight", kMaxContext));
  } else if (config.rope_base > 0) {
    config.positions = std::min(config.max_tokens, kMaxRotatedPositions);
  }
  if (file.FindTensor("token_types.weight") != nullptr) {
    ASSIGN_OR_RETURN(config.token_types, RowsOf(file, "token_types.weight", 64));
  }
  config.max_tokens = std::min(config.max_tokens, config.positions);
  return CheckEncoderShape(config);
}

Status ReadLabels(const gguf::File& file, const std::string& prefix, bool ranks,
                  EncoderConfig& config) {
  const std::string key = prefix + "classifier.output_labels";
  if (file.header().Find(key)) {
    ASSIGN_OR_RETURN(const gguf::StringArray labels, gguf::GetStrings(file.header(), key));
    if (labels.size() < 1 || labels.size() > kMaxLabels)
      return RefuseParameter("{} has {} labels, not 1 to {}", key, labels.size(), kMaxLabels);
    for (const std::string_view label : labels) config.labels.emplace_back(label);
  } else if (ranks) {
    config.labels.emplace_back("LABEL_0");
  }
  if (config.labels.empty()) return OkStatus();
  config.activation =
      config.labels.size() == 1 ? ScoreActivation::kSigmoid : ScoreActivation::kSoftmax;
  return OkStatus();
}

}  // namespace

bool HoldsEncoder(const gguf::Header& header) {
  return EncoderFamilyOfGguf(ArchitectureOf(header)) != nullptr;
}

std::string TransformersName(std::string_view architecture, std::string_view name,
                             bool gate_apart) {
  const EncoderFamily* family = EncoderFamilyOfGguf(architecture);
  if (family == nullptr) return std::string(name);
  const EncoderNames& names = GgufNamesOf(*family, gate_apart);
  constexpr std::string_view kBlock = "blk.";
  if (!name.starts_with(kBlock)) return Rename(kOuter, names, name).value_or(std::string(name));
  const size_t dot = name.find('.', kBlock.size());
  if (dot == std::string_view::npos) return std::string(name);
  const auto renamed = Rename(kInner, names, name.substr(dot + 1));
  if (!renamed) return std::string(name);
  return fmt::format("{}{}.{}", names.layers, name.substr(kBlock.size(), dot - kBlock.size()),
                     *renamed);
}

std::unique_ptr<TensorStore> MakeEncoderStore(const std::shared_ptr<const gguf::File>& file) {
  return std::make_unique<RenamedStore>(file);
}

Result<EncoderConfig> ReadGgufEncoderConfig(const gguf::File& file) {
  EncoderConfig config;
  ASSIGN_OR_RETURN(const std::string_view architecture,
                   gguf::GetString(file.header(), "general.architecture"));
  config.architecture = architecture;
  if (!HoldsEncoder(file.header()))
    return RefuseParameter("{} is no encoder known here ({})", Quote(config.architecture),
                           KnownGgufEncoders());
  const std::string prefix = config.architecture + ".";
  const GgufParameters keys(file.header(), prefix);
  RETURN_IF_ERROR(ReadShape(file, keys, config));
  // 0 none, 1 mean, 2 the first token's row, 3 the last one's, 4 a classifier's. Without a word a
  // BERT is published for the first token's row.
  ASSIGN_OR_RETURN(const int64_t pooling, keys.IntOr("pooling_type", 0, 0, 4));
  config.pooling = pooling == 1 ? Pooling::kMean : pooling == 3 ? Pooling::kLast : Pooling::kCls;
  config.normalize = true;
  RETURN_IF_ERROR(ReadLabels(file, prefix, pooling == 4, config));
  return config;
}

}  // namespace tutti::model
