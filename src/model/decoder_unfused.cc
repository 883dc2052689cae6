// The layers of decoder.cc with nothing fused: one operation per parallel region, every
// intermediate in memory.
//
// Slower on purpose. It is what the fused pass is measured against, for answers and for time.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "model/decoder.h"

namespace tutti::model {

using kernels::Epilogue;

namespace {

float GeluTanh(float x) {
  constexpr float kCubic = 0.044715F;
  const float inner = std::sqrt(2 * std::numbers::inv_pi_v<float>) * (x + kCubic * x * x * x);
  return 0.5F * x * (1 + std::tanh(inner));
}

}  // namespace

// x as `consumer` reads it, in a region of its own.
Decoder::Activations Decoder::PrepareUnfused(const float* x, int rows, int cols,
                                             const Projection& consumer, Team& team) {
  const Source source{.x = x, .stride = static_cast<size_t>(cols), .rows = rows, .cols = cols};
  Activations out;
  out.rows = rows;
  if (consumer.reads_quantized()) {
    // The memory of the feed-forward is made for its width, the other for all others.
    const bool wide = x == gate_;
    const kernels::ScalePer scale = consumer.activation_scale();
    out.quantized =
        kernels::MakeQuantizedRows(wide ? shared_ffn_.quantized : shared_.quantized, rows, cols,
                                   scale, kernels_.gemm.tile_rows(rows, scale));
    consumer.KeepOutliers(&out.quantized);
  }
  out.floats = x;
  out.stride = source.stride;
  team.ForEach(rows, 1, [&](int begin, int end) { Convert(source, consumer, begin, end, out); });
  return out;
}

void Decoder::UnfusedLayer(int index, const DecoderBatch& batch, Team& team) {
  const ModelConfig& config = weights_->config();
  const LayerWeights& layer = weights_->layer(index);
  const int rows = static_cast<int>(batch.tokens.size());
  const auto width = static_cast<size_t>(config.width);
  const int feed_forward = config.feed_forward_of(index);
  const auto ffn = static_cast<size_t>(feed_forward);
  const auto norm = [&](const float* weight, const float* bias) {
    team.ForEachRow(rows, [&](size_t row) {
      if (weight == nullptr) {
        std::copy_n(x_ + row * width, width, normed_ + row * width);
      } else {
        NormRow(x_ + row * width, weight, bias, normed_ + row * width);
      }
    });
  };
  const auto multiply = [&](const Projection& projection, const Activations& in, float* out,
                            int stride) {
    Project(projection, in, Epilogue::kStore, out, static_cast<size_t>(stride), nullptr, team);
  };
  const auto add_sum = [&](const float* after_norm, const float* scale = nullptr) {
    team.ForEachRow(rows, [&](size_t row) {
      float* x = x_ + row * width;
      float* sum = sum_ + row * width;
      if (after_norm != nullptr) return AddNormed(x, sum, after_norm, scale);
      kernels_.rows.add(x, sum, config.width);
    });
  };

  // A file may give q, k and v different types; what one does not read the next may.
  const auto prepared = [&](const Activations& before, const Projection& consumer) {
    const bool serves =
        !consumer.reads_quantized() ||
        (before.quantized.q != nullptr && before.quantized.scale == consumer.activation_scale());
    return serves ? before : PrepareUnfused(normed_, rows, config.width, consumer, team);
  };
  ShowInput(InputObserver::Input::kAttention, index, layer.attn_norm, layer.attn_norm_bias, rows,
            team);
  norm(layer.attn_norm, layer.attn_norm_bias);
  if (config.has_attention(index)) {
    Activations normed = PrepareUnfused(normed_, rows, config.width, layer.q, team);
    float* out = qkv_;
    const auto project = [&](const Projection& projection, int columns) {
      normed = prepared(normed, projection);
      multiply(projection, normed, out, qkv_columns_);
      out += columns;
    };
    project(layer.q, config.q_rows(index));
    if (config.owns_kv(index)) project(layer.k, config.kv_rows(index));
    if (config.owns_kv(index) && config.has_values(index)) project(layer.v, config.kv_rows(index));
    if (config.attention_gate) project(layer.q_gate, config.q_rows(index));
    if (config.laurel_rank != 0) AddLaurel(index, rows, team);
    RopeAppend(index, batch, team);
    Attend(index, batch, team);
    if (config.attention_gate) GateAttention(rows, team);
    if (config.inner_norms) {
      const int count = config.attended_rows(index);
      team.ForEachRow(rows, [&](size_t row) {
        float* const attended = attn_ + row * static_cast<size_t>(config.q_rows(index));
        kernels_.rows.rms_norm(attended, layer.attn_inner_norm, config.norm_eps, count, attended);
      });
    }
    multiply(layer.attn_output,
             PrepareUnfused(attn_, rows, config.q_rows(index), layer.attn_output, team), sum_,
             config.width);
  }
  if (config.is_recurrent(index)) {
    const RecurrentWeights& recurrent = layer.recurrent;
    multiply(recurrent.in, PrepareUnfused(normed_, rows, config.width, recurrent.in, team),
             state_rows_, recurrent_columns_);
    Recur(index, batch, team);
    if (config.has_attention(index)) add_sum(nullptr);  // attention's outputs; normed_ stays
    multiply(recurrent.out, PrepareUnfused(state_out_, rows, recurrent_.inner, recurrent.out, team),
             sum_, config.width);
  }
  // With parallel parts the feed-forward reads the residual stream before attention is added.
  const bool mixes = config.has_attention(index) || config.is_recurrent(index);
  if (!config.parallel && mixes)
    add_sum(layer.attn_after_norm, config.laurel_rank != 0 ? &kLaurelScale : nullptr);
  if (!config.has_feed_forward(index)) return;
  ShowInput(InputObserver::Input::kFeedForward, index, layer.ffn_norm, layer.ffn_norm_bias, rows,
            team);
  norm(layer.ffn_norm, layer.ffn_norm_bias);
  if (config.parallel) add_sum(layer.attn_after_norm);
  if (config.gated) {
    const Activations for_gate = PrepareUnfused(normed_, rows, config.width, layer.gate, team);
    multiply(layer.gate, for_gate, gate_, feed_forward);
    multiply(layer.up, prepared(for_gate, layer.up), up_, feed_forward);
  } else {
    multiply(layer.up, PrepareUnfused(normed_, rows, config.width, layer.up, team), gate_,
             feed_forward);
  }
  team.ForEachRow(rows, [&](size_t row) {
    float* gate = gate_ + row * ffn;
    if (!config.gated) return Activate(index, config.feed_forward, gate);
    const float* up = up_ + row * ffn;
    if (config.cuts_gates(index)) CutGates(index, gate);
    if (config.inner_norms) return ApplyGate(index, gate, up);
    if (config.gate == GateKind::kSilu) return kernels_.rows.silu_mul(gate, up, feed_forward, gate);
    for (size_t i = 0; i < ffn; ++i) gate[i] = GeluTanh(gate[i]) * up[i];
  });
  multiply(layer.down, PrepareUnfused(gate_, rows, feed_forward, layer.down, team), sum_,
           config.width);
  const bool last = config.layer_inputs == 0;
  add_sum(layer.ffn_after_norm, last ? layer.output_scale : nullptr);
  if (!last) AddLayerInput(index, batch, team);
}

// Norm, quantise, all logits to memory, then the greatest of each row.
void Decoder::UnfusedHead(const HeadBatch& batch, Team& team) {
  const ModelConfig& config = weights_->config();
  const Projection& head = weights_->head();
  const int rows = static_cast<int>(batch.rows.size());
  const auto width = static_cast<size_t>(config.width);
  const auto stride = static_cast<size_t>(logits_stride());
  team.ForEachRow(rows, [&](size_t i) {
    const auto row = static_cast<size_t>(batch.rows[i]);
    NormRow(x_ + row * width, weights_->output_norm(), weights_->output_norm_bias(),
            normed_ + i * width);
  });
  Project(head, PrepareUnfused(normed_, rows, config.width, head, team), Epilogue::kStore, logits_,
          stride, nullptr, team);
  // One worker's states hold all rows.
  team.ForEach(1, 1, [&](int, int) {
    ++head_round_;
    workers_[0].best_round = head_round_;
    std::fill_n(workers_[0].best, rows, kernels::ArgmaxState{});
  });
  team.ForEachRow(rows, [&](size_t i) {
    const float* row = logits_ + i * stride;
    const int32_t id = kernels_.rows.argmax(row, config.vocab_size);
    // A row of NaN has no maximum, so the state stays unchanged.
    if (row[id] > workers_[0].best[i].value) workers_[0].best[i] = {row[id], id};
    if (!batch.logits.empty() && batch.logits[i] != nullptr)
      std::transform(row, row + config.vocab_size, batch.logits[i], [&](float logit) {
        const float cap = config.logit_softcap;
        return cap == 0 ? logit : cap * std::tanh(logit / cap);
      });
  });
}

}  // namespace tutti::model
