// ModelPlan: a model that has been opened and checked but not loaded; Load() makes a served model
// of it. Decoders and encoders have one subclass each.
//
// Owned by an OpenedModel; one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/loading/model_loader.h"
#include "base/status.h"
#include "gateway/served_model.h"
#include "model/decoder_checkpoint.h"
#include "model/encoder_checkpoint.h"
#include "model/encoder_weights.h"
#include "model/model_files.h"
#include "model/weights.h"

namespace tutti::app {

// Maximum context in tokens when --context is not given.
inline constexpr int kDefaultContextCap = 8192;

class ModelPlan {
 public:
  virtual ~ModelPlan() = default;
  // Reads and packs the weights; as OpenedModel::Load. Once.
  virtual Result<std::shared_ptr<const gateway::ServedModel>> Load(
      std::function<bool(size_t, size_t)> progress, std::shared_ptr<Device> device) = 0;
  // Until Load(). Its memory_bytes are an estimate, an upper bound for encoders.
  virtual const api::ModelInfo& info() const = 0;

  std::string summary, notice;  // as OpenedModel's
  bool generates = false;       // as OpenedModel's
  bool chats = false;           // as OpenedModel's
  int max_tokens = 0;           // as OpenedModel's
};

// Arithmetic of a decoder: MODEL:dtype, else --dtype, else that of a packed file.
std::string DTypeOf(const Settings& settings, const ModelRef& ref,
                    const model::DecoderCheckpoint& checkpoint);
model::WeightMode WeightModeOf(const std::string& dtype);
// Load options for weights of that arithmetic and these kernels; one thread, no progress callback.
model::LoadOptions LoadOptionsFor(model::WeightMode mode, const kernels::KernelTable& kernels);

// Lines about a checkpoint in one, with the model's path; "" without any.
std::string RemarksNotice(const ModelRef& ref, const std::vector<std::string>& lines);

// Errors: as OpenedModel::Open.
Result<std::unique_ptr<ModelPlan>> PlanDecoder(const ModelRef& ref, const LoadContext& context,
                                               model::DecoderCheckpoint checkpoint);
Result<std::unique_ptr<ModelPlan>> PlanEncoder(const ModelRef& ref, const LoadContext& context,
                                               model::EncoderCheckpoint checkpoint);

// encoder_plan.cc
gateway::ScoreScale ScaleOf(model::ScoreActivation activation);

// --- encoder_memory.cc ---

// The type that --dtype or MODEL:dtype asks for, or nothing. Errors: invalid_value.
Result<std::optional<model::EncoderDType>> EncoderDTypeOf(const ModelRef& ref,
                                                          const Settings& settings);
// What serving an encoder takes.
struct EncoderMemory {
  std::string dtype;       // of the weights: "int8"
  size_t weights = 0;      // packed
  size_t activations = 0;  // of the largest batch, and of the slices that threads compute alone
  int batch_items = 0, batch_tokens = 0, threads = 0;
};
// Loads the encoder, since its type is chosen by measuring. Errors: of the file, without its name;
// invalid_value, out_of_memory.
Result<EncoderMemory> MeasureEncoder(const ModelRef& ref, const Settings& settings,
                                     const model::ModelFiles& files);

// --- kv_memory.cc: size of a decoder's KV cache and the context that fits into it ---

// Slots of recurrent states in --kv-cache-bytes: those of running sequences, and checkpoints in a
// quarter of it. 0 without `state_bytes`, the bytes of one. Errors: invalid_value if they leave no
// block of `block_bytes`.
Result<int> StateSlots(const Settings& settings, size_t state_bytes, size_t block_bytes);

// What the memory of sequences must hold. Bytes are of one block in all its layers, or of one
// state.
struct SequenceMemoryNeeds {
  size_t block_bytes = 0;         // keys and values of a block in all layers
  size_t window_block_bytes = 0;  // the part of layers with a window
  int window = 0;                 // of these layers, in tokens
  size_t state_bytes = 0;         // recurrent state of a sequence; 0: none
  int step_tokens = 1;            // most tokens of a sequence in one step
  int context = 1;                // tokens that one sequence may have
};
struct SequenceMemorySizes {
  int64_t kv_blocks = 0;
  int window_blocks = 0;              // 0: layers with a window share `kv_blocks`
  int window_sequences = 0;           // long sequences that may run with `window_blocks`
  int state_slots = 0;                // as StateSlots()
  int64_t kv_bytes = 0;               // of the blocks of both kinds, without the states
  int64_t sequence_window_bytes = 0;  // that one sequence holds in windows while it decodes
  int64_t context_bytes = 0;  // least --kv-cache-bytes for one sequence at the needs' context
  std::string notice;  // for the operator, if windows have no blocks, or too few for all sequences
};
// Divides --kv-cache-bytes among states, blocks of layers with a window, and blocks of the others.
// Errors: as StateSlots().
Result<SequenceMemorySizes> SizeSequenceMemory(const Settings& settings,
                                               const SequenceMemoryNeeds& needs);
// The needs of a model under the settings. `mode` is that of its weights.
SequenceMemoryNeeds NeedsOf(const Settings& settings, const model::ModelConfig& config,
                            model::WeightMode mode, const kernels::KernelTable& kernels);

// Context of a sequence in tokens, and a notice for the operator: the requested context, else the
// model's default up to kDefaultContextCap. `memory`: how --kv-cache-bytes is divided for that
// context. A default that exceeds the cache is lowered with a notice. Errors: invalid_value
// if the requested context exceeds the model's or the cache.
Result<int> ChooseContext(const Settings& settings, const model::ModelConfig& config,
                          const SequenceMemorySizes& memory, std::string& notice);

// Checks, before the weights are packed, that an explicitly sized cache fits into memory. The
// default size is not checked, because its pages are allocated on use. Errors: out_of_memory.
Status CheckKvFits(const Settings& settings);

}  // namespace tutti::app
