// ModelConfig: the hyper-parameters of a decoder, read from GGUF metadata and validated before
// anyone trusts them.
//
// Plain value, immutable once read; any thread. Every field is within the ranges below, so no later
// code needs to check a product of two of them for overflow. Names, defaults: as GGUF has them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "gguf/file.h"
#include "kernels/attention.h"

namespace tutti::model {

// Widest values accepted. The largest dense models published stay below half of each.
inline constexpr int kMaxLayers = 512;
inline constexpr int kMaxWidth = 1 << 16;  // embedding and attention width
inline constexpr int kMaxFeedForward = 1 << 20;
inline constexpr int kMaxHeads = 1024;
inline constexpr int kMaxVocabulary = 1 << 20;
inline constexpr int kMaxContext = 1 << 24;

struct ModelConfig {
  std::string architecture;  // "llama"
  std::string name;          // general.name, or empty
  int layers = 0;
  int width = 0;         // of the residual stream: embedding_length
  int feed_forward = 0;  // rows of gate and of up
  int heads = 0;
  int kv_heads = 0;  // divides heads
  int head_dim = 0;
  int vocab_size = 0;      // rows of token_embd
  int context_length = 0;  // positions the model was made for
  float norm_eps = 0;
  bool tied_head = false;  // logits from token_embd: the file has no output.weight

  kernels::RopeMode rope_mode = kernels::RopeMode::kAdjacent;
  int rope_dims = 0;  // leading dims of a head that rotate
  double rope_freq_base = 10000.0;
  double rope_linear_factor = 1.0;       // positions are divided by it
  std::vector<float> rope_freq_factors;  // rope_dims/2 divisors of the frequencies, or empty

  int q_rows() const { return heads * head_dim; }
  int kv_rows() const { return kv_heads * head_dim; }
  kernels::AttentionShape attention_shape() const;
};

// Reads and checks everything but the tensors' shapes. Errors: model_hparam with the key and the
// numbers; unsupported architectures and features are refused by name, because running without them
// changes every answer.
Result<ModelConfig> ReadModelConfig(const gguf::File& file);

}  // namespace tutti::model
