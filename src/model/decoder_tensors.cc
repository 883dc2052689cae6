#include "model/decoder_tensors.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

namespace tutti::model {
namespace {

constexpr RenamedTensor kOuterTensors[] = {
    {"model.embed_tokens.", "token_embd."},
    {"model.norm.", "output_norm."},
    {"lm_head.", "output."},
};
constexpr RenamedTensor kInnerTensors[] = {
    {"input_layernorm.", "attn_norm."},    {"self_attn.q_proj.", "attn_q."},
    {"self_attn.k_proj.", "attn_k."},      {"self_attn.v_proj.", "attn_v."},
    {"self_attn.o_proj.", "attn_output."}, {"self_attn.q_norm.", "attn_q_norm."},
    {"self_attn.k_norm.", "attn_k_norm."}, {"post_attention_layernorm.", "ffn_norm."},
    {"mlp.gate_proj.", "ffn_gate."},       {"mlp.up_proj.", "ffn_up."},
    {"mlp.down_proj.", "ffn_down."},       {"mlp.gate.", "ffn_gate_inp."},
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
  std::optional<std::string> renamed;
  if (const size_t experts = inner.find(kExperts); experts != std::string_view::npos) {
    const std::string_view numbered = inner.substr(experts + kExperts.size());
    const size_t end = numbered.find('.');
    if (end != std::string_view::npos)
      renamed = Renamed(kExpertTensors, numbered.substr(end + 1),
                        std::string(numbered.substr(0, end)) + ".");
  } else {
    renamed = Renamed(family.tensors, inner);
    if (!renamed) renamed = Renamed(kInnerTensors, inner);
  }
  return renamed ? layer + *renamed : std::string(name);
}

DecoderTensors::DecoderTensors(std::unique_ptr<TensorStore> files, const Family& family, Form form)
    : files_(std::move(files)), family_(family), form_(form) {
  for (const StoredTensor& tensor : files_->tensors()) {
    places_.push_back({tensor.index, 0});
    tensors_.push_back(tensor);
    if (form != Form::kTransformers) continue;
    tensors_.back().name = GgufName(family, tensor.name);
    if (tensors_.back().name != tensor.name) tensors_.back().in_file = tensor.name;
  }
  Index();
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
    return InvalidArgument(std::string(shape_code()),
                           fmt::format("tensor {} is {}, the hyper-parameters ask for {} rows",
                                       name, whole.shape.ToString(), rows));
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
    const Place place{source, offset};
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

Status DecoderTensors::Split(const ModelConfig& config) {
  tensors_.reserve(tensors_.size() * 3 +
                   static_cast<size_t>(config.layers) * 3 * static_cast<size_t>(config.experts));
  Index();  // names moved; from here on none does
  for (int layer = 0; layer < config.layers; ++layer) {
    const std::string block = fmt::format("blk.{}.", layer);
    RETURN_IF_ERROR(
        Replace(block + "attn_qkv.weight", {{block + "attn_q.weight", config.q_rows()},
                                            {block + "attn_k.weight", config.kv_rows()},
                                            {block + "attn_v.weight", config.kv_rows()}}));
    if (config.experts == 0 && Find(block + "ffn_gate.weight") == nullptr) {
      RETURN_IF_ERROR(
          Replace(block + "ffn_up.weight", {{block + "ffn_gate.weight", config.feed_forward},
                                            {block + "ffn_up.weight", config.feed_forward}}));
    }
    for (const char* kind : {"ffn_gate", "ffn_up", "ffn_down"}) {
      std::vector<Part> parts;
      const bool down = std::string_view(kind) == "ffn_down";
      for (int expert = 0; expert < config.experts; ++expert)
        parts.push_back({fmt::format("{}{}.{}.weight", block, kind, expert),
                         down ? config.width : config.feed_forward});
      RETURN_IF_ERROR(Replace(fmt::format("{}{}_exps.weight", block, kind), parts));
    }
  }
  Index();
  return OkStatus();
}

Status DecoderTensors::Read(const StoredTensor& tensor, uint64_t offset,
                            std::span<std::byte> out) const {
  const Place& place = places_[tensor.index];
  return files_->Read(files_->tensors()[place.tensor], place.offset + offset, out);
}

// For vectors, which are never parts: `tensor` is the whole.
Result<std::vector<float>> DecoderTensors::ReadFloats(const StoredTensor& tensor) const {
  ASSIGN_OR_RETURN(std::vector<float> values,
                   files_->ReadFloats(files_->tensors()[places_[tensor.index].tensor]));
  if (form_ == Form::kTransformers && family_.norms_less_one &&
      tensor.name.find("norm.") != std::string::npos) {
    for (float& value : values) value += 1;
  }
  return values;
}

}  // namespace tutti::model
