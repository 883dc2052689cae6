#include "model/encoder_weights.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "base/check.h"
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
  constexpr std::array<std::string_view, 6> kBeginnings = {
      "pooler.", "cls.", "lm_head.", "classifier.", "qa_outputs.", "embeddings.position_ids"};
  for (const std::string_view beginning : kBeginnings) {
    if (name.substr(0, beginning.size()) == beginning) return true;
  }
  return false;
}

}  // namespace

// The tensors of the architecture, and where each goes.
class EncoderLoader {
 public:
  EncoderLoader(EncoderConfig config, const TensorStore& store,
                const EncoderWeights::Options& options)
      : store_(store), options_(options), arena_(store), weights_(new EncoderWeights()) {
    weights_->config_ = std::move(config);
    weights_->dtype_ = options.dtype;
    FindPrefix();
  }

  // All but the values.
  Status Lay() {
    const EncoderConfig& c = weights_->config_;
    RETURN_IF_ERROR(PlanEmbeddings());
    weights_->layers_.resize(static_cast<size_t>(c.layers));
    for (int i = 0; i < c.layers; ++i) RETURN_IF_ERROR(PlanLayer(i));
    if (!c.labels.empty()) RETURN_IF_ERROR(PlanHead());
    return arena_.RefuseOthers(fmt::format("a {} model of {} layers", c.architecture, c.layers),
                               [this](std::string_view name) {
                                 if (name.substr(0, prefix_.size()) == prefix_)
                                   name.remove_prefix(prefix_.size());
                                 return IsOfAnotherTask(name);
                               });
  }

  Result<std::shared_ptr<const EncoderWeights>> Load() {
    RETURN_IF_ERROR(Lay());
    ASSIGN_OR_RETURN(weights_->arena_, arena_.Build(options_.threads, options_.progress));
    for (const auto& [linear, matrix] : links_) linear->weight = arena_.matrix(matrix);
    return std::shared_ptr<const EncoderWeights>(std::move(weights_));
  }

 private:
  void FindPrefix() {
    for (const char* prefix : {"", "bert.", "roberta.", "nomic_bert."}) {
      if (store_.Find(std::string(prefix) + "embeddings.word_embeddings.weight") == nullptr)
        continue;
      prefix_ = prefix;
      return;
    }
  }

  Result<const StoredTensor*> Expect(const std::string& name, const tensor::Shape& shape) {
    return arena_.Expect(prefix_ + name, shape);
  }

  Status PlanTable(const std::string& name, int rows, const float** target) {
    ASSIGN_OR_RETURN(const StoredTensor* table, Expect(name, {weights_->config_.width, rows}));
    arena_.PlanVector({table}, target);
    return OkStatus();
  }

  Status PlanNorm(const std::string& name, LayerNormWeights* norm) {
    // The first TensorFlow checkpoints called them so, and some were never renamed.
    const bool old = store_.Find(prefix_ + name + ".gamma") != nullptr;
    ASSIGN_OR_RETURN(const StoredTensor* weight,
                     Expect(name + (old ? ".gamma" : ".weight"), {weights_->config_.width}));
    ASSIGN_OR_RETURN(const StoredTensor* bias,
                     Expect(name + (old ? ".beta" : ".bias"), {weights_->config_.width}));
    arena_.PlanVector({weight}, &norm->weight);
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
    bool gate_up = false;  // two tensors, interleaved
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
      arena_.PlanVector(biases, &linear->bias, static_cast<size_t>(arena_.matrix(matrix).rows));
    links_.emplace_back(linear, matrix);
    return OkStatus();
  }

  Status PlanEmbeddings() {
    const EncoderConfig& c = weights_->config_;
    RETURN_IF_ERROR(
        PlanTable("embeddings.word_embeddings.weight", c.vocab_size, &weights_->words_));
    if (c.rope_base > 0) {
      kernels::RopeParams rope = {};
      rope.dims = c.head_dim();
      rope.freq_base = c.rope_base;
      weights_->rope_ = kernels::RopeTable(rope, c.positions);
    } else {
      RETURN_IF_ERROR(
          PlanTable("embeddings.position_embeddings.weight", c.positions, &weights_->positions_));
    }
    if (c.token_types > 0) {
      RETURN_IF_ERROR(
          PlanTable("embeddings.token_type_embeddings.weight", c.token_types, &weights_->types_));
    }
    return PlanNorm(is_nomic() ? "emb_ln" : "embeddings.LayerNorm", &weights_->embedding_norm_);
  }

  // Names of a layer's parts, behind the prefix.
  struct LayerNames {
    std::vector<std::string> qkv;
    std::string output, attn_norm;
    std::vector<std::string> up;  // or gate and up
    std::string down, ffn_norm;
  };
  LayerNames NamesOf(int index) const {
    if (is_nomic()) {
      const std::string at = fmt::format("encoder.layers.{}.", index);
      return {{at + "attn.Wqkv"}, at + "attn.out_proj",
              at + "norm1",       {at + "mlp.fc12", at + "mlp.fc11"},
              at + "mlp.fc2",     at + "norm2"};
    }
    const std::string at = fmt::format("encoder.layer.{}.", index);
    const std::string self = at + "attention.self.";
    return {{self + "query", self + "key", self + "value"},
            at + "attention.output.dense",
            at + "attention.output.LayerNorm",
            {at + "intermediate.dense"},
            at + "output.dense",
            at + "output.LayerNorm"};
  }

  Status PlanLayer(int index) {
    const EncoderConfig& c = weights_->config_;
    const LayerNames names = NamesOf(index);
    EncoderLayer& layer = weights_->layers_[static_cast<size_t>(index)];
    const EncoderPeaks::Layer* peaks = nullptr;
    if (options_.peaks != nullptr && options_.dtype == EncoderDType::kInt8)
      peaks = &options_.peaks->layers[static_cast<size_t>(index)];
    const auto plan = [&](const std::vector<std::string>& parts, int columns, int rows,
                          const std::vector<float>* of_input) {
      LinearPlan made{{}, columns, rows, FormatOf(options_), of_input, !is_nomic(), false};
      for (const std::string& part : parts) made.names.push_back(prefix_ + part);
      return made;
    };
    const int qkv_rows = 3 * c.width / static_cast<int>(names.qkv.size());
    RETURN_IF_ERROR(
        Plan(plan(names.qkv, c.width, qkv_rows, peaks ? &peaks->qkv : nullptr), &layer.qkv));
    RETURN_IF_ERROR(Plan(plan({names.output}, c.width, c.width, nullptr), &layer.attn_output));
    RETURN_IF_ERROR(PlanNorm(names.attn_norm, &layer.attn_norm));
    LinearPlan up = plan(names.up, c.width, c.feed_forward, peaks ? &peaks->up : nullptr);
    up.gate_up = c.gated;
    RETURN_IF_ERROR(Plan(up, &layer.up));
    RETURN_IF_ERROR(Plan(
        plan({names.down}, c.feed_forward, c.width, peaks ? &peaks->down : nullptr), &layer.down));
    return PlanNorm(names.ffn_norm, &layer.ffn_norm);
  }

  // BERT's classifiers take the pooler's row, which belongs to the encoder; those of RoBERTa bring
  // both matrices.
  Status PlanHead() {
    const EncoderConfig& c = weights_->config_;
    const bool pooler = c.architecture == "bert" || is_nomic();
    EncoderHead& head = weights_->head_;
    LinearPlan dense, out;
    dense.names = {pooler ? prefix_ + "pooler.dense" : "classifier.dense"};
    out.names = {pooler ? "classifier" : "classifier.out_proj"};
    dense.columns = out.columns = dense.rows = c.width;
    out.rows = static_cast<int>(c.labels.size());
    RETURN_IF_ERROR(Plan(dense, &head.dense));
    return Plan(out, &head.out);
  }

  bool is_nomic() const { return weights_->config_.architecture == "nomic-bert"; }

  const TensorStore& store_;
  const EncoderWeights::Options& options_;
  WeightArena arena_;
  std::unique_ptr<EncoderWeights> weights_;
  std::string prefix_;  // of every name, as "bert."
  std::vector<std::pair<Linear*, size_t>> links_;
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
