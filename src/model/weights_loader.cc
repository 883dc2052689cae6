#include "model/weights_loader.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "model/outliers.h"

namespace tutti::model {

using kernels::WeightFormat;

namespace {

bool IsSixteenBits(WeightFormat format) {
  return format == WeightFormat::kF16 || format == WeightFormat::kBf16;
}

bool KeepsOutliers(const kernels::PackedMatrix& matrix) {
  return kernels::HasBlockScales(matrix.format) && !matrix.in_bf16;
}

// Whether a packed checkpoint's weights are for this program and `mode`, and as many `bytes` as its
// model has.
Status CheckPacked(const packed::Preamble& preamble, WeightMode mode, size_t bytes) {
  if (preamble.layout != kWeightsLayout) {
    return InvalidArgument(
        "packed_layout",
        fmt::format("the weights were packed in layout {}, this program has layout {}; pack the "
                    "model again with this program",
                    preamble.layout, kWeightsLayout));
  }
  const packed::Arithmetic wanted = ArithmeticOf(mode);
  if (preamble.arithmetic != wanted) {
    return InvalidArgument(
        "packed_dtype",
        fmt::format(
            "file was packed for --dtype {0}, not {1}; omit --dtype or pack the model again "
            "with `tutti pack --dtype {1}`",
            packed::ArithmeticName(preamble.arithmetic), packed::ArithmeticName(wanted)));
  }
  if (preamble.weight_bytes == bytes) return OkStatus();
  return InvalidArgument("packed_header",
                         fmt::format("the file has {} bytes of weights, but its model needs {}",
                                     preamble.weight_bytes, bytes));
}

}  // namespace

Status WeightsLoader::Check() {
  weights_->config_ = checkpoint_.config;
  RETURN_IF_ERROR(Plan());
  return RefuseOthers();
}

Status WeightsLoader::Lay() {
  weights_->config_ = checkpoint_.config;
  const ModelConfig& config = weights_->config_;
  if (!options_.fuse && (config.experts != 0 || config.latent_rank != 0)) {
    return InvalidArgument("model_hparam", fmt::format("{} does not run one operation at a time",
                                                       config.experts != 0 ? "a mixture of experts"
                                                                           : "latent attention"));
  }
  weights_->mode_ = options_.mode;
  weights_->fused_ = options_.fuse;
  RETURN_IF_ERROR(Plan());
  RETURN_IF_ERROR(RefuseOthers());
  weights_->bytes_ = arena_.bytes();
  if (checkpoint_.packed == nullptr) return OkStatus();
  CHECK(options_.fuse) << "a packed checkpoint is fused";
  return CheckPacked(checkpoint_.packed->preamble(), options_.mode, arena_.bytes());
}

Result<std::shared_ptr<const Weights>> WeightsLoader::PlanOnly() {
  RETURN_IF_ERROR(Lay());
  Link();
  return std::shared_ptr<const Weights>(std::move(weights_));
}

Result<std::shared_ptr<const Weights>> WeightsLoader::Load() {
  RETURN_IF_ERROR(Lay());
  if (checkpoint_.packed == nullptr) {
    ASSIGN_OR_RETURN(weights_->arena_, arena_.Build(options_.threads, options_.progress));
  } else {
    ASSIGN_OR_RETURN(weights_->arena_,
                     arena_.ReadPacked(*checkpoint_.packed, options_.threads, options_.progress));
  }
  Link();
  std::shared_ptr<Weights> weights = std::move(weights_);
  if (options_.keep_outliers) RETURN_IF_ERROR(KeepOutliers(weights));
  return std::shared_ptr<const Weights>(std::move(weights));
}

Status WeightsLoader::KeepOutliers(const std::shared_ptr<Weights>& weights) {
  struct Kept {
    Projection* projection;
    const std::vector<int32_t>* columns;
  };
  const auto has_blocks = [](const Projection* projection) {
    return std::any_of(projection->parts.begin(), projection->parts.end(), KeepsOutliers);
  };
  // Matrices that may share their activations: if one of them keeps outliers, all do.
  std::vector<std::vector<Projection*>> attention, feed_forward;
  bool any = has_blocks(&weights->head_);
  for (LayerWeights& layer : weights->layers_) {
    attention.push_back({&layer.qkv, &layer.q, &layer.k, &layer.v, &layer.q_gate,
                         &layer.recurrent.in, &layer.streams.laurel_left});
    feed_forward.push_back({&layer.gate_up, &layer.gate, &layer.up});
    any |= std::any_of(attention.back().begin(), attention.back().end(), has_blocks) ||
           std::any_of(feed_forward.back().begin(), feed_forward.back().end(), has_blocks);
  }
  if (!any) return OkStatus();
  ASSIGN_OR_RETURN(const OutlierColumns found, FindOutliers(weights));

  std::vector<Kept> kept = {{&weights->head_, &found.head}};
  for (size_t i = 0; i < weights->layers_.size(); ++i) {
    for (Projection* projection : attention[i]) kept.push_back({projection, &found.attention[i]});
    for (Projection* projection : feed_forward[i])
      kept.push_back({projection, &found.feed_forward[i]});
  }
  // The weights of one panel and column fill a cache line (32 halves), so that each part begins
  // on one, as kernels need.
  size_t bytes = 0;
  for (const auto& [projection, columns] : kept) {
    for (const kernels::PackedMatrix& part : projection->parts)
      bytes += kernels::OutlierBytes(part, static_cast<int32_t>(columns->size()));
  }
  ASSIGN_OR_RETURN(weights->outliers_, kernels::AlignedBuffer::Allocate(bytes));
  auto* at = reinterpret_cast<uint16_t*>(weights->outliers_.data());
  for (const auto& [projection, columns] : kept) {
    projection->outliers = *columns;
    for (kernels::PackedMatrix& part : projection->parts) {
      if (columns->empty() || !KeepsOutliers(part)) continue;
      part.outliers = at;
      kernels::CopyOutliers(part, *columns, at);
      at += kernels::OutlierBytes(part, static_cast<int32_t>(columns->size())) / sizeof *at;
    }
  }
  return OkStatus();
}

Status WeightsLoader::RefuseOthers() const {
  const ModelConfig& c = weights_->config_;
  return arena_.RefuseOthers(
      fmt::format("a {} model of {} layers", c.architecture, c.layers), [&](std::string_view name) {
        // A model that gives vectors or scores reads no whole head.
        return name == "rope_freqs.weight" || (checkpoint_.encodes() && name == "output.weight");
      });
}

WeightFormat WeightsLoader::FormatOf(const StoredTensor& tensor) const {
  switch (options_.mode) {
    case WeightMode::kInt8: {
      const WeightFormat native = kernels::NativeFormat(tensor.dtype);
      return IsSixteenBits(native) && bf16_pairs_ ? WeightFormat::kBf16Pairs : native;
    }
    case WeightMode::kF32:
      return WeightFormat::kF32;
    case WeightMode::kF16:
      return WeightFormat::kF16;
    case WeightMode::kBf16:
      return bf16_pairs_ ? WeightFormat::kBf16Pairs : WeightFormat::kBf16;
  }
  CHECK(false) << "mode";
  return WeightFormat::kF32;
}

WeightFormat WeightsLoader::FormatAmongOthers(const StoredTensor& tensor) const {
  const WeightFormat format = FormatOf(tensor);
  if (format != WeightFormat::kBf16Pairs) return format;
  return options_.mode == WeightMode::kBf16 ? WeightFormat::kBf16
                                            : kernels::NativeFormat(tensor.dtype);
}

Result<size_t> WeightsLoader::PlanOwn(const WeightArena::Tensors& tensors, bool gate_up) {
  const WeightFormat format = FormatOf(*tensors[0]);
  ASSIGN_OR_RETURN(const size_t matrix, arena_.PlanMatrix(tensors, format, gate_up));
  const bool as_it_lies = options_.mode == WeightMode::kF16;
  if (checkpoint_.packed != nullptr && options_.bf16_pairs && IsSixteenBits(format) && !as_it_lies)
    arena_.HoldInPairs(matrix);
  return matrix;
}

Status WeightsLoader::PlanProjection(const WeightArena::Tensors& tensors, Projection* out) {
  std::vector<WeightArena::Tensors> groups;
  for (const StoredTensor* tensor : tensors) groups.push_back({tensor});
  return PlanGroups(groups, out);
}

Status WeightsLoader::PlanGroups(const std::vector<WeightArena::Tensors>& groups, Projection* out) {
  PartsOf link{out, {}};
  WeightArena::Tensors tensors;
  bool whole_groups = true;  // of one type and whole panels
  for (const WeightArena::Tensors& group : groups) {
    int64_t rows = 0;
    for (const StoredTensor* tensor : group) {
      tensors.push_back(tensor);
      rows += tensor->shape.rows();
      whole_groups &= FormatOf(*tensor) == FormatOf(*group[0]);
    }
    whole_groups &= rows % kernels::kPanelRows == 0;
  }
  const auto same_format = [&](const StoredTensor* t) {
    return FormatOf(*t) == FormatOf(*tensors[0]);
  };
  if (std::all_of(tensors.begin(), tensors.end(), same_format)) {
    ASSIGN_OR_RETURN(const size_t matrix, PlanOwn(tensors));
    link.matrices.push_back(matrix);
  } else if (whole_groups) {
    const bool may_pair = std::all_of(tensors.begin(), tensors.end(), [this](const auto* t) {
      return IsSixteenBits(FormatOf(*t));
    });
    for (const WeightArena::Tensors& group : groups) {
      ASSIGN_OR_RETURN(
          const size_t matrix,
          may_pair ? PlanOwn(group) : arena_.PlanMatrix(group, FormatAmongOthers(*group[0])));
      link.matrices.push_back(matrix);
    }
  } else {
    // Parts must start on a panel; where their heights and types both forbid it, floats hold
    // every type.
    ASSIGN_OR_RETURN(const size_t matrix, arena_.PlanMatrix(tensors, WeightFormat::kF32));
    link.matrices.push_back(matrix);
  }
  links_.push_back(std::move(link));
  return OkStatus();
}

Status WeightsLoader::PlanGateUp(const StoredTensor* gate, const StoredTensor* up,
                                 Projection* out) {
  const bool same = FormatOf(*gate) == FormatOf(*up);
  ASSIGN_OR_RETURN(
      const size_t matrix,
      same ? PlanOwn({gate, up}, true) : arena_.PlanMatrix({gate, up}, WeightFormat::kF32, true));
  links_.push_back({out, {matrix}});
  return OkStatus();
}

Status WeightsLoader::PlanVector(const std::string& name, const float** target, int64_t length,
                                 float scale) {
  if (length == 0) length = weights_->config_.width;
  ASSIGN_OR_RETURN(const StoredTensor* tensor, arena_.Expect(name, {length}));
  arena_.PlanVector({tensor}, target, 0, scale);
  return OkStatus();
}

Status WeightsLoader::PlanNorm(const std::string& name, const float** weight, const float** bias,
                               float scale) {
  const ModelConfig& c = weights_->config_;
  RETURN_IF_ERROR(PlanVector(name + ".weight", weight, 0, scale));
  if (c.norm_bias) return PlanVector(name + ".bias", bias, 0, scale);
  if (c.layer_norm) arena_.PlanVector({}, bias, static_cast<size_t>(c.width));
  return OkStatus();
}

Status WeightsLoader::PlanBias(const std::vector<std::pair<std::string, int64_t>>& names,
                               Projection* out) {
  WeightArena::Tensors tensors;
  int64_t rows = 0;
  for (const auto& [name, length] : names) {
    ASSIGN_OR_RETURN(const StoredTensor* tensor, arena_.Expect(name, {length}));
    tensors.push_back(tensor);
    rows += length;
  }
  // Rows of padding have a bias of 0.
  arena_.PlanVector(std::move(tensors), &out->bias,
                    static_cast<size_t>(kernels::RoundUpToPanel(static_cast<int>(rows))));
  return OkStatus();
}

Result<WeightArena::Tensors> WeightsLoader::ExpectParts(const std::string& name, int count,
                                                        int rows, int columns) {
  WeightArena::Tensors parts;
  for (int i = 0; i < count; ++i) {
    ASSIGN_OR_RETURN(parts.emplace_back(),
                     arena_.Expect(fmt::format("{}.{}.weight", name, i), {columns, rows}));
  }
  return parts;
}

Status WeightsLoader::PlanOne(const std::string& name, const tensor::Shape& shape, bool bias,
                              Projection* out) {
  ASSIGN_OR_RETURN(const StoredTensor* matrix, arena_.Expect(name + ".weight", shape));
  RETURN_IF_ERROR(PlanProjection({matrix}, out));
  return bias ? PlanBias({{name + ".bias", shape.rows()}}, out) : OkStatus();
}

Result<const StoredTensor*> WeightsLoader::ExpectRow(const std::string& name, int64_t columns) {
  const StoredTensor* found = checkpoint_.tensors->Find(name);
  if (found != nullptr && found->shape.dims == 1) return arena_.Expect(name, {columns});
  return arena_.Expect(name, {columns, 1});
}

Status WeightsLoader::PlanLayer(int index) {
  const ModelConfig& c = weights_->config_;
  const std::string prefix = fmt::format("blk.{}.", index);
  LayerWeights& layer = weights_->layers_[static_cast<size_t>(index)];
  if (c.streams != 0) RETURN_IF_ERROR(PlanStreamsOf(prefix, layer.streams));
  if (c.has_attention(index)) RETURN_IF_ERROR(PlanAttention(index, prefix, layer));
  if (c.is_recurrent(index)) RETURN_IF_ERROR(PlanRecurrent(prefix, layer));
  if (!c.has_feed_forward(index)) return OkStatus();
  if (c.norm_before) {
    RETURN_IF_ERROR(PlanNorm(fmt::format("{}{}", prefix, c.ffn_norm), &layer.ffn_norm,
                             &layer.ffn_norm_bias, static_cast<float>(c.ffn_norm_scale)));
  }
  const bool experts = c.has_experts(index);
  if (c.inner_norms) {
    RETURN_IF_ERROR(
        PlanVector(prefix + "ffn_sub_norm.weight", &layer.ffn_inner_norm, c.feed_forward));
  }
  if (!experts || c.dense_and_experts) RETURN_IF_ERROR(PlanDenseFeedForward(index, prefix, layer));
  if (experts) RETURN_IF_ERROR(PlanExperts(prefix, layer));
  if (c.norm_after)
    RETURN_IF_ERROR(PlanVector(prefix + "post_ffw_norm.weight", &layer.ffn_after_norm));
  return PlanLayerInput(prefix, layer);
}

Status WeightsLoader::Plan() {
  const ModelConfig& c = weights_->config_;
  weights_->layers_.resize(static_cast<size_t>(c.layers));
  if (c.layer_inputs != 0) RETURN_IF_ERROR(PlanLayerInputs());
  if (c.streams != 0) RETURN_IF_ERROR(PlanStreamInputs());
  for (int i = 0; i < c.layers; ++i) RETURN_IF_ERROR(PlanLayer(i));
  if (c.streams != 0) RETURN_IF_ERROR(PlanStreamOutputs());
  RETURN_IF_ERROR(PlanNorm(std::string(c.output_norm), &weights_->output_norm_,
                           &weights_->output_norm_bias_, static_cast<float>(c.logit_scale)));
  ASSIGN_OR_RETURN(const StoredTensor* embedding,
                   arena_.Expect("token_embd.weight", {c.width, c.vocab_size}));
  const StoredTensor* head = embedding;
  if (!c.tied_head) {
    ASSIGN_OR_RETURN(head, arena_.Expect("output.weight", {c.width, c.vocab_size}));
  }
  RETURN_IF_ERROR(PlanProjection({head}, &weights_->head_));
  if (c.tied_head) return OkStatus();
  // The embedding is looked up, never multiplied; its own format keeps the file's exact values.
  ASSIGN_OR_RETURN(embedding_matrix_,
                   arena_.PlanMatrix({embedding}, FormatAmongOthers(*embedding)));
  return OkStatus();
}

void WeightsLoader::Link() {
  for (const PartsOf& link : links_) {
    for (const size_t matrix : link.matrices) {
      kernels::PackedMatrix part = arena_.matrix(matrix);
      part.in_bf16 = options_.bf16_tiles && kernels::HasBlockScales(part.format);
      weights_->bf16_pairs_ |= part.format == WeightFormat::kBf16Pairs;
      weights_->bf16_tiles_ |= part.in_bf16;
      link.projection->parts.push_back(part);
    }
  }
  weights_->embedding_ =
      weights_->config_.tied_head ? weights_->head_.parts[0] : arena_.matrix(embedding_matrix_);
  if (weights_->config_.layer_inputs != 0)
    weights_->layer_embedding_ = arena_.matrix(layer_embedding_matrix_);
  if (weights_->config_.dense_and_experts) return;
  for (LayerWeights& layer : weights_->layers_)
    layer.router_norm = layer.expert_norm = layer.ffn_norm;
}

}  // namespace tutti::model
