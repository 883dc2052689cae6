// WeightsLoader: plans, packs and links the matrices of a decoder. Private to Weights.
//
// One load each; one thread, which starts those that pack. A plan is an order of matrices and
// vectors in one arena: that in which a step reads them, so that it reads the arena sequentially.
// Sources: weights_loader.cc has what all kinds of layers share, the order and the load;
// weights_attention.cc, weights_recurrent.cc, weights_feed_forward.cc and weights_streams.cc have
// the tensors of their parts.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "kernels/pack.h"
#include "model/decoder_checkpoint.h"
#include "model/weight_arena.h"
#include "model/weights.h"
#include "tensor/dtype.h"

namespace tutti::model {

class WeightsLoader {
 public:
  // Both outlive the loader.
  WeightsLoader(const DecoderCheckpoint& checkpoint, const LoadOptions& options)
      : checkpoint_(checkpoint),
        options_(options),
        arena_(*checkpoint.tensors),
        weights_(new Weights()) {}

  // As the functions of Weights, each once and alone.
  Status Check();
  Result<std::shared_ptr<const Weights>> PlanOnly();
  Result<std::shared_ptr<const Weights>> Load();

 private:
  // Where a projection's parts are among the matrices, to be linked once packed.
  struct PartsOf {
    Projection* projection;
    std::vector<size_t> matrices;
  };

  // --- weights_loader.cc ---
  Status Lay();  // all but the values
  // All tensors, in the order in which a step reads them.
  Status Plan();
  Status PlanLayer(int index);
  void Link();  // where the packed matrices are
  Status RefuseOthers() const;
  static Status KeepOutliers(const std::shared_ptr<Weights>& weights);

  // Format of a matrix that shares its activations with no matrix of another type.
  kernels::WeightFormat FormatOf(const StoredTensor& tensor) const;
  // Format of a matrix that shares its activations with matrices of other types: the activations
  // are quantised in one way only.
  kernels::WeightFormat FormatAmongOthers(const StoredTensor& tensor) const;
  // Plans a matrix that shares its activations with no matrix of another format. Packed files are
  // the same for all machines: they hold 16-bit weights as F16 or BF16, which become pairs when
  // they are read.
  Result<size_t> PlanOwn(const WeightArena::Tensors& tensors, bool gate_up = false);
  // Matrices that share their input, as few parts as their types allow.
  Status PlanProjection(const WeightArena::Tensors& tensors, Projection* out);
  // The same, of groups whose tensors may be small, but are of one type where files are usual.
  Status PlanGroups(const std::vector<WeightArena::Tensors>& groups, Projection* out);
  Status PlanGateUp(const StoredTensor* gate, const StoredTensor* up, Projection* out);
  // One matrix, and its bias if it has one.
  Status PlanOne(const std::string& name, const tensor::Shape& shape, bool bias, Projection* out);
  // Plans the bias of a projection whose matrices have the same names, in the same order.
  Status PlanBias(const std::vector<std::pair<std::string, int64_t>>& names, Projection* out);
  // `length`: 0 for the model's width.
  Status PlanVector(const std::string& name, const float** target, int64_t length = 0,
                    float scale = 1);
  // Plans a norm of the residual stream; LayerNorm without a bias gets one of zeros.
  Status PlanNorm(const std::string& name, const float** weight, const float** bias,
                  float scale = 1);
  // NAME.0.weight to NAME.(count - 1).weight, of `rows` rows of `columns` each.
  Result<WeightArena::Tensors> ExpectParts(const std::string& name, int count, int rows,
                                           int columns);
  // A matrix of one row, which files also hold as a vector.
  Result<const StoredTensor*> ExpectRow(const std::string& name, int64_t columns);

  // --- weights_attention.cc ---
  Status PlanAttention(int index, const std::string& prefix, LayerWeights& layer);
  Status PlanLatent(const std::string& prefix, LayerWeights& layer);
  // Queries, keys and values, all of the same width, and their norms.
  Status PlanHeads(int index, const std::string& prefix, LayerWeights& layer);

  // --- weights_recurrent.cc ---
  Status PlanRecurrent(const std::string& prefix, LayerWeights& layer);
  Status PlanShortConv(const std::string& prefix, RecurrentWeights& recurrent);
  Status PlanMamba2(const std::string& ssm, RecurrentWeights& recurrent);
  // Rows in the order of RecurrentShape, from one of the forms in which files have them: by kind,
  // or for each group of heads together.
  Status PlanDeltaNet(const std::string& prefix, RecurrentWeights& recurrent);
  Status PlanConvolution(const std::string& name, int channels, RecurrentWeights* recurrent);

  // --- weights_feed_forward.cc ---
  // The network of all rows, for a layer that has one.
  Status PlanDenseFeedForward(int index, const std::string& prefix, LayerWeights& layer);
  Status PlanExperts(const std::string& prefix, LayerWeights& layer);
  // The norms of layers with one network and experts. The router's has no other weights than its
  // scale, and is divided by the root of the width.
  Status PlanNormsOfExperts(const std::string& prefix, LayerWeights& layer);
  Status PlanExpertBiases(const std::string& prefix, int number, ExpertWeights* expert);
  Status PlanFeedForward(const std::string& gate_name, const std::string& up_name,
                         const std::string& down_name, int64_t feed_forward, Projection* gate_up,
                         Projection* down);
  // A bound of the gates, or a norm of the outputs, depends on all of them, so that no epilogue may
  // join gate and up.
  Status PlanStoredFeedForward(int index, const std::string& prefix, LayerWeights& layer);
  Status PlanUngatedFeedForward(const std::string& prefix, LayerWeights& layer);
  Status PlanUnfusedFeedForward(int index, const std::string& prefix, LayerWeights& layer);

  // --- weights_streams.cc ---
  // What a layer adds by its own input, and the number of its output.
  Status PlanLayerInput(const std::string& prefix, LayerWeights& layer);
  Status PlanLayerInputs();  // of all layers together
  // What a layer with several residual streams has in addition.
  Status PlanStreamsOf(const std::string& prefix, StreamWeights& streams);
  Status PlanStreamInputs();
  Status PlanStreamOutputs();

  const DecoderCheckpoint& checkpoint_;
  const LoadOptions& options_;
  const bool bf16_pairs_ = options_.bf16_pairs && checkpoint_.packed == nullptr;
  WeightArena arena_;
  std::unique_ptr<Weights> weights_;
  std::vector<PartsOf> links_;
  size_t embedding_matrix_ = 0;
  size_t layer_embedding_matrix_ = 0;
};

}  // namespace tutti::model
