// The size of a decoder's KV cache and the context that fits into it.
#include <fmt/format.h>

#include <algorithm>

#include "app/loading/model_plan.h"
#include "app/process/memory.h"
#include "base/types.h"

namespace tutti::app {

Result<int> StateSlots(const Settings& settings, size_t state_bytes, size_t block_bytes) {
  if (state_bytes == 0) return 0;
  const auto state = static_cast<int64_t>(state_bytes), block = static_cast<int64_t>(block_bytes);
  const int64_t budget = settings.Int("kv-cache-bytes");
  // Each running sequence has one, and one more is written while another is copied.
  const int64_t running = settings.Int("max-num-seqs") + 1;
  // A quarter of the memory for checkpoints. Each belongs to a block, so more than blocks are of no
  // use; nor are more than a million, which small states would give.
  constexpr int64_t kMaxCheckpoints = int64_t{1} << 20;
  const int64_t wanted = std::min({budget / 4 / state, budget / block, kMaxCheckpoints});
  const int64_t slots = std::max(running, wanted);
  if (budget - slots * state < block) {
    return BadValue(
        "kv-cache-bytes",
        fmt::format("states of {} sequences need {} bytes; raise --kv-cache-bytes {} or "
                    "lower --max-num-seqs",
                    running, running * state, budget));
  }
  return static_cast<int>(slots);
}

Result<int> ChooseContext(const Settings& settings, const model::ModelConfig& config,
                          int64_t pool_tokens, size_t block_bytes, std::string& notice) {
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
  const int64_t needed =
      (wanted + kBlockTokens - 1) / kBlockTokens * static_cast<int64_t>(block_bytes);
  if (asked.has_value() || pool_tokens == 0) {
    return InvalidArgument("invalid_value",
                           fmt::format("context of {} tokens needs {} KV cache bytes; "
                                       "--kv-cache-bytes {} holds {} tokens; raise it or lower "
                                       "--context",
                                       wanted, needed, settings.Int("kv-cache-bytes"), pool_tokens))
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
