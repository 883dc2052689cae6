#include "model/encoder_weights.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "base/check.h"
#include "model/weight_arena.h"

namespace tutti::model {
namespace {

kernels::WeightFormat FormatOf(EncoderDType dtype) {
  switch (dtype) {
    case EncoderDType::kF32:
      return kernels::WeightFormat::kF32;
    case EncoderDType::kBf16:
      return kernels::WeightFormat::kBf16;
    case EncoderDType::kInt8:
      return kernels::WeightFormat::kI8Row;
    case EncoderDType::kInt8Blocks:
      return kernels::WeightFormat::kQ8_0;
  }
  return kernels::WeightFormat::kF32;
}

// `wanted`, or float32 where the tensors' own types cannot become that: GGUF files come in types of
// blocks, which are packed as they are, per row, or in float32.
kernels::WeightFormat FormatFor(const WeightArena::Tensors& tensors, kernels::WeightFormat wanted) {
  for (const StoredTensor* tensor : tensors) {
    if (!kernels::CanPack(tensor->dtype, wanted)) return kernels::WeightFormat::kF32;
  }
  return wanted;
}

// What checkpoints carry beside the encoder: heads for other tasks, and a table of ascending
// numbers that older versions stored.
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

  Result<std::shared_ptr<const EncoderWeights>> Load() {
    const EncoderConfig& c = weights_->config_;
    RETURN_IF_ERROR(PlanEmbeddings());
    weights_->layers_.resize(static_cast<size_t>(c.layers));
    for (int i = 0; i < c.layers; ++i) RETURN_IF_ERROR(PlanLayer(i));
    if (!c.labels.empty()) RETURN_IF_ERROR(PlanHead());
    RETURN_IF_ERROR(
        arena_.RefuseOthers(fmt::format("a {} model of {} layers", c.architecture, c.layers),
                            [this](std::string_view name) {
                              if (name.substr(0, prefix_.size()) == prefix_)
                                name.remove_prefix(prefix_.size());
                              return IsOfAnotherTask(name);
                            }));
    ASSIGN_OR_RETURN(weights_->arena_, arena_.Build(options_.threads, options_.progress));
    for (const auto& [linear, matrix] : links_) linear->weight = arena_.matrix(matrix);
    return std::shared_ptr<const EncoderWeights>(std::move(weights_));
  }

 private:
  void FindPrefix() {
    for (const char* prefix : {"", "bert.", "roberta."}) {
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

  // One matrix of all the named ones' rows. Names are whole. `peaks`: of its inputs, or nullptr.
  Status PlanLinear(const std::vector<std::string>& names, int columns, int rows,
                    kernels::WeightFormat format, const std::vector<float>* peaks, Linear* linear) {
    WeightArena::Tensors weights, biases;
    for (const std::string& name : names) {
      ASSIGN_OR_RETURN(const StoredTensor* weight,
                       arena_.Expect(name + ".weight", {columns, rows}));
      ASSIGN_OR_RETURN(const StoredTensor* bias, arena_.Expect(name + ".bias", {rows}));
      weights.push_back(weight);
      biases.push_back(bias);
    }
    WeightArena::Balance balance{{}, &linear->input_factors};
    if (peaks != nullptr) balance.peaks = *peaks;
    ASSIGN_OR_RETURN(const size_t matrix, arena_.PlanMatrix(weights, FormatFor(weights, format),
                                                            false, peaks ? &balance : nullptr));
    arena_.PlanVector(biases, &linear->bias, static_cast<size_t>(arena_.matrix(matrix).rows));
    links_.emplace_back(linear, matrix);
    return OkStatus();
  }

  Status PlanEmbeddings() {
    const EncoderConfig& c = weights_->config_;
    RETURN_IF_ERROR(
        PlanTable("embeddings.word_embeddings.weight", c.vocab_size, &weights_->words_));
    RETURN_IF_ERROR(
        PlanTable("embeddings.position_embeddings.weight", c.positions, &weights_->positions_));
    if (c.token_types > 0) {
      RETURN_IF_ERROR(
          PlanTable("embeddings.token_type_embeddings.weight", c.token_types, &weights_->types_));
    }
    return PlanNorm("embeddings.LayerNorm", &weights_->embedding_norm_);
  }

  Status PlanLayer(int index) {
    const EncoderConfig& c = weights_->config_;
    const kernels::WeightFormat format = FormatOf(options_.dtype);
    const std::string at = fmt::format("encoder.layer.{}.", index);
    const std::string whole = prefix_ + at;
    const std::string self = whole + "attention.self.";
    EncoderLayer& layer = weights_->layers_[static_cast<size_t>(index)];
    const EncoderPeaks::Layer* peaks = nullptr;
    if (options_.peaks != nullptr && options_.dtype == EncoderDType::kInt8)
      peaks = &options_.peaks->layers[static_cast<size_t>(index)];
    RETURN_IF_ERROR(PlanLinear({self + "query", self + "key", self + "value"}, c.width, c.width,
                               format, peaks ? &peaks->qkv : nullptr, &layer.qkv));
    RETURN_IF_ERROR(PlanLinear({whole + "attention.output.dense"}, c.width, c.width, format,
                               nullptr, &layer.attn_output));
    RETURN_IF_ERROR(PlanNorm(at + "attention.output.LayerNorm", &layer.attn_norm));
    RETURN_IF_ERROR(PlanLinear({whole + "intermediate.dense"}, c.width, c.feed_forward, format,
                               peaks ? &peaks->up : nullptr, &layer.up));
    RETURN_IF_ERROR(PlanLinear({whole + "output.dense"}, c.feed_forward, c.width, format,
                               peaks ? &peaks->down : nullptr, &layer.down));
    return PlanNorm(at + "output.LayerNorm", &layer.ffn_norm);
  }

  // BERT's classifiers take the pooler's row, which belongs to the encoder; those of RoBERTa bring
  // both matrices.
  Status PlanHead() {
    const EncoderConfig& c = weights_->config_;
    const bool pooler = c.architecture == "bert";
    EncoderHead& head = weights_->head_;
    RETURN_IF_ERROR(PlanLinear({pooler ? prefix_ + "pooler.dense" : "classifier.dense"}, c.width,
                               c.width, kernels::WeightFormat::kF32, nullptr, &head.dense));
    return PlanLinear({pooler ? "classifier" : "classifier.out_proj"}, c.width,
                      static_cast<int>(c.labels.size()), kernels::WeightFormat::kF32, nullptr,
                      &head.out);
  }

  const TensorStore& store_;
  const EncoderWeights::Options& options_;
  WeightArena arena_;
  std::unique_ptr<EncoderWeights> weights_;
  std::string prefix_;  // of every name, as "bert."
  std::vector<std::pair<Linear*, size_t>> links_;
};

const char* EncoderDTypeName(EncoderDType dtype) {
  switch (dtype) {
    case EncoderDType::kF32:
      return "f32";
    case EncoderDType::kBf16:
      return "bf16";
    case EncoderDType::kInt8:
    case EncoderDType::kInt8Blocks:
      return "int8";
  }
  return "?";
}

Result<std::shared_ptr<const EncoderWeights>> EncoderWeights::Load(EncoderConfig config,
                                                                   const TensorStore& store,
                                                                   const Options& options) {
  CHECK_GE(options.threads, 1);
  CHECK(options.peaks == nullptr ||
        options.peaks->layers.size() == static_cast<size_t>(config.layers));
  return EncoderLoader(std::move(config), store, options).Load();
}

}  // namespace tutti::model
