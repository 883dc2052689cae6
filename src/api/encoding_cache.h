// Interface between the gateway and the embedding cache (services/cache), which stores one row for
// each input. The gateway consults it after tokenization and computes only the missing inputs.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "api/answer_cache.h"
#include "api/encoding.h"
#include "api/types.h"
#include "base/types.h"

namespace tutti::api {

// All inputs of a request, as tokens. References hold for one call.
struct RenderedInputs {
  const EncodeRequest& request;      // its inputs are not used
  std::span<const TokenId> tokens;   // of all inputs, one after the other
  std::span<const uint8_t> types;    // kind of each token; none: all 0
  std::span<const int32_t> lengths;  // tokens of each input
  const ModelInfo& model;
  uint64_t model_instance = 0;  // of this load of the model
};

// One request's part: which of its inputs are to be computed, and all of its rows from those.
class KnownRows {
 public:
  virtual ~KnownRows() = default;
  // Indices of the inputs that are to be computed, ascending; of equal ones the first.
  virtual const std::vector<size_t>& missing() const = 0;
  // On entry `result` holds the raw rows of missing(), in that order; on return it holds the rows
  // of all inputs, in the order of the inputs. New rows are added to the cache. Called once, on the
  // thread that takes the result.
  virtual void Complete(EncodeResult* result) = 0;
};

// Any thread; nothing waits.
class EncodingCache {
 public:
  virtual ~EncodingCache() = default;
  // Null: the request is computed whole, and nothing of it is kept.
  virtual std::shared_ptr<KnownRows> Look(const RenderedInputs& inputs) = 0;
};

}  // namespace tutti::api
