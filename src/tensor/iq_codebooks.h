// The codebooks of the IQ types; iq_codebooks.cc describes how they are packed. Constants; any
// thread. Source: ggml's tables, by way of the format's Python package.
#pragma once

#include <cstdint>

namespace tutti::tensor {

extern const uint16_t kGridIq1[2048];
extern const uint16_t kGridIq2Xxs[256];
extern const uint16_t kGridIq2Xs[512];
extern const uint16_t kGridIq2S[1024];
extern const uint16_t kGridIq3Xxs[256];
extern const uint16_t kGridIq3S[512];

}  // namespace tutti::tensor
