#include "runner/decoder_pass.h"

#include <algorithm>

#include "base/check.h"

namespace tutti::runner {

Result<model::DecoderBatch> DecoderPass::Prepare(
    std::span<const TokenId> tokens, std::span<const kernels::AttentionSequence> sequences,
    std::span<const kernels::AttentionSequence> window_sequences) {
  plan_.Build(decoder_.attention_shape(), sequences, workers_, share_prefixes_);
  model::DecoderBatch batch;
  batch.tokens = tokens;
  batch.places = plan_.places();
  batch.attention = plan_.work();
  batch.attention_items = plan_.items();
  size_t need = plan_.partial_floats() * sizeof(float);
  if (decoder_.has_window_plan()) {
    // Without memory of their own, layers with a window have the blocks of the others.
    const bool apart = decoder_.options().window_memory;
    CHECK_EQ(window_sequences.size(), apart ? sequences.size() : 0);
    window_plan_.Build(decoder_.window_shape(), apart ? window_sequences : sequences, workers_,
                       share_prefixes_, decoder_.weights().config().attention_window());
    batch.window.attention = window_plan_.work();
    batch.window.attention_items = window_plan_.items();
    if (apart) batch.window.places = window_plan_.places();
    // Layers run one after another, so that both plans use the same memory.
    need = std::max(need, window_plan_.partial_floats() * sizeof(float));
  }
  if (need > partials_.size()) {
    ASSIGN_OR_RETURN(partials_, kernels::AlignedBuffer::Allocate(need + need / 2));
  }
  batch.partials = reinterpret_cast<float*>(partials_.data());
  return batch;
}

}  // namespace tutti::runner
