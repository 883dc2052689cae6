#include "model/folder_gguf_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>

#include "model/decoder_tensors.h"
#include "model/vector_head.h"

namespace tutti::model {
namespace {

// The order of tensors in the GGUF, independent of the folder's.
std::tuple<int, int, std::string_view> PlaceInFile(std::string_view name) {
  if (const auto in = InLayer(name)) return {1, in->first, in->second};
  return {name == "token_embd.weight" || name.starts_with("rope_f") ? 0 : 2, 0, name};
}

std::optional<int> NumberAt(std::string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() ? std::optional(number) : std::nullopt;
}

// The joined tensor of the architecture's GGUF that a tensor of the folder is a part of: its name,
// and the number of the part.
std::pair<std::string, int> WholeOf(const Family& family, const ModelConfig& config,
                                    const std::string& name) {
  for (const std::string_view stacked : {"altup_proj.", "altup_unembd_proj."}) {
    if (!name.starts_with(stacked)) continue;
    if (const auto number = NumberAt(std::string_view(name).substr(stacked.size())))
      return {std::string(stacked).append("weight"), *number};
  }
  const auto in = InLayer(name);
  if (!in) return {name, 0};
  const auto whole = [&](std::string_view rest, int part) {
    return std::pair(fmt::format("blk.{}.{}", in->first, rest), part);
  };
  for (const JoinedTensor& joined : family.gguf_joined)
    if (in->second == joined.part) return whole(joined.whole, joined.place);
  // Queries and gates of a head, and what DecoderTensors made of a group's heads.
  constexpr int kKind = 1 << 20;  // a kind of rows comes as a whole before the next
  static constexpr struct {
    std::string_view part, whole;
    int begin, step;
  } kNumbered[] = {
      {"attn_q.", "attn_q.weight", 0, 2},
      {"attn_gate.", "attn_q.weight", 1, 2},
      {"attn_k_b.", "attn_kv_b.weight", 0, 2},
      {"attn_v_b.", "attn_kv_b.weight", 1, 2},
      {"ssm_query.", "attn_qkv.weight", 0, 1},
      {"ssm_key.", "attn_qkv.weight", kKind, 1},
      {"ssm_value.", "attn_qkv.weight", 2 * kKind, 1},
      {"ssm_gate.", "attn_gate.weight", 0, 1},
      {"ssm_beta.", "ssm_ba.weight", 0, 2},
      {"ssm_alpha.", "ssm_ba.weight", 1, 2},
  };
  for (const auto& numbered : kNumbered) {
    if (!in->second.starts_with(numbered.part)) continue;
    if (const auto number = NumberAt(in->second.substr(numbered.part.size())))
      return whole(numbered.whole, numbered.begin + *number * numbered.step);
  }
  for (const std::string_view kind : {"ffn_gate.", "ffn_up.", "ffn_down."}) {
    if (config.experts == 0 || !in->second.starts_with(kind)) continue;
    const std::string_view end = in->second.ends_with(".bias") ? "bias" : "weight";
    if (const auto expert = NumberAt(in->second.substr(kind.size())))
      return whole(fmt::format("{}_exps.{}", kind.substr(0, kind.size() - 1), end), *expert);
  }
  return {name, 0};
}

class Layout {
 public:
  Layout(const DecoderCheckpoint& checkpoint, const HyperParameters& keys)
      : checkpoint_(checkpoint),
        keys_(keys),
        family_(*FamilyOfArchitecture(checkpoint.config.architecture)) {}

  Result<std::vector<WholeTensor>> Make() {
    const ModelConfig& config = checkpoint_.config;
    std::map<std::string, std::map<int, FolderPiece>> wholes;
    for (const StoredTensor& tensor : checkpoint_.tensors->tensors()) {
      const auto [name, part] = WholeOf(family_, config, tensor.name);
      wholes[name].emplace(part, FolderPiece{&tensor, OrderOf(tensor.name)});
    }
    if (HasHeadOfItsOwn()) wholes[std::string(kHead)] = wholes[std::string(kEmbedding)];
    std::vector<WholeTensor> tensors;
    for (const auto& [name, pieces] : wholes) {
      ASSIGN_OR_RETURN(tensors.emplace_back(), Whole(name, pieces));
      RETURN_IF_ERROR(SetScales(tensors.back()));
    }
    AddRopeFactors(tensors);
    for (VectorTensor& added : VectorTensors(checkpoint_.head, config.width))
      AddValues(added.name, std::move(added.values), added.shape, tensors);
    std::sort(tensors.begin(), tensors.end(), [](const WholeTensor& a, const WholeTensor& b) {
      return PlaceInFile(a.name) < PlaceInFile(b.name);
    });
    return tensors;
  }

 private:
  static constexpr std::string_view kEmbedding = "token_embd.weight", kHead = "output.weight";
  static constexpr std::string_view kLayerEmbedding = "per_layer_token_embd.weight";

  // Whether the head is the embedding in the folder, but has other multipliers in the GGUF.
  bool HasHeadOfItsOwn() const {
    const ModelConfig& config = checkpoint_.config;
    if (!config.tied_head || family_.gguf_scales == nullptr) return false;
    const auto factor = [&](std::string_view name) {
      return family_.gguf_scales(keys_, config, name).at(0).factor;
    };
    return factor(kEmbedding) != factor(kHead);
  }

  RowOrder OrderOf(std::string_view name) const {
    const ModelConfig& config = checkpoint_.config;
    const auto in = InLayer(name);
    const bool turns =
        in && (in->second.starts_with("attn_q.") || in->second.starts_with("attn_k."));
    if (in && family_.gguf_tiled_heads && config.is_recurrent(in->first))
      return OrderOfHeads(in->second);
    if (!turns || family_.gguf_rope == family_.folder_rope) return {};
    return {.head = config.head_dim, .rotating = config.rope_dims};
  }

  // The order of a tensor of a layer with a recurrence.
  RowOrder OrderOfHeads(std::string_view name) const {
    const ModelConfig& config = checkpoint_.config;
    RowOrder order{.head = config.state_values,
                   .groups = config.state_groups,
                   .heads_of_group = config.state_heads / config.state_groups};
    if (name == "attn_qkv.weight" || name == "ssm_conv1d.weight") {
      order.begin = int64_t{2} * config.state_groups * config.state_keys;
    } else if (name == "ssm_out.weight") {
      order.columns = true;
    } else if (name == "ssm_beta.weight" || name == "ssm_alpha.weight" || name == "ssm_a" ||
               name == "ssm_dt.bias") {
      order.head = 1;
    } else if (name != "attn_gate.weight") {
      return {};
    }
    return order;
  }

  Result<WholeTensor> Whole(const std::string& name,
                            const std::map<int, FolderPiece>& pieces) const {
    WholeTensor whole;
    whole.name = name;
    for (const auto& [part, piece] : pieces) whole.pieces.push_back(piece);
    const StoredTensor& first = *whole.pieces[0].tensor;
    whole.floats = first.shape.rows() == 1 || name.ends_with("ffn_gate_inp.weight") ||
                   name.ends_with("conv.weight") || name.ends_with("conv1d.weight") ||
                   name.ends_with(".ssm_a") || name.ends_with(".ssm_d") ||
                   name.ends_with("ssm_norm.weight") || name.ends_with("altup_router.weight") ||
                   name.ends_with("_coef.weight");
    whole.type = whole.floats ? tensor::DType::kF32 : first.dtype;
    whole.shape = first.shape;
    if (name == kLayerEmbedding && first.shape.rows() < checkpoint_.config.vocab_size) {
      PadLayerEmbedding(whole);
    } else if (name.ends_with("_exps.weight") || name.starts_with("altup_")) {
      whole.shape = {first.shape.columns(), first.shape.rows(),
                     static_cast<int64_t>(pieces.size())};
    } else if (name.ends_with("_exps.bias")) {
      whole.shape = {first.shape.columns(), static_cast<int64_t>(pieces.size())};
    } else if (name.ends_with("ffn_gate_inp_shexp.weight")) {
      whole.shape = {first.shape.columns()};  // a vector, as converters write it
    } else if (pieces.size() > 1) {
      int64_t rows = 0;
      for (const FolderPiece& piece : whole.pieces) rows += piece.tensor->shape.rows();
      whole.shape = {first.shape.columns(), rows};
    }
    for (const FolderPiece& piece : whole.pieces) {
      if (piece.tensor->dtype == first.dtype) continue;
      return InvalidArgument(checkpoint_.tensors->shape_code(),
                             fmt::format("tensors {} and {} are one in a GGUF and have types {} "
                                         "and {}",
                                         first.name, piece.tensor->name, tensor::Name(first.dtype),
                                         tensor::Name(piece.tensor->dtype)));
    }
    whole.bytes = tensor::RowBytes(whole.type, whole.shape.columns()) *
                  static_cast<uint64_t>(whole.shape.rows());
    return whole;
  }

  // Readers of a GGUF expect a row for each token.
  void PadLayerEmbedding(WholeTensor& whole) const {
    FolderPiece& piece = whole.pieces[0];
    piece.order.known = whole.shape.rows();
    whole.shape = {whole.shape.columns(), checkpoint_.config.vocab_size};
    piece.bytes = tensor::RowBytes(whole.type, whole.shape.columns()) *
                  static_cast<uint64_t>(whole.shape.rows());
  }

  Status SetScales(WholeTensor& tensor) const {
    if (family_.gguf_scales == nullptr || tensor.floats) return OkStatus();
    tensor.scales = family_.gguf_scales(keys_, checkpoint_.config, tensor.name);
    const auto one = [](const RowScale& scale) { return scale.factor == 1; };
    if (std::all_of(tensor.scales.begin(), tensor.scales.end(), one)) tensor.scales.clear();
    if (tensor.scales.empty()) return OkStatus();
    const bool floats = tensor.type == tensor::DType::kF32 || tensor.type == tensor::DType::kF16 ||
                        tensor.type == tensor::DType::kBF16;
    if (floats) return OkStatus();
    return RefuseParameter("the multipliers of {} cannot become part of {}, which is {}",
                           checkpoint_.config.architecture, tensor.name, tensor::Name(tensor.type));
  }

  // Llama 3's scaling is a tensor there.
  void AddRopeFactors(std::vector<WholeTensor>& tensors) const {
    const ModelConfig& config = checkpoint_.config;
    if (config.rope_freq_factors.empty() || config.rope_yarn) return;
    if (checkpoint_.tensors->Find("rope_freqs.weight") != nullptr) return;
    AddFactors(config.rope_long ? "rope_factors_short.weight" : "rope_freqs.weight",
               config.rope_freq_factors, tensors);
    if (config.long_context != 0)
      AddFactors("rope_factors_long.weight", config.rope_long_factors, tensors);
  }

  static void AddFactors(std::string_view name, const std::vector<float>& values,
                         std::vector<WholeTensor>& tensors) {
    AddValues(name, values, {static_cast<int64_t>(values.size())}, tensors);
  }

  static void AddValues(std::string_view name, std::vector<float> values, tensor::Shape shape,
                        std::vector<WholeTensor>& tensors) {
    WholeTensor added;
    added.name = name;
    added.bytes = values.size() * sizeof(float);
    added.values = std::move(values);
    added.shape = shape;
    tensors.push_back(std::move(added));
  }

  const DecoderCheckpoint& checkpoint_;
  const HyperParameters& keys_;
  const Family& family_;  // names and order of the GGUF
};

}  // namespace

Result<std::vector<WholeTensor>> LayOutTensors(const DecoderCheckpoint& checkpoint,
                                               const HyperParameters& keys) {
  return Layout(checkpoint, keys).Make();
}

}  // namespace tutti::model
