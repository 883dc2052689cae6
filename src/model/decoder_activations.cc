// The activations of feed-forwards without a gate or with a norm inside, and the gates of
// attention.
#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "model/decoder.h"

namespace tutti::model {
namespace {

constexpr int kAtOnce = 256;  // values of a row

// In place: positive x^2 + beta x above 0, negative (exp(min(x, eps)) - 1 - x) + beta x elsewhere,
// where these are softplus(alpha_positive) and beta + softplus(alpha_negative). Source: Huang 2024,
// "Deriving Activation Functions Using Integration".
void ApplyXielu(const kernels::RowKernels& rows, const Xielu& xielu, float positive, float negative,
                int count, float* up) {
  float below[kAtOnce], sigmoid[kAtOnce];
  for (int begin = 0; begin < count; begin += kAtOnce) {
    const int here = std::min(kAtOnce, count - begin);
    // exp(y) is s / (1 - s), where s = sigmoid(y) is silu(y) / y, which a kernel computes. For y
    // below 0 it is at most 1/2, so that 1 - s loses no digits.
    for (int i = 0; i < here; ++i) {
      below[i] = std::min(up[begin + i], xielu.epsilon);
      sigmoid[i] = 1 / below[i];
    }
    rows.silu_mul(below, sigmoid, here, sigmoid);
    for (int i = 0; i < here; ++i) {
      const float x = up[begin + i];
      const float curve =
          x > 0 ? positive * x * x : negative * (sigmoid[i] / (1 - sigmoid[i]) - 1 - x);
      up[begin + i] = curve + xielu.beta * x;
    }
  }
}

}  // namespace

// In place.
void Decoder::ApplyGelu(float* up, int count) const {
  // gelu(x) = x sigmoid(2u), where u = sqrt(2 / pi) (x + 0.044715 x^3), is silu(2u) * (x / 2u):
  // that is what the kernel of the gated form computes, of some values at a time.
  constexpr float kCubic = 0.044715F;
  const float twice = 2 * std::sqrt(2 * std::numbers::inv_pi_v<float>);
  float gate[kAtOnce], factor[kAtOnce];
  for (int begin = 0; begin < count; begin += kAtOnce) {
    const int here = std::min(kAtOnce, count - begin);
    for (int i = 0; i < here; ++i) {
      const float x = up[begin + i];
      const float slope = twice * (1 + kCubic * x * x);  // 2u / x, above 0
      gate[i] = slope * x;
      factor[i] = 1 / slope;
    }
    kernels_.rows.silu_mul(gate, factor, here, up + begin);
  }
}

// activation(up) in the form that `down` reads, of a network without a gate.
Decoder::Activations Decoder::UpAlone(int index, Activations in, const LoraBatch& lora,
                                      Team& team) {
  const LayerWeights& layer = weights_->layer(index);
  const int rows = in.rows;
  const int cols = weights_->config().feed_forward;
  const auto stride = static_cast<size_t>(cols);
  float* up = shared_ffn_.floats;
  const LoraUse use{&lora, index, LoraPlace::kFeedForwardInput};
  Shrink(use, in.source, team);
  Project(layer.up, std::move(in), kernels::Epilogue::kStore, up, stride, &layer.down, team);
  Expand(use, up, stride, team);
  team.ForEachRow(rows, [&](size_t row) { Activate(index, cols, up + row * stride); });
  return Prepare({.x = up, .stride = stride, .rows = rows, .cols = cols}, layer.down, team);
}

// activation(gate) * up of one row, in place of the gate, and its inner norm.
void Decoder::ApplyGate(int index, float* gate, const float* up) const {
  const ModelConfig& config = weights_->config();
  const int count = config.feed_forward;
  if (config.gate == GateKind::kSilu) {
    kernels_.rows.silu_mul(gate, up, count, gate);
  } else {
    Activate(index, count, gate);
    for (int i = 0; i < count; ++i) gate[i] *= up[i];
  }
  kernels_.rows.rms_norm(gate, weights_->layer(index).ffn_inner_norm, config.norm_eps, count, gate);
}

// The activation of a row of `count` values of a network of layer `index`, which has no gate, in
// place.
void Decoder::Activate(int index, int count, float* up) const {
  switch (weights_->config().gate) {
    case GateKind::kSilu:
    case GateKind::kSiluClamped:
      CHECK(false) << "a family without such a network";
      return;
    case GateKind::kRelu2:
      for (int i = 0; i < count; ++i) {
        const float positive = std::max(up[i], 0.0F);
        up[i] = positive * positive;
      }
      return;
    case GateKind::kGeluTanh:
      return ApplyGelu(up, count);
    case GateKind::kXielu:
      break;
  }
  const Xielu& xielu = weights_->config().xielu[static_cast<size_t>(index)];
  ApplyXielu(kernels_.rows, xielu, Softplus(xielu.alpha_positive),
             xielu.beta + Softplus(xielu.alpha_negative), count, up);
}

// log(1 + exp(x)), which is x within the precision of floats above 20.
float Decoder::Softplus(float x) { return x > 20 ? x : std::log1p(std::exp(x)); }

// Multiplies the outputs of attention by the sigmoid of their gates, which lie behind the values.
void Decoder::GateAttention(int rows, Team& team) {
  const ModelConfig& config = weights_->config();
  const auto count = static_cast<size_t>(config.q_rows());
  const auto begin = count + 2 * static_cast<size_t>(config.kv_rows());
  // sigmoid(g) x is silu(g) (x / g), which a kernel computes. At 0 that is no number; between
  // -kLeast and kLeast the sigmoid is 1/2 within the precision of floats.
  constexpr float kLeast = 1e-7F;
  team.ForEachRow(rows, [&](size_t row) {
    float* gates = qkv_ + row * static_cast<size_t>(qkv_columns_) + begin;
    float* out = attn_ + row * count;
    for (size_t i = 0; i < count; ++i) {
      gates[i] = std::fabs(gates[i]) < kLeast ? kLeast : gates[i];
      out[i] /= gates[i];
    }
    kernels_.rows.silu_mul(gates, out, config.q_rows(), out);
  });
}

}  // namespace tutti::model
