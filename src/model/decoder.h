// Decoder: the forward pass of a decoder of any family, written once over the kernels. Differences
// of a family from llama are traits of ModelConfig; a trait that a model lacks costs nothing.
//
// One step runs a batch of rows (tokens of any sequences, any positions) through all layers,
// appends their keys and values to the paged cache, and turns chosen rows into logits or an argmax.
// SPMD: every worker of a team calls the same functions; the work is cut into the team's phases
// (model/team.h). Owner: the runner, one per device; owns its scratch, allocated once, and never
// allocates afterwards. Bits: a row's result depends on its token, its position and the cached rows
// before it, never on the other rows, the number of workers or how the step was cut (reasons:
// gemm.h and attention.h). With weights loaded with fuse = false it runs the same layers one
// operation at a time (decoder_unfused.cc), to measure the gain of fusion. Long, because the verbs
// of a layer share its scratch and its phases.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <numbers>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "kernels/aligned_buffer.h"
#include "kernels/kernels.h"
#include "kernels/rows_rope.h"
#include "model/adapters/lora.h"
#include "model/kv_groups.h"
#include "model/outliers.h"
#include "model/recurrence.h"
#include "model/team.h"
#include "model/weights.h"

namespace tutti::model {

// The number type of keys and values in the KV cache (`--kv-dtype`).
enum class KvDtype {
  kByWeights,  // kInt8; k16Bit for a model served in 16 bits, kF32 for float32
  k16Bit,      // of the table's own kind
  kInt8,       // with a float scale per token and head: half of 16 bits
  kF32,
};

inline kernels::KvFormat KvFormatOf(KvDtype dtype, WeightMode mode,
                                    const kernels::KernelTable& kernels) {
  switch (dtype) {
    case KvDtype::kInt8:
      return kernels::KvFormat::kI8;
    case KvDtype::kF32:
      return kernels::KvFormat::kF32;
    case KvDtype::k16Bit:
      return kernels.attention.native16;
    case KvDtype::kByWeights:
      break;
  }
  if (mode == WeightMode::kF32) return kernels::KvFormat::kF32;
  return mode == WeightMode::kInt8 ? kernels::KvFormat::kI8 : kernels.attention.native16;
}

// The name in the option; fp16 stands for 16 bits of any kind.
inline std::string_view KvFormatName(kernels::KvFormat format) {
  return format == kernels::KvFormat::kF32  ? "fp32"
         : format == kernels::KvFormat::kI8 ? "int8"
                                            : "fp16";
}

// A run of rows of one sequence, positions ascending, and the recurrent state of that sequence.
struct StateSlice {
  int first_row = 0;
  int rows = 0;
  // state_bytes(), on a cache line: float32, the state before the run's first row, and after the
  // step the state after its last one. The caller zeroes it for position 0.
  std::byte* state = nullptr;
};

// The layers with a sliding window in a step, where they have a plan of their own
// (Decoder::has_window_plan).
struct WindowBatch {
  kernels::AttentionWork attention{};  // built for the window and window_shape()
  int attention_items = 0;
  // With Decoder::Options::window_memory; else they are in DecoderBatch's memory.
  std::span<const kernels::RowPlace> places;  // as in DecoderBatch, in this memory
  std::byte* kv = nullptr;                    // blocks * window_block_bytes() bytes:
  int blocks = 0;                             // [layers with a window][kv_heads][blocks]
};

// The rows of a step that use adapters, grouped by adapter.
struct LoraBatch {
  struct Group {
    const LoraAdapter* adapter = nullptr;  // made for the decoder's model
    int32_t begin = 0;                     // in `rows`
    int32_t count = 0;
  };
  std::span<const int32_t> rows;  // of the step, each once; those of a group lie together
  std::span<const Group> groups;  // one for each adapter
};

// The adapters of the rows at one product; none without a batch.
struct LoraUse {
  const LoraBatch* batch = nullptr;
  int layer = 0;
  LoraPlace place = LoraPlace::kAttentionInput;
};

// The rows of one step. Everything it points to stays unchanged during the step.
struct DecoderBatch {
  std::span<const TokenId> tokens;            // [rows], each < vocab_size
  std::span<const kernels::RowPlace> places;  // [rows], each position < context
  kernels::AttentionWork attention{};         // built over the same rows
  int attention_items = 0;
  float* partials = nullptr;  // AttentionPlan::partial_floats()
  std::byte* kv = nullptr;    // the pool, kv_blocks * kv_block_bytes() bytes:
  int kv_blocks = 0;          // [layers with attention][kv_heads][kv_blocks]
  // Every row in one slice, for a model with recurrent states; not read for others.
  std::span<const StateSlice> states{};
  WindowBatch window;
  LoraBatch lora;  // only with Decoder::Options::lora
  // Where both are set, the layers may be aborted: as soon as one of the workers sees `abort_flag`
  // set, none begins layer `*last`, which was INT_MAX before.
  const std::atomic<bool>* abort_flag = nullptr;
  std::atomic<int>* last = nullptr;
};

// Rows that leave the decoder.
struct HeadBatch {
  std::span<const int32_t> rows;  // [n] row of the step, n <= max_head_rows
  // [n] where to put each row's logits ([logits_stride()] floats), or null; or empty for no logits.
  std::span<float* const> logits;
};

class Decoder {
 public:
  struct Options {
    int workers = 1;
    int max_rows = 512;      // rows of one step
    int max_head_rows = 64;  // rows of one HeadBatch
    int context = 0;         // positions, <= config.max_context()
    KvDtype kv_dtype = KvDtype::kByWeights;
    bool window_memory = false;         // layers with a window have memory of their own
    bool lora = false;                  // rows may use adapters; for fused weights
    InputObserver* observer = nullptr;  // outlives the decoder; sees all rows but a step's first
  };
  // Errors: out_of_memory, of its scratch.
  static Result<std::unique_ptr<Decoder>> Create(std::shared_ptr<const Weights> weights,
                                                 const kernels::KernelTable& kernels,
                                                 const Options& options);

  const Options& options() const { return options_; }
  const Weights& weights() const { return *weights_; }
  // Shapes of the layers for DecoderBatch::attention, and for WindowBatch::attention.
  const kernels::AttentionShape& attention_shape() const { return shapes_[0]; }
  const kernels::AttentionShape& window_shape() const { return shapes_[1]; }
  // Whether layers with a window have a plan of their own: they have memory of their own, or heads
  // of another shape.
  bool has_window_plan() const { return window_plan_; }
  // Bytes of KV cache per block of kBlockTokens, all layers together; with window_memory those of
  // the layers without a window, and those of the others.
  size_t scratch_bytes() const { return memory_.size(); }
  size_t kv_block_bytes() const { return groups_.full_bytes; }
  size_t window_block_bytes() const { return groups_.window_bytes; }
  static size_t KvBlockBytes(const ModelConfig& config, WeightMode mode,
                             const kernels::KernelTable& kernels,
                             KvDtype kv_dtype = KvDtype::kByWeights);
  // The part of KvBlockBytes() of layers with a window.
  static size_t WindowBlockBytes(const ModelConfig& config, WeightMode mode,
                                 const kernels::KernelTable& kernels,
                                 KvDtype kv_dtype = KvDtype::kByWeights);
  // Bytes of recurrent state of one sequence, all layers together, a multiple of a cache line; 0
  // for a model without recurrences.
  size_t state_bytes() const { return StateBytes(weights_->config()); }
  static size_t StateBytes(const ModelConfig& config) {
    return static_cast<size_t>(config.recurrent_layers()) * ShapeOfRecurrence(config).state_floats *
           sizeof(float);
  }
  // Copies block `from` to block `to` in all layers of a pool of `kv_blocks` blocks, which is that
  // of the layers with a window if `window`. Every worker calls it; complete when it returns.
  void CopyBlock(std::byte* kv, int kv_blocks, int from, int to, Team& team,
                 bool window = false) const;
  // Copies block `block` of a pool of `kv_blocks` blocks to or from kv_block_bytes() consecutive
  // bytes, of window_block_bytes() if `window`. One thread, between steps.
  void PackBlock(const std::byte* kv, int kv_blocks, int block, std::byte* out, bool window) const;
  void UnpackBlock(const std::byte* in, std::byte* kv, int kv_blocks, int block, bool window) const;
  // Floats between rows of logits: the vocabulary, padded.
  int logits_stride() const { return weights_->head().columns(); }

  // All layers for all rows. Every worker calls it; complete when it returns. False, for all
  // workers alike: they were aborted, and what they wrote counts for nothing.
  bool RunLayers(const DecoderBatch& batch, Team& team);

  // Called in a phase after RunLayers: one of its rows after the last norm, [width] floats.
  void FinalRow(int row, float* out) const;

  // The output head for some rows of the last RunLayers(). Every worker calls it; complete when it
  // returns.
  void RunHead(const HeadBatch& batch, Team& team);
  // Parallel regions (phases, each waited for) of one layer for a step of `rows` rows on `workers`
  // workers. In a mixture, of a layer with experts. 0 for a model with recurrent layers, whose
  // counts differ, or with inputs of each layer.
  static int RegionsPerLayer(const ModelConfig& config, bool fused, int workers, int rows);

  // In a phase after RunHead: greatest logit of its i-th row and the token, kernels::kNoArgmax if
  // no logit is a number.
  kernels::ArgmaxState Best(int i) const;

 private:
  // If the epilogue quantises, a worker's range is a multiple of this many panels: two gated panels
  // make one block of 32.
  static constexpr int kGatedGranule = 2;
  // Rows of an adapter that one worker multiplies at once: two register tiles.
  static constexpr int kLoraTile = 8;
  // Up to this many values (rows x columns) of a mixture's layer, one worker chooses, groups and
  // quantises for all rows, which saves the barriers between these steps. The bound is a guess.
  static constexpr int kSerialExpertValues = 4096;
  // Where activations of one matrix are put: the team's, or one worker's own copy.
  struct ActivationMemory {
    std::byte* quantized = nullptr;
    float* floats = nullptr;
  };
  struct Worker;
  struct Source {
    const float* x = nullptr;
    size_t stride = 0;
    int rows = 0;
    int cols = 0;
    const int32_t* gather = nullptr;
    const float* norm_weight = nullptr;
    const float* norm_bias = nullptr;  // the norm is a LayerNorm
    float norm_eps = 0;                // epsilon of that norm; 0: the residual stream's
  };
  // A matrix of activations in the forms its consumer reads.
  struct Activations {
    kernels::QuantizedRows quantized;
    const float* floats = nullptr;
    size_t stride = 0;
    int rows = 0;
    // [rows][cols] of `source` after a LayerNorm, which quantising does not do; null without one.
    float* normed = nullptr;
    // Steps of few rows: this worker converts `source` for itself once it holds a piece of the
    // consumer's phase.
    bool pending = false;
    Source source;
  };

  Decoder(std::shared_ptr<const Weights> weights, const kernels::KernelTable& kernels,
          const Options& options);
  Status Allocate();
  void PlanExperts();

  void Embed(const DecoderBatch& batch, Team& team);
  // decoder_layer_inputs.cc: per-layer embeddings, and the numbers that layers are multiplied by.
  void EmbedLayers(const DecoderBatch& batch, Team& team);
  void AddLayerInput(int index, const DecoderBatch& batch, Team& team);
  void AddNormed(float* x, float* sum, const float* after_norm, const float* scale) const;
  // decoder_altup.cc: several residual streams, a branch of low rank, gates of which few count.
  static constexpr float kLaurelScale = 1 / std::numbers::sqrt2_v<float>;
  void CutGates(int layer, float* gates) const;
  Activations StoredGateUp(int index, Activations in, const LoraBatch& lora, Team& team);
  float* StreamsOf(size_t row) const;
  void SpreadStreams(int rows, Team& team);
  void RouteStreams(int layer, const float* x, float* weights, const Team& team);
  void PredictStreams(int layer, size_t row, const Team& team);
  void CorrectStreams(int layer, int rows, Team& team);
  void AddToStreams(int layer, int rows, Team& team);
  void MergeStreams(int rows, Team& team);
  void AddLaurel(int index, int rows, Team& team);
  void ShowInput(InputObserver::Input input, int layer, const float* norm, const float* norm_bias,
                 int rows, Team& team);
  void NormRow(const float* x, const float* weight, const float* bias, float* out) const;
  void FusedLayer(int index, const DecoderBatch& batch, Team& team);
  const Projection& AfterLayer(int index) const;
  const Projection& AfterAttention(int index) const;
  // decoder_experts.cc: the feed-forward of a mixture.
  void ExpertLayer(int index, const DecoderBatch& batch, Team& team);
  struct ExpertGroup;
  void DenseBesideExperts(int index, int rows, Team& team);
  void ChooseExperts(const LayerWeights& layer, int row);
  void GroupRows(int index, int rows);
  void SpreadRow(int index, int row, const Team& team);
  void GateUpOfGroups(int index, int from, int to, const Team& team);
  void ActivateSlot(int index, int slot);
  void DownOfGroups(int index, int from, int to, const Team& team);
  void AddExperts(const LayerWeights& layer, int row);
  ExpertGroup* GroupsOf(int index) const;
  ExpertGroup* EndOfGroups(int index) const;
  static const ExpertWeights& ExpertOf(const LayerWeights& layer, int expert);
  kernels::QuantizedRows RowsOfGroup(const ExpertGroup& group, const Projection& consumer,
                                     std::byte* memory, int cols, int most_cols) const;
  // decoder_recurrent.cc: recurrences, instead of attention or with it.
  void RunState(int index, const DecoderBatch& batch, Team& team);
  void AddState(int index, int rows, Team& team);
  void Recur(int index, const DecoderBatch& batch, Team& team);
  void Convolve(int index, const DecoderBatch& batch, Team& team);
  void PrepareRow(const RecurrentWeights& layer, float* row) const;
  void UpdateStates(int index, const DecoderBatch& batch, Team& team);
  void FinishRecurrentRow(const RecurrentWeights& layer, float* row, float* out) const;
  // decoder_activations.cc: feed-forwards without a gate or with a norm inside, gates of attention.
  static float Softplus(float x);
  Activations UpAlone(int index, Activations in, const LoraBatch& lora, Team& team);
  void Activate(int index, int count, float* up) const;
  void ApplyGate(int index, float* gate, const float* up) const;
  void ApplyGelu(float* up, int count) const;
  void GateAttention(int rows, Team& team);
  void AttentionPart(int index, const DecoderBatch& batch, Activations* gated, Team& team);
  // decoder_latent.cc: latent attention.
  void ProjectLatent(int index, Activations normed, Team& team);
  void SpreadLatent(const float* cos_sin, const float* expanded, float* qkv) const;
  void CloseUpHeads(int rows, Team& team);
  void UnfusedLayer(int index, const DecoderBatch& batch, Team& team);
  void UnfusedHead(const HeadBatch& batch, Team& team);
  Activations Prepare(const Source& source, const Projection& consumer, Team& team);
  Activations PrepareUnfused(const float* x, int rows, int cols, const Projection& consumer,
                             Team& team);
  void Convert(const Source& source, const Projection& consumer, int begin, int end,
               const Activations& out);
  kernels::GemmArgs ProductOf(const Projection& projection, Activations& in);
  void Project(const Projection& projection, Activations in, kernels::Epilogue epilogue, float* out,
               size_t out_stride, const Projection* next, Team& team);
  void AddProduct(const Projection& projection, Activations in, const float* after_norm,
                  const Projection* next, Team& team, const float* scale = nullptr,
                  const LoraUse& lora = {});
  Activations FeedForward(int index, int rows, const LoraBatch& lora, Team& team);
  // decoder_lora.cc: adapters.
  static const LoraProduct& LoraProductOf(const LoraBatch::Group& group, const LoraUse& use);
  static bool UsesLora(const LoraUse& use);
  void LoraInputs(const Source& source, std::span<const int32_t> rows, Worker& worker) const;
  void Shrink(const LoraUse& use, const Source& source, Team& team);
  void Expand(const LoraUse& use, float* out, size_t stride, Team& team);
  Activations GateUpStored(int index, Activations in, const LoraBatch& lora, Team& team);
  static kernels::Epilogue EpilogueOf(GateKind gate);
  Activations GateUp(const Projection& gate_up, const Projection& down, Activations in, Team& team);
  void RotateHeads(const float* cos_sin, float* qkv) const;
  void NormHeads(int index, float* qkv) const;
  void NormValues(int index, float* qkv) const;
  void GrowQueries(int index, int position, float* queries) const;
  void ScaleValues(float* qkv) const;
  void ReadKeysAhead(int layer, const DecoderBatch& batch, const Team& team);
  void RopeAppend(int layer, const DecoderBatch& batch, Team& team);
  void Attend(int layer, const DecoderBatch& batch, Team& team);
  bool InWindowMemory(int layer) const;
  // Calls `visit(offset, bytes)` for each head's share of block `block` in a pool of `kv_blocks`.
  template <typename Visit>
  void ForEachHeadOfBlock(int kv_blocks, int block, bool window, const Visit& visit) const;
  bool InWindowPlan(int layer) const;
  const kernels::AttentionShape& ShapeOf(int layer) const;
  const kernels::KvLayout& LayoutOf(int layer) const;
  kernels::KvLayerView KvOf(int layer, const DecoderBatch& batch) const;

  const std::shared_ptr<const Weights> weights_;
  const kernels::KernelTable kernels_;
  const Options options_;
  const kernels::AttentionShape shapes_[2];  // layers without a window, and with one
  const KvGroups groups_;
  const bool window_plan_;
  const float stream_eps_;  // of norms of the residual stream, see EpsOfStream
  const kernels::RopeTable rope_;
  const kernels::RopeTable window_rope_;  // of layers with a window, where they rotate otherwise
  const int qkv_columns_;                 // of qkv_, padding included
  const RecurrentShape recurrent_;
  const int recurrent_columns_;  // columns of state_rows_, padding included

  // Scratch. R = max_rows.
  kernels::AlignedBuffer memory_;
  float* x_ = nullptr;           // [R][width] the residual stream
  float* qkv_ = nullptr;         // [R][qkv_columns_], or [R][recurrent_columns_]
  float* attn_ = nullptr;        // [R][most q_rows], or [R][recurrent_.inner]
  float* state_rows_ = nullptr;  // [R][recurrent_columns_]: qkv_, unless layers have attention too
  float* state_out_ = nullptr;   // [R][recurrent_.inner]: attn_, the same
  float* expanded_ = nullptr;    // [R][columns of LatentWeights::key_value], of latent attention
  ActivationMemory shared_;      // [R][max(width, q_rows, recurrent_.inner, latent ranks)]
  // [R][most feed_forward]; twice as many floats where a layer cuts gates.
  ActivationMemory shared_ffn_;
  // Buffers of inputs of each layer, null for models without.
  size_t layer_inputs_stride_ = 0;
  float* layer_inputs_ = nullptr;  // [R][layers][layer_inputs], padded
  size_t layer_gate_stride_ = 0;
  float* layer_gate_ = nullptr;  // [R][layer_inputs], padded
  float* streams_ = nullptr;     // [R][streams][width], of several residual streams
  float* laurel_ = nullptr;      // [R][laurel_rank, padded]
  float* dense_ = nullptr;       // [R][width] of the network in layers with experts
  // Unfused, or with a norm behind: what is added to the residual stream, [R][width].
  float* sum_ = nullptr;
  // Buffers of a mixture of experts, null for other models; U = expert_slots_.
  int expert_slots_ = 0;  // experts of a row, the shared one included
  int expert_width_ = 0;  // the greatest feed_forward of an expert, the shared one included
  bool experts_read_floats_ = false;  // some down matrix does
  size_t router_stride_ = 0;          // columns of a router, padded
  float* router_ = nullptr;           // [R][router_stride_]
  struct ExpertChoice {
    int32_t expert;
    int32_t slot;  // row of expert_in_, expert_gated_ and expert_out_
    float weight;
  };
  ExpertChoice* choices_ = nullptr;  // [R][U], the greatest score first, the shared expert last
  // The rows of one expert: places [slot, slot + rows) of the buffers of all slots.
  struct ExpertGroup {
    int32_t expert = 0;
    int32_t slot = 0;
    int32_t rows = 0;
    int32_t gate_begin = 0;  // its first panel, counted over all groups' gate and up matrices
    int32_t down_begin = 0;  // the same of down matrices
  };
  // [layers][experts + 2] experts with rows, ascending, and one behind the last, which holds the
  // sums. One list for each layer: a worker that comes late to a phase still reads it.
  ExpertGroup* expert_groups_ = nullptr;
  int32_t* expert_group_counts_ = nullptr;  // [layers]
  int32_t* expert_counts_ = nullptr;        // [experts + 1], of one worker's phase
  std::byte* expert_in_ = nullptr;          // [R * U] quantised rows of width
  ActivationMemory expert_gated_;           // [R * U][expert_width_]
  float* expert_out_ = nullptr;             // [R * U][width]; before, inputs that stay floats
  // Constants of recurrent layers and of norms without weights, null for other models.
  float* ones_ = nullptr;         // [conv_channels] or [head_dim]
  float* key_scale_ = nullptr;    // [state_keys] 1 / sqrt(state_keys)
  float* query_scale_ = nullptr;  // [state_keys] 1 / state_keys
  // Adapters only.
  float* lora_ranks_ = nullptr;    // [R][kMaxLoraRanks] A x of the product in hand
  float* lora_gate_up_ = nullptr;  // [R][lora_gate_up_stride_] sums of gate and up, interleaved
  size_t lora_gate_up_stride_ = 0;
  // Unfused only.
  float* normed_ = nullptr;  // [R][width]
  float* gate_ = nullptr;    // [R][feed_forward, padded]
  float* up_ = nullptr;      // the same
  float* logits_ = nullptr;  // [max_head_rows][logits_stride()]
  struct Worker {
    ActivationMemory own;          // for steps of few rows: see Prepare
    ActivationMemory expert_row;   // one row of width, on its way to its experts
    float* layer_token = nullptr;  // [layers][layer_inputs] of one token
    float* stream_row = nullptr;   // [width], of several residual streams
    float* lora_rows = nullptr;    // [kLoraTile][most columns] inputs of adapters after their norm
    std::array<const float*, kLoraTile> lora_inputs{};  // rows of a tile
    std::byte* gemm = nullptr;                          // kernels' scratch
    std::byte* attention = nullptr;
    kernels::ArgmaxState* best = nullptr;        // [max_head_rows], of the round `best_round`
    kernels::ArgmaxState* piece_best = nullptr;  // [max_head_rows], of the piece in hand
    uint64_t best_round = 0;
    // Read by ReadKeysAhead in this step; the second are those of layers in the window memory.
    std::array<std::array<kernels::Prefetch::Run, 128>, 2> kv_runs;
    std::array<int32_t, 2> kv_run_counts{};
    kernels::Prefetch ahead;
  };
  std::vector<Worker> workers_;
  uint64_t head_round_ = 0;  // calls of RunHead; written in a phase
};

}  // namespace tutti::model
