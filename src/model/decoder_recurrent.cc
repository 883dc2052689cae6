// The layers without attention: rows of a sequence change its state, one after another.
//
// A recurrence is computed row by row for prompts too: a chunked form has as many multiplications
// for the published sizes of heads, and its sums depend on where chunks begin (decision 0052).
// Sequences, channels and heads are independent, so the workers share these.
#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "model/decoder.h"

namespace tutti::model {

using kernels::Epilogue;

namespace {

constexpr int kChannelsOfItem = 64;

// Calls work(slice, unit) for each pair. Units of one slice lie apart, so that a worker's share has
// a part of a long slice and some short ones.
template <typename Work>
void ForEachUnit(std::span<const StateSlice> slices, int units, Team& team, const Work& work) {
  const auto count = static_cast<int>(slices.size());
  team.ForEach(units * count, 1, [&](int begin, int end) {
    for (int item = begin; item < end; ++item)
      work(slices[static_cast<size_t>(item % count)], item / count);
  });
}

}  // namespace

// From the residual stream to the outputs in state_out_.
void Decoder::RunState(int index, const DecoderBatch& batch, Team& team) {
  const ModelConfig& config = weights_->config();
  const LayerWeights& layer = weights_->layer(index);
  const RecurrentWeights& recurrent = layer.recurrent;
  const int rows = static_cast<int>(batch.tokens.size());
  if (!config.has_attention(index)) {
    ShowInput(InputObserver::Input::kAttention, index, layer.attn_norm, layer.attn_norm_bias, rows,
              team);
  }
  Activations normed = Prepare({.x = x_,
                                .stride = static_cast<size_t>(config.width),
                                .rows = rows,
                                .cols = config.width,
                                .norm_weight = layer.attn_norm},
                               recurrent.in, team);
  Project(recurrent.in, std::move(normed), Epilogue::kStore, state_rows_,
          static_cast<size_t>(recurrent_columns_), &recurrent.out, team);
  Recur(index, batch, team);
}

// Adds those outputs to the residual stream.
void Decoder::AddState(int index, int rows, Team& team) {
  const LayerWeights& layer = weights_->layer(index);
  Activations out = Prepare({.x = state_out_,
                             .stride = static_cast<size_t>(recurrent_.inner),
                             .rows = rows,
                             .cols = recurrent_.inner},
                            layer.recurrent.out, team);
  AddProduct(layer.recurrent.out, std::move(out), layer.attn_after_norm, &AfterAttention(index),
             team);
}

// From the projection's rows in state_rows_ to the outputs in state_out_.
void Decoder::Recur(int index, const DecoderBatch& batch, Team& team) {
  Convolve(index, batch, team);
  if (weights_->config().recurrence == Recurrence::kShortConv) return;
  const RecurrentWeights& layer = weights_->layer(index).recurrent;
  const int rows = static_cast<int>(batch.tokens.size());
  const auto row_at = [this](size_t row) {
    return state_rows_ + row * static_cast<size_t>(recurrent_columns_);
  };
  team.ForEachRow(rows, [&](size_t row) { PrepareRow(layer, row_at(row)); });
  UpdateStates(index, batch, team);
  team.ForEachRow(rows, [&](size_t row) {
    FinishRecurrentRow(layer, row_at(row),
                       state_out_ + row * static_cast<size_t>(recurrent_.inner));
  });
}

// After the convolution: its activation, norms of queries and keys, rates and decays.
void Decoder::PrepareRow(const RecurrentWeights& layer, float* row) const {
  const ModelConfig& config = weights_->config();
  float* convolved = row + recurrent_.conv_begin;
  kernels_.rows.silu_mul(convolved, ones_, recurrent_.conv_channels, convolved);
  float* rates = row + recurrent_.rate;
  float* decays = row + recurrent_.decay;
  switch (config.recurrence) {
    case Recurrence::kNone:
    case Recurrence::kShortConv:
      CHECK(false) << "a layer without rates";
      return;
    case Recurrence::kDeltaNet: {
      // x / sqrt(sum of squares + 1e-6), and queries by 1 / sqrt(keys) too.
      const float eps = 1e-6F / static_cast<float>(config.state_keys);
      for (int group = 0; group < config.state_groups; ++group) {
        float* query = row + recurrent_.query + group * config.state_keys;
        float* key = row + recurrent_.key + group * config.state_keys;
        kernels_.rows.rms_norm(query, query_scale_, eps, config.state_keys, query);
        kernels_.rows.rms_norm(key, key_scale_, eps, config.state_keys, key);
      }
      for (int head = 0; head < config.state_heads; ++head) {
        const float positive = Softplus(decays[head] + layer.rate_bias[head]);
        decays[head] = std::exp(positive * layer.log_decay[head]);
        rates[head] = 1 / (1 + std::exp(-rates[head]));
      }
      return;
    }
    case Recurrence::kMamba2: {
      const auto scale = static_cast<float>(config.state_scales.rate);
      for (int head = 0; head < config.state_heads; ++head) {
        rates[head] = Softplus(rates[head] * scale + layer.rate_bias[head]);
        decays[head] = std::exp(rates[head] * layer.log_decay[head]);
      }
      return;
    }
  }
}

void Decoder::UpdateStates(int index, const DecoderBatch& batch, Team& team) {
  const ModelConfig& config = weights_->config();
  const RecurrentWeights& layer = weights_->layer(index).recurrent;
  const auto place = static_cast<size_t>(groups_.state_place[static_cast<size_t>(index)]);
  const int blocks = (config.state_values + kernels::kStateColumns - 1) / kernels::kStateColumns;
  const int heads_of_group = config.state_heads / config.state_groups;
  ForEachUnit(
      batch.states, config.state_heads * blocks, team, [&](const StateSlice& slice, int unit) {
        const int head = unit / blocks;
        const int group = config.tiled_heads ? head % config.state_groups : head / heads_of_group;
        const int begin = unit % blocks * kernels::kStateColumns;  // in the head's values
        const int column = head * config.state_values + begin;
        const auto first = static_cast<size_t>(slice.first_row);
        const float* row = state_rows_ + first * static_cast<size_t>(recurrent_columns_);
        kernels::RecurrenceArgs args;
        args.keys = config.state_keys;
        args.columns = std::min(kernels::kStateColumns, config.state_values - begin);
        args.rows = slice.rows;
        args.state = reinterpret_cast<float*>(slice.state) + place * recurrent_.state_floats +
                     recurrent_.conv_floats +
                     static_cast<size_t>(column) * static_cast<size_t>(config.state_keys);
        args.query = row + recurrent_.query + group * config.state_keys;
        args.key = row + recurrent_.key + group * config.state_keys;
        args.value = row + recurrent_.value + column;
        args.decay = row + recurrent_.decay + head;
        args.rate = row + recurrent_.rate + head;
        args.stride = static_cast<size_t>(recurrent_columns_);
        args.out = state_out_ + first * static_cast<size_t>(recurrent_.inner) + column;
        args.out_stride = static_cast<size_t>(recurrent_.inner);
        switch (config.recurrence) {
          case Recurrence::kNone:
          case Recurrence::kShortConv:
            CHECK(false) << "a layer without a state of heads";
            return;
          case Recurrence::kDeltaNet:
            return kernels_.recurrent.delta_rule(args);
          case Recurrence::kMamba2:
            args.skip = layer.skip[head];
            return kernels_.recurrent.state_space(args);
        }
      });
}

// The gate and the norm: DeltaNet's norm is of each head and comes first.
void Decoder::FinishRecurrentRow(const RecurrentWeights& layer, float* row, float* out) const {
  const ModelConfig& config = weights_->config();
  const int inner = recurrent_.inner;
  float* gate = row + recurrent_.gate;
  const auto scale = [&](float* values, double factor) {
    for (int i = 0; factor != 1 && i < inner; ++i) values[i] *= static_cast<float>(factor);
  };
  if (config.recurrence == Recurrence::kDeltaNet) {
    for (int head = 0; head < config.state_heads; ++head) {
      float* values = out + head * config.state_values;
      kernels_.rows.rms_norm(values, layer.norm, config.norm_eps, config.state_values, values);
    }
    return kernels_.rows.silu_mul(gate, out, inner, out);
  }
  scale(gate, config.state_scales.gate);
  kernels_.rows.silu_mul(gate, out, inner, out);
  const int groups = config.state_norm_by_group ? config.state_groups : 1;
  const int count = inner / groups;
  for (int i = 0; layer.norm != nullptr && i < inner; i += count)
    kernels_.rows.rms_norm(out + i, layer.norm + i, config.norm_eps, count, out + i);
  scale(out, config.state_scales.output);
}

void Decoder::Convolve(int index, const DecoderBatch& batch, Team& team) {
  const ModelConfig& config = weights_->config();
  const RecurrentWeights& layer = weights_->layer(index).recurrent;
  const bool gated = config.recurrence == Recurrence::kShortConv;
  const auto place = static_cast<size_t>(groups_.state_place[static_cast<size_t>(index)]);
  const int channels = recurrent_.conv_channels;
  const int units = (channels + kChannelsOfItem - 1) / kChannelsOfItem;
  ForEachUnit(batch.states, units, team, [&](const StateSlice& slice, int unit) {
    const auto first = static_cast<size_t>(slice.first_row);
    float* row = state_rows_ + first * static_cast<size_t>(recurrent_columns_);
    kernels::CausalConvArgs args;
    args.taps = config.conv_taps;
    args.channels = channels;
    args.rows = slice.rows;
    args.weight = layer.conv;
    args.bias = layer.conv_bias;
    args.history = reinterpret_cast<float*>(slice.state) + place * recurrent_.state_floats;
    args.x = row + recurrent_.conv_begin;
    args.before = gated ? row : nullptr;
    args.after = gated ? row + config.width : nullptr;
    args.stride = static_cast<size_t>(recurrent_columns_);
    args.out = gated ? state_out_ + first * static_cast<size_t>(recurrent_.inner)
                     : row + recurrent_.conv_begin;
    args.out_stride = static_cast<size_t>(gated ? recurrent_.inner : recurrent_columns_);
    const int begin = unit * kChannelsOfItem;
    kernels_.recurrent.causal_conv(args, begin, std::min(begin + kChannelsOfItem, channels));
  });
}

}  // namespace tutti::model
