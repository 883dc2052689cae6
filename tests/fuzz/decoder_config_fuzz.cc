// The settings and the list of tensors of a decoder: refused by name, or every value is within the
// range that later code relies on, and a plan of the weights can be made. Of a folder: config.json,
// a 0 byte, and a line "NAME EXTENT..." for each tensor, whose values are all 1/2, but -1/2 of
// xIELU's eps. Of a GGUF: the file, of which only the keys are read.
#include <charconv>
#include <cmath>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/utf8.h"
#include "gguf/file.h"
#include "model/decoder.h"
#include "model/decoder_checkpoint.h"
#include "model/recurrence.h"
#include "model/weights.h"

namespace {

namespace model = tutti::model;

class ListedTensors final : public model::TensorStore {
 public:
  explicit ListedTensors(std::string_view lines) {
    while (!lines.empty()) {
      const size_t end = std::min(lines.find('\n'), lines.size());
      Add(lines.substr(0, end));
      lines.remove_prefix(std::min(end + 1, lines.size()));
    }
    for (size_t i = 0; i < tensors_.size(); ++i) {
      tensors_[i].index = i;
      by_name_.emplace(tensors_[i].name, i);
    }
  }

  std::span<const model::StoredTensor> tensors() const override { return tensors_; }
  const model::StoredTensor* Find(std::string_view name) const override {
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? nullptr : &tensors_[found->second];
  }
  tutti::Status Read(const model::StoredTensor&, uint64_t, std::span<std::byte>) const override {
    return tutti::InvalidArgument("st_offsets", "the list has no values");
  }
  tutti::Result<std::vector<float>> ReadFloats(const model::StoredTensor& tensor) const override {
    if (tensor.bytes > (1 << 20)) return tutti::InvalidArgument("st_offsets", "too many values");
    const float value = tensor.name.ends_with(".eps") ? -0.5F : 0.5F;
    return std::vector<float>(tensor.bytes / sizeof(float), value);
  }
  tutti::Status CheckUnchanged() const override { return tutti::OkStatus(); }
  std::string_view shape_code() const override { return "st_shape"; }

 private:
  void Add(std::string_view line) {
    const size_t space = std::min(line.find(' '), line.size());
    model::StoredTensor tensor;
    tensor.name = std::string(line.substr(0, space));
    line.remove_prefix(space);
    uint64_t elements = 1;
    std::vector<int64_t> extents;
    while (!line.empty() && extents.size() < tutti::tensor::kMaxDims) {
      int64_t extent = 0;
      const auto [at, error] = std::from_chars(line.data() + 1, line.data() + line.size(), extent);
      if (error != std::errc() || extent < 0 || extent > (1 << 20)) break;
      line.remove_prefix(static_cast<size_t>(at - line.data()));
      extents.insert(extents.begin(), extent);  // the contiguous one comes first
      elements *= static_cast<uint64_t>(extent);
      if (elements > (uint64_t{1} << 40)) return;
    }
    tensor.shape.dims = static_cast<int>(extents.size());
    for (size_t i = 0; i < extents.size(); ++i) tensor.shape.ne[i] = extents[i];
    tensor.bytes = static_cast<size_t>(elements) * sizeof(float);
    tensors_.push_back(std::move(tensor));
  }

  std::vector<model::StoredTensor> tensors_;
  std::map<std::string, size_t, std::less<>> by_name_;
};

void CheckConfig(const model::ModelConfig& config) {
  CHECK(config.layers >= 1 && config.layers <= model::kMaxLayers);
  CHECK(config.predicting_layers >= 0 && config.predicting_layers <= model::kMaxLayers);
  CHECK(config.width >= 32 && config.width % 32 == 0 && config.width <= model::kMaxWidth);
  CHECK(config.feed_forward >= 32 && config.feed_forward % 32 == 0);
  CHECK(config.heads >= 1 && config.kv_heads >= 1 && config.heads % config.kv_heads == 0);
  CHECK(config.vocab_size >= 1 && config.vocab_size <= model::kMaxVocabulary);
  CHECK(config.context_length >= 1 && config.max_context() <= model::kMaxContext);
  CHECK(config.norm_eps > 0 && config.rope_dims >= 0 && config.rope_dims <= config.head_dim);
  CHECK(std::isfinite(config.embedding_scale) && config.residual_scale > 0);
  CHECK(std::isfinite(config.value_scale) && std::isfinite(config.logit_scale));
  CHECK(config.experts_used <= config.experts && config.attention_layers() >= 1);
  CHECK(config.window >= 0 && config.conv_taps >= 0);
  CHECK(config.query_growth >= 0 && (config.query_growth == 0 || config.query_period >= 1));
  CHECK(config.value_width() >= 1 && config.value_width() <= config.head_dim);
  CHECK(config.latent_rank % 32 == 0 && config.query_rank % 32 == 0);
  CHECK(config.latent_rank == 0 ||
        (config.kv_heads == config.heads && config.rope_dims >= 2 && config.latent_norm_eps > 0));
  CHECK(config.expert_groups >= 1 && config.expert_groups <= model::kMaxExpertGroups);
  CHECK(config.expert_groups_used >= 1 && config.expert_groups_used <= config.expert_groups);
  CHECK(config.expert_groups == 1 ||
        config.experts / config.expert_groups * config.expert_groups_used >= config.experts_used);
  const auto of_layers = [&](size_t count) {
    CHECK(count == 0 || count == static_cast<size_t>(config.layers)) << count;
  };
  of_layers(config.recurrent.size());
  of_layers(config.windowed.size());
  of_layers(config.unrotated.size());
  of_layers(config.without_experts.size());
  of_layers(config.feed_forward_alone.size());
  of_layers(config.xielu.size());
  of_layers(config.kv_layer.size());
  of_layers(config.feed_forwards.size());
  of_layers(config.gate_cutoffs.size());
  CHECK(config.layer_inputs == 0 ||
        (config.layer_vocab >= 1 && config.layer_vocab <= config.vocab_size));
  CHECK(config.streams == 0 || (config.streams >= 2 && config.streams <= model::kMaxStreams &&
                                config.layer_inputs != 0 && config.laurel_rank >= 32));
  CHECK(config.active_stream >= 0 && config.active_stream < std::max(config.streams, 1));
  CHECK(config.laurel_rank % 32 == 0);
  CHECK(model::RecurrenceFault(config) == nullptr);
  CHECK(config.recurrence == model::Recurrence::kNone ||
        model::Decoder::StateBytes(config) % 64 == 0);
}

void CheckRefusal(const tutti::Status& status) {
  CHECK(!status.reason().empty()) << status;
  CHECK(tutti::IsValidUtf8(status.message()) && status.message().size() < 2000) << status;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (text.starts_with("GGUF")) {
    const auto file = tutti::gguf::File::FromSource(
        tutti::gguf::MemorySource(std::as_bytes(std::span(data, size))));
    if (!file.ok()) return 0;
    const auto config = model::ReadModelConfig(**file);
    if (config.ok()) {
      CheckConfig(*config);
    } else {
      CheckRefusal(config.status());
    }
    return 0;
  }
  const size_t end = std::min(text.find('\0'), size);
  const std::string_view lines = text.substr(std::min(end + 1, size));
  const auto checkpoint = model::DecoderCheckpoint::FromTransformers(
      text.substr(0, end), std::make_unique<ListedTensors>(lines));
  if (!checkpoint.ok()) {
    CheckRefusal(checkpoint.status());
    return 0;
  }
  CheckConfig(checkpoint->config);
  const auto weights = model::Weights::Plan(*checkpoint, {});
  if (weights.ok()) {
    CHECK_GT((*weights)->bytes(), size_t{0});
  } else {
    CheckRefusal(weights.status());
  }
  return 0;
}
