#include "model/decoder_tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <optional>
#include <utility>

#include "model/tensor_store.h"
#include "tensor/blocks.h"
#include "tensor/dequantize.h"

namespace tutti::model {
namespace {

constexpr RenamedTensor kOuterTensors[] = {
    {"model.embed_tokens.", "token_embd."},
    {"model.embed_tokens_per_layer.", "per_layer_token_embd."},
    {"model.per_layer_model_projection.", "per_layer_model_proj."},
    // The same as transformers 4.57 saves it.
    {"model.per_layer_model.language_model_projection.", "per_layer_model_proj."},
    {"model.per_layer_projection_norm.", "per_layer_proj_norm."},
    {"model.altup_projections.", "altup_proj."},
    {"model.altup_unembed_projections.", "altup_unembd_proj."},
    {"model.norm.", "output_norm."},
    {"model.embedding_norm.", "token_embd_norm."},
    {"model.final_layernorm.", "output_norm."},
    {"model.embeddings.", "token_embd."},
    {"model.norm_f.", "output_norm."},
    {"lm_head.", "output."},
};
constexpr RenamedTensor kInnerTensors[] = {
    {"input_layernorm.", "attn_norm."},
    {"self_attn.q_proj.", "attn_q."},
    {"self_attn.k_proj.", "attn_k."},
    {"self_attn.v_proj.", "attn_v."},
    {"self_attn.o_proj.", "attn_output."},
    {"self_attn.q_norm.", "attn_q_norm."},
    {"self_attn.k_norm.", "attn_k_norm."},
    {"post_attention_layernorm.", "ffn_norm."},
    {"mlp.gate_proj.", "ffn_gate."},
    {"mlp.up_proj.", "ffn_up."},
    {"mlp.down_proj.", "ffn_down."},
    {"mlp.gate.e_score_correction_bias", "exp_probs_b.bias"},
    {"mlp.gate.", "ffn_gate_inp."},
    {"block_sparse_moe.input_linear.", "ffn_gate_up_exps."},
    {"block_sparse_moe.output_linear.", "ffn_down_exps."},
    {"block_sparse_moe.router.layer.", "ffn_gate_inp."},
    {"mlp.shared_expert_gate.", "ffn_gate_inp_shexp."},
    {"mlp.shared_expert.gate_proj.", "ffn_gate_shexp."},
    {"mlp.shared_expert.up_proj.", "ffn_up_shexp."},
    {"mlp.shared_expert.down_proj.", "ffn_down_shexp."},
    {"mlp.shared_experts.gate_proj.", "ffn_gate_shexp."},
    {"mlp.shared_experts.up_proj.", "ffn_up_shexp."},
    {"mlp.shared_experts.down_proj.", "ffn_down_shexp."},
    {"mamba.in_proj.", "ssm_in."},
    {"mamba.out_proj.", "ssm_out."},
    {"mamba.conv1d.", "ssm_conv1d."},
    {"mamba.norm.", "ssm_norm."},
    {"mamba.dt_bias", "ssm_dt.bias"},
    {"mamba.A_log", "ssm_a"},
    {"mamba.D", "ssm_d"},
};
constexpr RenamedTensor kExpertTensors[] = {
    {"gate_proj.", "ffn_gate."}, {"up_proj.", "ffn_up."}, {"down_proj.", "ffn_down."},
    {"w1.", "ffn_gate."},        {"w3.", "ffn_up."},      {"w2.", "ffn_down."},
};

std::optional<std::string> Renamed(std::span<const RenamedTensor> names, std::string_view name,
                                   std::string_view between = "") {
  for (const RenamedTensor& renamed : names) {
    if (!name.starts_with(renamed.transformers)) continue;
    return std::string(renamed.gguf)
        .append(between)
        .append(name.substr(renamed.transformers.size()));
  }
  return std::nullopt;
}

}  // namespace

std::string GgufName(const Family& family, std::string_view name) {
  constexpr std::string_view kLayers = "model.layers.";
  if (!name.starts_with(kLayers)) return Renamed(kOuterTensors, name).value_or(std::string(name));
  const size_t dot = name.find('.', kLayers.size());
  if (dot == std::string_view::npos) return std::string(name);
  const std::string layer =
      fmt::format("blk.{}.", name.substr(kLayers.size(), dot - kLayers.size()));
  const std::string_view inner = name.substr(dot + 1);
  constexpr std::string_view kExperts = ".experts.";
  std::optional<std::string> renamed = Renamed(family.tensors, inner);
  if (const size_t experts = inner.find(kExperts); !renamed && experts != std::string_view::npos) {
    const std::string_view numbered = inner.substr(experts + kExperts.size());
    const size_t end = numbered.find('.');
    if (end != std::string_view::npos)
      renamed = Renamed(kExpertTensors, numbered.substr(end + 1),
                        std::string(numbered.substr(0, end)) + ".");
  } else if (!renamed) {
    renamed = Renamed(kInnerTensors, inner);
  }
  return renamed ? layer + *renamed : std::string(name);
}

std::string TextPrefix(const TensorStore& store) {
  // Before others where a model has several parts with layers.
  constexpr std::string_view kKnown[] = {"model.",
                                         "",
                                         "language_model.model.",
                                         "model.language_model.",
                                         "text_model.",
                                         "model.text_model.",
                                         "backbone."};
  const auto is_text = [&](std::string_view prefix) {
    const auto has = [&](std::string_view name) {
      return store.Find(std::string(prefix).append(name)) != nullptr;
    };
    return (has("embed_tokens.weight") && (has("norm.weight") || has("embedding_norm.weight") ||
                                           has("final_layernorm.weight"))) ||
           (has("embeddings.weight") && has("norm_f.weight"));
  };
  for (const std::string_view prefix : kKnown)
    if (is_text(prefix)) return std::string(prefix);
  constexpr std::string_view kEmbedding = "embed_tokens.weight";
  for (const StoredTensor& tensor : store.tensors()) {
    if (!tensor.name.ends_with("." + std::string(kEmbedding))) continue;
    const std::string prefix = tensor.name.substr(0, tensor.name.size() - kEmbedding.size());
    if (is_text(prefix)) return prefix;
  }
  return std::string(kKnown[0]);
}

namespace {

// The name under which the common tables know a tensor; nothing for one outside of the text.
std::optional<std::string> CommonName(std::string_view name, std::string_view prefix) {
  constexpr std::string_view kModel = "model.", kHead = "lm_head.";
  if (prefix.empty()) {
    if (name.starts_with(kHead)) return std::string(name);
    return std::string(kModel).append(name);
  }
  if (name.starts_with(prefix)) return std::string(kModel).append(name.substr(prefix.size()));
  if (name.starts_with(kHead)) return std::string(name);
  // "language_model.lm_head.weight".
  const std::string_view outer = prefix.substr(0, prefix.find('.') + 1);
  if (name.starts_with(outer) && name.substr(outer.size()).starts_with(kHead))
    return std::string(name.substr(outer.size()));
  return std::nullopt;
}

template <typename Names>
bool BeginsWithAny(std::string_view name, const Names& names) {
  return std::any_of(std::begin(names), std::end(names),
                     [&](std::string_view begin) { return name.starts_with(begin); });
}

// Tensors of other input types, of training, and of multi-token prediction, which are not read.
constexpr std::string_view kOtherParts[] = {
    "audio_",  "embed_audio.", "embed_vision.", "image_newline", "mm_projector.",
    "mtp.",    "multi_modal_", "multimodal_",   "rotary_emb.",   "score.",
    "v_head.", "value_head.",  "vision_",       "visual.",       "classifier."};
constexpr std::string_view kOtherGgufParts[] = {"a.", "cls.", "mm.", "mtp.", "v."};
// Tables that files of old versions hold: they are computed here.
constexpr std::string_view kTables[] = {".rotary_emb.inv_freq", ".rotary_emb.cos_cached",
                                        ".rotary_emb.sin_cached", ".self_attn.masked_bias",
                                        ".attn_rot_embd.weight"};

}  // namespace

std::optional<std::pair<int, std::string_view>> InLayer(std::string_view name,
                                                        std::string_view begin) {
  if (!name.starts_with(begin)) return std::nullopt;
  int layer = 0;
  const char* const end = name.data() + name.size();
  const auto [at, error] = std::from_chars(name.data() + begin.size(), end, layer);
  if (error != std::errc() || at == end || *at != '.') return std::nullopt;
  return std::pair(layer, name.substr(static_cast<size_t>(at + 1 - name.data())));
}

bool DecoderTensors::IsNeeded(const StoredTensor& tensor, const ModelConfig& config) const {
  const std::string& name = tensor.name;
  const int layers = config.layers;
  if (std::any_of(std::begin(kTables), std::end(kTables),
                  [&](std::string_view end) { return name.ends_with(end); }))
    return false;
  // A GGUF with more layers than its layer count is damaged; folders of some families hold an extra
  // layer for predicting several tokens.
  if (form_ == Form::kGguf) {
    const auto in = InLayer(name);
    const bool predicts =
        in && in->first >= layers && in->first < layers + config.predicting_layers;
    return !predicts && !BeginsWithAny(name, kOtherGgufParts) &&
           name.find(".nextn.") == std::string::npos;
  }
  if (const auto in = InLayer(name)) return in->first < layers;
  // A name that was translated is of the text.
  if (!tensor.in_file.empty()) return true;
  const auto common = CommonName(name, prefix_);
  if (!common) return false;
  if (const auto in = InLayer(*common, "model.layers.")) return in->first < layers;
  constexpr std::string_view kModel = "model.";
  return !common->starts_with(kModel) ||
         !BeginsWithAny(std::string_view(*common).substr(kModel.size()), kOtherParts);
}

void DecoderTensors::DropUnneeded(const ModelConfig& config, std::vector<std::string>& remarks) {
  std::vector<StoredTensor> kept;
  std::vector<Place> places;
  std::vector<std::string> dropped;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    // Many files repeat the embedding as the head; the factors of longrope are in `config`.
    if (config.tied_head && tensors_[i].name == "output.weight") continue;
    if (config.rope_long && tensors_[i].name.starts_with("rope_factors_")) continue;
    const auto in = InLayer(tensors_[i].name);
    if (!config.xielu.empty() && in && in->second.starts_with("xielu.")) continue;  // the same
    // Files may have keys and values of layers that share those of others.
    if (in && in->first < config.layers && !config.owns_kv(in->first) &&
        config.has_attention(in->first) &&
        (in->second.starts_with("attn_k") || in->second.starts_with("attn_v")))
      continue;
    if (!IsNeeded(tensors_[i], config)) {
      const StoredTensor& tensor = tensors_[i];
      dropped.push_back(tensor.in_file.empty() ? tensor.name : tensor.in_file);
      continue;
    }
    kept.push_back(std::move(tensors_[i]));
    places.push_back(places_[i]);
  }
  tensors_ = std::move(kept);
  places_ = std::move(places);
  Index();
  RemarkUnneeded(std::move(dropped), remarks);
}

void DecoderTensors::Hide(std::span<const std::string> names) {
  for (const std::string& name : names) {
    const auto found = by_name_.find(name);
    if (found == by_name_.end()) continue;
    const auto index = static_cast<std::ptrdiff_t>(found->second);
    by_name_.clear();  // its names are about to move
    tensors_.erase(tensors_.begin() + index);
    places_.erase(places_.begin() + index);
    Index();
  }
}

DecoderTensors::DecoderTensors(std::unique_ptr<TensorStore> files, const Family& family, Form form)
    : files_(std::move(files)), family_(family), form_(form) {
  if (form == Form::kTransformers) prefix_ = TextPrefix(*files_);
  for (const StoredTensor& tensor : files_->tensors()) {
    places_.push_back({.tensor = tensor.index, .offset = 0});
    tensors_.push_back(tensor);
    if (form != Form::kTransformers) {
      NameAsOthers();
      continue;
    }
    // A convolution over each channel by itself.
    tensor::Shape& shape = tensors_.back().shape;
    if (shape.dims == 3 && shape.ne[1] == 1) shape = {shape.ne[0], shape.ne[2]};
    const auto common = CommonName(tensor.name, prefix_);
    if (!common) continue;
    std::string name = GgufName(family, *common);
    if (name == *common) continue;  // not known: it keeps its own
    tensors_.back().name = std::move(name);
    tensors_.back().in_file = tensor.name;
  }
  Index();
}

// The last tensor of a GGUF, where the family's converter leaves out the end of its name.
void DecoderTensors::NameAsOthers() {
  StoredTensor& tensor = tensors_.back();
  const auto in = InLayer(tensor.name);
  for (const JoinedTensor& joined : family_.gguf_joined) {
    if (!in || in->second != joined.whole || joined.whole.ends_with(".weight")) continue;
    tensor.in_file = tensor.name;
    tensor.name = fmt::format("blk.{}.{}", in->first, joined.part);
    return;
  }
}

void DecoderTensors::Index() {
  by_name_.clear();
  for (size_t i = 0; i < tensors_.size(); ++i) {
    tensors_[i].index = i;
    by_name_.emplace(tensors_[i].name, i);
  }
}

const StoredTensor* DecoderTensors::Find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &tensors_[found->second];
}

// `name`, where it is there, becomes matrices of its rows, one part after another.
Status DecoderTensors::Replace(const std::string& name, const std::vector<Part>& parts) {
  const auto found = by_name_.find(name);
  if (found == by_name_.end()) return OkStatus();
  const size_t index = found->second;
  const StoredTensor whole = tensors_[index];
  int64_t rows = 0;
  for (const Part& part : parts) rows += part.rows;
  if (!whole.unreadable.empty() || whole.shape.dims < 2 || whole.shape.rows() != rows) {
    return InvalidArgument(
        shape_code(),
        fmt::format("tensor {} is {}, the hyper-parameters ask for {} rows",
                    whole.in_file.empty() ? name : whole.in_file, whole.shape.ToString(), rows));
  }
  const size_t row_bytes = whole.bytes / static_cast<size_t>(rows);
  const size_t source = places_[index].tensor;
  by_name_.erase(found);
  uint64_t offset = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    StoredTensor part = whole;
    part.name = parts[i].name;
    part.shape = {whole.shape.columns(), parts[i].rows};
    part.bytes = row_bytes * static_cast<size_t>(parts[i].rows);
    const Place place{.tensor = source, .offset = offset, .part = true};
    offset += part.bytes;
    if (i == 0) {
      tensors_[index] = std::move(part);
      places_[index] = place;
    } else {
      tensors_.push_back(std::move(part));
      places_.push_back(place);
    }
  }
  return OkStatus();
}

// `name`, where it is there and of that shape, becomes matrices of some of its elements.
Status DecoderTensors::ReplaceByViews(const std::string& name, const tensor::Shape& shape,
                                      const std::vector<View>& views) {
  const auto found = by_name_.find(name);
  if (found == by_name_.end()) return OkStatus();
  const size_t index = found->second;
  const StoredTensor whole = tensors_[index];
  if (!whole.unreadable.empty() || whole.shape != shape) {
    return InvalidArgument(shape_code(),
                           fmt::format("{} is {}, the hyper-parameters ask for {}", whole.Named(),
                                       whole.shape.ToString(), shape.ToString()));
  }
  const size_t source = places_[index].tensor;
  by_name_.erase(found);
  for (size_t i = 0; i < views.size(); ++i) {
    StoredTensor view = whole;
    view.name = views[i].name;
    view.shape = views[i].shape;
    if (views[i].place.of_blocks) view.dtype = tensor::DType::kF16;
    view.bytes =
        tensor::RowBytes(view.dtype, view.shape.columns()) * static_cast<size_t>(view.shape.rows());
    Place place = views[i].place;
    place.tensor = source;
    place.part = true;
    if (i == 0) {
      tensors_[index] = std::move(view);
      places_[index] = place;
    } else {
      tensors_.push_back(std::move(view));
      places_.push_back(place);
    }
  }
  return OkStatus();
}

// Folders of gpt-oss have rows of gate and up in turn, those of Llama 4 all gates before all ups.
// Matrices of floats are [experts][inputs][outputs], quantised ones [experts][outputs][inputs].
Status DecoderTensors::SplitTransposedExperts(const ModelConfig& config, const std::string& block) {
  const int64_t width = config.width, inner = config.expert_feed_forward, experts = config.experts;
  const auto matrices = [&](const char* all, int64_t inputs, int64_t outputs,
                            const std::vector<const char*>& kinds) -> Status {
    const std::string name = fmt::format("{}ffn_{}_exps.weight", block, all);
    const StoredTensor* whole = Find(name);
    if (whole == nullptr) return OkStatus();
    const bool by_outputs = tensor::IsQuantized(whole->dtype);
    const auto count = static_cast<uint64_t>(kinds.size());
    const uint64_t step = family_.alternating_experts ? count : 1;
    const uint64_t row = tensor::RowBytes(whole->dtype, by_outputs ? inputs : outputs);
    const uint64_t output = by_outputs ? row : tensor::RowBytes(whole->dtype, 1);
    const uint64_t expert_bytes = row * static_cast<uint64_t>(by_outputs ? outputs : inputs);
    // From the first output of a kind to that of the next.
    const uint64_t kind_step = step > 1 ? output : output * static_cast<uint64_t>(outputs) / count;
    std::vector<View> views;
    for (int64_t e = 0; e < experts; ++e) {
      for (size_t kind = 0; kind < kinds.size(); ++kind) {
        Place place{.tensor = 0,
                    .offset = static_cast<uint64_t>(e) * expert_bytes + kind * kind_step};
        if (!by_outputs || step > 1) place.row_step = step * output;
        if (!by_outputs) place.element_step = row;
        views.push_back({fmt::format("{}ffn_{}.{}.weight", block, kinds[kind], e),
                         {inputs, outputs / static_cast<int64_t>(count)},
                         place});
      }
    }
    return ReplaceByViews(name,
                          by_outputs ? tensor::Shape{inputs, outputs, experts}
                                     : tensor::Shape{outputs, inputs, experts},
                          views);
  };
  const auto biases = [&](const char* all, int64_t outputs,
                          const std::vector<const char*>& kinds) -> Status {
    const std::string name = fmt::format("{}ffn_{}_exps.bias", block, all);
    const StoredTensor* whole = Find(name);
    if (whole == nullptr || tensor::IsQuantized(whole->dtype)) return OkStatus();
    const auto step = static_cast<uint64_t>(kinds.size());
    const uint64_t element = tensor::RowBytes(whole->dtype, 1);
    std::vector<View> views;
    for (int64_t e = 0; e < experts; ++e) {
      for (size_t kind = 0; kind < kinds.size(); ++kind) {
        Place place{.tensor = 0, .offset = (static_cast<uint64_t>(e * outputs) + kind) * element};
        if (step > 1) place.element_step = step * element;
        views.push_back({fmt::format("{}ffn_{}.{}.bias", block, kinds[kind], e),
                         {outputs / static_cast<int64_t>(step)},
                         place});
      }
    }
    return ReplaceByViews(name, {outputs, experts}, views);
  };
  RETURN_IF_ERROR(matrices("gate_up", width, 2 * inner, {"gate", "up"}));
  RETURN_IF_ERROR(matrices("down", inner, width, {"down"}));
  RETURN_IF_ERROR(biases("gate_up", 2 * inner, {"gate", "up"}));
  return biases("down", width, {"down"});
}

// Keys and values of latent attention: of each head its keys, then its values. New GGUFs have all
// keys, [heads][latent row][dimensions of a head], apart from all values.
Status DecoderTensors::SplitLatent(const ModelConfig& config, const std::string& block) {
  const int64_t keys = config.head_dim - config.rope_dims, rank = config.latent_rank;
  std::vector<Part> both, values;
  for (int head = 0; head < config.heads; ++head) {
    both.push_back({fmt::format("{}attn_k_b.{}.weight", block, head), keys});
    both.push_back({fmt::format("{}attn_v_b.{}.weight", block, head), config.value_width()});
    values.push_back(both.back());
  }
  RETURN_IF_ERROR(Replace(block + "attn_kv_b.weight", both));
  RETURN_IF_ERROR(Replace(block + "attn_v_b.weight", values));
  const std::string name = block + "attn_k_b.weight";
  const StoredTensor* whole = Find(name);
  if (whole == nullptr) return OkStatus();
  // A matrix of another shape is refused below.
  const uint64_t row =
      whole->shape.columns() == keys ? tensor::RowBytes(whole->dtype, keys) : uint64_t{0};
  std::vector<View> views;
  for (int head = 0; head < config.heads; ++head) {
    Place place{
        .tensor = 0, .offset = static_cast<uint64_t>(head * rank) * row, .element_step = row};
    place.of_blocks = tensor::IsQuantized(whole->dtype);
    if (!place.of_blocks) place.row_step = tensor::RowBytes(whole->dtype, 1);
    views.push_back({fmt::format("{}attn_k_b.{}.weight", block, head), {rank, keys}, place});
  }
  return ReplaceByViews(name, {keys, rank, config.heads}, views);
}

// A GGUF has values of heads in rows of one, and the norm in rows of a group.
void DecoderTensors::ShapeAsGguf(const ModelConfig& config) {
  for (StoredTensor& tensor : tensors_) {
    const auto in = InLayer(tensor.name);
    if (!in || tensor.shape.dims != 1) continue;
    const int64_t values = tensor.shape.columns();
    if (in->second == "ssm_a" || in->second == "ssm_d") tensor.shape = {1, values};
    if (in->second == "ssm_norm.weight" && values % config.state_groups == 0)
      tensor.shape = {values / config.state_groups, config.state_groups};
  }
}

// Folders of Granite and Qwen 3.5 have the gate and up matrices of each expert as one. Granite's
// shared expert has the names that a layer without experts has.
Status DecoderTensors::SplitJoinedExperts(const ModelConfig& config, const std::string& block) {
  std::vector<Part> parts;
  for (int expert = 0; expert < config.experts; ++expert) {
    for (const char* kind : {"gate", "up"})
      parts.push_back(
          {fmt::format("{}ffn_{}.{}.weight", block, kind, expert), config.expert_feed_forward});
  }
  RETURN_IF_ERROR(Replace(block + "ffn_gate_up_exps.weight", parts));
  if (config.shared_feed_forward == 0 || Find(block + "ffn_gate.weight") != nullptr)
    return OkStatus();
  RETURN_IF_ERROR(Replace(block + "ffn_up.weight",
                          {{block + "ffn_gate_shexp.weight", config.shared_feed_forward},
                           {block + "ffn_up_shexp.weight", config.shared_feed_forward}}));
  return Replace(block + "ffn_down.weight", {{block + "ffn_down_shexp.weight", config.width}});
}

// Folders of Qwen3-Next have the rows of each group of heads together: query, key, values, gates;
// and in another tensor rates, decays.
Status DecoderTensors::SplitGroups(const ModelConfig& config, const std::string& block) {
  const int heads = config.state_heads / config.state_groups;
  std::vector<Part> mixed, rates;
  for (int group = 0; group < config.state_groups; ++group) {
    const auto name = [&](const char* kind) {
      return fmt::format("{}ssm_{}.{}.weight", block, kind, group);
    };
    mixed.push_back({name("query"), config.state_keys});
    mixed.push_back({name("key"), config.state_keys});
    mixed.push_back({name("value"), heads * config.state_values});
    mixed.push_back({name("gate"), heads * config.state_values});
    rates.push_back({name("beta"), heads});
    rates.push_back({name("alpha"), heads});
  }
  RETURN_IF_ERROR(Replace(block + "ssm_in.weight", mixed));
  return Replace(block + "ssm_ba.weight", rates);
}

Status DecoderTensors::Split(const ModelConfig& config) {
  const int parts_of_layer = (config.expert_bias ? 6 : 3) * config.experts +
                             6 * config.state_groups +
                             (config.latent_rank != 0 ? 2 * config.heads : 0) +
                             (config.attention_gate ? 2 * config.heads : 0);
  tensors_.reserve(tensors_.size() * 3 + 2 * static_cast<size_t>(config.streams) +
                   static_cast<size_t>(config.layers) * static_cast<size_t>(parts_of_layer));
  Index();  // names moved; from here on none does
  for (const char* stacked : {"altup_proj", "altup_unembd_proj"}) {  // a GGUF has all as one
    std::vector<Part> parts;
    for (int i = 0; i + 1 < config.streams; ++i)
      parts.push_back({fmt::format("{}.{}.weight", stacked, i), config.width});
    if (!parts.empty()) RETURN_IF_ERROR(Replace(fmt::format("{}.weight", stacked), parts));
  }
  if (form_ == Form::kTransformers && config.recurrence == Recurrence::kMamba2) ShapeAsGguf(config);
  for (int layer = 0; layer < config.layers; ++layer) {
    const std::string block = fmt::format("blk.{}.", layer);
    if (config.is_recurrent(layer) && config.recurrence == Recurrence::kDeltaNet) {
      RETURN_IF_ERROR(SplitGroups(config, block));
    } else if (config.latent_rank != 0) {
      RETURN_IF_ERROR(SplitLatent(config, block));
    } else if (config.attention_gate) {
      std::vector<Part> heads;
      for (int head = 0; head < config.heads; ++head) {
        heads.push_back({fmt::format("{}attn_q.{}.weight", block, head), config.head_dim});
        heads.push_back({fmt::format("{}attn_gate.{}.weight", block, head), config.head_dim});
      }
      RETURN_IF_ERROR(Replace(block + "attn_q.weight", heads));
    } else {
      RETURN_IF_ERROR(
          Replace(block + "attn_qkv.weight", {{block + "attn_q.weight", config.q_rows()},
                                              {block + "attn_k.weight", config.kv_rows()},
                                              {block + "attn_v.weight", config.kv_rows()}}));
    }
    if (config.experts == 0 && config.gated && Find(block + "ffn_gate.weight") == nullptr) {
      RETURN_IF_ERROR(
          Replace(block + "ffn_up.weight", {{block + "ffn_gate.weight", config.feed_forward},
                                            {block + "ffn_up.weight", config.feed_forward}}));
    }
    if (config.has_experts(layer)) {
      const bool transposed = family_.alternating_experts || family_.transposed_experts;
      RETURN_IF_ERROR(form_ == Form::kTransformers && transposed
                          ? SplitTransposedExperts(config, block)
                          : SplitJoinedExperts(config, block));
    }
    for (const char* kind : {"ffn_gate", "ffn_up", "ffn_down"}) {
      std::vector<Part> parts, biases;
      const bool down = std::string_view(kind) == "ffn_down";
      for (int expert = 0; expert < config.experts; ++expert) {
        parts.push_back({fmt::format("{}{}.{}.weight", block, kind, expert),
                         down ? config.width : config.expert_feed_forward});
        biases.push_back({fmt::format("{}{}.{}.bias", block, kind, expert), 1});
      }
      RETURN_IF_ERROR(Replace(fmt::format("{}{}_exps.weight", block, kind), parts));
      if (config.expert_bias)
        RETURN_IF_ERROR(Replace(fmt::format("{}{}_exps.bias", block, kind), biases));
    }
  }
  Index();
  return OkStatus();
}

Status DecoderTensors::Read(const StoredTensor& tensor, uint64_t offset,
                            std::span<std::byte> out) const {
  const Place& place = places_[tensor.index];
  if (place.row_step != 0 || place.element_step != 0)
    return ReadView(tensors_[tensor.index], offset, out);
  return files_->Read(files_->tensors()[place.tensor], place.offset + offset, out);
}

// Bytes of a view from `offset` on: its rows are read whole.
Status DecoderTensors::ReadView(const StoredTensor& view, uint64_t offset,
                                std::span<std::byte> out) const {
  if (out.empty()) return OkStatus();
  const Place& place = places_[view.index];
  if (place.of_blocks) return ReadBlocksByColumns(view, offset, out);
  const StoredTensor& file = files_->tensors()[place.tensor];
  const auto columns = static_cast<size_t>(view.shape.columns());
  const size_t row_bytes = tensor::RowBytes(view.dtype, view.shape.columns());
  const size_t first = offset / row_bytes;
  const size_t rows = (offset + out.size() + row_bytes - 1) / row_bytes - first;
  std::vector<std::byte> values(rows * row_bytes), read;
  const uint64_t begin = place.offset + first * place.row_step;
  // Copies `count` pieces of `size` bytes, `step` apart in the file.
  const auto gather = [&](uint64_t from, size_t count, uint64_t step, size_t size, std::byte* to,
                          size_t to_step) -> Status {
    read.resize((count - 1) * step + size);
    RETURN_IF_ERROR(files_->Read(file, from, read));
    for (size_t i = 0; i < count; ++i) std::memcpy(to + i * to_step, &read[i * step], size);
    return OkStatus();
  };
  if (place.element_step == 0) {
    RETURN_IF_ERROR(gather(begin, rows, place.row_step, row_bytes, values.data(), row_bytes));
  } else if (const size_t element = row_bytes / columns; rows == 1) {
    RETURN_IF_ERROR(gather(begin, columns, place.element_step, element, values.data(), element));
  } else {
    for (size_t k = 0; k < columns; ++k) {
      RETURN_IF_ERROR(gather(begin + k * place.element_step, rows, place.row_step, element,
                             &values[k * element], row_bytes));
    }
  }
  std::memcpy(out.data(), &values[offset % row_bytes], out.size());
  return OkStatus();
}

// The same of a view whose rows are columns of quantised rows: in half precision, since blocks do
// not go along its rows.
Status DecoderTensors::ReadBlocksByColumns(const StoredTensor& view, uint64_t offset,
                                           std::span<std::byte> out) const {
  const Place& place = places_[view.index];
  const StoredTensor& file = files_->tensors()[place.tensor];
  const auto columns = static_cast<size_t>(view.shape.columns());
  const auto rows = static_cast<size_t>(view.shape.rows());
  std::vector<std::byte> blocks(columns * place.element_step);
  RETURN_IF_ERROR(files_->Read(file, place.offset, blocks));
  std::vector<float> values(rows);
  std::vector<uint16_t> halves(columns * rows);
  for (size_t column = 0; column < columns; ++column) {
    tensor::DequantizeRow(file.dtype, &blocks[column * place.element_step], values.data(),
                          view.shape.rows());
    for (size_t row = 0; row < rows; ++row)
      halves[row * columns + column] = tensor::FloatToHalf(values[row]);
  }
  std::memcpy(out.data(), reinterpret_cast<const std::byte*>(halves.data()) + offset, out.size());
  return OkStatus();
}

Result<std::vector<float>> DecoderTensors::ReadFloats(const StoredTensor& tensor) const {
  if (places_[tensor.index].part) {
    std::vector<std::byte> bytes(tensor.bytes);
    RETURN_IF_ERROR(Read(tensor, 0, bytes));
    std::vector<float> values(static_cast<size_t>(tensor.shape.elements()));
    tensor::DequantizeRow(tensor.dtype, bytes.data(), values.data(), tensor.shape.elements());
    return values;
  }
  ASSIGN_OR_RETURN(std::vector<float> values,
                   files_->ReadFloats(files_->tensors()[places_[tensor.index].tensor]));
  if (form_ == Form::kTransformers && family_.norms_less_one &&
      tensor.name.ends_with("norm.weight") && !tensor.name.ends_with("ssm_norm.weight")) {
    for (float& value : values) value += 1;
  }
  // A folder has the logarithm of the rate at which a state decays.
  if (form_ == Form::kTransformers && tensor.name.ends_with(".ssm_a")) {
    for (float& value : values) value = -std::exp(value);
  }
  return values;
}

}  // namespace tutti::model
