// EncoderRunner: the interface through which the engine runs an encoder on a device, and the batch
// that it runs. The engine links no implementation; tests use testing/fake_encoder_runner.h.
#pragma once

#include <cstdint>
#include <span>

#include "api/encoding.h"
#include "base/clock.h"
#include "base/status.h"
#include "base/types.h"

namespace tutti::engine {

struct EncoderLimits {
  int max_items = 0;        // items of a batch
  int max_tokens = 0;       // of a batch: rows the scratch was sized for; >= max_item_tokens
  int max_item_tokens = 0;  // of an item, special tokens included
  int vocab_size = 0;
  int types = 1;        // kinds of tokens; 2 for models that read pairs
  int width = 0;        // floats of a pooled row; 0: the model has no such output
  int token_width = 0;  // floats of a token's row; 0: as of a pooled one
  int labels = 0;       // floats of a row of scores; 0: none

  int of(api::EncodeOutput output) const {
    if (output == api::EncodeOutput::kScores) return labels;
    return output == api::EncodeOutput::kTokens && token_width > 0 ? token_width : width;
  }
};

// One item of a batch: its tokens are [first, first + tokens) of the batch's.
struct EncodeItem {
  int first = 0;
  int tokens = 0;                                         // >= 1
  api::EncodeOutput output = api::EncodeOutput::kPooled;  // and nothing else of it
  // Where its floats go: [width], [tokens][of(kTokens)] or [labels], as the model leaves them (no
  // normalising, no sigmoid). Written whole when the batch succeeds.
  std::span<float> out;
};

// Items one after the other, without padding.
struct EncodeBatch {
  uint64_t number = 0;
  std::span<const TokenId> tokens;  // [tokens of all items]
  std::span<const uint8_t> types;   // as many, or none: all 0
  std::span<const EncodeItem> items;
  std::span<const int32_t> offsets;  // [items + 1]: where each begins, and their sum
};

// Owned by the code that creates the engine; called on the engine thread only.
class EncoderRunner {
 public:
  virtual ~EncoderRunner() = default;
  virtual EncoderLimits limits() const = 0;

  // Starts the batch. The batch, and all it points to, stays unchanged until Collect returns. A CPU
  // runner does the whole work here; a GPU runner only enqueues it. At most one batch is in flight.
  virtual void Launch(const EncodeBatch& batch) = 0;
  // Waits for the launched batch. OK: every item's floats are written. On an error all floats are
  // invalid. Never throws. An item's floats do not depend on the rest of its batch. Values that are
  // not finite do not fail the batch: they are written like others, and a pooled row that includes
  // them is not finite either. The engine checks each item's floats and fails that item alone.
  virtual Status Collect() = 0;
};

}  // namespace tutti::engine
