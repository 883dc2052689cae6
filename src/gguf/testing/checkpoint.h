// Small generated llama checkpoints: any tensor type, head and rope variant, from a seed, at test
// time.
//
// The weights before encoding depend only on (seed, tensor name, index), so two checkpoints of
// different types hold the same model up to quantisation, and tied and separate heads share every
// other weight. The numbers come from integers and exact divisions: the same on every machine.
// Random weights generate meaningless but reproducible text. The vocabulary is byte-level: three
// control tokens, the 256 byte symbols, a few English merges. Test code only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "gguf/testing/writer.h"
#include "tensor/dtype.h"

namespace tutti::gguf::testing {

enum class RopeScaling {
  kNone,
  kLinear,  // llama.rope.scaling.type = linear, factor 4
  kLlama3,  // rope_freqs.weight, as Llama 3.1 files carry it
};

struct CheckpointSpec {
  uint64_t seed = 1;
  uint32_t layers = 2;
  uint32_t width = 256;  // of the residual stream; a multiple of 256 for K types
  uint32_t heads = 4;
  uint32_t kv_heads = 2;
  uint32_t head_width = 64;
  uint32_t feed_forward = 512;
  uint32_t context = 2048;
  uint32_t vocabulary =
      0;  // tokens; 0 or too small: as many as the merges make, without unused ones
  tensor::DType type = tensor::DType::kF32;          // of every matrix
  std::optional<tensor::DType> embedding_type = {};  // of token_embd (and output), if different
  bool tied = true;                                  // false: output.weight of its own
  bool tensors = true;                               // false: a vocabulary-only file
  RopeScaling rope = RopeScaling::kNone;
  float rope_base = 10000.0f;
  std::string pre_tokenizer = "smollm";
  bool add_bos = false;  // texts begin with kImStart
};

inline constexpr int32_t kEndOfText = 0;  // <|endoftext|>
inline constexpr int32_t kImStart = 1;    // <|im_start|>
inline constexpr int32_t kImEnd = 2;      // <|im_end|>, the end of generation

// A Writer, so that a test can add, spoil or leave out something before Build().
Writer MakeCheckpoint(const CheckpointSpec& spec);

// The weights of one tensor before encoding: uniform, with the variance 1 / fan_in that keeps
// activations level; norms lie around 1.
std::vector<float> CheckpointWeights(uint64_t seed, const std::string& name, uint64_t count,
                                     uint32_t fan_in);

// The factors of rope_freqs.weight for RopeScaling::kLlama3.
std::vector<float> Llama3RopeFactors(uint32_t head_width, float rope_base);

// Token texts in the byte alphabet of GPT-2, and the merges ("a b") that make the longer ones.
std::vector<std::string> CheckpointTokens();
std::vector<std::string> CheckpointMerges();

}  // namespace tutti::gguf::testing
