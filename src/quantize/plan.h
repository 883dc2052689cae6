// PlanTensors: which form each tensor of a file gets, and why.
//
// The rules are llama.cpp's, so that a file of a name is what other programs mean by that name:
// - vectors are float32; norms, tables of positions and token types, routers of experts and the
//   small tables of recurrent models keep the form they have;
// - the output matrix, and an embedding that is the output matrix too, get Q6_K (Q8_0 where the
//   width forbids it or everything is Q8_0), as errors there meet every token;
// - in Q4_K_M and Q5_K_M the values of attention and ffn_down of half of the layers, the first and
//   last eighth among them, get Q6_K;
// - a width that is no multiple of a form's block falls back to one of smaller blocks: Q4_K to
//   Q5_0, Q5_K to Q5_1, Q6_K to Q8_0, and F16 where the width is no multiple of 32 either.
// Pure; any thread. Views live as long as the header.
// Source: llama.cpp's quantisation tool, b6000 to 0.3.36 of its Python package.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "gguf/header.h"
#include "quantize/file_type.h"

namespace tutti::quantize {

struct TensorPlan {
  const gguf::TensorInfo* from = nullptr;
  tensor::DType wanted;    // by the rules, whatever the width
  tensor::DType to;        // what it gets
  std::string reason;      // why it is not the file type's form; empty if it is
  bool fell_back = false;  // `to` is not `wanted`, for its width
  uint64_t bytes = 0;      // in the new file, without padding
};

// In the order of the file. Errors: gguf_unsupported_type when a tensor cannot be read.
Result<std::vector<TensorPlan>> PlanTensors(const gguf::Header& header, const FileType& type);

}  // namespace tutti::quantize
