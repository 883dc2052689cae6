// Per-layer embeddings (Gemma 3n and 4): each layer has an input of its own from the token and from
// the embedding of the row, and adds to the row what a small gated network makes of both.
#include <cmath>
#include <numbers>
#include <utility>

#include "model/decoder.h"

namespace tutti::model {

// The inputs of all layers: the token's row in a table of its own, and a projection of the
// embedding after a norm, both with factors of the architecture.
void Decoder::EmbedLayers(const DecoderBatch& batch, Team& team) {
  const ModelConfig& config = weights_->config();
  const int rows = static_cast<int>(batch.tokens.size());
  const auto width = static_cast<size_t>(config.width);
  const auto inputs = static_cast<size_t>(config.layer_inputs);
  const Projection& projection = weights_->layer_projection();
  Activations in =
      Prepare({.x = x_, .stride = width, .rows = rows, .cols = config.width}, projection, team);
  Project(projection, std::move(in), kernels::Epilogue::kStore, layer_inputs_, layer_inputs_stride_,
          &weights_->layer(0).first(), team);
  // The projection is divided by the root of the width. The norm behind it undoes that, but for its
  // epsilon.
  const float eps = config.norm_eps * static_cast<float>(config.width);
  const float token_scale = std::sqrt(static_cast<float>(config.layer_inputs));
  const float sum_scale = 1 / std::numbers::sqrt2_v<float>;
  team.ForEachRow(rows, [&](size_t row) {
    float* token = workers_[static_cast<size_t>(team.worker())].layer_token;
    const TokenId id = batch.tokens[row];
    kernels::UnpackRow(weights_->layer_embedding(), id < config.layer_vocab ? id : 0, token);
    float* input = layer_inputs_ + row * layer_inputs_stride_;
    for (int i = 0; i < config.layers; ++i, input += inputs, token += inputs) {
      kernels_.rows.rms_norm(input, weights_->layer_projection_norm(), eps, config.layer_inputs,
                             input);
      for (size_t k = 0; k < inputs; ++k)
        input[k] = (input[k] + token_scale * token[k]) * sum_scale;
    }
  });
}

// The last part of a layer.
void Decoder::AddLayerInput(int index, const DecoderBatch& batch, Team& team) {
  const ModelConfig& config = weights_->config();
  const LayerWeights& layer = weights_->layer(index);
  const int rows = static_cast<int>(batch.tokens.size());
  const auto width = static_cast<size_t>(config.width);
  const auto inputs = static_cast<size_t>(config.layer_inputs);
  if (config.streams != 0) CorrectStreams(index, rows, team);
  Activations in = Prepare({.x = x_, .stride = width, .rows = rows, .cols = config.width},
                           layer.input_gate, team);
  Project(layer.input_gate, std::move(in), kernels::Epilogue::kStore, layer_gate_,
          layer_gate_stride_, &layer.input_output, team);
  team.ForEachRow(rows, [&](size_t row) {
    float* gate = layer_gate_ + row * layer_gate_stride_;
    const float* input =
        layer_inputs_ + row * layer_inputs_stride_ + static_cast<size_t>(index) * inputs;
    ApplyGelu(gate, config.layer_inputs);
    for (size_t k = 0; k < inputs; ++k) gate[k] *= input[k];
  });
  Activations gated = Prepare(
      {.x = layer_gate_, .stride = layer_gate_stride_, .rows = rows, .cols = config.layer_inputs},
      layer.input_output, team);
  if (weights_->fused()) ReadKeysAhead(index + 1, batch, team);
  if (config.streams != 0) {
    Project(layer.input_output, std::move(gated), kernels::Epilogue::kStore, sum_, width,
            &AfterLayer(index), team);
    return AddToStreams(index, rows, team);
  }
  AddProduct(layer.input_output, std::move(gated), layer.input_after_norm, &AfterLayer(index), team,
             layer.output_scale);
}

// Adds one row of a part's output after its norm, then multiplies the row by a layer's number.
void Decoder::AddNormed(float* x, float* sum, const float* after_norm, const float* scale) const {
  const ModelConfig& config = weights_->config();
  kernels_.rows.rms_norm(sum, after_norm, config.norm_eps, config.width, sum);
  kernels_.rows.add(x, sum, config.width);
  for (int i = 0; scale != nullptr && i < config.width; ++i) x[i] *= *scale;
}

}  // namespace tutti::model
