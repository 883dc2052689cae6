// ReferenceLlama: a llama decoder in double precision, as plain as it can be written.
//
// The oracle of the parity tests for generated checkpoints: no cache, no batching, no fusion, no
// kernels, nothing from src/model; every sequence is computed from its first token. Only for models
// of a few thousand weights.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/types.h"

namespace tutti::parity {

struct ReferenceLlama {
  int layers = 0, width = 0, feed_forward = 0, heads = 0, kv_heads = 0, head_dim = 0,
      vocab_size = 0;
  int rope_dims = 0;
  double rope_base = 10000.0;
  double rope_linear_factor = 1.0;        // positions are divided by it
  std::vector<double> rope_freq_factors;  // frequencies are divided by them; empty = 1
  double norm_eps = 1e-5;
  std::map<std::string, std::vector<float>>
      tensors;  // row-major, by GGUF name; no output.weight = tied head

  // Logits [tokens][vocab_size] after each token.
  std::vector<std::vector<double>> Logits(const std::vector<TokenId>& tokens) const;
  // The greedy continuation of `prompt`.
  std::vector<TokenId> Greedy(std::vector<TokenId> prompt, int count) const;

 private:
  const std::vector<float>& Tensor(const std::string& name) const;
  std::vector<double> Multiply(const std::string& matrix, const std::vector<double>& x) const;
  std::vector<double> Norm(const std::string& weight, const std::vector<double>& x) const;
  void Rotate(std::vector<double>& row, int row_heads, int position) const;
};

// The double-precision log-softmax of a row.
std::vector<double> LogSoftmax(const std::vector<double>& logits);

}  // namespace tutti::parity
