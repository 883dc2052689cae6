#include "model/encoder.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "model/bump_allocator.h"
#include "model/smooth_quant.h"

namespace tutti::model {
namespace {

using kernels::Epilogue;

// Rows a worker embeds, norms or quantises at a time.
constexpr int kRowGranule = 4;
// Rows of a text that a worker takes through the dense modules or the lexical head at a time.
constexpr int kOutputRows = 8;

}  // namespace

Encoder::Encoder(std::shared_ptr<const EncoderWeights> weights, const kernels::KernelTable& kernels,
                 const Options& options)
    : weights_(std::move(weights)),
      kernels_(kernels),
      options_(options),
      shape_{weights_->config().heads, weights_->config().head_dim(),
             1.0f / std::sqrt(static_cast<float>(weights_->config().head_dim() *
                                                 weights_->config().score_terms))} {}

Result<std::unique_ptr<Encoder>> Encoder::Create(std::shared_ptr<const EncoderWeights> weights,
                                                 const kernels::KernelTable& kernels,
                                                 const Options& options) {
  CHECK(options.workers >= 1 && options.max_rows >= 1 && options.max_scored >= 0);
  std::unique_ptr<Encoder> encoder(new Encoder(std::move(weights), kernels, options));
  CHECK(kernels::SpanAttentionShapeFault(encoder->shape_) == nullptr);
  RETURN_IF_ERROR(encoder->Allocate());
  return encoder;
}

Status Encoder::Allocate() {
  const EncoderConfig& config = weights_->config();
  const auto rows = static_cast<size_t>(options_.max_rows);
  const auto width = static_cast<size_t>(kernels::RoundUpToPanel(config.width));
  const auto wide = static_cast<size_t>(kernels::RoundUpToPanel(config.feed_forward));
  int max_cols = std::max(config.width, config.feed_forward);
  output_cols_ = width;
  for (size_t i = 0; i < config.dense.size(); ++i) {
    max_cols = std::max(max_cols, config.dense[i].in);
    output_cols_ = std::max(output_cols_, static_cast<size_t>(weights_->dense()[i].weight.rows));
  }
  if (config.lexical)
    output_cols_ = std::max(output_cols_, static_cast<size_t>(weights_->lexical().out.weight.rows));
  const bool outputs = config.lexical || !config.dense.empty();
  const auto workers = static_cast<size_t>(options_.workers);
  gemm_scratch_.resize(workers);
  attention_scratch_.resize(workers);
  outputs_.resize(workers);
  const auto carve = [&](std::byte* base) {
    BumpAllocator carver(base);
    x_ = carver.Take<float>(rows * width);
    qkv_ = carver.Take<float>(rows * 3 * width);
    attn_ = carver.Take<float>(rows * width);
    sum_ = carver.Take<float>(rows * width);
    wide_ = carver.Take<float>(rows * wide);
    if (!config.labels.empty()) {
      scores_ = carver.Take<float>(static_cast<size_t>(options_.max_scored) *
                                   static_cast<size_t>(weights_->head().out.weight.rows));
    }
    if (weights_->dtype() != EncoderDType::kF32) {  // of 16 bits some kernels quantise, too
      quantized_ = carver.Take<std::byte>(kernels::QuantizedRowsBytes(options_.max_rows, max_cols));
    }
    for (size_t w = 0; w < workers; ++w) {
      gemm_scratch_[w] =
          carver.Take<std::byte>(kernels::GemmScratchBytes(options_.max_rows, max_cols));
      if (outputs) outputs_[w] = carver.Take<float>(2 * kOutputRows * output_cols_);
      attention_scratch_[w] = carver.Take<std::byte>(kernels::SpanAttentionScratchBytes(shape_));
    }
    return carver.used();
  };
  ASSIGN_OR_RETURN(memory_, kernels::AlignedBuffer::Allocate(carve(nullptr)));
  carve(memory_.data());
  // One item for each text, and few more where the workers share them (PlanSpanAttention).
  items_.reserve(static_cast<size_t>(options_.max_rows) + 16 * workers);
  return OkStatus();
}

void Encoder::Prepare(const EncoderBatch& batch) {
  const EncoderConfig& config = weights_->config();
  CHECK(!batch.offsets.empty() && batch.offsets.front() == 0);
  CHECK_EQ(static_cast<size_t>(batch.offsets.back()), batch.tokens.size());
  CHECK(batch.tokens.size() >= 1 && batch.tokens.size() <= static_cast<size_t>(options_.max_rows));
  CHECK(batch.types.empty() || batch.types.size() == batch.tokens.size());
  CHECK(batch.scored.empty() || !config.labels.empty());
  CHECK(batch.scored.size() <= static_cast<size_t>(options_.max_scored) &&
        batch.scored.size() <= batch.tokens.size());
  for (size_t i = 1; i < batch.offsets.size(); ++i) {
    const int tokens = batch.offsets[i] - batch.offsets[i - 1];
    CHECK(tokens >= 1 && tokens <= config.longest()) << tokens;
  }
  kernels::PlanSpanAttention(shape_, batch.offsets, options_.workers, items_);
}

void Encoder::Run(const EncoderBatch& batch, Team& team) {
  Embed(batch, team);
  for (int i = 0; i < weights_->config().layers; ++i) Layer(i, batch, team);
  const int rows = static_cast<int>(batch.tokens.size());
  if (weights_->config().norm_first) Norm(weights_->final_norm(), x_, nullptr, rows, x_, team);
  if (!batch.scored.empty()) Score(batch, team);
}

// work(row, position) for every row of the batch.
template <typename Work>
void Encoder::ForEachPlace(const EncoderBatch& batch, Team& team, const Work& work) {
  const int first = weights_->config().first_position;
  team.ForEach(static_cast<int>(batch.tokens.size()), kRowGranule, [&](int begin, int end) {
    auto text = std::upper_bound(batch.offsets.begin(), batch.offsets.end(), begin) - 1;
    for (int r = begin; r < end; ++r) {
      while (r >= text[1]) ++text;
      work(static_cast<size_t>(r), static_cast<size_t>(first + r - text[0]));
    }
  });
}

void Encoder::Embed(const EncoderBatch& batch, Team& team) {
  const EncoderConfig& config = weights_->config();
  const auto width = static_cast<size_t>(config.width);
  const LayerNormWeights& norm = weights_->embedding_norm();
  ForEachPlace(batch, team, [&](size_t row, size_t place) {
    float* x = x_ + row * width;
    const float* word = weights_->words() + static_cast<size_t>(batch.tokens[row]) * width;
    std::copy(word, word + width, x);
    if (config.token_types > 0) {
      const size_t type = batch.types.empty() ? 0 : batch.types[row];
      kernels_.rows.add(x, weights_->types() + type * width, config.width);
    }
    const float* added =
        weights_->positions() == nullptr ? nullptr : weights_->positions() + place * width;
    kernels_.rows.layer_norm(x, added, norm.weight, norm.bias, config.norm_eps, config.width, x);
  });
}

// Pairs are halves of a head apart: (x, y) -> (x cos - y sin, y cos + x sin).
void Encoder::Rotate(const kernels::RopeTable& angles, const EncoderBatch& batch, Team& team) {
  const EncoderConfig& config = weights_->config();
  const auto width = static_cast<size_t>(config.width);
  const auto half = static_cast<size_t>(config.head_dim()) / 2;
  ForEachPlace(batch, team, [&](size_t row, size_t place) {
    const float* cosine = angles.data() + place * 2 * half;
    const float* sine = cosine + half;
    float* const end = qkv_ + row * 3 * width + 2 * width;  // queries, then keys
    for (float* x = end - 2 * width; x != end; x += 2 * half) {
      for (size_t i = 0; i < half; ++i) {
        const float a = x[i], b = x[half + i];
        x[i] = a * cosine[i] - b * sine[i];
        x[half + i] = b * cosine[i] + a * sine[i];
      }
    }
  });
}

void Encoder::Layer(int index, const EncoderBatch& batch, Team& team) {
  const EncoderConfig& config = weights_->config();
  const int rows = static_cast<int>(batch.tokens.size());
  const bool first = config.norm_first;
  const Epilogue activation = !config.gated ? Epilogue::kGelu
                              : config.activation_function == Activation::kSilu
                                  ? Epilogue::kSwiGlu
                                  : Epilogue::kGeGluErf;
  const EncoderLayer& layer = weights_->layer(index);
  EncoderPeaks::Layer* peaks =
      peaks_ != nullptr ? &peaks_->layers[static_cast<size_t>(index)] : nullptr;
  // With norms first the sums are written where the residual stream is, and sum_ holds the norm's
  // result.
  float* const added = first ? x_ : sum_;
  const Epilogue add = first ? Epilogue::kAdd : Epilogue::kStore;
  const auto input_of = [&](const LayerNormWeights& norm) {
    if (!first || norm.weight == nullptr) return x_;
    Norm(norm, x_, nullptr, rows, sum_, team);
    return sum_;
  };

  const float* input = input_of(layer.attn_norm);
  if (peaks != nullptr) Observe(input, rows, peaks->qkv, team);
  Apply(layer.qkv, input, sum_, rows, Epilogue::kStore, qkv_, team);
  Attend(index, batch, team);
  Apply(layer.attn_output, attn_, attn_, rows, add, added, team);
  if (!first) Norm(layer.attn_norm, x_, sum_, rows, x_, team);

  input = input_of(layer.ffn_norm);
  if (peaks != nullptr) Observe(input, rows, peaks->up, team);
  Apply(layer.up, input, sum_, rows, activation, wide_, team);
  if (peaks != nullptr) Observe(wide_, rows, peaks->down, team);
  Apply(layer.down, wide_, wide_, rows, add, added, team);
  if (!first) Norm(layer.ffn_norm, x_, sum_, rows, x_, team);
}

void Encoder::Observe(const float* x, int rows, std::vector<float>& peaks, Team& team) {
  team.ForEachInOrder(1, [&](int) {
    RaiseToMagnitudes({x, static_cast<size_t>(rows) * peaks.size()}, peaks);
  });
}

void Encoder::Quantize(const Linear& linear, const float* x, float* staging,
                       const kernels::QuantizedRows& out, Team& team) {
  const auto columns = static_cast<size_t>(out.cols);
  kernels::QuantizeArgs args;
  args.x = linear.input_factors != nullptr ? staging : x;
  args.x_stride = columns;
  args.out = out;
  team.ForEach(out.rows, kRowGranule, [&](int begin, int end) {
    for (int r = begin; r < end && linear.input_factors != nullptr; ++r) {
      const size_t at = static_cast<size_t>(r) * columns;
      kernels_.rows.multiply(x + at, linear.input_factors, out.cols, staging + at);
    }
    kernels_.gemm.quantize(args, begin, end);
  });
}

void Encoder::Apply(const Linear& linear, const float* x, float* staging, int rows,
                    Epilogue epilogue, float* out, Team& team) {
  kernels::GemmArgs args;
  args.weight = linear.weight;
  args.rows = rows;
  args.epilogue = epilogue;
  args.bias = linear.bias;
  args.out = out;
  args.out_stride = static_cast<size_t>(linear.weight.rows) / (kernels::IsGated(epilogue) ? 2 : 1);
  if (kernels::IsQuantized(linear.weight.format)) {
    const kernels::ScalePer scale = kernels::ActivationScale(linear.weight.format);
    args.x = kernels::MakeQuantizedRows(quantized_, rows, linear.weight.cols, scale,
                                        kernels_.gemm.tile_rows(rows, scale));
    Quantize(linear, x, staging, args.x, team);
  } else {
    args.x_f32 = x;
    args.x_stride = static_cast<size_t>(linear.weight.cols);
  }
  std::byte* scratch = gemm_scratch_[static_cast<size_t>(team.worker())];
  team.ForEach(kernels::PanelCount(linear.weight), 1,
               [&](int begin, int end) { kernels_.gemm.gemm(args, begin, end, scratch); });
}

void Encoder::Attend(int layer, const EncoderBatch& batch, Team& team) {
  const EncoderConfig& config = weights_->config();
  const auto width = static_cast<size_t>(config.width);
  const bool windowed = config.has_window(layer);
  if (config.rope_base > 0) Rotate(weights_->rope(windowed), batch, team);
  kernels::SpanAttentionArgs args{};
  args.shape = shape_;
  args.qkv = qkv_;
  args.stride = 3 * width;
  args.q_column = 0;
  args.k_column = width;
  args.v_column = 2 * width;
  args.out = attn_;
  args.out_stride = width;
  args.bias = weights_->distance(windowed).zero();
  args.bias_stride = weights_->distance(windowed).stride();
  args.reach = windowed ? config.window : 0;
  if (weights_->relative() != nullptr) args.relative = weights_->relative()->layer(layer);
  std::byte* scratch = attention_scratch_[static_cast<size_t>(team.worker())];
  team.ForEachInOrder(static_cast<int>(items_.size()), [&](int item) {
    kernels_.span_attention.run_item(args, items_[static_cast<size_t>(item)], scratch);
  });
}

void Encoder::Norm(const LayerNormWeights& norm, const float* x, const float* sum, int rows,
                   float* out, Team& team) {
  const EncoderConfig& config = weights_->config();
  const auto width = static_cast<size_t>(config.width);
  team.ForEach(rows, kRowGranule, [&](int begin, int end) {
    for (int r = begin; r < end; ++r) {
      const size_t at = static_cast<size_t>(r) * width;
      kernels_.rows.layer_norm(x + at, sum == nullptr ? nullptr : sum + at, norm.weight, norm.bias,
                               config.norm_eps, config.width, out + at);
    }
  });
}

// Reuses what the layers are done with: the attention's output for the chosen rows, the sums for
// the pooled ones.
void Encoder::Score(const EncoderBatch& batch, Team& team) {
  const EncoderConfig& config = weights_->config();
  const EncoderHead& head = weights_->head();
  const auto width = static_cast<size_t>(config.width);
  const int count = static_cast<int>(batch.scored.size());
  const Pooling pooling = config.head.mean ? Pooling::kMean : Pooling::kCls;
  team.ForEachRow(count, [&](size_t i) {
    const int32_t first = batch.scored[i];
    const int32_t end = *std::upper_bound(batch.offsets.begin(), batch.offsets.end(), first);
    PoolRows(x_ + static_cast<size_t>(first) * width, end - first, config.width, pooling,
             attn_ + i * width);
  });
  const bool gelu = config.head.activation == Activation::kGelu;
  Apply(head.dense, attn_, attn_, count, gelu ? Epilogue::kGelu : Epilogue::kStore, sum_, team);
  team.ForEach(gelu ? 0 : count, 1, [&](int begin, int end) {
    const bool relu = config.head.activation == Activation::kRelu;
    float* const last = sum_ + static_cast<size_t>(end) * width;
    for (float* x = sum_ + static_cast<size_t>(begin) * width; x != last; ++x)
      *x = relu ? (*x < 0 ? 0 : *x) : std::tanh(*x);
  });
  if (head.norm.weight != nullptr) Norm(head.norm, sum_, nullptr, count, sum_, team);
  Apply(head.out, sum_, sum_, count, Epilogue::kStore, scores_, team);
}

void Encoder::Multiply(const Linear& linear, const float* x, int rows, Epilogue epilogue,
                       int worker, float* out) {
  kernels::GemmArgs args;
  args.weight = linear.weight;
  args.rows = rows;
  args.epilogue = epilogue;
  args.bias = linear.bias;
  args.x_f32 = x;
  args.x_stride = static_cast<size_t>(linear.weight.cols);
  args.out = out;
  args.out_stride = static_cast<size_t>(linear.weight.rows);
  kernels_.gemm.gemm(args, 0, kernels::PanelCount(linear.weight),
                     gemm_scratch_[static_cast<size_t>(worker)]);
}

void Encoder::Project(float* x, float* other, int rows, int worker) {
  const std::vector<DenseModule>& modules = weights_->config().dense;
  for (size_t i = 0; i < modules.size(); ++i) {
    const Linear& linear = weights_->dense()[i];
    Multiply(linear, x, rows, Epilogue::kStore, worker, other);
    // Rows lie one after another without the padding of the matrix.
    const auto columns = static_cast<size_t>(modules[i].out);
    const auto padded = static_cast<size_t>(linear.weight.rows);
    for (size_t r = 0; r < static_cast<size_t>(rows); ++r) {
      for (size_t c = 0; c < columns; ++c) {
        const float value = other[r * padded + c];
        x[r * columns + c] =
            modules[i].activation ? Activate(*modules[i].activation, value) : value;
      }
    }
  }
}

void Encoder::WriteVector(int first_row, int rows, int worker, std::span<float> out) {
  const EncoderConfig& config = weights_->config();
  const auto width = static_cast<size_t>(config.width);
  const float* x = x_ + static_cast<size_t>(first_row) * width;
  if (config.lexical) return WriteLexical(x, rows, worker, out);
  if (config.dense.empty()) return PoolRows(x, rows, config.width, config.pooling, out.data());
  float* const pooled = outputs_[static_cast<size_t>(worker)];
  PoolRows(x, rows, config.width, config.pooling, pooled);
  Project(pooled, pooled + kOutputRows * output_cols_, 1, worker);
  std::copy(pooled, pooled + out.size(), out.begin());
}

void Encoder::WriteTokens(int first_row, int rows, int worker, std::span<float> out) {
  const EncoderConfig& config = weights_->config();
  const auto width = static_cast<size_t>(config.width);
  const float* x = x_ + static_cast<size_t>(first_row) * width;
  if (!config.per_token) {
    std::copy(x, x + out.size(), out.begin());
    return;
  }
  const auto columns = static_cast<size_t>(config.token_width());
  float* const scratch = outputs_[static_cast<size_t>(worker)];
  for (int begin = 0; begin < rows; begin += kOutputRows) {
    const int count = std::min(kOutputRows, rows - begin);
    const float* from = x + static_cast<size_t>(begin) * width;
    std::copy(from, from + static_cast<size_t>(count) * width, scratch);
    Project(scratch, scratch + kOutputRows * output_cols_, count, worker);
    std::copy(scratch, scratch + static_cast<size_t>(count) * columns,
              out.data() + static_cast<size_t>(begin) * columns);
  }
}

// ReLU and log grow with their argument, so the greatest is taken first.
void Encoder::WriteLexical(const float* x, int rows, int worker, std::span<float> out) {
  const EncoderConfig& config = weights_->config();
  const LexicalHead& head = weights_->lexical();
  const auto width = static_cast<size_t>(config.width);
  const auto padded = static_cast<size_t>(head.out.weight.rows);
  float* const hidden = outputs_[static_cast<size_t>(worker)];
  float* const logits = hidden + kOutputRows * output_cols_;
  const auto weigh = [&](float value) {
    value = std::log1p(value < 0 ? 0 : value);
    return config.lexical->log_twice ? std::log1p(value) : value;
  };
  std::fill(out.begin(), out.end(), 0.0f);
  for (int begin = 0; begin < rows; begin += kOutputRows) {
    const int count = std::min(kOutputRows, rows - begin);
    Multiply(head.dense, x + static_cast<size_t>(begin) * width, count, Epilogue::kGelu, worker,
             hidden);
    for (size_t r = 0; r < static_cast<size_t>(count); ++r) {
      float* row = hidden + r * width;
      kernels_.rows.layer_norm(row, nullptr, head.norm.weight, head.norm.bias, config.norm_eps,
                               config.width, row);
    }
    Multiply(head.out, hidden, count, Epilogue::kStore, worker, logits);
    for (size_t r = 0; r < static_cast<size_t>(count); ++r) {
      for (size_t v = 0; v < out.size(); ++v) {
        const float logit = logits[r * padded + v];
        out[v] = config.lexical->sum ? out[v] + weigh(logit) : PoolMax(out[v], logit);
      }
    }
  }
  if (config.lexical->sum) return;
  for (float& value : out) value = weigh(value);
}

const float* Encoder::scores(int index) const {
  return scores_ +
         static_cast<size_t>(index) * static_cast<size_t>(weights_->head().out.weight.rows);
}

float PoolMax(float a, float b) {
  if (!std::isfinite(a)) return a;
  return std::isfinite(b) ? std::max(a, b) : b;
}

float Activate(Activation activation, float x) {
  switch (activation) {
    case Activation::kGelu:
      return 0.5f * x * (1.0f + std::erf(x * 0.70710678f));
    case Activation::kSilu:
      return x / (1.0f + std::exp(-x));
    case Activation::kRelu:
      return x < 0 ? 0 : x;
    case Activation::kTanh:
      return std::tanh(x);
  }
  return x;
}

void PoolRows(const float* rows, int count, int width, Pooling pooling, float* out) {
  CHECK_GE(count, 1);
  const auto row = [&](int r) {
    return rows + static_cast<size_t>(r) * static_cast<size_t>(width);
  };
  if (pooling == Pooling::kCls || pooling == Pooling::kLast) {
    const float* chosen = row(pooling == Pooling::kCls ? 0 : count - 1);
    std::copy(chosen, chosen + width, out);
    return;
  }
  for (int i = 0; i < width; ++i) {
    double sum = 0;
    float greatest = row(0)[i];
    for (int r = 0; r < count; ++r) {
      sum += row(r)[i];
      greatest = PoolMax(greatest, row(r)[i]);
    }
    out[i] = pooling == Pooling::kMax ? greatest : static_cast<float>(sum / count);
  }
}

}  // namespace tutti::model
