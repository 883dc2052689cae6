#include "model/weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "model/weight_arena.h"

namespace tutti::model {

using kernels::WeightFormat;

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

// The tensors of the architecture, and where each goes.
class WeightsLoader {
 public:
  WeightsLoader(const gguf::File& file, const LoadOptions& options)
      : file_(file),
        options_(options),
        store_(MakeTensorStore(file)),
        arena_(*store_),
        weights_(new Weights()) {}

  Result<std::shared_ptr<const Weights>> Load() {
    ASSIGN_OR_RETURN(weights_->config_, ReadModelConfig(file_));
    weights_->mode_ = options_.mode;
    weights_->fused_ = options_.fuse;
    RETURN_IF_ERROR(Plan());
    const ModelConfig& c = weights_->config_;
    RETURN_IF_ERROR(
        arena_.RefuseOthers(fmt::format("a {} model of {} layers", c.architecture, c.layers),
                            [](std::string_view name) { return name == "rope_freqs.weight"; }));
    ASSIGN_OR_RETURN(weights_->arena_, arena_.Build(options_.threads, options_.progress));
    Link();
    return std::shared_ptr<const Weights>(std::move(weights_));
  }

 private:
  // Where a projection's parts are among the matrices, to be linked once packed.
  struct PartsOf {
    Projection* projection;
    std::vector<size_t> matrices;
  };

  WeightFormat FormatOf(const StoredTensor& tensor) const {
    switch (options_.mode) {
      case WeightMode::kInt8:
        return kernels::NativeFormat(tensor.dtype);
      case WeightMode::kF32:
        return WeightFormat::kF32;
      case WeightMode::kF16:
        return WeightFormat::kF16;
      case WeightMode::kBf16:
        return WeightFormat::kBf16;
    }
    CHECK(false) << "mode";
    return WeightFormat::kF32;
  }

  // Matrices that share their input, as few parts as their types allow.
  Status PlanProjection(const WeightArena::Tensors& tensors, Projection* out) {
    PartsOf link{out, {}};
    const auto same_format = [&](const StoredTensor* t) {
      return FormatOf(*t) == FormatOf(*tensors[0]);
    };
    const auto whole_panels = [](const StoredTensor* t) {
      return t->shape.rows() % kernels::kPanelRows == 0;
    };
    if (std::all_of(tensors.begin(), tensors.end(), same_format)) {
      ASSIGN_OR_RETURN(const size_t matrix, arena_.PlanMatrix(tensors, FormatOf(*tensors[0])));
      link.matrices.push_back(matrix);
    } else if (std::all_of(tensors.begin(), tensors.end(), whole_panels)) {
      for (const StoredTensor* tensor : tensors) {
        ASSIGN_OR_RETURN(const size_t matrix, arena_.PlanMatrix({tensor}, FormatOf(*tensor)));
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

  Status PlanGateUp(const StoredTensor* gate, const StoredTensor* up, LayerWeights& layer) {
    if (!options_.fuse) {
      RETURN_IF_ERROR(PlanProjection({gate}, &layer.gate));
      return PlanProjection({up}, &layer.up);
    }
    const bool same = FormatOf(*gate) == FormatOf(*up);
    ASSIGN_OR_RETURN(
        const size_t matrix,
        arena_.PlanMatrix({gate, up}, same ? FormatOf(*gate) : WeightFormat::kF32, true));
    links_.push_back({&layer.gate_up, {matrix}});
    return OkStatus();
  }

  Status PlanVector(const std::string& name, const float** target) {
    ASSIGN_OR_RETURN(const StoredTensor* tensor, arena_.Expect(name, {weights_->config_.width}));
    arena_.PlanVector({tensor}, target);
    return OkStatus();
  }

  Status PlanLayer(int index) {
    const ModelConfig& c = weights_->config_;
    const std::string prefix = fmt::format("blk.{}.", index);
    LayerWeights& layer = weights_->layers_[static_cast<size_t>(index)];
    RETURN_IF_ERROR(PlanVector(prefix + "attn_norm.weight", &layer.attn_norm));
    ASSIGN_OR_RETURN(const StoredTensor* q,
                     arena_.Expect(prefix + "attn_q.weight", {c.width, c.q_rows()}));
    ASSIGN_OR_RETURN(const StoredTensor* k,
                     arena_.Expect(prefix + "attn_k.weight", {c.width, c.kv_rows()}));
    ASSIGN_OR_RETURN(const StoredTensor* v,
                     arena_.Expect(prefix + "attn_v.weight", {c.width, c.kv_rows()}));
    if (options_.fuse) {
      RETURN_IF_ERROR(PlanProjection({q, k, v}, &layer.qkv));
    } else {
      RETURN_IF_ERROR(PlanProjection({q}, &layer.q));
      RETURN_IF_ERROR(PlanProjection({k}, &layer.k));
      RETURN_IF_ERROR(PlanProjection({v}, &layer.v));
    }
    ASSIGN_OR_RETURN(const StoredTensor* o,
                     arena_.Expect(prefix + "attn_output.weight", {c.q_rows(), c.width}));
    RETURN_IF_ERROR(PlanProjection({o}, &layer.attn_output));
    RETURN_IF_ERROR(PlanVector(prefix + "ffn_norm.weight", &layer.ffn_norm));
    ASSIGN_OR_RETURN(const StoredTensor* gate,
                     arena_.Expect(prefix + "ffn_gate.weight", {c.width, c.feed_forward}));
    ASSIGN_OR_RETURN(const StoredTensor* up,
                     arena_.Expect(prefix + "ffn_up.weight", {c.width, c.feed_forward}));
    RETURN_IF_ERROR(PlanGateUp(gate, up, layer));
    ASSIGN_OR_RETURN(const StoredTensor* down,
                     arena_.Expect(prefix + "ffn_down.weight", {c.feed_forward, c.width}));
    return PlanProjection({down}, &layer.down);
  }

  // In the order a step reads them, so that it streams the arena forwards.
  Status Plan() {
    const ModelConfig& c = weights_->config_;
    weights_->layers_.resize(static_cast<size_t>(c.layers));
    for (int i = 0; i < c.layers; ++i) RETURN_IF_ERROR(PlanLayer(i));
    RETURN_IF_ERROR(PlanVector("output_norm.weight", &weights_->output_norm_));
    ASSIGN_OR_RETURN(const StoredTensor* embedding,
                     arena_.Expect("token_embd.weight", {c.width, c.vocab_size}));
    const StoredTensor* head = embedding;
    if (!c.tied_head) {
      ASSIGN_OR_RETURN(head, arena_.Expect("output.weight", {c.width, c.vocab_size}));
    }
    RETURN_IF_ERROR(PlanProjection({head}, &weights_->head_));
    if (c.tied_head) return OkStatus();
    // Looked up, never multiplied; its own format keeps the file's numbers.
    ASSIGN_OR_RETURN(embedding_matrix_, arena_.PlanMatrix({embedding}, FormatOf(*embedding)));
    return OkStatus();
  }

  void Link() {
    for (const PartsOf& link : links_) {
      for (const size_t matrix : link.matrices) {
        link.projection->parts.push_back(arena_.matrix(matrix));
      }
    }
    weights_->embedding_ =
        weights_->config_.tied_head ? weights_->head_.parts[0] : arena_.matrix(embedding_matrix_);
  }

  const gguf::File& file_;
  const LoadOptions& options_;
  const std::unique_ptr<TensorStore> store_;
  WeightArena arena_;
  std::unique_ptr<Weights> weights_;
  std::vector<PartsOf> links_;
  size_t embedding_matrix_ = 0;
};

Result<std::shared_ptr<const Weights>> Weights::Load(const gguf::File& file,
                                                     const LoadOptions& options) {
  CHECK_GE(options.threads, 1);
  return WeightsLoader(file, options).Load();
}

}  // namespace tutti::model
