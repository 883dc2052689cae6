#include "model/decoder.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "kernels/attention_plan.h"
#include "model/bump_allocator.h"

namespace tutti::model {
namespace {

using kernels::Epilogue;

// Up to this many activations (rows x columns), every worker quantises all of them for itself: that
// takes less time than a barrier before reading what the others quantised, and the cache lines of a
// register tile's scales are not written by two cores in turn.
constexpr int kOwnCopyFloats = 9216;
bool EachConverts(int workers, int rows, int cols) {
  return workers > 1 && rows * cols <= kOwnCopyFloats;
}
// Cache lines of keys and values prefetched before a layer's attention: 256 KiB, a part of an L2.
constexpr int32_t kAheadLines = 4096;
// A worker's share of a matrix product is cut into pieces, which idle workers may take. Each piece
// still takes some microseconds, and a worker that finishes first waits for at most one piece.
int PiecesFor(const Projection& projection, int rows, const Team& team) {
  constexpr int64_t kPieceProducts = int64_t{1} << 20;
  const int64_t products = int64_t{rows} * projection.panels() * kernels::kPanelRows *
                           projection.parts[0].cols / team.workers();
  return static_cast<int>(std::clamp<int64_t>(products / kPieceProducts, 2, 16));
}

kernels::RopeTable MakeRope(const ModelConfig& config, int context) {
  if (config.rope_mode == kernels::RopeMode::kNone) return {};
  kernels::RopeParams params{};
  params.dims = config.rope_dims;
  params.freq_base = config.rope_freq_base;
  params.linear_factor = config.rope_linear_factor;
  params.freq_factors =
      context > config.context_length ? config.rope_long_factors : config.rope_freq_factors;
  params.magnitude = config.rope_magnitude;
  return kernels::RopeTable(params, context);
}

kernels::RopeTable MakeWindowRope(const ModelConfig& config, int context) {
  if (config.rope_mode == kernels::RopeMode::kNone || config.rope_window_freq_base == 0) return {};
  kernels::RopeParams params{};
  params.dims = config.attention_shape(/*of_window=*/true).rope_dims;
  params.freq_base = config.rope_window_freq_base;
  return kernels::RopeTable(params, context);
}

// If layers multiply their output by `residual_scale` before adding it, the residual stream is kept
// divided by that scale instead, so that outputs are added unscaled. The norm of the stream is then
// the same with an epsilon divided by the scale's square.
float EpsOfStream(const ModelConfig& config) {
  return static_cast<float>(static_cast<double>(config.norm_eps) /
                            (config.residual_scale * config.residual_scale));
}
float ScaleOfStream(const ModelConfig& config) {
  return static_cast<float>(config.embedding_scale / config.residual_scale);
}

// The most columns that a layer's queries, keys, values and gates take.
int QkvColumns(const Weights& weights) {
  const ModelConfig& config = weights.config();
  if (config.latent_rank != 0) {  // ProjectLatent has its first products where keys will be
    const int begin = config.query_rank == 0 ? 0 : config.q_rows();
    return kernels::RoundUpToPanel(
        std::max(config.q_rows() + 2 * config.kv_rows(), begin + weights.layer(0).qkv.columns()));
  }
  int columns = 0;
  for (int i = 0; i < config.layers; ++i) {
    if (!config.has_attention(i)) continue;
    // Values that are keys have no columns in the projection.
    const int q_and_k = config.q_rows(i) + config.kv_rows(i);
    const int gates = config.attention_gate ? config.kv_rows(i) + config.q_rows(i) : 0;
    // The matrices lie one after another. Each matrix's padding is overwritten by the next one,
    // except for the last one's.
    const int rest = std::max({weights.layer(i).v.columns(), config.kv_rows(i), gates});
    columns = std::max(
        {columns, weights.layer(i).qkv.columns(), kernels::RoundUpToPanel(q_and_k + rest)});
  }
  return columns;
}

// The projection's padding is written too.
int RecurrentColumns(const Weights& weights) {
  int columns = ShapeOfRecurrence(weights.config()).columns;
  for (int i = 0; i < weights.config().layers; ++i)
    columns = std::max(columns, weights.layer(i).recurrent.in.columns());
  return columns;
}

// Address of panel `index`, counted over all parts.
const uint8_t* PanelAt(const Projection& projection, int index) {
  for (const kernels::PackedMatrix& part : projection.parts) {
    const int panels = kernels::PanelCount(part);
    if (index < panels) return part.data + static_cast<size_t>(index) * kernels::PanelBytes(part);
    index -= panels;
  }
  return nullptr;
}

// The weights that this worker reads after panel `end` of `projection`: the rest of its share, else
// its share of `next`.
const uint8_t* ReadNext(const Projection& projection, int end, const Projection* next,
                        const Team& team) {
  const Team::Range share = team.Share(projection.panels());
  if (end > share.begin && end < share.end) return PanelAt(projection, end);
  return next == nullptr ? nullptr : PanelAt(*next, team.Share(next->panels()).begin);
}

}  // namespace

size_t Decoder::KvBlockBytes(const ModelConfig& config, WeightMode mode,
                             const kernels::KernelTable& kernels, KvDtype kv_dtype) {
  return KvGroups::Of(config, KvFormatOf(kv_dtype, mode, kernels), false).full_bytes;
}

size_t Decoder::WindowBlockBytes(const ModelConfig& config, WeightMode mode,
                                 const kernels::KernelTable& kernels, KvDtype kv_dtype) {
  return KvGroups::Of(config, KvFormatOf(kv_dtype, mode, kernels), true).window_bytes;
}

Decoder::Decoder(std::shared_ptr<const Weights> weights, const kernels::KernelTable& kernels,
                 const Options& options)
    : weights_(std::move(weights)),
      kernels_(kernels),
      options_(options),
      shapes_{weights_->config().attention_shape(), weights_->config().attention_shape(true)},
      groups_(KvGroups::Of(weights_->config(),
                           KvFormatOf(options.kv_dtype, weights_->mode(), kernels),
                           options.window_memory)),
      window_plan_(options.window_memory || weights_->config().window_heads_differ()),
      stream_eps_(EpsOfStream(weights_->config())),
      rope_(MakeRope(weights_->config(), options.context)),
      window_rope_(MakeWindowRope(weights_->config(), options.context)),
      qkv_columns_(QkvColumns(*weights_)),
      recurrent_(ShapeOfRecurrence(weights_->config())),
      recurrent_columns_(RecurrentColumns(*weights_)),
      workers_(static_cast<size_t>(options.workers)) {}

Result<std::unique_ptr<Decoder>> Decoder::Create(std::shared_ptr<const Weights> weights,
                                                 const kernels::KernelTable& kernels,
                                                 const Options& options) {
  CHECK(options.workers >= 1 && options.max_rows >= 1 && options.max_head_rows >= 1);
  CHECK(options.context >= 1 && options.context <= weights->config().max_context())
      << options.context;
  for (const bool of_window : {false, true})
    CHECK(kernels::AttentionShapeFault(weights->config().attention_shape(of_window)) == nullptr);
  CHECK(RecurrenceFault(weights->config()) == nullptr);
  CHECK(weights->fused() || !options.lora);
  CHECK(kernels.gemm.bf16_pairs || !weights->bf16_pairs()) << kernels.gemm.name;
  CHECK(kernels.gemm.bf16_tiles || !weights->bf16_tiles()) << kernels.gemm.name;
  std::unique_ptr<Decoder> decoder(new Decoder(std::move(weights), kernels, options));
  RETURN_IF_ERROR(decoder->Allocate());
  return decoder;
}

// The sizes of a mixture's buffers, over all layers.
void Decoder::PlanExperts() {
  const ModelConfig& config = weights_->config();
  if (config.experts == 0) return;
  expert_slots_ = config.experts_used + (config.shared_feed_forward != 0 ? 1 : 0);
  expert_width_ = std::max(config.expert_feed_forward, config.shared_feed_forward);
  for (int i = 0; i < config.layers; ++i) {
    const LayerWeights& layer = weights_->layer(i);
    if (layer.experts.empty()) continue;
    router_stride_ = static_cast<size_t>(layer.router.columns());
    for (int e = 0; e < config.experts + (config.shared_feed_forward != 0 ? 1 : 0); ++e)
      experts_read_floats_ |= ExpertOf(layer, e).down.reads_floats();
  }
}

Status Decoder::Allocate() {
  const ModelConfig& config = weights_->config();
  const int widest =
      std::max({config.width, config.max_q_rows(), recurrent_.inner, config.layer_inputs,
                config.latent_rank, config.query_rank, config.laurel_rank});
  const auto max_rows = static_cast<size_t>(options_.max_rows);
  PlanExperts();
  // No layer may have this width in a mixture.
  int feed_forward = 0, up = 0;  // `up`: where gate and up are stored one behind the other
  for (int i = 0; i < config.layers; ++i) {
    if (config.has_feed_forward(i) && (!config.has_experts(i) || config.dense_and_experts))
      feed_forward = std::max(feed_forward, config.feed_forward_of(i));
    if (config.stores_gate_up(i)) up = std::max(up, config.feed_forward_of(i));
  }
  const int ones = std::max(recurrent_.conv_channels,
                            config.value_norm || config.head_norm == HeadNorm::kUnweighted
                                ? std::max(config.head_dim, config.window_head_dim)
                                : 0);
  if (config.layer_inputs != 0) {
    layer_inputs_stride_ = static_cast<size_t>(weights_->layer_projection().columns());
    layer_gate_stride_ = static_cast<size_t>(weights_->layer(0).input_gate.columns());
  }
  const int max_cols = std::max({widest, feed_forward, expert_width_});
  for (int i = 0; options_.lora && i < config.layers; ++i) {
    lora_gate_up_stride_ =
        std::max(lora_gate_up_stride_, static_cast<size_t>(weights_->layer(i).gate_up.columns()));
  }

  const auto take_activations = [](BumpAllocator& carver, int rows, int cols, int more = 0) {
    ActivationMemory memory;
    memory.quantized = carver.Take<std::byte>(kernels::QuantizedRowsBytes(rows, cols));
    memory.floats =
        carver.Take<float>(static_cast<size_t>(rows) * static_cast<size_t>(cols + more));
    return memory;
  };
  const auto carve = [&](std::byte* base) {
    BumpAllocator carver(base);
    x_ = carver.Take<float>(max_rows * static_cast<size_t>(config.width));
    qkv_ = carver.Take<float>(max_rows *
                              static_cast<size_t>(std::max(qkv_columns_, recurrent_columns_)));
    attn_ = carver.Take<float>(
        max_rows * static_cast<size_t>(std::max(config.max_q_rows(), recurrent_.inner)));
    if (config.latent_rank != 0) {
      expanded_ = carver.Take<float>(
          max_rows * static_cast<size_t>(weights_->layer(0).latent.key_value.columns()));
    }
    state_rows_ = qkv_;
    state_out_ = attn_;
    if (config.attention_with_state) {
      state_rows_ = carver.Take<float>(max_rows * static_cast<size_t>(recurrent_columns_));
      state_out_ = carver.Take<float>(max_rows * static_cast<size_t>(recurrent_.inner));
    }
    shared_ = take_activations(carver, options_.max_rows, widest);
    shared_ffn_ = take_activations(carver, options_.max_rows, feed_forward, up);
    for (Worker& worker : workers_) {
      // One row of kOwnCopyFloats needs as much as any rows x columns of that product, but for
      // rounding to lines, and for the outliers, which count by row.
      worker.own.quantized = carver.Take<std::byte>(
          kernels::QuantizedRowsBytes(1, kOwnCopyFloats) + 7 * 64 +
          kOwnCopyFloats / kernels::kQuantBlock * kernels::kMaxOutliers * sizeof(float));
      worker.own.floats = carver.Take<float>(kOwnCopyFloats);
      worker.gemm = carver.Take<std::byte>(kernels::GemmScratchBytes(options_.max_rows, max_cols));
      worker.attention =
          carver.Take<std::byte>(std::max(kernels_.attention.scratch_bytes(shapes_[0]),
                                          kernels_.attention.scratch_bytes(shapes_[1])));
      worker.best = carver.Take<kernels::ArgmaxState>(static_cast<size_t>(options_.max_head_rows));
      worker.piece_best =
          carver.Take<kernels::ArgmaxState>(static_cast<size_t>(options_.max_head_rows));
    }
    if (options_.lora) {
      lora_ranks_ = carver.Take<float>(max_rows * size_t{kMaxLoraRanks});
      lora_gate_up_ = carver.Take<float>(max_rows * lora_gate_up_stride_);
      for (Worker& worker : workers_)
        worker.lora_rows = carver.Take<float>(size_t{kLoraTile} * static_cast<size_t>(max_cols));
    }
    if (!weights_->fused() || config.norm_after)
      sum_ = carver.Take<float>(max_rows * static_cast<size_t>(config.width));
    if (config.experts != 0) {
      const auto slots = max_rows * static_cast<size_t>(expert_slots_);
      const auto layers = static_cast<size_t>(config.layers);
      const auto experts = static_cast<size_t>(config.experts);
      router_ = carver.Take<float>(max_rows * router_stride_);
      choices_ = carver.Take<ExpertChoice>(slots);
      expert_groups_ = carver.Take<ExpertGroup>(layers * (experts + 2));
      expert_group_counts_ = carver.Take<int32_t>(layers);
      expert_counts_ = carver.Take<int32_t>(experts + 1);
      expert_in_ = carver.Take<std::byte>(slots * kernels::QuantizedRowsBytes(1, config.width));
      expert_gated_.quantized =
          carver.Take<std::byte>(slots * kernels::QuantizedRowsBytes(1, expert_width_));
      if (experts_read_floats_ || !config.gated)
        expert_gated_.floats = carver.Take<float>(slots * static_cast<size_t>(expert_width_));
      expert_out_ = carver.Take<float>(slots * static_cast<size_t>(config.width));
      for (Worker& worker : workers_) worker.expert_row = take_activations(carver, 1, config.width);
    }
    if (config.layer_inputs != 0) {
      layer_inputs_ = carver.Take<float>(max_rows * layer_inputs_stride_);
      layer_gate_ = carver.Take<float>(max_rows * layer_gate_stride_);
      for (Worker& worker : workers_) worker.layer_token = carver.Take<float>(layer_inputs_stride_);
    }
    if (config.streams != 0) {
      streams_ = carver.Take<float>(max_rows * static_cast<size_t>(config.streams) *
                                    static_cast<size_t>(config.width));
      laurel_ = carver.Take<float>(
          max_rows * static_cast<size_t>(weights_->layer(0).streams.laurel_left.columns()));
      for (Worker& worker : workers_)
        worker.stream_row = carver.Take<float>(static_cast<size_t>(config.width));
    }
    if (config.dense_and_experts)
      dense_ = carver.Take<float>(max_rows * static_cast<size_t>(config.width));
    if (ones != 0) ones_ = carver.Take<float>(static_cast<size_t>(ones));
    if (config.recurrence != Recurrence::kNone) {
      key_scale_ = carver.Take<float>(static_cast<size_t>(config.state_keys));
      query_scale_ = carver.Take<float>(static_cast<size_t>(config.state_keys));
    }
    if (!weights_->fused()) {
      normed_ = carver.Take<float>(max_rows * static_cast<size_t>(config.width));
      gate_ = carver.Take<float>(max_rows * static_cast<size_t>(feed_forward));
      up_ = carver.Take<float>(max_rows * static_cast<size_t>(feed_forward));
      logits_ = carver.Take<float>(static_cast<size_t>(options_.max_head_rows) *
                                   static_cast<size_t>(logits_stride()));
    }
    return carver.used();
  };
  ASSIGN_OR_RETURN(memory_, kernels::AlignedBuffer::Allocate(carve(nullptr)));
  carve(memory_.data());
  std::fill_n(ones_, ones, 1.0f);
  if (config.recurrence == Recurrence::kNone) return OkStatus();
  const auto keys = static_cast<float>(config.state_keys);
  std::fill_n(key_scale_, config.state_keys, 1 / std::sqrt(keys));
  std::fill_n(query_scale_, config.state_keys, 1 / keys);
  return OkStatus();
}

namespace {

// Whether layer `index` and those behind it are aborted. One worker decides it in a phase of
// its own, so that all workers stop at the same layer: `*last` changes once, from INT_MAX to the
// index of the first layer that does not run.
bool AbortsBefore(const DecoderBatch& batch, int index, Team& team) {
  if (batch.abort_flag == nullptr || batch.last == nullptr) return false;
  team.ForEach(1, 1, [&](int, int) {
    if (batch.abort_flag->load(std::memory_order_relaxed))
      batch.last->store(index, std::memory_order_release);
  });
  return batch.last->load(std::memory_order_acquire) <= index;
}

}  // namespace

bool Decoder::RunLayers(const DecoderBatch& batch, Team& team) {
  const int rows = static_cast<int>(batch.tokens.size());
  CHECK(rows >= 1 && rows <= options_.max_rows && batch.places.size() == batch.tokens.size())
      << rows;
  CHECK(!batch.states.empty() || recurrent_.state_floats == 0);
  CHECK(options_.lora || batch.lora.groups.empty());
  Worker& worker = workers_[static_cast<size_t>(team.worker())];
  CHECK(options_.window_memory == (batch.window.kv != nullptr));
  const auto list = [&](bool of_window, const kernels::AttentionWork& work, int items, int blocks,
                        kernels::AttentionWindow window) {
    const size_t plan = of_window ? 1 : 0;
    // Offsets do not depend on the layer.
    const kernels::KvLayout& layout = groups_.layout(of_window);
    const kernels::KvLayerView strides{nullptr, layout.head_bytes,
                                       static_cast<size_t>(blocks) * layout.head_bytes};
    worker.kv_run_counts[plan] =
        kernels::ListAttentionReads(work, items, layout, strides, team.worker(), team.workers(),
                                    kAheadLines, worker.kv_runs[plan], window);
  };
  list(false, batch.attention, batch.attention_items, batch.kv_blocks, {});
  if (window_plan_) {
    list(true, batch.window.attention, batch.window.attention_items,
         options_.window_memory ? batch.window.blocks : batch.kv_blocks,
         weights_->config().attention_window());
  }
  ReadKeysAhead(0, batch, team);
  Embed(batch, team);
  if (weights_->config().layer_inputs != 0) EmbedLayers(batch, team);
  if (weights_->config().streams != 0) SpreadStreams(rows, team);
  for (int i = 0; i < weights_->config().layers; ++i) {
    if (AbortsBefore(batch, i, team)) return false;
    if (weights_->fused()) {
      FusedLayer(i, batch, team);
    } else {
      UnfusedLayer(i, batch, team);
    }
  }
  if (weights_->config().streams != 0) MergeStreams(rows, team);
  return true;
}

void Decoder::FusedLayer(int index, const DecoderBatch& batch, Team& team) {
  const ModelConfig& config = weights_->config();
  const LayerWeights& layer = weights_->layer(index);
  const int rows = static_cast<int>(batch.tokens.size());

  Activations gated;  // in memory of the feed-forward, which attention does not touch
  if (config.has_attention(index)) {
    AttentionPart(index, batch, &gated, team);
  } else if (config.is_recurrent(index)) {
    RunState(index, batch, team);
    AddState(index, rows, team);
  }
  if (!config.has_feed_forward(index)) return;
  if (!layer.experts.empty()) {
    ExpertLayer(index, batch, team);
  } else {
    if (!config.parallel) gated = FeedForward(index, rows, batch.lora, team);
    const bool last = config.layer_inputs == 0;
    const Projection* next = last ? &AfterLayer(index) : &layer.input_gate;
    if (last) ReadKeysAhead(index + 1, batch, team);
    AddProduct(layer.down, gated, layer.ffn_after_norm, next, team,
               last ? layer.output_scale : nullptr,
               {&batch.lora, index, LoraPlace::kFeedForwardOutput});
  }
  if (config.layer_inputs != 0) AddLayerInput(index, batch, team);
}

// What a step multiplies next after the whole layer.
const Projection& Decoder::AfterLayer(int index) const {
  return index + 1 < weights_->config().layers ? weights_->layer(index + 1).first()
                                               : weights_->head();
}

// The same after a layer's attention or recurrence. A layer may have no feed-forward.
const Projection& Decoder::AfterAttention(int index) const {
  const LayerWeights& layer = weights_->layer(index);
  if (!weights_->config().has_feed_forward(index)) return AfterLayer(index);
  return weights_->config().parallel ? layer.down : layer.feed_forward();
}

// With parallel parts the feed-forward reads the residual stream before attention is added: `gated`
// becomes what its down projection reads. A recurrence of the same layer reads it then too.
void Decoder::AttentionPart(int index, const DecoderBatch& batch, Activations* gated, Team& team) {
  const ModelConfig& config = weights_->config();
  const LayerWeights& layer = weights_->layer(index);
  const int rows = static_cast<int>(batch.tokens.size());
  const auto width = static_cast<size_t>(config.width);
  const auto q_stride = static_cast<size_t>(config.q_rows(index));

  ShowInput(InputObserver::Input::kAttention, index, layer.attn_norm, layer.attn_norm_bias, rows,
            team);
  Activations normed = Prepare({.x = x_,
                                .stride = width,
                                .rows = rows,
                                .cols = config.width,
                                .norm_weight = layer.attn_norm,
                                .norm_bias = layer.attn_norm_bias},
                               layer.qkv, team);
  if (config.latent_rank != 0) {
    ProjectLatent(index, std::move(normed), team);
  } else {
    const LoraUse lora{&batch.lora, index, LoraPlace::kAttentionInput};
    const auto stride = static_cast<size_t>(qkv_columns_);
    Shrink(lora, normed.source, team);
    Project(layer.qkv, std::move(normed), Epilogue::kStore, qkv_, stride, &layer.attn_output, team);
    Expand(lora, qkv_, stride, team);
  }
  workers_[static_cast<size_t>(team.worker())].ahead = {};
  if (config.laurel_rank != 0) AddLaurel(index, rows, team);
  RopeAppend(index, batch, team);
  Attend(index, batch, team);
  CloseUpHeads(rows, team);
  if (config.attention_gate) GateAttention(rows, team);
  if (config.parallel) *gated = FeedForward(index, rows, batch.lora, team);
  if (config.is_recurrent(index)) RunState(index, batch, team);
  Activations attended = Prepare({.x = attn_,
                                  .stride = q_stride,
                                  .rows = rows,
                                  .cols = config.attended_rows(index),
                                  .norm_weight = layer.attn_inner_norm,
                                  .norm_eps = config.norm_eps},
                                 layer.attn_output, team);
  AddProduct(layer.attn_output, std::move(attended), layer.attn_after_norm, &AfterAttention(index),
             team, config.laurel_rank != 0 ? &kLaurelScale : nullptr,
             {&batch.lora, index, LoraPlace::kAttentionOutput});
  if (config.is_recurrent(index)) AddState(index, rows, team);
}

// What the down projection of a layer reads, from the residual stream as it is.
Decoder::Activations Decoder::FeedForward(int index, int rows, const LoraBatch& lora, Team& team) {
  const ModelConfig& config = weights_->config();
  const LayerWeights& layer = weights_->layer(index);
  ShowInput(InputObserver::Input::kFeedForward, index, layer.ffn_norm, layer.ffn_norm_bias, rows,
            team);
  Activations in = Prepare({.x = x_,
                            .stride = static_cast<size_t>(config.width),
                            .rows = rows,
                            .cols = config.width,
                            .norm_weight = layer.ffn_norm,
                            .norm_bias = layer.ffn_norm_bias},
                           config.gated ? layer.gate_up : layer.up, team);
  if (config.stores_gate_up(index)) return StoredGateUp(index, std::move(in), lora, team);
  if (!config.gated) return UpAlone(index, std::move(in), lora, team);
  const bool stored = UsesLora({&lora, index, LoraPlace::kFeedForwardInput}) ||
                      UsesLora({&lora, index, LoraPlace::kFeedForwardOutput});
  return stored ? GateUpStored(index, std::move(in), lora, team)
                : GateUp(layer.gate_up, layer.down, std::move(in), team);
}

// A norm of one row of the residual stream: RMSNorm, or LayerNorm where there is a bias.
void Decoder::NormRow(const float* x, const float* weight, const float* bias, float* out) const {
  const int width = weights_->config().width;
  if (bias == nullptr) return kernels_.rows.rms_norm(x, weight, stream_eps_, width, out);
  kernels_.rows.layer_norm(x, nullptr, weight, bias, stream_eps_, width, out);
}

// Gives the observer the rows of the residual stream after `norm` (null: as they are), except for
// the first row. Only FindOutliers has an observer: a serving decoder returns at once and allocates
// nothing.
void Decoder::ShowInput(InputObserver::Input input, int layer, const float* norm,
                        const float* norm_bias, int rows, Team& team) {
  if (options_.observer == nullptr) return;
  const auto width = static_cast<size_t>(weights_->config().width);
  team.ForEach(1, 1, [&](int, int) {
    std::vector<float> normed(width);
    for (size_t row = 1; row < static_cast<size_t>(rows); ++row) {
      const float* x = x_ + row * width;
      if (norm != nullptr) NormRow(x, norm, norm_bias, normed.data());
      options_.observer->Observe(input, layer, norm == nullptr ? x : normed.data());
    }
  });
}

void Decoder::FinalRow(int row, float* out) const {
  const ModelConfig& config = weights_->config();
  NormRow(x_ + static_cast<size_t>(row) * static_cast<size_t>(config.width),
          weights_->output_norm(), weights_->output_norm_bias(), out);
  if (config.logit_scale == 1.0) return;
  // The weights of that norm carry it.
  const auto back = static_cast<float>(1.0 / config.logit_scale);
  for (int i = 0; i < config.width; ++i) out[i] *= back;
}

int Decoder::RegionsPerLayer(const ModelConfig& config, bool fused, int workers, int rows) {
  if (config.recurrence != Recurrence::kNone || config.layer_inputs != 0) return 0;
  if (!fused) return 18;
  int regions = 6;            // qkv, rope, attention, output, gate and up, down
  if (config.experts != 0) {  // router, sum of outputs; choosing, grouping and quantising
    regions += 2 + (rows * config.width <= kSerialExpertValues ? 1 : 3);
    if (config.norm_after) --regions;  // the norm is part of the sum
    if (config.dense_and_experts)      // its input, gate and up, down
      regions += 2 + (EachConverts(workers, rows, config.width) ? 0 : 1);
  }
  if (!EachConverts(workers, rows, config.width)) regions += 2;
  if (!EachConverts(workers, rows, config.attended_rows())) regions += 1;
  for (const int rank : {config.latent_rank, config.query_rank}) {
    if (rank != 0) regions += EachConverts(workers, rows, rank) ? 1 : 2;
  }
  if (config.value_width() != config.head_dim) regions += 1;
  if (config.norm_after) regions += 2;
  if (!config.gated || config.inner_norms)
    regions += EachConverts(workers, rows, config.feed_forward) ? 1 : 2;
  return regions;
}

namespace {

// c tanh(logit / c) of some panels' logits, where they are asked for. It keeps their order.
void CapLogits(const ModelConfig& config, const HeadBatch& batch, int begin, int end) {
  const float cap = config.logit_softcap;
  const int last = std::min(end * kernels::kPanelRows, config.vocab_size);
  for (float* const logits : batch.logits) {
    for (int i = begin * kernels::kPanelRows; logits != nullptr && i < last; ++i)
      logits[i] = cap * std::tanh(logits[i] / cap);
  }
}

}  // namespace

void Decoder::RunHead(const HeadBatch& batch, Team& team) {
  const int rows = static_cast<int>(batch.rows.size());
  CHECK(rows >= 1 && rows <= options_.max_head_rows) << rows;
  CHECK(batch.logits.empty() || batch.logits.size() == batch.rows.size());
  if (!weights_->fused()) return UnfusedHead(batch, team);
  const ModelConfig& config = weights_->config();
  const Projection& head = weights_->head();
  team.ForEach(1, 1, [&](int, int) { ++head_round_; });
  Activations in = Prepare({.x = x_,
                            .stride = static_cast<size_t>(config.width),
                            .rows = rows,
                            .cols = config.width,
                            .gather = batch.rows.data(),
                            .norm_weight = weights_->output_norm(),
                            .norm_bias = weights_->output_norm_bias()},
                           head, team);
  // Only the phase may read this: a worker that comes late must not.
  Worker& worker = workers_[static_cast<size_t>(team.worker())];
  team.ForEach(
      head.panels(), 1,
      [&](int begin, int end) {
        kernels::GemmArgs args = ProductOf(head, in);
        args.weight = head.parts[0];
        args.epilogue = Epilogue::kArgmax;
        args.best = worker.piece_best;
        args.logits = batch.logits.empty() ? nullptr : batch.logits.data();
        args.next = ReadNext(head, end, nullptr, team);
        if (worker.best_round != head_round_)
          std::fill_n(worker.best, rows, kernels::ArgmaxState{});
        worker.best_round = head_round_;
        // Pieces come in any order and equal logits must go to the lowest id: each is judged alone,
        // then merged. It begins just below the best so far, since what is less cannot win.
        for (int i = 0; i < rows; ++i) {
          worker.piece_best[i] = {
              std::nextafter(worker.best[i].value, -std::numeric_limits<float>::infinity()),
              kernels::kNoArgmax};
        }
        kernels_.gemm.gemm(args, begin, end, worker.gemm);
        if (config.logit_softcap != 0) CapLogits(config, batch, begin, end);
        for (int i = 0; i < rows; ++i)
          worker.best[i] = kernels::MergeArgmax(worker.best[i], worker.piece_best[i]);
      },
      PiecesFor(head, rows, team));
}

kernels::ArgmaxState Decoder::Best(int i) const {
  kernels::ArgmaxState best;
  for (const Worker& worker : workers_) {
    if (worker.best_round == head_round_) best = kernels::MergeArgmax(best, worker.best[i]);
  }
  return best;
}

void Decoder::Embed(const DecoderBatch& batch, Team& team) {
  const auto width = static_cast<size_t>(weights_->config().width);
  const float scale = ScaleOfStream(weights_->config());
  team.ForEachRow(static_cast<int>(batch.tokens.size()), [&](size_t row) {
    float* x = x_ + row * width;
    kernels::UnpackRow(weights_->embedding(), batch.tokens[row], x);
    for (size_t i = 0; scale != 1 && i < width; ++i) x[i] *= scale;
  });
}

// Activations for `consumer`: complete, or pending until the worker's first piece of the consumer's
// phase.
Decoder::Activations Decoder::Prepare(const Source& source, const Projection& consumer,
                                      Team& team) {
  const bool own = EachConverts(static_cast<int>(workers_.size()), source.rows, source.cols);
  const ActivationMemory& memory = own ? workers_[static_cast<size_t>(team.worker())].own
                                   : source.x == shared_ffn_.floats ? shared_ffn_
                                                                    : shared_;
  Activations out;
  out.rows = source.rows;
  out.pending = own;
  out.source = source;
  if (consumer.reads_quantized()) {
    const kernels::ScalePer scale = consumer.activation_scale();
    out.quantized = kernels::MakeQuantizedRows(memory.quantized, source.rows, source.cols, scale,
                                               kernels_.gemm.tile_rows(source.rows, scale));
    consumer.KeepOutliers(&out.quantized);
  }
  if (source.norm_bias != nullptr) out.normed = memory.floats;
  const bool as_they_are = source.gather == nullptr && source.norm_weight == nullptr;
  if (consumer.reads_floats()) {
    out.floats = as_they_are ? source.x : memory.floats;
    out.stride = as_they_are ? source.stride : static_cast<size_t>(source.cols);
  }
  if (!own) {
    // By register tiles: the scales of a tile's rows share lines.
    team.ForEach(kernels::TileCount(source.rows), 1, [&](int begin, int end) {
      Convert(source, consumer, kernels::TileBegin(source.rows, begin),
              kernels::TileBegin(source.rows, end), out);
    });
  }
  return out;
}

// Rows [begin, end) of `source` into the memory `out` points to.
void Decoder::Convert(const Source& source, const Projection& consumer, int begin, int end,
                      const Activations& out) {
  if (out.normed != nullptr) {
    for (int row = begin; row < end; ++row) {
      const int from = source.gather == nullptr ? row : source.gather[row];
      NormRow(source.x + static_cast<size_t>(from) * source.stride, source.norm_weight,
              source.norm_bias,
              out.normed + static_cast<size_t>(row) * static_cast<size_t>(source.cols));
    }
  }
  if (consumer.reads_quantized()) {
    kernels::QuantizeArgs args;
    args.x = source.x;
    args.x_stride = source.stride;
    args.gather = source.gather;
    args.norm_weight = source.norm_weight;
    args.norm_eps = source.norm_eps == 0 ? stream_eps_ : source.norm_eps;
    if (out.normed != nullptr) {
      args.x = out.normed;
      args.x_stride = static_cast<size_t>(source.cols);
      args.gather = nullptr;
      args.norm_weight = nullptr;
    }
    args.out = out.quantized;
    kernels_.gemm.quantize(args, begin, end);
  }
  if (!consumer.reads_floats() || out.floats == source.x || out.normed != nullptr) return;
  // Not const: Prepare pointed it at this pass's own memory.
  auto* floats = const_cast<float*>(out.floats);
  for (int row = begin; row < end; ++row) {
    const int from = source.gather == nullptr ? row : source.gather[row];
    const float* x = source.x + static_cast<size_t>(from) * source.stride;
    float* to = floats + static_cast<size_t>(row) * out.stride;
    if (source.norm_weight != nullptr) {
      kernels_.rows.rms_norm(x, source.norm_weight,
                             source.norm_eps == 0 ? stream_eps_ : source.norm_eps, source.cols, to);
    } else {
      std::memcpy(to, x, static_cast<size_t>(source.cols) * sizeof(float));
    }
  }
}

// The activations' side of a product, converted now if they were pending. Within a phase of
// `projection` only.
kernels::GemmArgs Decoder::ProductOf(const Projection& projection, Activations& in) {
  if (in.pending) {
    Convert(in.source, projection, 0, in.rows, in);
    in.pending = false;
  }
  kernels::GemmArgs args;
  args.x = in.quantized;
  args.x_f32 = in.floats;
  args.x_stride = in.stride;
  args.rows = in.rows;
  return args;
}

// out (+)= in * projection
void Decoder::Project(const Projection& projection, Activations in, Epilogue epilogue, float* out,
                      size_t out_stride, const Projection* next, Team& team) {
  std::byte* scratch = workers_[static_cast<size_t>(team.worker())].gemm;
  team.ForEach(
      projection.panels(), 1,
      [&](int begin, int end) {
        kernels::GemmArgs args = ProductOf(projection, in);
        args.epilogue = epilogue;
        args.out_stride = out_stride;
        args.next = ReadNext(projection, end, next, team);
        args.ahead = &workers_[static_cast<size_t>(team.worker())].ahead;
        int first_panel = 0;  // of the part
        for (const kernels::PackedMatrix& part : projection.parts) {
          const int panels = kernels::PanelCount(part);
          const int part_begin = std::max(begin - first_panel, 0);
          const int part_end = std::min(end - first_panel, panels);
          if (part_begin < part_end) {
            args.weight = part;
            args.out = out + first_panel * kernels::kPanelRows;
            if (projection.bias != nullptr)
              args.bias = projection.bias + first_panel * kernels::kPanelRows;
            kernels_.gemm.gemm(args, part_begin, part_end, scratch);
          }
          first_panel += panels;
        }
      },
      PiecesFor(projection, in.rows, team));
}

// Adds a part's output to the residual stream, after its norm if it has one. With a norm it may
// multiply the stream by `scale` then.
void Decoder::AddProduct(const Projection& projection, Activations in, const float* after_norm,
                         const Projection* next, Team& team, const float* scale,
                         const LoraUse& lora) {
  const int rows = in.rows;
  const int cols = weights_->config().width;
  const auto width = static_cast<size_t>(cols);
  float* const out = after_norm == nullptr ? x_ : sum_;
  Shrink(lora, in.source, team);
  Project(projection, std::move(in), after_norm == nullptr ? Epilogue::kAdd : Epilogue::kStore, out,
          width, next, team);
  Expand(lora, out, width, team);
  if (after_norm == nullptr) return;
  team.ForEachRow(rows, [&](size_t row) {
    AddNormed(x_ + row * width, sum_ + row * width, after_norm, scale);
  });
}

kernels::Epilogue Decoder::EpilogueOf(GateKind gate) {
  switch (gate) {
    case GateKind::kSilu:
      return Epilogue::kSwiGlu;
    case GateKind::kSiluClamped:
      return Epilogue::kSwiGluClamped;
    case GateKind::kGeluTanh:
      return Epilogue::kGeGlu;
    case GateKind::kRelu2:
    case GateKind::kXielu:
      break;
  }
  CHECK(false) << "an activation of networks without a gate";
  return Epilogue::kStore;
}

// activation(gate) * up in the form that `down` reads.
Decoder::Activations Decoder::GateUp(const Projection& gate_up, const Projection& down,
                                     Activations in, Team& team) {
  const int width = down.parts[0].cols;
  Activations gated;
  gated.rows = in.rows;
  if (down.reads_quantized()) {
    const kernels::ScalePer scale = down.activation_scale();
    gated.quantized = kernels::MakeQuantizedRows(shared_ffn_.quantized, in.rows, width, scale,
                                                 kernels_.gemm.tile_rows(in.rows, scale));
  }
  if (down.reads_floats()) {
    gated.floats = shared_ffn_.floats;
    gated.stride = static_cast<size_t>(width);
  }
  std::byte* scratch = workers_[static_cast<size_t>(team.worker())].gemm;
  team.ForEach(
      gate_up.panels(), kGatedGranule,
      [&](int begin, int end) {
        kernels::GemmArgs args = ProductOf(gate_up, in);
        args.weight = gate_up.parts[0];
        args.epilogue = EpilogueOf(weights_->config().gate);
        args.quantized = gated.quantized;
        if (down.reads_floats()) {
          args.out = shared_ffn_.floats;
          args.out_stride = gated.stride;
        }
        args.next = ReadNext(gate_up, end, &down, team);
        kernels_.gemm.gemm(args, begin, end, scratch);
      },
      PiecesFor(gate_up, gated.rows, team));
  return gated;
}

bool Decoder::InWindowMemory(int layer) const {
  return options_.window_memory && weights_->config().has_window(layer);
}

bool Decoder::InWindowPlan(int layer) const {
  return window_plan_ && weights_->config().has_window(layer);
}

const kernels::AttentionShape& Decoder::ShapeOf(int layer) const {
  return shapes_[weights_->config().has_window(layer) ? 1 : 0];
}

const kernels::KvLayout& Decoder::LayoutOf(int layer) const {
  return groups_.layout(weights_->config().has_window(layer));
}

// A layer's keys and values, or those of the layer that it shares with.
kernels::KvLayerView Decoder::KvOf(int layer, const DecoderBatch& batch) const {
  const bool in_window = InWindowMemory(layer);
  const auto blocks = static_cast<size_t>(in_window ? batch.window.blocks : batch.kv_blocks);
  const kernels::KvLayout& layout = LayoutOf(layer);
  std::byte* const memory = in_window ? batch.window.kv : batch.kv;
  return {memory + blocks * groups_.offset[static_cast<size_t>(layer)], layout.head_bytes,
          blocks * layout.head_bytes};
}

void Decoder::CopyBlock(std::byte* kv, int kv_blocks, int from, int to, Team& team,
                        bool window) const {
  const ModelConfig& config = weights_->config();
  const auto count = static_cast<size_t>(kv_blocks);
  team.ForEach(config.layers, 1, [&](int begin, int end) {
    for (int layer = begin; layer < end; ++layer) {
      if (!config.owns_kv(layer) || InWindowMemory(layer) != window) continue;
      const kernels::KvLayout& layout = LayoutOf(layer);
      std::byte* blocks = kv + count * groups_.offset[static_cast<size_t>(layer)];
      for (int head = 0; head < layout.kv_heads; ++head, blocks += count * layout.head_bytes) {
        std::memcpy(blocks + static_cast<size_t>(to) * layout.head_bytes,
                    blocks + static_cast<size_t>(from) * layout.head_bytes, layout.head_bytes);
      }
    }
  });
}

template <typename Visit>
void Decoder::ForEachHeadOfBlock(int kv_blocks, int block, bool window, const Visit& visit) const {
  const ModelConfig& config = weights_->config();
  const auto count = static_cast<size_t>(kv_blocks);
  for (int layer = 0; layer < config.layers; ++layer) {
    if (!config.owns_kv(layer) || InWindowMemory(layer) != window) continue;
    const kernels::KvLayout& layout = LayoutOf(layer);
    size_t head_begin = count * groups_.offset[static_cast<size_t>(layer)];
    for (int head = 0; head < layout.kv_heads; ++head, head_begin += count * layout.head_bytes)
      visit(head_begin + static_cast<size_t>(block) * layout.head_bytes, layout.head_bytes);
  }
}

void Decoder::PackBlock(const std::byte* kv, int kv_blocks, int block, std::byte* out,
                        bool window) const {
  ForEachHeadOfBlock(kv_blocks, block, window, [&](size_t offset, size_t bytes) {
    std::memcpy(out, kv + offset, bytes);
    out += bytes;
  });
}

void Decoder::UnpackBlock(const std::byte* in, std::byte* kv, int kv_blocks, int block,
                          bool window) const {
  ForEachHeadOfBlock(kv_blocks, block, window, [&](size_t offset, size_t bytes) {
    std::memcpy(kv + offset, in, bytes);
    in += bytes;
  });
}

// Names the keys and values that this worker will read in the layer's attention; the products
// before it prefetch them.
void Decoder::ReadKeysAhead(int layer, const DecoderBatch& batch, const Team& team) {
  Worker& worker = workers_[static_cast<size_t>(team.worker())];
  worker.ahead = {};
  if (layer == weights_->config().layers || !weights_->config().has_attention(layer)) return;
  worker.ahead.base = reinterpret_cast<const uint8_t*>(KvOf(layer, batch).base);
  const size_t plan = InWindowPlan(layer) ? 1 : 0;
  worker.ahead.runs = worker.kv_runs[plan].data();
  worker.ahead.count = worker.kv_run_counts[plan];
}

// Rotates all heads of queries and keys of one row, as rope_append does, for families whose norm
// comes after it. `cos_sin`: those of the row's position.
void Decoder::RotateHeads(const float* cos_sin, float* qkv) const {
  const kernels::AttentionShape& shape = shapes_[0];  // such families have no other
  const int half = shape.rope_dims / 2;
  const bool adjacent = shape.rope_mode == kernels::RopeMode::kAdjacent;
  for (int h = 0; h < shape.heads + shape.kv_heads; ++h) {
    float* head = qkv + h * shape.head_dim;
    for (int i = 0; i < half; ++i) {
      const float cosine = cos_sin[i], sine = cos_sin[half + i];
      float& a = head[adjacent ? 2 * i : i];
      float& b = head[adjacent ? 2 * i + 1 : half + i];
      const float first = a, second = b;
      a = first * cosine - second * sine;
      b = second * cosine + first * sine;
    }
  }
}

// Queries and keys of one row, before they rotate or, with norm_rotated, after.
void Decoder::NormHeads(int index, float* qkv) const {
  const ModelConfig& config = weights_->config();
  if (config.head_norm == HeadNorm::kNone) return;
  const bool unweighted = config.head_norm == HeadNorm::kUnweighted;
  if (unweighted && !config.rotates(index)) return;
  const LayerWeights& layer = weights_->layer(index);
  const int head_dim = config.head_dim_of(index);
  float* keys = qkv + config.q_rows(index);
  const auto norm = [&](float* rows, int count, const float* weight) {
    kernels_.rows.rms_norm(rows, weight, config.norm_eps, count, rows);
  };
  if (config.head_norm == HeadNorm::kWholeRow) {
    norm(qkv, config.q_rows(index), layer.q_norm);
    norm(keys, config.kv_rows(index), layer.k_norm);
    return;
  }
  for (int h = 0; h < config.heads; ++h)
    norm(qkv + h * head_dim, head_dim, unweighted ? ones_ : layer.q_norm);
  if (!config.owns_kv(index)) return;
  for (int h = 0; h < config.kv_heads_of(index); ++h)
    norm(keys + h * head_dim, head_dim, unweighted ? ones_ : layer.k_norm);
}

// Values of one row, in a family that normalises them, from keys that have no norm yet.
void Decoder::NormValues(int index, float* qkv) const {
  const ModelConfig& config = weights_->config();
  if (!config.value_norm || !config.owns_kv(index)) return;
  const int head_dim = config.head_dim_of(index), rows = config.kv_rows(index);
  const float* const keys = qkv + config.q_rows(index);
  float* const values = qkv + config.q_rows(index) + rows;
  const float* const from = config.has_values(index) ? values : keys;
  for (int i = 0; i < rows; i += head_dim)
    kernels_.rows.rms_norm(from + i, ones_, config.norm_eps, head_dim, values + i);
}

// Queries of one row, in a family whose queries grow with the position, in all layers or in those
// that do not rotate.
void Decoder::GrowQueries(int index, int position, float* queries) const {
  const ModelConfig& config = weights_->config();
  if (config.query_growth == 0 || (config.growth_unrotated && config.rotates(index))) return;
  const int periods = (position + config.query_offset) / config.query_period;
  if (periods == 0) return;
  const auto factor = static_cast<float>(1 + config.query_growth * std::log(1.0 + periods));
  for (int i = 0; i < config.q_rows(); ++i) queries[i] *= factor;
}

// Values of one row, in a family that multiplies them.
void Decoder::ScaleValues(float* qkv) const {
  const ModelConfig& config = weights_->config();
  if (config.value_scale == 1) return;
  float* values = qkv + config.q_rows() + config.kv_rows();
  for (int i = 0; i < config.kv_rows(); ++i) values[i] *= static_cast<float>(config.value_scale);
}

void Decoder::RopeAppend(int layer, const DecoderBatch& batch, Team& team) {
  kernels::RopeAppendArgs args{};
  args.shape = ShapeOf(layer);
  args.layout = LayoutOf(layer);
  args.kv = KvOf(layer, batch);
  args.qkv = qkv_;
  args.stride = static_cast<size_t>(qkv_columns_);
  args.rows = (InWindowMemory(layer) ? batch.window.places : batch.places).data();
  const ModelConfig& config = weights_->config();
  if (!config.owns_kv(layer)) args.shape.kv_heads = 0;
  if (!config.rotates(layer)) args.shape.rope_mode = kernels::RopeMode::kNone;
  const bool of_window = config.rope_window_freq_base != 0 && config.has_window(layer);
  args.cos_sin = args.shape.rope_mode == kernels::RopeMode::kNone
                     ? nullptr
                     : (of_window ? window_rope_ : rope_).data();
  const bool latent = config.latent_rank != 0;
  const float* table = config.norm_rotated || latent ? args.cos_sin : nullptr;
  if (table != nullptr) {  // rope_append gets rows that are rotated, and normalised
    args.shape.rope_mode = kernels::RopeMode::kNone;
    args.cos_sin = nullptr;
  }
  team.ForEach(static_cast<int>(batch.tokens.size()), 1, [&](int begin, int end) {
    for (int row = begin; row < end; ++row) {
      float* qkv = qkv_ + static_cast<size_t>(row) * args.stride;
      if (table != nullptr) {
        const float* cos_sin = table + static_cast<size_t>(args.rows[row].position) *
                                           static_cast<size_t>(args.shape.rope_dims);
        if (latent) {
          const int columns = weights_->layer(layer).latent.key_value.columns();
          SpreadLatent(cos_sin, expanded_ + static_cast<size_t>(row) * static_cast<size_t>(columns),
                       qkv);
        } else {
          RotateHeads(cos_sin, qkv);
        }
      }
      NormValues(layer, qkv);
      NormHeads(layer, qkv);
      GrowQueries(layer, args.rows[row].position, qkv);
      ScaleValues(qkv);
    }
    kernels_.attention.rope_append(args, begin, end);
  });
}

void Decoder::Attend(int layer, const DecoderBatch& batch, Team& team) {
  kernels::AttentionArgs args{};
  args.shape = ShapeOf(layer);
  args.layout = LayoutOf(layer);
  args.kv = KvOf(layer, batch);
  args.q = qkv_;
  args.q_stride = static_cast<size_t>(qkv_columns_);
  args.out = attn_;
  args.out_stride = static_cast<size_t>(weights_->config().q_rows(layer));
  args.partials = batch.partials;
  if (weights_->config().has_window(layer)) args.window = weights_->config().attention_window();
  args.sinks = weights_->layer(layer).sinks;
  std::byte* scratch = workers_[static_cast<size_t>(team.worker())].attention;
  const bool window = InWindowPlan(layer);
  const kernels::AttentionWork& work = window ? batch.window.attention : batch.attention;
  team.ForEachInOrder(window ? batch.window.attention_items : batch.attention_items,
                      [&](int item) { kernels_.attention.run_item(args, work, item, scratch); });
}

}  // namespace tutti::model
