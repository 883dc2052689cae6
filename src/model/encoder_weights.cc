#include "model/encoder_weights.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "base/check.h"
#include "kernels/span_attention.h"
#include "model/encoder_families/family.h"
#include "model/hyper_parameters.h"
#include "model/weight_arena.h"

namespace tutti::model {
namespace {

kernels::WeightFormat FormatOf(const EncoderWeights::Options& options) {
  switch (options.dtype) {
    case EncoderDType::kF32:
      return kernels::WeightFormat::kF32;
    case EncoderDType::kBf16:
      return options.bf16_pairs ? kernels::WeightFormat::kBf16Pairs : kernels::WeightFormat::kBf16;
    case EncoderDType::kInt8:
      return kernels::WeightFormat::kI8Row;
    case EncoderDType::kInt8Blocks:
      return kernels::WeightFormat::kQ8_0;
  }
  return kernels::WeightFormat::kF32;
}

// `wanted`, or float32 if the tensors' own types cannot be packed as it: a GGUF's block types are
// packed unchanged, per row, or in float32.
kernels::WeightFormat FormatFor(const WeightArena::Tensors& tensors, kernels::WeightFormat wanted) {
  for (const StoredTensor* tensor : tensors) {
    const bool sixteen =
        wanted == kernels::WeightFormat::kBf16 || wanted == kernels::WeightFormat::kBf16Pairs;
    if (!kernels::CanPack(tensor->dtype, wanted) ||
        (sixteen && tensor::IsQuantized(tensor->dtype))) {
      return kernels::WeightFormat::kF32;
    }
  }
  return wanted;
}

// Whether a tensor is no part of the encoder: heads for other tasks, and the table of ascending
// position ids that older versions stored.
bool IsOfAnotherTask(std::string_view name) {
  constexpr std::string_view kBeginnings[] = {
      "pooler.",
      "cls.",
      "lm_head.",
      "classifier.",
      "pre_classifier.",
      "head.",
      "vocab_",
      "qa_outputs.",
      "predictions.",
      "decoder.",
      "embeddings.position_ids",
      "lm_predictions.",
      "mask_predictions.",
  };
  for (const std::string_view beginning : kBeginnings) {
    if (name.substr(0, beginning.size()) == beginning) return true;
  }
  return false;
}

// The range of distances that shares a value: half of the ranges are for keys behind the query; in
// each half the first half have one distance each, the others grow up to 128. Source: Raffel et al.
// 2019 (T5), as transformers computes it.
int BucketOf(int distance) {
  constexpr int kHalf = kDistanceBuckets / 2, kExact = kHalf / 2, kFarthest = 128;
  const int side = distance < 0 ? kHalf : 0;
  const int length = std::abs(distance);
  if (length < kExact) return side + length;
  // The small addend keeps powers of two, whose logarithms are whole, from being rounded down.
  const double place =
      std::log(double{1} * length / kExact) / std::log(double{1} * kFarthest / kExact) + 1e-9;
  return side + std::min(kExact + static_cast<int>(place * kExact), kHalf - 1);
}

// The slope of a head: 2^(-8 i / n) for the powers of two n; otherwise those of the power below,
// then every second one of the power above. Source: Press et al. 2021 (ALiBi).
double SlopeOf(int head, int heads) {
  int power = 1;
  while (2 * power <= heads) power *= 2;
  if (head < power) return std::exp2(-8.0 * (head + 1) / power);
  return std::exp2(-8.0 * (2 * (head - power) + 1) / (2 * power));
}

}  // namespace

DistanceTable::DistanceTable(int heads, int longest) {
  middle_ = static_cast<size_t>(longest) + kernels::kSpanTileRows;
  const size_t each = 2 * middle_ + 1;
  stride_ = heads == 1 ? 0 : each;
  values_.resize(each * static_cast<size_t>(heads));
}

float& DistanceTable::at(int head, int distance) {
  const auto place = static_cast<std::ptrdiff_t>(middle_) + distance;
  return values_[static_cast<size_t>(head) * stride_ + static_cast<size_t>(place)];
}

// The tensors of the architecture, and where each goes.
class EncoderLoader {
 public:
  EncoderLoader(EncoderConfig config, const TensorStore& store,
                const EncoderWeights::Options& options)
      : store_(store), options_(options), arena_(store), weights_(new EncoderWeights()) {
    const EncoderFamily* family = EncoderFamilyOf(config.architecture);
    CHECK(family != nullptr) << config.architecture;
    const EncoderNaming naming = NamingOf(*family, store);
    names_ = naming.names;
    prefix_ = naming.prefix;
    weights_->config_ = std::move(config);
    weights_->dtype_ = options.dtype;
  }

  // All but the values.
  Status Lay() {
    const EncoderConfig& c = weights_->config_;
    RETURN_IF_ERROR(PlanEmbeddings());
    weights_->layers_.resize(static_cast<size_t>(c.layers));
    for (int i = 0; i < c.layers; ++i) RETURN_IF_ERROR(PlanLayer(i));
    if (c.norm_first) RETURN_IF_ERROR(PlanNorm(Inside(names_->final_norm), &weights_->final_norm_));
    if (!c.labels.empty()) RETURN_IF_ERROR(PlanHead());
    if (c.lexical) RETURN_IF_ERROR(PlanLexical());
    RETURN_IF_ERROR(PlanDense());
    return arena_.RefuseOthers(fmt::format("a {} model of {} layers", c.architecture, c.layers),
                               [this](std::string_view name) {
                                 if (name.substr(0, prefix_.size()) == prefix_)
                                   name.remove_prefix(prefix_.size());
                                 return IsOfAnotherTask(name) || IsUnusedTable(name);
                               });
  }

  Result<std::shared_ptr<const EncoderWeights>> Load() {
    RETURN_IF_ERROR(Lay());
    ASSIGN_OR_RETURN(weights_->arena_, arena_.Build(options_.threads, options_.progress));
    for (const auto& [linear, matrix] : links_) linear->weight = arena_.matrix(matrix);
    MakeDistances();
    RETURN_IF_ERROR(MakeRelative());
    return std::shared_ptr<const EncoderWeights>(std::move(weights_));
  }

 private:
  std::string Inside(std::string_view name) const { return prefix_ + std::string(name); }
  // The name of a head's tensor, which may or may not be a part of the encoder.
  std::string Placed(std::string_view name) const {
    const std::string inside = Inside(name);
    return store_.Find(inside + ".weight") != nullptr ? inside : std::string(name);
  }

  // Files of DeBERTa keep the table of positions that only its pretraining reads.
  bool IsUnusedTable(std::string_view name) const {
    return !weights_->config_.position_table && name == "embeddings.position_embeddings.weight";
  }

  Status PlanTable(std::string_view name, int columns, int rows, const float** target) {
    ASSIGN_OR_RETURN(const StoredTensor* table,
                     arena_.Expect(Inside(name) + ".weight", {columns, rows}));
    arena_.PlanVector({table}, target);
    return OkStatus();
  }

  Status PlanNorm(const std::string& name, LayerNormWeights* norm) {
    const EncoderConfig& c = weights_->config_;
    // The first TensorFlow checkpoints called them so, and some were never renamed.
    const bool old = store_.Find(name + ".gamma") != nullptr;
    ASSIGN_OR_RETURN(const StoredTensor* weight,
                     arena_.Expect(name + (old ? ".gamma" : ".weight"), {c.width}));
    arena_.PlanVector({weight}, &norm->weight);
    if (!c.norm_bias) {
      arena_.PlanVector({}, &norm->bias, static_cast<size_t>(c.width));  // zeros
      return OkStatus();
    }
    ASSIGN_OR_RETURN(const StoredTensor* bias,
                     arena_.Expect(name + (old ? ".beta" : ".bias"), {c.width}));
    arena_.PlanVector({bias}, &norm->bias);
    return OkStatus();
  }

  // One matrix of several tensors, and one vector of their biases.
  struct LinearPlan {
    std::vector<std::string> names;  // whole, without ".weight"
    int columns = 0, rows = 0;       // of each
    kernels::WeightFormat format = kernels::WeightFormat::kF32;
    const std::vector<float>* peaks = nullptr;  // of its inputs, where columns are balanced
    bool biased = true;
    WeightArena::GateUp gate_up = WeightArena::GateUp::kNone;
  };
  Status Plan(const LinearPlan& plan, Linear* linear) {
    WeightArena::Tensors weights, biases;
    for (const std::string& name : plan.names) {
      ASSIGN_OR_RETURN(const StoredTensor* weight,
                       arena_.Expect(name + ".weight", {plan.columns, plan.rows}));
      weights.push_back(weight);
      if (!plan.biased) continue;
      ASSIGN_OR_RETURN(const StoredTensor* bias, arena_.Expect(name + ".bias", {plan.rows}));
      biases.push_back(bias);
    }
    WeightArena::Balance balance{{}, &linear->input_factors};
    if (plan.peaks != nullptr) balance.peaks = *plan.peaks;
    ASSIGN_OR_RETURN(const size_t matrix,
                     arena_.PlanMatrix(weights, FormatFor(weights, plan.format), plan.gate_up,
                                       plan.peaks != nullptr ? &balance : nullptr));
    if (plan.biased)
      arena_.PlanVector(biases, &linear->bias, static_cast<size_t>(arena_.matrix(matrix).rows), 1,
                        plan.gate_up);
    links_.emplace_back(linear, matrix);
    return OkStatus();
  }

  Status PlanEmbeddings() {
    const EncoderConfig& c = weights_->config_;
    RETURN_IF_ERROR(PlanTable(names_->words, c.width, c.vocab_size, &weights_->words_));
    if (c.has_position_table()) {
      RETURN_IF_ERROR(PlanTable(names_->positions, c.width, c.positions, &weights_->positions_));
    }
    if (c.rope_base > 0) {
      kernels::RopeParams rope = {};
      rope.dims = c.head_dim();
      rope.freq_base = c.rope_base;
      rope.linear_factor = c.rope_divisor;
      weights_->rope_ = kernels::RopeTable(rope, c.positions);
      rope.freq_base = c.rope_window_base;
      if (c.window > 0 && c.rope_window_base > 0)
        weights_->window_rope_ = kernels::RopeTable(rope, c.positions);
    }
    if (c.token_types > 0) {
      RETURN_IF_ERROR(PlanTable(names_->types, c.width, c.token_types, &weights_->types_));
    }
    if (c.distance == DistanceBias::kRelativeBuckets) {
      RETURN_IF_ERROR(
          PlanTable(names_->distance_bias, c.heads, kDistanceBuckets, &weights_->buckets_));
    }
    RETURN_IF_ERROR(ExpectRelative());
    return PlanNorm(Inside(names_->embedding_norm), &weights_->embedding_norm_);
  }

  // Keys and queries of distances are made from these tensors apart from the arena.
  Status ExpectRelative() {
    const EncoderConfig& c = weights_->config_;
    if (c.relative.span == 0) return OkStatus();
    ASSIGN_OR_RETURN(relative_.embeddings, arena_.Expect(Inside(names_->distances) + ".weight",
                                                         {c.width, 2 * c.relative.span}));
    if (c.relative.norm) {
      const std::string norm = Inside(names_->distances_norm);
      ASSIGN_OR_RETURN(relative_.norm_weight, arena_.Expect(norm + ".weight", {c.width}));
      ASSIGN_OR_RETURN(relative_.norm_bias, arena_.Expect(norm + ".bias", {c.width}));
    }
    const bool shared = c.relative.shared;
    for (int i = 0; i < c.layers; ++i) {
      const std::string at = fmt::format("{}{}{}.", prefix_, names_->layers, i);
      const auto expect = [&](std::string_view name, RelativeProjection& out) {
        const std::string whole = at + std::string(name);
        ASSIGN_OR_RETURN(out.weight, arena_.Expect(whole + ".weight", {c.width, c.width}));
        ASSIGN_OR_RETURN(out.bias, arena_.Expect(whole + ".bias", {c.width}));
        return OkStatus();
      };
      RelativeTensors::Layer& layer = relative_.layers.emplace_back();
      if (c.relative.keys)
        RETURN_IF_ERROR(expect(shared ? names_->k : names_->distance_k, layer.keys));
      if (c.relative.queries)
        RETURN_IF_ERROR(expect(shared ? names_->q : names_->distance_q, layer.queries));
    }
    return OkStatus();
  }

  Status MakeRelative() {
    if (weights_->config_.relative.span == 0) return OkStatus();
    weights_->relative_ = options_.relative;
    if (weights_->relative_ != nullptr) return OkStatus();
    const kernels::KernelTable& table = options_.kernels != nullptr
                                            ? *options_.kernels
                                            : kernels::KernelsFor(kernels::Isa::kScalar);
    ASSIGN_OR_RETURN(weights_->relative_,
                     RelativePositions::Make(weights_->config_, relative_, store_, table));
    return OkStatus();
  }

  // After the arena is built.
  void MakeDistances() {
    const EncoderConfig& c = weights_->config_;
    if (c.distance != DistanceBias::kNone) {
      const int reach = c.longest() + kernels::kSpanTileRows;
      DistanceTable table(c.heads, c.longest());
      for (int head = 0; head < c.heads; ++head) {
        for (int distance = -reach; distance <= reach; ++distance) {
          table.at(head, distance) =
              c.distance == DistanceBias::kRelativeBuckets
                  ? weights_->buckets_[BucketOf(distance) * c.heads + head]
                  : static_cast<float>(-SlopeOf(head, c.heads) * std::abs(distance));
        }
      }
      weights_->distance_ = std::move(table);
    }
    if (c.window > 0) {
      DistanceTable table(1, c.window);
      for (int beyond = 1; beyond <= kernels::kSpanTileRows; ++beyond) {
        table.at(0, c.window + beyond) = -std::numeric_limits<float>::infinity();
        table.at(0, -c.window - beyond) = -std::numeric_limits<float>::infinity();
      }
      weights_->window_distance_ = std::move(table);
    }
  }

  Status PlanLayer(int index) {
    const EncoderConfig& c = weights_->config_;
    const std::string at = fmt::format("{}{}{}.", prefix_, names_->layers, index);
    EncoderLayer& layer = weights_->layers_[static_cast<size_t>(index)];
    const EncoderPeaks::Layer* peaks = nullptr;
    if (options_.peaks != nullptr && options_.dtype == EncoderDType::kInt8)
      peaks = &options_.peaks->layers[static_cast<size_t>(index)];
    const auto plan = [&](const std::vector<std::string_view>& parts, int columns, int rows,
                          bool biased, const std::vector<float>* of_input) {
      LinearPlan made{{}, columns, rows, FormatOf(options_), of_input, biased};
      for (const std::string_view part : parts) made.names.push_back(at + std::string(part));
      return made;
    };
    const bool joined = !names_->qkv.empty();
    RETURN_IF_ERROR(Plan(
        plan(joined ? std::vector{names_->qkv} : std::vector{names_->q, names_->k, names_->v},
             c.width, joined ? 3 * c.width : c.width, c.qkv_bias, peaks ? &peaks->qkv : nullptr),
        &layer.qkv));
    RETURN_IF_ERROR(Plan(plan({names_->attn_output}, c.width, c.width, c.output_bias, nullptr),
                         &layer.attn_output));
    if (index > 0 || !c.norm_first || c.first_norm)
      RETURN_IF_ERROR(PlanNorm(at + std::string(names_->attn_norm), &layer.attn_norm));
    RETURN_IF_ERROR(
        PlanUp(plan(UpNames(), c.width, c.feed_forward, c.up_bias, peaks ? &peaks->up : nullptr),
               &layer.up));
    RETURN_IF_ERROR(Plan(
        plan({names_->down}, c.feed_forward, c.width, c.down_bias, peaks ? &peaks->down : nullptr),
        &layer.down));
    return PlanNorm(at + std::string(names_->ffn_norm), &layer.ffn_norm);
  }

  std::vector<std::string_view> UpNames() const {
    if (!weights_->config_.gated) return {names_->up};
    if (!names_->gate_up.empty()) return {names_->gate_up};
    return {names_->gate, names_->up};
  }

  Status PlanUp(LinearPlan plan, Linear* linear) {
    using enum WeightArena::GateUp;
    if (plan.names.size() == 2) {
      plan.gate_up = kTwo;
    } else if (weights_->config_.gated) {
      plan.gate_up = names_->up_first ? kUpFirst : kGateFirst;
      plan.rows *= 2;
    }
    return Plan(plan, linear);
  }

  // BERT's classifiers take the pooler's row, which belongs to the encoder; those of RoBERTa bring
  // both matrices.
  Status PlanHead() {
    const EncoderConfig& c = weights_->config_;
    EncoderHead& head = weights_->head_;
    LinearPlan dense, out;
    dense.names = {Placed(names_->head_dense)};
    dense.biased = c.head.dense_bias;
    out.names = {Placed(names_->head_out)};
    dense.columns = out.columns = dense.rows = c.width;
    out.rows = static_cast<int>(c.labels.size());
    RETURN_IF_ERROR(Plan(dense, &head.dense));
    if (c.head.norm) RETURN_IF_ERROR(PlanNorm(Placed(names_->head_norm), &head.norm));
    return Plan(out, &head.out);
  }

  Status PlanDense() {
    const EncoderConfig& c = weights_->config_;
    weights_->dense_.resize(c.dense.size());
    for (size_t i = 0; i < c.dense.size(); ++i) {
      LinearPlan plan;
      plan.names = {c.dense[i].folder + "/linear"};
      plan.columns = c.dense[i].in;
      plan.rows = c.dense[i].out;
      plan.biased = c.dense[i].bias;
      RETURN_IF_ERROR(Plan(plan, &weights_->dense_[i]));
    }
    return OkStatus();
  }

  Status PlanLexical() {
    const EncoderConfig& c = weights_->config_;
    LexicalHead& head = weights_->lexical_;
    if (names_->mlm_dense.empty()) {
      return RefuseParameter("modules.json: SpladePooling is not supported for {}", c.architecture);
    }
    if (c.head.norm && c.head.activation != Activation::kGelu)
      return RefuseParameter("classifier_activation must be gelu where SpladePooling is used");
    LinearPlan dense;
    dense.names = {Placed(names_->mlm_dense)};
    dense.columns = dense.rows = c.width;
    dense.biased = c.head.dense_bias;
    RETURN_IF_ERROR(Plan(dense, &head.dense));
    RETURN_IF_ERROR(PlanNorm(Placed(names_->mlm_norm), &head.norm));
    const std::string own = Placed(names_->mlm_out) + ".weight";
    const std::string matrix =
        store_.Find(own) != nullptr ? own : Inside(names_->words) + ".weight";
    ASSIGN_OR_RETURN(const StoredTensor* out, arena_.Expect(matrix, {c.width, c.vocab_size}));
    const auto format = options_.dtype == EncoderDType::kF32 ? kernels::WeightFormat::kF32
                                                             : kernels::WeightFormat::kBf16;
    ASSIGN_OR_RETURN(const size_t number, arena_.PlanMatrix({out}, FormatFor({out}, format)));
    links_.emplace_back(&head.out, number);
    const std::string twice = Placed(names_->mlm_out) + ".bias";  // the same, in some files
    const std::string bias(names_->mlm_bias);
    ASSIGN_OR_RETURN(const StoredTensor* values,
                     arena_.Expect(store_.Find(bias) != nullptr ? bias : twice, {c.vocab_size}));
    arena_.PlanVector({values}, &head.out.bias, static_cast<size_t>(arena_.matrix(number).rows));
    return OkStatus();
  }

  const TensorStore& store_;
  const EncoderWeights::Options& options_;
  WeightArena arena_;
  std::unique_ptr<EncoderWeights> weights_;
  const EncoderNames* names_ = nullptr;
  std::string prefix_;  // of the encoder's names, as "bert."
  std::vector<std::pair<Linear*, size_t>> links_;
  RelativeTensors relative_;
};

const char* EncoderDTypeName(EncoderDType dtype) {
  constexpr const char* kNames[] = {"f32", "bf16", "int8", "int8"};
  return kNames[static_cast<size_t>(dtype)];
}

Result<std::shared_ptr<const EncoderWeights>> EncoderWeights::Load(EncoderConfig config,
                                                                   const TensorStore& store,
                                                                   const Options& options) {
  CHECK_GE(options.threads, 1);
  CHECK(options.peaks == nullptr ||
        options.peaks->layers.size() == static_cast<size_t>(config.layers));
  return EncoderLoader(std::move(config), store, options).Load();
}

Status EncoderWeights::Check(const EncoderConfig& config, const TensorStore& store) {
  const Options options;
  return EncoderLoader(config, store, options).Lay();
}

}  // namespace tutti::model
