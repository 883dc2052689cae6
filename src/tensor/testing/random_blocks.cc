#include "tensor/testing/random_blocks.h"

#include <cmath>

#include "base/check.h"
#include "base/random.h"
#include "tensor/blocks.h"
#include "tensor/dequantize.h"
#include "tensor/transcoded.h"

namespace tutti::tensor::testing {
namespace {

// Writes `scale` where the type keeps that of a block; of MXFP4 the nearest power of two.
void SetScale(DType dtype, float scale, std::byte* block) {
  const uint16_t half = FloatToHalf(scale);
  const auto put = [&](int at) {
    block[at] = static_cast<std::byte>(half & 255);
    block[at + 1] = static_cast<std::byte>(half >> 8);
  };
  switch (dtype) {
    case DType::kQ2_K:
      put(80);
      return put(82);
    case DType::kQ3_K:
      return put(108);
    case DType::kTQ1_0:
      return put(52);
    case DType::kTQ2_0:
      return put(64);
    case DType::kMXFP4:
      block[0] = static_cast<std::byte>(128 + std::lround(std::log2(scale)));
      return;
    case DType::kIQ1_M:
      for (int word = 0; word < 4; ++word) {
        std::byte& high = block[49 + 2 * word];
        high = (high & std::byte{15}) | static_cast<std::byte>(((half >> (4 * word)) & 15) << 4);
      }
      return;
    default:
      return put(0);
  }
}

}  // namespace

std::vector<std::byte> RandomBlocks(DType dtype, int64_t n, uint64_t seed, float level) {
  CHECK(IsTranscoded(dtype));
  std::vector<std::byte> out(RowBytes(dtype, n));
  Random random(seed);
  for (std::byte& byte : out) byte = static_cast<std::byte>(random.Below(256));
  const size_t step = static_cast<size_t>(Info(dtype).block_bytes);
  const auto scale_all = [&](float scale) {
    for (size_t at = 0; at < out.size(); at += step) SetScale(dtype, scale, out.data() + at);
  };
  scale_all(1.0f);
  std::vector<float> values(static_cast<size_t>(n));
  DequantizeRow(dtype, out.data(), values.data(), n);
  double power = 0;
  for (const float value : values) power += static_cast<double>(value) * static_cast<double>(value);
  scale_all(level / static_cast<float>(std::sqrt(power / static_cast<double>(n))));
  return out;
}

}  // namespace tutti::tensor::testing
