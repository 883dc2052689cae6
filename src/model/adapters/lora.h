// LoraAdapter: the matrices of a LoRA adapter in the form that the forward pass of one base reads.
//
// Immutable and shared: requests, steps and threads hold references, and the memory is freed with
// the last one, so that an adapter can be unloaded while requests use it. The file may be closed
// once Load returns. Values keep 16 bits where all of the file's have the same such type, which is
// exact; else LoraOptions decide. Rows of q and k are in the order of the base's, whatever form
// either came in.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "kernels/aligned_buffer.h"
#include "kernels/low_rank.h"
#include "model/adapters/lora_file.h"
#include "model/config.h"

namespace tutti::model {

// The products of a layer that an adapter may change. Matrices with the same input are one.
enum class LoraPlace : uint8_t {
  kAttentionInput,  // q, k and v
  kAttentionOutput,
  kFeedForwardInput,  // gate and up
  kFeedForwardOutput,
};
inline constexpr int kLoraPlaces = 4;
// Sums of ranks at one place: q, k and v.
inline constexpr int kMaxLoraRanks = 3 * kMaxLoraRank;

// Part of a product's output that gets scale * B t.
struct LoraExpand {
  const std::byte* weight = nullptr;  // of LowRankArgs: [rank] -> columns
  int rank = 0;
  int first_rank = 0;  // of its t among those of the place
  int columns = 0;
  int first_column = 0;               // in the output
  int step = kernels::kLowRankPanel;  // LowRankArgs::out_step
  float scale = 1;
};

// What an adapter adds at one place of one layer; no expands where it adds nothing.
struct LoraProduct {
  const std::byte* shrink = nullptr;  // of LowRankArgs: [inputs] -> ranks, all A of the place
  int inputs = 0;
  int ranks = 0;
  std::vector<LoraExpand> expands;
};

struct LoraOptions {
  double scale = 1;  // multiplies the file's own
  std::string_view base_digest = "";
  // Keeps float32 values in fp16, each matrix times a power of two so that its greatest magnitude
  // lies in [0.5, 1): for bases whose own arithmetic is coarser. Else they stay float32.
  bool narrow = false;
};

class LoraAdapter {
 public:
  // Packs an adapter for a base of this shape.
  // Errors: adapter_target for a matrix that the base lacks or that adapters cannot change;
  // adapter_shape for the first one of another shape, with both shapes; model_nonfinite;
  // out_of_memory; and those of reading.
  static Result<std::shared_ptr<const LoraAdapter>> Load(const LoraFile& file,
                                                         const ModelConfig& base,
                                                         const LoraOptions& options = {});

  const LoraProduct& product(int layer, LoraPlace place) const {
    return products_[static_cast<size_t>(layer) * kLoraPlaces + static_cast<size_t>(place)];
  }
  kernels::LowRankType type() const { return type_; }
  int max_rank() const { return max_rank_; }
  size_t matrices() const { return matrices_; }  // of the base that it changes
  size_t bytes() const { return arena_.size(); }
  // SHA-256 of the files' contents, the scale, the kept type and the base's digest, in lower-case
  // hex: models with equal digests give equal answers.
  const std::string& digest() const { return digest_; }

 private:
  friend class LoraPacker;
  LoraAdapter() = default;

  std::vector<LoraProduct> products_;  // [layers][kLoraPlaces]
  kernels::LowRankType type_ = kernels::LowRankType::kF32;
  int max_rank_ = 0;
  size_t matrices_ = 0;
  std::string digest_;
  kernels::AlignedBuffer arena_;
};

}  // namespace tutti::model
