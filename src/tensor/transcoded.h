// The quantised types that are read block by block. But for MXFP4, no kernel computes with them:
// they are converted to another type when a model is loaded (kernels/pack.h lists which).
//
// Each is, per 32 elements, small integers under one scale or two (one for each 16), and in Q2_K
// under offsets. Pure; any thread. Source: ggml's block definitions; values equal those of its
// Python package to the bit (golden_test.cc).
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"

namespace tutti::tensor {

// An element i is scale[i / 16] * q[i], and less offset[i / 16] where the type is Q2_K.
struct Block32 {
  float scale[2];
  float offset[2];
  int8_t q[32];
};

// True for the types that are read here.
bool IsTranscoded(DType dtype);

// One scale for each 32 elements and no offset, so that the integers can be kept.
bool HasOneScale(DType dtype);

// Elements 32 * block to 32 * block + 31 of a row of a transcoded type.
void ReadBlock32(DType dtype, const std::byte* row, int64_t block, Block32* out);

// The scale of a stored block is finite, and so are the elements under it.
bool TranscodedBlockIsFinite(DType dtype, const std::byte* block);

// The codebooks of the IQ types; iq_codebooks.cc describes how they are packed. Source: ggml's
// tables, by way of the format's Python package.
extern const uint16_t kGridIq1[2048];
extern const uint16_t kGridIq2Xxs[256];
extern const uint16_t kGridIq2Xs[512];
extern const uint16_t kGridIq2S[1024];
extern const uint16_t kGridIq3Xxs[256];
extern const uint16_t kGridIq3S[512];

}  // namespace tutti::tensor
