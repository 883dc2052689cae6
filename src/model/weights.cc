#include "model/weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "model/outliers.h"
#include "model/recurrence.h"
#include "model/weight_arena.h"

namespace tutti::model {

using kernels::WeightFormat;

// The modes have the numbers of the format.
static_assert(static_cast<WeightMode>(packed::Arithmetic::kInt8) == WeightMode::kInt8 &&
              static_cast<WeightMode>(packed::Arithmetic::kF32) == WeightMode::kF32 &&
              static_cast<WeightMode>(packed::Arithmetic::kF16) == WeightMode::kF16 &&
              static_cast<WeightMode>(packed::Arithmetic::kBf16) == WeightMode::kBf16);
packed::Arithmetic ArithmeticOf(WeightMode mode) { return static_cast<packed::Arithmetic>(mode); }
WeightMode ModeOf(packed::Arithmetic arithmetic) { return static_cast<WeightMode>(arithmetic); }

int Projection::columns() const { return panels() * kernels::kPanelRows; }

int Projection::panels() const {
  int panels = 0;
  for (const kernels::PackedMatrix& part : parts) panels += kernels::PanelCount(part);
  return panels;
}

bool Projection::reads_quantized() const {
  return std::any_of(parts.begin(), parts.end(),
                     [](const auto& p) { return kernels::IsQuantized(p.format); });
}

bool Projection::reads_floats() const {
  return std::any_of(parts.begin(), parts.end(),
                     [](const auto& p) { return !kernels::IsQuantized(p.format); });
}

kernels::ScalePer Projection::activation_scale() const {
  for (const kernels::PackedMatrix& part : parts) {
    if (kernels::IsQuantized(part.format)) return kernels::ActivationScale(part);
  }
  return kernels::ScalePer::kBlock;
}

void Projection::KeepOutliers(kernels::QuantizedRows* rows) const {
  if (rows->scale != kernels::ScalePer::kBlock) return;
  rows->outliers = outliers.data();
  rows->outlier_count = static_cast<int32_t>(outliers.size());
}

namespace {

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

// The tensors of the architecture, and where each goes.
class WeightsLoader {
 public:
  WeightsLoader(const DecoderCheckpoint& checkpoint, const LoadOptions& options)
      : checkpoint_(checkpoint),
        options_(options),
        arena_(*checkpoint.tensors),
        weights_(new Weights()) {}

  Status Check() {
    weights_->config_ = checkpoint_.config;
    RETURN_IF_ERROR(Plan());
    return RefuseOthers();
  }

  // All but the values.
  Status Lay() {
    weights_->config_ = checkpoint_.config;
    const ModelConfig& config = weights_->config_;
    if (!options_.fuse && (config.experts != 0 || config.latent_rank != 0)) {
      return InvalidArgument(
          "model_hparam",
          fmt::format("{} does not run one operation at a time",
                      config.experts != 0 ? "a mixture of experts" : "latent attention"));
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

  Result<std::shared_ptr<const Weights>> PlanOnly() {
    RETURN_IF_ERROR(Lay());
    Link();
    return std::shared_ptr<const Weights>(std::move(weights_));
  }

  Result<std::shared_ptr<const Weights>> Load() {
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

 private:
  static Status KeepOutliers(const std::shared_ptr<Weights>& weights) {
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

  // Where a projection's parts are among the matrices, to be linked once packed.
  struct PartsOf {
    Projection* projection;
    std::vector<size_t> matrices;
  };

  Status RefuseOthers() const {
    const ModelConfig& c = weights_->config_;
    return arena_.RefuseOthers(fmt::format("a {} model of {} layers", c.architecture, c.layers),
                               [&](std::string_view name) {
                                 // A model that gives vectors or scores reads no whole head.
                                 return name == "rope_freqs.weight" ||
                                        (checkpoint_.encodes() && name == "output.weight");
                               });
  }

  static bool IsSixteenBits(WeightFormat format) {
    return format == WeightFormat::kF16 || format == WeightFormat::kBf16;
  }

  // Format of a matrix that shares its activations with no matrix of another type.
  WeightFormat FormatOf(const StoredTensor& tensor) const {
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

  // Format of a matrix that shares its activations with matrices of other types: the activations
  // are quantised in one way only.
  WeightFormat FormatAmongOthers(const StoredTensor& tensor) const {
    const WeightFormat format = FormatOf(tensor);
    if (format != WeightFormat::kBf16Pairs) return format;
    return options_.mode == WeightMode::kBf16 ? WeightFormat::kBf16
                                              : kernels::NativeFormat(tensor.dtype);
  }

  // Plans a matrix that shares its activations with no matrix of another format. Packed files are
  // the same for all machines: they hold 16-bit weights as F16 or BF16, which become pairs when
  // they are read.
  Result<size_t> PlanOwn(const WeightArena::Tensors& tensors, bool gate_up = false) {
    const WeightFormat format = FormatOf(*tensors[0]);
    ASSIGN_OR_RETURN(const size_t matrix, arena_.PlanMatrix(tensors, format, gate_up));
    const bool as_it_lies = options_.mode == WeightMode::kF16;
    if (checkpoint_.packed != nullptr && options_.bf16_pairs && IsSixteenBits(format) &&
        !as_it_lies)
      arena_.HoldInPairs(matrix);
    return matrix;
  }

  // Matrices that share their input, as few parts as their types allow.
  Status PlanProjection(const WeightArena::Tensors& tensors, Projection* out) {
    std::vector<WeightArena::Tensors> groups;
    for (const StoredTensor* tensor : tensors) groups.push_back({tensor});
    return PlanGroups(groups, out);
  }

  // The same, of groups whose tensors may be small, but are of one type where files are usual.
  Status PlanGroups(const std::vector<WeightArena::Tensors>& groups, Projection* out) {
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

  Status PlanGateUp(const StoredTensor* gate, const StoredTensor* up, Projection* out) {
    const bool same = FormatOf(*gate) == FormatOf(*up);
    ASSIGN_OR_RETURN(
        const size_t matrix,
        same ? PlanOwn({gate, up}, true) : arena_.PlanMatrix({gate, up}, WeightFormat::kF32, true));
    links_.push_back({out, {matrix}});
    return OkStatus();
  }

  Status PlanVector(const std::string& name, const float** target, int64_t length = 0,
                    float scale = 1) {
    if (length == 0) length = weights_->config_.width;
    ASSIGN_OR_RETURN(const StoredTensor* tensor, arena_.Expect(name, {length}));
    arena_.PlanVector({tensor}, target, 0, scale);
    return OkStatus();
  }

  // Plans a norm of the residual stream; LayerNorm without a bias gets one of zeros.
  Status PlanNorm(const std::string& name, const float** weight, const float** bias,
                  float scale = 1) {
    const ModelConfig& c = weights_->config_;
    RETURN_IF_ERROR(PlanVector(name + ".weight", weight, 0, scale));
    if (c.norm_bias) return PlanVector(name + ".bias", bias, 0, scale);
    if (c.layer_norm) arena_.PlanVector({}, bias, static_cast<size_t>(c.width));
    return OkStatus();
  }

  // Plans the bias of a projection whose matrices have the same names, in the same order.
  Status PlanBias(const std::vector<std::pair<std::string, int64_t>>& names, Projection* out) {
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

  Status PlanAttention(int index, const std::string& prefix, LayerWeights& layer) {
    const ModelConfig& c = weights_->config_;
    if (c.norm_before) {
      RETURN_IF_ERROR(PlanNorm(prefix + "attn_norm", &layer.attn_norm, &layer.attn_norm_bias));
    }
    RETURN_IF_ERROR(c.latent_rank != 0 ? PlanLatent(prefix, layer)
                                       : PlanHeads(index, prefix, layer));
    if (c.attention_sinks)
      RETURN_IF_ERROR(PlanVector(prefix + "attn_sinks.weight", &layer.sinks, c.heads));
    if (c.inner_norms) {
      RETURN_IF_ERROR(PlanVector(prefix + "attn_sub_norm.weight", &layer.attn_inner_norm,
                                 c.attended_rows(index)));
    }
    ASSIGN_OR_RETURN(const StoredTensor* o, arena_.Expect(prefix + "attn_output.weight",
                                                          {c.attended_rows(index), c.width}));
    RETURN_IF_ERROR(PlanProjection({o}, &layer.attn_output));
    if (c.output_bias)
      RETURN_IF_ERROR(PlanBias({{prefix + "attn_output.bias", c.width}}, &layer.attn_output));
    if (!c.norm_after) return OkStatus();
    return PlanVector(prefix + "post_attention_norm.weight", &layer.attn_after_norm);
  }

  Status PlanLatent(const std::string& prefix, LayerWeights& layer) {
    const ModelConfig& c = weights_->config_;
    LatentWeights& latent = layer.latent;
    const bool ranked = c.query_rank != 0;
    ASSIGN_OR_RETURN(const StoredTensor* q,
                     arena_.Expect(prefix + (ranked ? "attn_q_a.weight" : "attn_q.weight"),
                                   {c.width, ranked ? c.query_rank : c.q_rows()}));
    ASSIGN_OR_RETURN(const StoredTensor* kv, arena_.Expect(prefix + "attn_kv_a_mqa.weight",
                                                           {c.width, c.latent_rank + c.rope_dims}));
    RETURN_IF_ERROR(PlanProjection({q, kv}, &layer.qkv));
    if (ranked) {
      RETURN_IF_ERROR(
          PlanVector(prefix + "attn_q_a_norm.weight", &latent.query_norm, c.query_rank));
      RETURN_IF_ERROR(
          PlanOne(prefix + "attn_q_b", {c.query_rank, c.q_rows()}, false, &latent.query));
    }
    RETURN_IF_ERROR(
        PlanVector(prefix + "attn_kv_a_norm.weight", &latent.key_value_norm, c.latent_rank));
    ASSIGN_OR_RETURN(
        const WeightArena::Tensors keys,
        ExpectParts(prefix + "attn_k_b", c.heads, c.head_dim - c.rope_dims, c.latent_rank));
    ASSIGN_OR_RETURN(const WeightArena::Tensors values,
                     ExpectParts(prefix + "attn_v_b", c.heads, c.value_width(), c.latent_rank));
    return PlanGroups({keys, values}, &latent.key_value);
  }

  // Queries, keys and values, all of the same width, and their norms.
  Status PlanHeads(int index, const std::string& prefix, LayerWeights& layer) {
    const ModelConfig& c = weights_->config_;
    const int q_rows = c.q_rows(index), kv_rows = c.kv_rows(index), head_dim = c.head_dim_of(index);
    WeightArena::Tensors q, gates;
    if (c.attention_gate) {
      ASSIGN_OR_RETURN(q, ExpectParts(prefix + "attn_q", c.heads, c.head_dim, c.width));
      ASSIGN_OR_RETURN(gates, ExpectParts(prefix + "attn_gate", c.heads, c.head_dim, c.width));
    } else {
      ASSIGN_OR_RETURN(q.emplace_back(),
                       arena_.Expect(prefix + "attn_q.weight", {c.width, q_rows}));
    }
    WeightArena::Tensors k, v;  // empty where the layer has none
    if (c.owns_kv(index)) {
      ASSIGN_OR_RETURN(k.emplace_back(),
                       arena_.Expect(prefix + "attn_k.weight", {c.width, kv_rows}));
    }
    if (c.owns_kv(index) && c.has_values(index)) {
      ASSIGN_OR_RETURN(v.emplace_back(),
                       arena_.Expect(prefix + "attn_v.weight", {c.width, kv_rows}));
    }
    const std::pair<std::string, int64_t> q_bias = {prefix + "attn_q.bias", q_rows};
    const std::pair<std::string, int64_t> k_bias = {prefix + "attn_k.bias", kv_rows};
    const std::pair<std::string, int64_t> v_bias = {prefix + "attn_v.bias", kv_rows};
    if (options_.fuse) {
      std::vector<WeightArena::Tensors> groups = {q};
      if (!k.empty()) groups.push_back(k);
      if (!v.empty()) groups.push_back(v);
      if (c.attention_gate) groups.push_back(gates);
      RETURN_IF_ERROR(PlanGroups(groups, &layer.qkv));
      if (c.qkv_bias) RETURN_IF_ERROR(PlanBias({q_bias, k_bias, v_bias}, &layer.qkv));
    } else {
      RETURN_IF_ERROR(PlanProjection(q, &layer.q));
      if (c.attention_gate) RETURN_IF_ERROR(PlanProjection(gates, &layer.q_gate));
      if (!k.empty()) RETURN_IF_ERROR(PlanProjection(k, &layer.k));
      if (!v.empty()) RETURN_IF_ERROR(PlanProjection(v, &layer.v));
      if (c.qkv_bias) {
        RETURN_IF_ERROR(PlanBias({q_bias}, &layer.q));
        RETURN_IF_ERROR(PlanBias({k_bias}, &layer.k));
        RETURN_IF_ERROR(PlanBias({v_bias}, &layer.v));
      }
    }
    if (c.head_norm != HeadNorm::kNone && c.head_norm != HeadNorm::kUnweighted) {
      const bool whole = c.head_norm == HeadNorm::kWholeRow;
      RETURN_IF_ERROR(
          PlanVector(prefix + "attn_q_norm.weight", &layer.q_norm, whole ? q_rows : head_dim));
      if (c.owns_kv(index))
        RETURN_IF_ERROR(
            PlanVector(prefix + "attn_k_norm.weight", &layer.k_norm, whole ? kv_rows : head_dim));
    }
    return OkStatus();
  }

  Status PlanRecurrent(const std::string& prefix, LayerWeights& layer) {
    const ModelConfig& c = weights_->config_;
    RecurrentWeights& recurrent = layer.recurrent;
    if (c.norm_before && !c.attention_with_state)
      RETURN_IF_ERROR(PlanVector(prefix + "attn_norm.weight", &layer.attn_norm));
    switch (c.recurrence) {
      case Recurrence::kMamba2:
        return PlanMamba2(prefix + "ssm_", recurrent);
      case Recurrence::kDeltaNet:
        return PlanDeltaNet(prefix, recurrent);
      case Recurrence::kShortConv:
        return PlanShortConv(prefix, recurrent);
      case Recurrence::kNone:
        break;
    }
    CHECK(false) << "a recurrent layer without a recurrence";
    return OkStatus();
  }

  Status PlanShortConv(const std::string& prefix, RecurrentWeights& recurrent) {
    const ModelConfig& c = weights_->config_;
    const RecurrentShape shape = ShapeOfRecurrence(c);
    const std::string conv = prefix + "shortconv.";
    RETURN_IF_ERROR(
        PlanOne(conv + "in_proj", {c.width, shape.projected}, c.recurrent_bias, &recurrent.in));
    RETURN_IF_ERROR(PlanConvolution(conv + "conv", shape.conv_channels, &recurrent));
    return PlanOne(conv + "out_proj", {shape.inner, c.width}, c.recurrent_bias, &recurrent.out);
  }

  Status PlanMamba2(const std::string& ssm, RecurrentWeights& recurrent) {
    const ModelConfig& c = weights_->config_;
    const RecurrentShape shape = ShapeOfRecurrence(c);
    RETURN_IF_ERROR(
        PlanOne(ssm + "in", {c.width, shape.projected}, c.recurrent_bias, &recurrent.in));
    RETURN_IF_ERROR(PlanConvolution(ssm + "conv1d", shape.conv_channels, &recurrent));
    RETURN_IF_ERROR(PlanVector(ssm + "dt.bias", &recurrent.rate_bias, c.state_heads));
    for (const auto& [name, target] :
         {std::pair{"a", &recurrent.log_decay}, std::pair{"d", &recurrent.skip}}) {
      ASSIGN_OR_RETURN(const StoredTensor* by_head, arena_.Expect(ssm + name, {1, c.state_heads}));
      arena_.PlanVector({by_head}, target);
    }
    if (c.state_norm) {
      ASSIGN_OR_RETURN(
          const StoredTensor* norm,
          arena_.Expect(ssm + "norm.weight", {shape.inner / c.state_groups, c.state_groups}));
      arena_.PlanVector({norm}, &recurrent.norm);
    }
    return PlanOne(ssm + "out", {shape.inner, c.width}, c.recurrent_bias, &recurrent.out);
  }

  // Rows in the order of RecurrentShape, from one of the forms in which files have them: by kind,
  // or for each group of heads together.
  Status PlanDeltaNet(const std::string& prefix, RecurrentWeights& recurrent) {
    const ModelConfig& c = weights_->config_;
    const RecurrentShape shape = ShapeOfRecurrence(c);
    const std::string ssm = prefix + "ssm_";
    const int heads_of_group = c.state_heads / c.state_groups;
    WeightArena::Tensors mixed, gates, rates;
    const auto append = [&](WeightArena::Tensors* to, const char* kind, int rows) -> Status {
      ASSIGN_OR_RETURN(const WeightArena::Tensors parts,
                       ExpectParts(ssm + kind, c.state_groups, rows, c.width));
      to->insert(to->end(), parts.begin(), parts.end());
      return OkStatus();
    };
    if (checkpoint_.tensors->Find(ssm + "value.0.weight") != nullptr) {
      RETURN_IF_ERROR(append(&mixed, "query", c.state_keys));
      RETURN_IF_ERROR(append(&mixed, "key", c.state_keys));
      RETURN_IF_ERROR(append(&mixed, "value", heads_of_group * c.state_values));
      RETURN_IF_ERROR(append(&gates, "gate", heads_of_group * c.state_values));
    } else {
      ASSIGN_OR_RETURN(mixed.emplace_back(),
                       arena_.Expect(prefix + "attn_qkv.weight", {c.width, shape.conv_channels}));
      ASSIGN_OR_RETURN(gates.emplace_back(),
                       arena_.Expect(prefix + "attn_gate.weight", {c.width, shape.inner}));
    }
    if (checkpoint_.tensors->Find(ssm + "beta.0.weight") != nullptr) {
      RETURN_IF_ERROR(append(&rates, "beta", heads_of_group));
      RETURN_IF_ERROR(append(&rates, "alpha", heads_of_group));
    } else {
      for (const char* kind : {"beta.weight", "alpha.weight"}) {
        ASSIGN_OR_RETURN(rates.emplace_back(), arena_.Expect(ssm + kind, {c.width, c.state_heads}));
      }
    }
    RETURN_IF_ERROR(PlanGroups({mixed, gates, rates}, &recurrent.in));
    RETURN_IF_ERROR(PlanConvolution(ssm + "conv1d", shape.conv_channels, &recurrent));
    RETURN_IF_ERROR(PlanVector(ssm + "dt.bias", &recurrent.rate_bias, c.state_heads));
    RETURN_IF_ERROR(PlanVector(ssm + "a", &recurrent.log_decay, c.state_heads));
    RETURN_IF_ERROR(PlanVector(ssm + "norm.weight", &recurrent.norm, c.state_values));
    return PlanOne(ssm + "out", {shape.inner, c.width}, false, &recurrent.out);
  }

  // NAME.0.weight to NAME.(count - 1).weight, of `rows` rows of `columns` each.
  Result<WeightArena::Tensors> ExpectParts(const std::string& name, int count, int rows,
                                           int columns) {
    WeightArena::Tensors parts;
    for (int i = 0; i < count; ++i) {
      ASSIGN_OR_RETURN(parts.emplace_back(),
                       arena_.Expect(fmt::format("{}.{}.weight", name, i), {columns, rows}));
    }
    return parts;
  }

  // One matrix, and its bias if it has one.
  Status PlanOne(const std::string& name, const tensor::Shape& shape, bool bias, Projection* out) {
    ASSIGN_OR_RETURN(const StoredTensor* matrix, arena_.Expect(name + ".weight", shape));
    RETURN_IF_ERROR(PlanProjection({matrix}, out));
    return bias ? PlanBias({{name + ".bias", shape.rows()}}, out) : OkStatus();
  }

  Status PlanConvolution(const std::string& name, int channels, RecurrentWeights* recurrent) {
    const ModelConfig& c = weights_->config_;
    ASSIGN_OR_RETURN(const StoredTensor* weight,
                     arena_.Expect(name + ".weight", {c.conv_taps, channels}));
    // Scales of what the convolution reads are part of its weights.
    const StateScales& scales = c.state_scales;
    std::vector<float> factors;
    if (scales != StateScales()) {
      const int keys = c.state_groups * c.state_keys;
      factors.assign(static_cast<size_t>(channels - 2 * keys), static_cast<float>(scales.value));
      factors.insert(factors.end(), static_cast<size_t>(keys), static_cast<float>(scales.key));
      factors.insert(factors.end(), static_cast<size_t>(keys), static_cast<float>(scales.query));
    }
    arena_.PlanTransposed(weight, &recurrent->conv, std::move(factors));
    return c.conv_bias ? PlanVector(name + ".bias", &recurrent->conv_bias, channels) : OkStatus();
  }

  Status PlanExperts(const std::string& prefix, LayerWeights& layer) {
    const ModelConfig& c = weights_->config_;
    if (c.dense_and_experts) RETURN_IF_ERROR(PlanNormsOfExperts(prefix, layer));
    ASSIGN_OR_RETURN(const StoredTensor* router,
                     arena_.Expect(prefix + "ffn_gate_inp.weight", {c.width, c.experts}));
    WeightArena::Tensors router_rows = {router};
    if (c.shared_gate) {
      const std::string gate_name = prefix + "ffn_gate_inp_shexp.weight";
      ASSIGN_OR_RETURN(const StoredTensor* gate, ExpectRow(gate_name, c.width));
      router_rows.push_back(gate);
    }
    RETURN_IF_ERROR(PlanProjection(router_rows, &layer.router));
    if (c.router_bias) {
      ASSIGN_OR_RETURN(const StoredTensor* bias, ExpectRow(prefix + "exp_probs_b.bias", c.experts));
      arena_.PlanVector({bias}, &layer.router_bias);
    }
    if (c.router_logit_bias)
      RETURN_IF_ERROR(PlanBias({{prefix + "ffn_gate_inp.bias", c.experts}}, &layer.router));
    layer.experts.resize(static_cast<size_t>(c.experts));
    for (int e = 0; e < c.experts; ++e) {
      ExpertWeights& expert = layer.experts[static_cast<size_t>(e)];
      const auto name = [&](const char* kind) {
        return fmt::format("{}ffn_{}.{}.weight", prefix, kind, e);
      };
      RETURN_IF_ERROR(PlanFeedForward(name("gate"), name("up"), name("down"), c.expert_feed_forward,
                                      &expert.gate_up, &expert.down));
      if (c.expert_bias) RETURN_IF_ERROR(PlanExpertBiases(prefix, e, &expert));
    }
    if (c.shared_feed_forward == 0) return OkStatus();
    return PlanFeedForward(prefix + "ffn_gate_shexp.weight", prefix + "ffn_up_shexp.weight",
                           prefix + "ffn_down_shexp.weight", c.shared_feed_forward,
                           &layer.shared_expert.gate_up, &layer.shared_expert.down);
  }

  // The norms of layers with one network and experts. The router's has no other weights than its
  // scale, and is divided by the root of the width.
  Status PlanNormsOfExperts(const std::string& prefix, LayerWeights& layer) {
    const ModelConfig& c = weights_->config_;
    const float root = 1 / std::sqrt(static_cast<float>(c.width));
    RETURN_IF_ERROR(PlanVector(prefix + "ffn_gate_inp.scale", &layer.router_norm, 0, root));
    RETURN_IF_ERROR(PlanVector(prefix + "ffn_down_exps.scale", &layer.expert_scales, c.experts));
    RETURN_IF_ERROR(PlanVector(prefix + "pre_ffw_norm_2.weight", &layer.expert_norm));
    RETURN_IF_ERROR(PlanVector(prefix + "post_ffw_norm_1.weight", &layer.dense_after_norm));
    return PlanVector(prefix + "post_ffw_norm_2.weight", &layer.experts_after_norm);
  }

  // What a layer adds by its own input, and the number of its output.
  Status PlanLayerInput(const std::string& prefix, LayerWeights& layer) {
    const ModelConfig& c = weights_->config_;
    if (c.layer_inputs != 0) {
      RETURN_IF_ERROR(
          PlanOne(prefix + "inp_gate", {c.width, c.layer_inputs}, false, &layer.input_gate));
      RETURN_IF_ERROR(
          PlanOne(prefix + "proj", {c.layer_inputs, c.width}, false, &layer.input_output));
      RETURN_IF_ERROR(PlanVector(prefix + "post_norm.weight", &layer.input_after_norm));
    }
    if (!c.layer_scales) return OkStatus();
    return PlanVector(prefix + "layer_output_scale.weight", &layer.output_scale, 1);
  }

  // What a layer with several residual streams has in addition.
  Status PlanStreamsOf(const std::string& prefix, StreamWeights& streams) {
    const ModelConfig& c = weights_->config_;
    const int count = c.streams;
    const auto matrix = [&](const char* name, int columns, int rows, const float** target,
                            float scale = 1) -> Status {
      ASSIGN_OR_RETURN(const StoredTensor* tensor,
                       arena_.Expect(fmt::format("{}{}.weight", prefix, name), {columns, rows}));
      arena_.PlanVector({tensor}, target, 0, scale);
      return OkStatus();
    };
    RETURN_IF_ERROR(PlanVector(prefix + "altup_router_norm.weight", &streams.router_norm));
    RETURN_IF_ERROR(
        matrix("altup_router", c.width, count, &streams.router, 1 / static_cast<float>(c.width)));
    RETURN_IF_ERROR(matrix("altup_predict_coef", count, count * count, &streams.predict));
    RETURN_IF_ERROR(matrix("altup_correct_coef", count, count, &streams.correct));
    RETURN_IF_ERROR(PlanVector(prefix + "altup_correct_scale.weight", &streams.output_scale));
    RETURN_IF_ERROR(
        PlanOne(prefix + "laurel_l", {c.width, c.laurel_rank}, false, &streams.laurel_left));
    RETURN_IF_ERROR(
        PlanOne(prefix + "laurel_r", {c.laurel_rank, c.width}, false, &streams.laurel_right));
    return PlanVector(prefix + "laurel_post_norm.weight", &streams.laurel_norm);
  }

  Status PlanStreamInputs() {
    const ModelConfig& c = weights_->config_;
    ASSIGN_OR_RETURN(const WeightArena::Tensors parts,
                     ExpectParts("altup_proj", c.streams - 1, c.width, c.width));
    return PlanProjection(parts, &weights_->stream_inputs_);
  }

  Status PlanStreamOutputs() {
    const ModelConfig& c = weights_->config_;
    ASSIGN_OR_RETURN(const WeightArena::Tensors parts,
                     ExpectParts("altup_unembd_proj", c.streams - 1, c.width, c.width));
    weights_->stream_outputs_.resize(parts.size());
    for (size_t i = 0; i < parts.size(); ++i)
      RETURN_IF_ERROR(PlanProjection({parts[i]}, &weights_->stream_outputs_[i]));
    return OkStatus();
  }

  Status PlanLayerInputs() {
    const ModelConfig& c = weights_->config_;
    const int64_t inputs = int64_t{c.layers} * c.layer_inputs;
    ASSIGN_OR_RETURN(const StoredTensor* embedding,
                     arena_.Expect("per_layer_token_embd.weight", {inputs, c.layer_vocab}));
    ASSIGN_OR_RETURN(layer_embedding_matrix_,
                     arena_.PlanMatrix({embedding}, FormatAmongOthers(*embedding)));
    RETURN_IF_ERROR(
        PlanOne("per_layer_model_proj", {c.width, inputs}, false, &weights_->layer_projection_));
    return PlanVector("per_layer_proj_norm.weight", &weights_->layer_projection_norm_,
                      c.layer_inputs);
  }

  Status PlanExpertBiases(const std::string& prefix, int number, ExpertWeights* expert) {
    const ModelConfig& c = weights_->config_;
    const auto bias = [&](const char* kind, int64_t length) {
      return ExpectRow(fmt::format("{}ffn_{}.{}.bias", prefix, kind, number), length);
    };
    ASSIGN_OR_RETURN(const StoredTensor* gate, bias("gate", c.expert_feed_forward));
    ASSIGN_OR_RETURN(const StoredTensor* up, bias("up", c.expert_feed_forward));
    arena_.PlanVector({gate, up}, &expert->gate_up.bias, 0, 1, WeightArena::GateUp::kTwo);
    ASSIGN_OR_RETURN(const StoredTensor* down, bias("down", c.width));
    arena_.PlanVector({down}, &expert->down.bias,
                      static_cast<size_t>(kernels::RoundUpToPanel(c.width)));
    return OkStatus();
  }

  // A matrix of one row, which files also hold as a vector.
  Result<const StoredTensor*> ExpectRow(const std::string& name, int64_t columns) {
    const StoredTensor* found = checkpoint_.tensors->Find(name);
    if (found != nullptr && found->shape.dims == 1) return arena_.Expect(name, {columns});
    return arena_.Expect(name, {columns, 1});
  }

  Status PlanFeedForward(const std::string& gate_name, const std::string& up_name,
                         const std::string& down_name, int64_t feed_forward, Projection* gate_up,
                         Projection* down) {
    const int64_t width = weights_->config_.width;
    const bool gated = weights_->config_.gated;  // experts may have no gate
    const StoredTensor* gate = nullptr;
    if (gated) {
      ASSIGN_OR_RETURN(gate, arena_.Expect(gate_name, {width, feed_forward}));
    }
    ASSIGN_OR_RETURN(const StoredTensor* up, arena_.Expect(up_name, {width, feed_forward}));
    RETURN_IF_ERROR(gated ? PlanGateUp(gate, up, gate_up) : PlanProjection({up}, gate_up));
    ASSIGN_OR_RETURN(const StoredTensor* out, arena_.Expect(down_name, {feed_forward, width}));
    return PlanProjection({out}, down);
  }

  Status PlanLayer(int index) {
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
    if (experts && !c.dense_and_experts) {
      // no network for all rows
    } else if (!c.gated) {
      RETURN_IF_ERROR(PlanUngatedFeedForward(prefix, layer));
    } else if (options_.fuse && c.stores_gate_up(index)) {
      RETURN_IF_ERROR(PlanStoredFeedForward(index, prefix, layer));
    } else if (options_.fuse) {
      RETURN_IF_ERROR(PlanFeedForward(prefix + "ffn_gate.weight", prefix + "ffn_up.weight",
                                      prefix + "ffn_down.weight", c.feed_forward_of(index),
                                      &layer.gate_up, &layer.down));
    } else {
      RETURN_IF_ERROR(PlanUnfusedFeedForward(index, prefix, layer));
    }
    if (experts) RETURN_IF_ERROR(PlanExperts(prefix, layer));
    if (c.norm_after)
      RETURN_IF_ERROR(PlanVector(prefix + "post_ffw_norm.weight", &layer.ffn_after_norm));
    return PlanLayerInput(prefix, layer);
  }

  // A bound of the gates, or a norm of the outputs, depends on all of them, so that no epilogue may
  // join gate and up.
  Status PlanStoredFeedForward(int index, const std::string& prefix, LayerWeights& layer) {
    const ModelConfig& c = weights_->config_;
    const int feed_forward = c.feed_forward_of(index);
    WeightArena::Tensors gate_up;
    for (const char* name : {"ffn_gate.weight", "ffn_up.weight"}) {
      ASSIGN_OR_RETURN(gate_up.emplace_back(),
                       arena_.Expect(prefix + name, {c.width, feed_forward}));
    }
    RETURN_IF_ERROR(PlanProjection(gate_up, &layer.gate_up));
    return PlanOne(prefix + "ffn_down", {feed_forward, c.width}, false, &layer.down);
  }

  Status PlanUngatedFeedForward(const std::string& prefix, LayerWeights& layer) {
    const ModelConfig& c = weights_->config_;
    ASSIGN_OR_RETURN(const StoredTensor* up,
                     arena_.Expect(prefix + "ffn_up.weight", {c.width, c.feed_forward}));
    ASSIGN_OR_RETURN(const StoredTensor* down,
                     arena_.Expect(prefix + "ffn_down.weight", {c.feed_forward, c.width}));
    RETURN_IF_ERROR(PlanProjection({up}, &layer.up));
    RETURN_IF_ERROR(PlanProjection({down}, &layer.down));
    if (!c.ffn_bias) return OkStatus();
    RETURN_IF_ERROR(PlanBias({{prefix + "ffn_up.bias", c.feed_forward}}, &layer.up));
    return PlanBias({{prefix + "ffn_down.bias", c.width}}, &layer.down);
  }

  Status PlanUnfusedFeedForward(int index, const std::string& prefix, LayerWeights& layer) {
    const ModelConfig& c = weights_->config_;
    const int feed_forward = c.feed_forward_of(index);
    ASSIGN_OR_RETURN(const StoredTensor* gate,
                     arena_.Expect(prefix + "ffn_gate.weight", {c.width, feed_forward}));
    ASSIGN_OR_RETURN(const StoredTensor* up,
                     arena_.Expect(prefix + "ffn_up.weight", {c.width, feed_forward}));
    ASSIGN_OR_RETURN(const StoredTensor* down,
                     arena_.Expect(prefix + "ffn_down.weight", {feed_forward, c.width}));
    RETURN_IF_ERROR(PlanProjection({gate}, &layer.gate));
    RETURN_IF_ERROR(PlanProjection({up}, &layer.up));
    return PlanProjection({down}, &layer.down);
  }

  // Planned in the order in which a step reads them, so that it reads the arena sequentially.
  Status Plan() {
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

  void Link() {
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

  const DecoderCheckpoint& checkpoint_;
  const LoadOptions& options_;
  const bool bf16_pairs_ = options_.bf16_pairs && checkpoint_.packed == nullptr;
  WeightArena arena_;
  std::unique_ptr<Weights> weights_;
  std::vector<PartsOf> links_;
  size_t embedding_matrix_ = 0;
  size_t layer_embedding_matrix_ = 0;
};

Status Weights::Check(const DecoderCheckpoint& checkpoint) {
  return WeightsLoader(checkpoint, {}).Check();
}

Result<std::shared_ptr<const Weights>> Weights::Load(const DecoderCheckpoint& checkpoint,
                                                     const LoadOptions& options) {
  CHECK_GE(options.threads, 1);
  return WeightsLoader(checkpoint, options).Load();
}

Result<std::shared_ptr<const Weights>> Weights::Plan(const DecoderCheckpoint& checkpoint,
                                                     const LoadOptions& options) {
  return WeightsLoader(checkpoint, options).PlanOnly();
}

Result<std::shared_ptr<const Weights>> Weights::Load(const gguf::File& file,
                                                     const LoadOptions& options) {
  ASSIGN_OR_RETURN(const DecoderCheckpoint checkpoint, DecoderCheckpoint::FromGguf(file));
  return Load(checkpoint, options);
}

}  // namespace tutti::model
