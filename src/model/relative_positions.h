// RelativePositions: the keys and queries that stand for distances of tokens in an encoder whose
// attention has terms of them (EncoderConfig::Relative), by layer, head and distance.
//
// They depend on the weights alone and are computed once, in float32 for every type of the
// matrices. Immutable and shared; any thread. Memory: two tables of width * (2 * farthest + 80)
// floats a layer, where `farthest` is at most the longest text. Source: He et al. 2021, "DeBERTa",
// and its buckets of distances in version 2.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "kernels/aligned_buffer.h"
#include "kernels/kernels.h"
#include "kernels/span_attention.h"
#include "model/encoder_config.h"
#include "model/tensor_store.h"

namespace tutti::model {

// A matrix [width] -> [width] and its bias.
struct RelativeProjection {
  const StoredTensor* weight = nullptr;
  const StoredTensor* bias = nullptr;
};

// What the tables are made of.
struct RelativeTensors {
  const StoredTensor* embeddings = nullptr;   // [2 * span][width]
  const StoredTensor* norm_weight = nullptr;  // null: no norm
  const StoredTensor* norm_bias = nullptr;
  struct Layer {
    RelativeProjection keys, queries;  // without a weight: that term is absent
  };
  std::vector<Layer> layers;
};

class RelativePositions {
 public:
  // `config.relative.span` is not 0. Errors: of reading, model_nonfinite, out_of_memory.
  static Result<std::shared_ptr<const RelativePositions>> Make(const EncoderConfig& config,
                                                               const RelativeTensors& tensors,
                                                               const TensorStore& store,
                                                               const kernels::KernelTable& kernels);

  kernels::SpanRelative layer(int index) const;
  size_t bytes() const { return memory_.size(); }

 private:
  friend class RelativeMaker;
  RelativePositions() = default;
  float* table(size_t number);  // of keys and queries of the layers in turn, at the least distance

  int32_t farthest_ = 0;
  size_t stride_ = 0, table_floats_ = 0;
  kernels::AlignedBuffer memory_;
};

// The row of the distances' embeddings for a query `distance` tokens behind a key.
int RelativeRow(const EncoderConfig::Relative& relative, int distance);

}  // namespace tutti::model
