// Latent attention (DeepSeek): queries, keys and values of a layer, from the residual stream to the
// rows of qkv_ that the kernels of attention read, where each head has keys and values of its own.
//
// A key is a product of the row's latent part, and behind it a rotating part that all heads share.
// Values are filled up with zeros to the width of keys; what attention gives is closed up again.
// Source: "DeepSeek-V2: A Strong, Economical, and Efficient Mixture-of-Experts Language Model",
// 2.1; the form without absorbed matrices (docs/decisions/0062).
#include <algorithm>
#include <cstring>
#include <utility>

#include "model/decoder.h"

namespace tutti::model {
namespace {

// Rotates adjacent dimensions, in place. `cos_sin`: of the row's position.
void RotateAdjacent(const float* cos_sin, int dims, float* x) {
  for (int i = 0; i < dims / 2; ++i) {
    const float cosine = cos_sin[i], sine = cos_sin[dims / 2 + i];
    const float first = x[2 * i], second = x[2 * i + 1];
    x[2 * i] = first * cosine - second * sine;
    x[2 * i + 1] = second * cosine + first * sine;
  }
}

}  // namespace

// A row of qkv_ has queries, then the latent row of queries if there is one, that of keys and
// values, and the rotating key; without a rank of queries the first product gives all of them.
void Decoder::ProjectLatent(int index, Activations normed, Team& team) {
  const ModelConfig& config = weights_->config();
  const LayerWeights& layer = weights_->layer(index);
  const LatentWeights& latent = layer.latent;
  const int rows = normed.rows;
  const auto stride = static_cast<size_t>(qkv_columns_);
  float* const behind = qkv_ + config.q_rows();
  const bool ranked = config.query_rank != 0;
  Project(layer.qkv, std::move(normed), kernels::Epilogue::kStore, ranked ? behind : qkv_, stride,
          ranked ? &latent.query : &latent.key_value, team);
  const auto narrow = [&](const float* x, int cols, const float* norm, const Projection& consumer) {
    return Prepare({.x = x,
                    .stride = stride,
                    .rows = rows,
                    .cols = cols,
                    .norm_weight = norm,
                    .norm_eps = config.latent_norm_eps},
                   consumer, team);
  };
  if (ranked) {
    Project(latent.query, narrow(behind, config.query_rank, latent.query_norm, latent.query),
            kernels::Epilogue::kStore, qkv_, stride, &latent.key_value, team);
  }
  Project(latent.key_value,
          narrow(behind + config.query_rank, config.latent_rank, latent.key_value_norm,
                 latent.key_value),
          kernels::Epilogue::kStore, expanded_, static_cast<size_t>(latent.key_value.columns()),
          &layer.attn_output, team);
}

// Rotates queries and the shared key of one row, and puts keys and values of all heads behind the
// queries. `expanded`: those of all heads without the shared key.
void Decoder::SpreadLatent(const float* cos_sin, const float* expanded, float* qkv) const {
  const ModelConfig& config = weights_->config();
  const int dim = config.head_dim, rotating = config.rope_dims, values = config.value_width();
  const int own = dim - rotating;
  for (int h = 0; h < config.heads; ++h) RotateAdjacent(cos_sin, rotating, qkv + h * dim + own);
  float* const keys = qkv + config.q_rows();
  float shared[kernels::kMaxHeadDim];
  std::copy_n(keys + config.query_rank + config.latent_rank, rotating, shared);
  RotateAdjacent(cos_sin, rotating, shared);
  for (int h = 0; h < config.heads; ++h) {
    std::copy_n(expanded + h * own, own, keys + h * dim);
    std::copy_n(shared, rotating, keys + h * dim + own);
  }
  expanded += config.heads * own;
  for (int h = 0; h < config.heads; ++h) {
    float* const to = keys + config.kv_rows() + h * dim;
    std::copy_n(expanded + h * values, values, to);
    std::fill(to + values, to + dim, 0.0F);
  }
}

// Closes the gaps between the outputs of heads whose values are narrower than their keys.
void Decoder::CloseUpHeads(int rows, Team& team) {
  const ModelConfig& config = weights_->config();
  const auto dim = static_cast<size_t>(config.head_dim);
  const auto values = static_cast<size_t>(config.value_width());
  if (values == dim) return;
  team.ForEachRow(rows, [&](size_t row) {
    float* const out = attn_ + row * static_cast<size_t>(config.q_rows());
    for (size_t h = 1; h < static_cast<size_t>(config.heads); ++h)
      std::memmove(out + h * values, out + h * dim, values * sizeof(float));
  });
}

}  // namespace tutti::model
