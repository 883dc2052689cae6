// The size of a decoder's KV cache and the context that fits into it.
#include <fmt/format.h>

#include <algorithm>

#include "app/loading/model_plan.h"
#include "app/process/memory.h"
#include "base/types.h"
#include "engine/options.h"
#include "engine/policy/window.h"
#include "model/decoder.h"

namespace tutti::app {
namespace {

// A quarter of the memory is for what no running sequence holds and a later one may continue:
// checkpoints of states, and ends of texts in layers with a window.
constexpr int64_t kPartOfKept = 4;
// Without layers that keep all tokens, a block has no memory of its own, only an entry of about 250
// bytes in the prefix index.
constexpr int64_t kMaxUnbackedBlocks = 1 << 17;

int64_t SequenceWindow(const SequenceMemoryNeeds& needs) {
  return engine::MaxWindowBlocks(needs.window, needs.step_tokens, BlocksFor(needs.context));
}

// What layers with a window share with the others, and what they have for themselves.
class WindowSplit {
 public:
  WindowSplit(const SequenceMemoryNeeds& needs, int64_t budget, int64_t sequences)
      : budget_(budget),
        sequences_(sequences),
        window_bytes_(static_cast<int64_t>(needs.window_block_bytes)),
        full_bytes_(static_cast<int64_t>(needs.block_bytes) - window_bytes_),
        shared_(budget / static_cast<int64_t>(needs.block_bytes)),
        context_blocks_(BlocksFor(needs.context)),
        per_sequence_(SequenceWindow(needs)) {}

  // Sets the blocks of both kinds. Leaves them alone where a window apart would hold no more
  // tokens.
  void Divide(SequenceMemorySizes& sizes) const {
    if (full_bytes_ == 0) return DivideWithoutFull(sizes);
    // As for states: those of the sequences that run, and a quarter of the memory for kept ones,
    // but at most half of the blocks that all layers could share: the others must gain tokens.
    int64_t running = sequences_;
    int64_t windows = std::max(running * per_sequence_,
                               std::min(budget_ / kPartOfKept / window_bytes_, shared_ / 2));
    while (running > 1 && (windows >= shared_ || Full(windows) < context_blocks_))
      windows = --running * per_sequence_;
    if (windows >= shared_) return;
    sizes.window_blocks = static_cast<int>(windows);
    sizes.kv_blocks = Full(windows);
    sizes.window_sequences = static_cast<int>(running);
  }

 private:
  // Blocks of the other layers in what `windows` leave.
  int64_t Full(int64_t windows) const {
    return std::max<int64_t>(budget_ - windows * window_bytes_, 0) / full_bytes_;
  }

  // Every layer has a window: all memory is the windows', and blocks have no bytes in the cache.
  void DivideWithoutFull(SequenceMemorySizes& sizes) const {
    if (shared_ < per_sequence_) return;
    sizes.kv_blocks = std::min(shared_ + sequences_ * context_blocks_, kMaxUnbackedBlocks);
    sizes.window_blocks = static_cast<int>(std::min(shared_, sizes.kv_blocks));
    sizes.window_sequences =
        static_cast<int>(std::min(sequences_, sizes.window_blocks / per_sequence_));
  }

  const int64_t budget_, sequences_, window_bytes_, full_bytes_;
  const int64_t shared_;  // blocks, were all layers to share them
  const int64_t context_blocks_;
  const int64_t per_sequence_;  // blocks with a window that a sequence may hold
};

// The least budget that holds one sequence at the context. `sequences`: that must have states.
int64_t ContextBytes(const SequenceMemoryNeeds& needs, bool frees, int64_t sequences) {
  const auto block = static_cast<int64_t>(needs.block_bytes);
  const auto window = static_cast<int64_t>(needs.window_block_bytes);
  const auto state = static_cast<int64_t>(needs.state_bytes);
  const int64_t blocks = BlocksFor(needs.context);
  int64_t bytes = blocks * block;
  if (frees) bytes = std::min(bytes, blocks * (block - window) + SequenceWindow(needs) * window);
  // States may take the part for what is kept.
  if (state > 0)
    bytes = std::max(bytes + (sequences + 1) * state,
                     bytes + (bytes + kPartOfKept - 2) / (kPartOfKept - 1));
  return bytes;
}

}  // namespace

Result<SequenceMemorySizes> SizeSequenceMemory(const Settings& settings,
                                               const SequenceMemoryNeeds& needs) {
  SequenceMemorySizes sizes;
  ASSIGN_OR_RETURN(sizes.state_slots, StateSlots(settings, needs.state_bytes, needs.block_bytes));
  const auto block = static_cast<int64_t>(needs.block_bytes);
  const auto window = static_cast<int64_t>(needs.window_block_bytes);
  const int64_t budget =
      settings.Int("kv-cache-bytes") - sizes.state_slots * static_cast<int64_t>(needs.state_bytes);
  sizes.kv_blocks = budget / block;
  const int64_t sequences = settings.Int("max-num-seqs");
  // Where the window is as long as the context, no block is ever behind it.
  const bool frees = window > 0 && engine::WindowBlocks(needs.window, 1) < BlocksFor(needs.context);
  sizes.context_bytes = ContextBytes(needs, frees, sequences);
  if (frees) WindowSplit(needs, budget, sequences).Divide(sizes);
  if (sizes.window_blocks == 0) {
    sizes.kv_bytes = sizes.kv_blocks * block;
    if (frees) {
      sizes.notice = fmt::format(
          "layers with a window of {} tokens keep all tokens: --kv-cache-bytes {} has no room for "
          "blocks of their own",
          needs.window, settings.Text("kv-cache-bytes"));
    }
    return sizes;
  }
  sizes.kv_bytes = sizes.kv_blocks * (block - window) + sizes.window_blocks * window;
  sizes.sequence_window_bytes = engine::WindowBlocks(needs.window, 1) * window;
  if (sizes.window_sequences < sequences) {
    sizes.notice = fmt::format(
        "--kv-cache-bytes {} holds the windows of {} of {} long sequences at once; others wait",
        settings.Text("kv-cache-bytes"), sizes.window_sequences, sequences);
  }
  return sizes;
}

SequenceMemoryNeeds NeedsOf(const Settings& settings, const model::ModelConfig& config,
                            model::WeightMode mode, const kernels::KernelTable& kernels) {
  const model::KvDtype dtype = KvDtypeFromSettings(settings);
  SequenceMemoryNeeds needs;
  needs.block_bytes = model::Decoder::KvBlockBytes(config, mode, kernels, dtype);
  needs.window_block_bytes = model::Decoder::WindowBlockBytes(config, mode, kernels, dtype);
  needs.window = config.window;
  needs.state_bytes = model::Decoder::StateBytes(config);
  const engine::SchedulerOptions defaults;
  needs.step_tokens = static_cast<int>(
      settings.OptionalInt("prefill-chunk")
          .value_or(std::max(defaults.prefill_chunk, defaults.prefill_chunk_alone)));
  const int64_t context =
      settings.OptionalInt("context").value_or(std::min(config.context_length, kDefaultContextCap));
  needs.context = static_cast<int>(std::min<int64_t>(context, config.max_context()));
  return needs;
}

Result<int> StateSlots(const Settings& settings, size_t state_bytes, size_t block_bytes) {
  if (state_bytes == 0) return 0;
  const auto state = static_cast<int64_t>(state_bytes), block = static_cast<int64_t>(block_bytes);
  const int64_t budget = settings.Int("kv-cache-bytes");
  // Each running sequence has one, and one more is written while another is copied.
  const int64_t running = settings.Int("max-num-seqs") + 1;
  // A quarter of the memory for checkpoints. Each belongs to a block, so more than blocks are of no
  // use; nor are more than a million, which small states would give.
  constexpr int64_t kMaxCheckpoints = int64_t{1} << 20;
  const int64_t wanted = std::min({budget / kPartOfKept / state, budget / block, kMaxCheckpoints});
  const int64_t slots = std::max(running, wanted);
  if (budget - slots * state < block) {
    return BadValue(
        "kv-cache-bytes",
        fmt::format("states of {} sequences and one block need {} bytes; --kv-cache-bytes is {}: "
                    "raise it or lower --max-num-seqs",
                    running, running * state + block, budget));
  }
  return static_cast<int>(slots);
}

Result<int> ChooseContext(const Settings& settings, const model::ModelConfig& config,
                          const SequenceMemorySizes& memory, std::string& notice) {
  const int64_t pool_tokens = memory.kv_blocks * kBlockTokens;
  const auto asked = settings.OptionalInt("context");
  const int64_t wanted = asked.value_or(std::min(config.context_length, kDefaultContextCap));
  if (wanted > config.max_context()) {
    return InvalidArgument(
               "invalid_value",
               fmt::format("--context {} exceeds the model's limit of {} tokens; lower it", wanted,
                           config.max_context()))
        .WithParam("context");
  }
  if (wanted <= pool_tokens) return static_cast<int>(wanted);
  if (asked.has_value() || pool_tokens == 0) {
    return InvalidArgument("invalid_value",
                           fmt::format("context of {} tokens needs {} KV cache bytes; "
                                       "--kv-cache-bytes {} holds {} tokens; raise it or lower "
                                       "--context",
                                       wanted, memory.context_bytes, settings.Int("kv-cache-bytes"),
                                       pool_tokens))
        .WithParam("context");
  }
  notice = fmt::format("context lowered from {} to {} tokens, the capacity of --kv-cache-bytes {}",
                       wanted, pool_tokens, settings.Text("kv-cache-bytes"));
  return static_cast<int>(pool_tokens);
}

Status CheckKvFits(const Settings& settings) {
  if (settings.SourceOf("kv-cache-bytes") == Source::kDefault) return OkStatus();
  const auto asked = static_cast<uint64_t>(settings.Int("kv-cache-bytes"));
  const uint64_t available = AvailableMemory();
  if (available == 0 || asked <= available) return OkStatus();
  // Not invalid_value: another machine, or this one later, may have the memory.
  return ResourceExhausted("out_of_memory",
                           fmt::format("--kv-cache-bytes {} is more than the {:.1f} GiB of free "
                                       "memory on this machine; lower it",
                                       settings.Text("kv-cache-bytes"),
                                       static_cast<double>(available) / (1 << 30)))
      .WithParam("kv-cache-bytes");
}

}  // namespace tutti::app
