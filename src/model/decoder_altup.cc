// What Gemma 3n adds to a layer: several residual streams of a row (AltUp), a branch of low rank
// (LAuReL), and gates of which the greatest count alone.
//
// Before a layer all streams are predicted from each other. The layer runs on the active one, which
// is x_ meanwhile; behind it all streams are corrected by what it gave, and the layer's own input
// is added to all but the first. Every step reads one row alone. Sources: Baykal et al. 2023,
// "Alternating Updates for Efficient Transformers"; Menghani et al. 2024, "LAuReL: Learned
// Augmented Residual Layer"; transformers' Gemma3nTextModel.
#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "model/decoder.h"

namespace tutti::model {
namespace {

constexpr size_t kStreamLanes = 32;  // values of a row; divides the width

// Sums in kStreamLanes lanes, which compilers turn into vectors. `count` is a multiple of it.
template <typename Term>
float SumInLanes(size_t count, Term&& term) {
  float lanes[kStreamLanes] = {};
  for (size_t begin = 0; begin < count; begin += kStreamLanes)
    for (size_t k = 0; k < kStreamLanes; ++k) lanes[k] += term(begin + k);
  float sum = 0;
  for (const float lane : lanes) sum += lane;
  return sum;
}

float MeanSquare(const float* x, size_t count) {
  return SumInLanes(count, [&](size_t i) { return x[i] * x[i]; }) / static_cast<float>(count);
}

// The factor that gives `x` the magnitude of `like`.
float FactorTo(const float* like, const float* x, size_t count) {
  constexpr float kLeast = 1e-5F;  // mean square
  return std::sqrt(MeanSquare(like, count)) / std::sqrt(std::max(MeanSquare(x, count), kLeast));
}

}  // namespace

// Reduces gates by a bound above their mean; those below it become 0.
void Decoder::CutGates(int layer, float* gates) const {
  const ModelConfig& config = weights_->config();
  const auto count = static_cast<size_t>(config.feed_forward_of(layer));
  const float deviations = config.gate_cutoffs[static_cast<size_t>(layer)];
  const auto values = static_cast<float>(count);
  const float mean = SumInLanes(count, [&](size_t i) { return gates[i]; }) / values;
  const float variance =
      SumInLanes(count, [&](size_t i) { return (gates[i] - mean) * (gates[i] - mean); }) / values;
  const float bound = mean + std::sqrt(variance) * deviations;
  for (size_t i = 0; i < count; ++i) gates[i] = std::max(gates[i] - bound, 0.0F);
}

// activation(gate) * up in the form that `down` reads, in a layer that cuts gates or has inner
// norms.
Decoder::Activations Decoder::StoredGateUp(int index, Activations in, const LoraBatch& lora,
                                           Team& team) {
  const LayerWeights& layer = weights_->layer(index);
  const int rows = in.rows;
  const int cols = weights_->config().feed_forward_of(index);
  const auto up = static_cast<size_t>(cols), stride = 2 * up;
  float* const gates = shared_ffn_.floats;
  const LoraUse use{&lora, index, LoraPlace::kFeedForwardInput};
  Shrink(use, in.source, team);
  Project(layer.gate_up, std::move(in), kernels::Epilogue::kStore, gates, stride, &layer.down,
          team);
  Expand(use, gates, stride, team);
  team.ForEachRow(rows, [&](size_t row) {
    float* gate = gates + row * stride;
    if (weights_->config().inner_norms) return ApplyGate(index, gate, gate + up);
    CutGates(index, gate);
    ApplyGelu(gate, cols);
    kernels_.rows.multiply(gate, gate + up, cols, gate);
  });
  return Prepare({.x = gates, .stride = stride, .rows = rows, .cols = cols}, layer.down, team);
}

float* Decoder::StreamsOf(size_t row) const {
  const ModelConfig& config = weights_->config();
  return streams_ + row * static_cast<size_t>(config.streams) * static_cast<size_t>(config.width);
}

// All streams of the first layer, from the embedding: projections of it, as large as it is.
void Decoder::SpreadStreams(int rows, Team& team) {
  const ModelConfig& config = weights_->config();
  const auto width = static_cast<size_t>(config.width);
  const auto count = static_cast<size_t>(config.streams);
  const Projection& inputs = weights_->stream_inputs();
  Activations in =
      Prepare({.x = x_, .stride = width, .rows = rows, .cols = config.width}, inputs, team);
  Project(inputs, std::move(in), kernels::Epilogue::kStore, streams_ + width, count * width,
          &weights_->layer(0).first(), team);
  team.ForEachRow(rows, [&](size_t row) {
    const float* x = x_ + row * width;
    float* const streams = StreamsOf(row);
    std::copy_n(x, width, streams);
    for (size_t i = 1; i < count; ++i) {
      float* const stream = streams + i * width;
      const float factor = FactorTo(x, stream, width);
      for (size_t k = 0; k < width; ++k) stream[k] *= factor;
    }
    PredictStreams(0, row, team);
  });
}

// How much each stream counts in a row, [streams], by the row's values `x`.
void Decoder::RouteStreams(int layer, const float* x, float* weights, const Team& team) {
  const ModelConfig& config = weights_->config();
  const StreamWeights& streams = weights_->layer(layer).streams;
  const auto width = static_cast<size_t>(config.width);
  float* const normed = workers_[static_cast<size_t>(team.worker())].stream_row;
  kernels_.rows.rms_norm(x, streams.router_norm, config.norm_eps, config.width, normed);
  const float* router = streams.router;
  for (int i = 0; i < config.streams; ++i, router += width)
    weights[i] = std::tanh(SumInLanes(width, [&](size_t k) { return router[k] * normed[k]; }));
}

// One row's streams before `layer`; x_ becomes the active one.
void Decoder::PredictStreams(int layer, size_t row, const Team& team) {
  const ModelConfig& config = weights_->config();
  const auto width = static_cast<size_t>(config.width);
  const auto count = static_cast<size_t>(config.streams);
  float* const streams = StreamsOf(row);
  float* const active = streams + static_cast<size_t>(config.active_stream) * width;
  float weights[kMaxStreams], mix[kMaxStreams * kMaxStreams];
  RouteStreams(layer, active, weights, team);
  const float* predict = weights_->layer(layer).streams.predict;
  for (size_t i = 0; i < count * count; ++i, predict += count) {
    mix[i] = 0;
    for (size_t k = 0; k < count; ++k) mix[i] += predict[k] * weights[k];
  }
  for (size_t begin = 0; begin < width; begin += kStreamLanes) {
    float before[kMaxStreams][kStreamLanes];
    for (size_t from = 0; from < count; ++from)
      std::copy_n(streams + from * width + begin, kStreamLanes, before[from]);
    for (size_t to = 0; to < count; ++to) {
      float* const stream = streams + to * width + begin;
      for (size_t from = 0; from < count; ++from) {
        const float factor = mix[to * count + from];
        for (size_t k = 0; k < kStreamLanes; ++k) stream[k] += factor * before[from][k];
      }
    }
  }
  std::copy_n(active, width, x_ + row * width);
}

// The streams behind a layer, whose output is x_; it becomes what the layer's own input reads.
void Decoder::CorrectStreams(int layer, int rows, Team& team) {
  const ModelConfig& config = weights_->config();
  const StreamWeights& own = weights_->layer(layer).streams;
  const auto width = static_cast<size_t>(config.width);
  const auto count = static_cast<size_t>(config.streams);
  team.ForEachRow(rows, [&](size_t row) {
    float* const x = x_ + row * width;
    float* const streams = StreamsOf(row);
    const float* const active = streams + static_cast<size_t>(config.active_stream) * width;
    float weights[kMaxStreams], change[kMaxStreams];
    RouteStreams(layer, x, weights, team);
    for (size_t i = 0; i < count; ++i) {
      change[i] = 1;
      for (size_t k = 0; k < count; ++k) change[i] += own.correct[i * count + k] * weights[k];
    }
    for (size_t begin = 0; begin < width; begin += kStreamLanes) {
      float innovation[kStreamLanes];
      for (size_t k = 0; k < kStreamLanes; ++k) innovation[k] = x[begin + k] - active[begin + k];
      for (size_t i = 0; i < count; ++i) {
        float* const stream = streams + i * width + begin;
        for (size_t k = 0; k < kStreamLanes; ++k) stream[k] += change[i] * innovation[k];
      }
    }
    kernels_.rows.multiply(active, own.output_scale, config.width, x);
  });
}

// Adds what a layer made of its own input, sum_, to all streams but the first, and goes on to the
// next layer.
void Decoder::AddToStreams(int layer, int rows, Team& team) {
  const ModelConfig& config = weights_->config();
  const auto width = static_cast<size_t>(config.width);
  team.ForEachRow(rows, [&](size_t row) {
    float* const sum = sum_ + row * width;
    kernels_.rows.rms_norm(sum, weights_->layer(layer).input_after_norm, config.norm_eps,
                           config.width, sum);
    for (size_t i = 1; i < static_cast<size_t>(config.streams); ++i)
      kernels_.rows.add(StreamsOf(row) + i * width, sum, config.width);
    if (layer + 1 < config.layers) PredictStreams(layer + 1, row, team);
  });
}

// x_ becomes the mean of all streams behind the last layer: of the first, and of projections of the
// others, as large as it is.
void Decoder::MergeStreams(int rows, Team& team) {
  const ModelConfig& config = weights_->config();
  const auto width = static_cast<size_t>(config.width);
  const auto count = static_cast<size_t>(config.streams);
  for (size_t i = 1; i < count; ++i) {
    const bool last = i + 1 == count;
    const Projection& output = weights_->stream_outputs()[i - 1];
    const Projection& next = last ? weights_->head() : weights_->stream_outputs()[i];
    Activations in = Prepare(
        {.x = streams_ + i * width, .stride = count * width, .rows = rows, .cols = config.width},
        output, team);
    Project(output, std::move(in), kernels::Epilogue::kStore, sum_, width, &next, team);
    team.ForEachRow(rows, [&](size_t row) {
      const float* const first = StreamsOf(row);
      const float* const sum = sum_ + row * width;
      float* const x = x_ + row * width;
      const float* const before = i == 1 ? first : x;
      const float factor = FactorTo(first, sum, width);
      const float share = last ? 1 / static_cast<float>(count) : 1;
      for (size_t k = 0; k < width; ++k) x[k] = (before[k] + factor * sum[k]) * share;
    });
  }
}

// Adds the rows that attention reads and a product of low rank of them to the residual stream. The
// sum with attention's output is divided by the root of 2, kLaurelScale.
void Decoder::AddLaurel(int index, int rows, Team& team) {
  const ModelConfig& config = weights_->config();
  const LayerWeights& layer = weights_->layer(index);
  const StreamWeights& own = layer.streams;
  const auto width = static_cast<size_t>(config.width);
  const auto stride = static_cast<size_t>(own.laurel_left.columns());
  Activations in = Prepare({.x = x_,
                            .stride = width,
                            .rows = rows,
                            .cols = config.width,
                            .norm_weight = layer.attn_norm},
                           own.laurel_left, team);
  Project(own.laurel_left, std::move(in), kernels::Epilogue::kStore, laurel_, stride,
          &own.laurel_right, team);
  Activations low =
      Prepare({.x = laurel_, .stride = stride, .rows = rows, .cols = config.laurel_rank},
              own.laurel_right, team);
  Project(own.laurel_right, std::move(low), kernels::Epilogue::kStore, sum_, width,
          &layer.attn_output, team);
  team.ForEachRow(rows, [&](size_t row) {
    float* const normed = workers_[static_cast<size_t>(team.worker())].stream_row;
    float* const x = x_ + row * width;
    float* const sum = sum_ + row * width;
    NormRow(x, layer.attn_norm, nullptr, normed);
    kernels_.rows.rms_norm(sum, own.laurel_norm, config.norm_eps, config.width, sum);
    kernels_.rows.add(sum, normed, config.width);
    kernels_.rows.add(x, sum, config.width);
  });
}

}  // namespace tutti::model
