// The oracle: the GEMM of gemm.h in plain C++, for any machine. Slow on purpose where that keeps it
// obvious.
#include <algorithm>

#include "kernels/cpu/gemm_tile.h"
#include "kernels/cpu/scalar/gemm_vec.h"
#include "kernels/cpu/unroll.h"
#include "kernels/gemm.h"
#include "kernels/isa.h"

namespace tutti::kernels {
namespace {

#include "kernels/cpu/gemm_rows.inc"

constexpr int32_t kNever = 0x7fffffff;

// Unpacking is most of the work of a row here; widening floats is not.
inline int32_t UnpackFromRows(WeightFormat format) {
  return format < WeightFormat::kF32 ? 2 : kNever;
}

inline bool FormatHasMinimum(WeightFormat format) {
  return format == WeightFormat::kQ4_1 || format == WeightFormat::kQ5_1;
}

// One block to lines of u8 [8][32 rows][4] and float scales d[32], then m[32] or the d[32] of the
// second half, where the format has it.
void UnpackBlock(WeightFormat format, const uint8_t* w, uint8_t* lines, float* scales) {
  if (format == WeightFormat::kQ8_0) {
    std::memcpy(lines, w, 1024);
    WidenHalf32(w + 1024, scales);
    return;
  }
  for (int i = 0; i < 512; ++i) {
    lines[i] = w[i] & 15;
    lines[512 + i] = w[i] >> 4;
  }
  if (format == WeightFormat::kMXFP4) {
    for (int i = 0; i < 1024; ++i) lines[i] = kE2M1Codes[lines[i]];
  }
  const uint8_t* tail = w + 512;
  if (format == WeightFormat::kQ6) {
    for (int i = 0; i < 1024; ++i) {
      const int g = i / 128;
      const int upper = (tail[g % 2 * 128 + i % 128] >> (g / 2 * 2)) & 3;
      lines[i] = static_cast<uint8_t>(lines[i] | (upper << 4));
    }
    WidenHalf32(tail + 256, scales);
    WidenHalf32(tail + 320, scales + 32);
    return;
  }
  if (format == WeightFormat::kQ5_0 || format == WeightFormat::kQ5_1) {
    for (int i = 0; i < 1024; ++i) {
      const int fifth = (tail[i / 8] >> (i % 8)) & 1;
      lines[i] = static_cast<uint8_t>(lines[i] | (fifth << 4));
    }
    tail += 128;
  }
  WidenHalf32(tail, scales);
  if (FormatHasMinimum(format)) WidenHalf32(tail + 64, scales + 32);
}

// 32 weights of one k of a float format.
void WidenRow(WeightFormat format, const uint8_t* source, float* out) {
  if (format == WeightFormat::kF32) {
    std::memcpy(out, source, 32 * sizeof(float));
  } else if (format == WeightFormat::kF16) {
    WidenHalf32(source, out);
  } else {
    for (int n = 0; n < 32; ++n) {
      uint16_t bits;
      std::memcpy(&bits, source + 2 * n, sizeof bits);
      out[n] = tensor::BFloatToFloat(bits);
    }
  }
}

void UnpackPanel(WeightFormat format, const uint8_t* blocks, int32_t count, uint8_t* panel,
                 float* scales) {
  if (format > WeightFormat::kQ8_0) {
    float* out = reinterpret_cast<float*>(panel);
    for (int32_t k = 0; k < count * 32; ++k) WidenRow(format, blocks + k * 64, out + k * 32);
    return;
  }
  const size_t block_bytes = BlockBytes(format);
  for (int32_t b = 0; b < count; ++b) {
    UnpackBlock(format, blocks + static_cast<size_t>(b) * block_bytes, panel + b * 1024,
                scales + b * 64);
  }
}

// One unpacked block against one activation block: f[32] grows by its contribution.
void MultiplyBlock(const uint8_t* lines, const float* scales, bool has_min, const int8_t* q,
                   float d, float s, int32_t start, float* f) {
  int32_t sum[32];
  for (int n = 0; n < 32; ++n) sum[n] = has_min ? 0 : start;
  for (int g = 0; g < 8; ++g) {
    for (int n = 0; n < 32; ++n) {
      const uint8_t* w = lines + g * 128 + n * 4;
      const int8_t* x = q + g * 4;
      sum[n] += w[0] * x[0] + w[1] * x[1] + w[2] * x[2] + w[3] * x[3];
    }
  }
  for (int n = 0; n < 32; ++n) {
    f[n] = std::fma(static_cast<float>(sum[n]), scales[n] * d, f[n]);
    if (has_min) f[n] = std::fma(scales[32 + n], s, f[n]);
  }
}

// As above, for a block whose halves have separate scales and starts.
void MultiplyHalves(const uint8_t* lines, const float* scales, const int8_t* q, float d,
                    const int32_t* start, float* f) {
  for (int n = 0; n < 32; ++n) {
    int32_t sum[2] = {start[0], start[1]};
    for (int k = 0; k < 32; ++k) sum[k / 16] += lines[k / 4 * 128 + n * 4 + k % 4] * q[k];
    const float block = std::fma(static_cast<float>(sum[1]), scales[32 + n],
                                 static_cast<float>(sum[0]) * scales[n]);
    f[n] = std::fma(block, d, f[n]);
  }
}

void StartTile(const TileArgs& args) {
  if (args.accumulate) return;
  for (int32_t m = 0; m < args.rows; ++m) {
    for (size_t n = 0; n < 32; ++n) args.c[static_cast<size_t>(m) * args.c_stride + n] = 0.0f;
  }
}

void MultiplyRows(const TileArgs& args, const uint8_t* lines, const float* scales,
                  WeightFormat format, int32_t block) {
  for (int32_t m = 0; m < args.rows; ++m) {
    const int32_t i = block * args.rows + m;
    const int8_t* q = args.q + i * 32;
    float* c = args.c + static_cast<size_t>(m) * args.c_stride;
    if (format == WeightFormat::kQ6) {
      MultiplyHalves(lines, scales, q, args.d[i], args.start + 2 * i, c);
    } else {
      MultiplyBlock(lines, scales, FormatHasMinimum(format), q, args.d[i], args.s[i], args.start[i],
                    c);
    }
  }
}

// `kFormat`: that of the packed panel.
template <WeightFormat kFormat>
void TileUnpacked(const TileArgs& args) {
  StartTile(args);
  for (int32_t b = 0; b < args.blocks; ++b) {
    MultiplyRows(args, args.w + b * 1024, args.scales + b * 64, kFormat, b);
  }
}

template <WeightFormat kFormat>
void TileDirect(const TileArgs& args) {
  StartTile(args);
  const size_t block_bytes = BlockBytes(kFormat);
  for (int32_t b = 0; b < args.blocks; ++b) {
    uint8_t lines[1024];
    float scales[64];
    UnpackBlock(kFormat, args.w + static_cast<size_t>(b) * block_bytes, lines, scales);
    MultiplyRows(args, lines, scales, kFormat, b);
  }
}

// One scale per weight row and activation row: integers to the end of K.
void TileRowScaled(const TileArgs& args) {
  float scales[32];
  std::memcpy(scales, args.w + args.blocks * 1024, sizeof scales);
  for (int32_t m = 0; m < args.rows; ++m) {
    int32_t sum[32];
    for (int n = 0; n < 32; ++n) sum[n] = 0;
    for (int32_t b = 0; b < args.blocks; ++b) {
      const int8_t* q = args.q + (b * args.rows + m) * 32;
      for (int g = 0; g < 8; ++g) {
        const uint8_t* w = args.w + b * 1024 + g * 128;
        for (int i = 0; i < 128; ++i) sum[i / 4] += (w[i] - 128) * q[g * 4 + i % 4];
      }
    }
    float* c = args.c + static_cast<size_t>(m) * args.c_stride;
    for (int n = 0; n < 32; ++n) c[n] = static_cast<float>(sum[n]) * (scales[n] * args.d[m]);
  }
}

// The instruction flushes subnormal inputs and results to zero.
float WithoutSubnormal(float x) {
  return std::fabs(x) < std::numeric_limits<float>::min() ? std::copysign(0.0f, x) : x;
}

float BFloatAt(const void* p) {
  uint16_t bits;
  std::memcpy(&bits, p, sizeof bits);
  return WithoutSubnormal(tensor::BFloatToFloat(bits));
}

void TileBf16Pairs(const TileArgs& args) {
  StartTile(args);
  for (int32_t b = 0; b < args.blocks; ++b) {
    for (int32_t pair = 0; pair < 16; ++pair) {
      const uint8_t* w = args.w + (b * 16 + pair) * 128;
      for (int32_t m = 0; m < args.rows; ++m) {
        const int8_t* x = args.q + (b * args.rows + m) * 64 + pair * 4;
        float* c = args.c + static_cast<size_t>(m) * args.c_stride;
        for (int n = 0; n < 32; ++n) {
          for (const int odd : {2, 0}) {
            c[n] = WithoutSubnormal(std::fma(BFloatAt(w + 4 * n + odd), BFloatAt(x + odd), c[n]));
          }
        }
      }
    }
  }
}

// One block with the sums of its even and odd k apart, as a tile unit has them. `pairs`: weights
// [16 pairs of k][32 rows][2] in bfloat16.
void MultiplyInTiles(const TileArgs& args, int32_t block, const uint8_t* pairs) {
  for (int32_t m = 0; m < args.rows; ++m) {
    const int8_t* x = args.q + (block * args.rows + m) * 64;
    float* c = args.c + static_cast<size_t>(m) * args.c_stride;
    for (int n = 0; n < 32; ++n) {
      float sums[2] = {};  // of even and odd k
      for (int32_t k = 0; k < 32; ++k) {
        const float w = BFloatAt(pairs + k / 2 * 128 + 4 * n + 2 * (k % 2));
        sums[k % 2] = WithoutSubnormal(std::fma(w, BFloatAt(x + 2 * k), sums[k % 2]));
      }
      c[n] = WithoutSubnormal(c[n] + WithoutSubnormal(sums[0] + sums[1]));
    }
  }
}

void TileBf16Tiles(const TileArgs& args) {
  StartTile(args);
  for (int32_t b = 0; b < args.blocks; ++b) MultiplyInTiles(args, b, args.w + b * 2048);
}

int OffsetOf(WeightFormat format) {
  switch (format) {
    case WeightFormat::kQ4_0:
      return 8;
    case WeightFormat::kQ5_0:
    case WeightFormat::kMXFP4:
      return 16;
    case WeightFormat::kQ6:
      return 32;
    default:
      return 128;
  }
}

// The nearest fp16, as float.
float NearestHalf(double x) { return tensor::HalfToFloat(tensor::DoubleToHalf(x)); }

// A block of a format with a scale per block in bfloat16 (gemm.h).
void WidenBlock(WeightFormat format, const uint8_t* w, uint8_t* pairs) {
  uint8_t lines[1024];
  float scales[64];
  UnpackBlock(format, w, lines, scales);
  const bool minimum = FormatHasMinimum(format);
  for (int n = 0; n < 32; ++n) {
    for (int k = 0; k < 32; ++k) {
      const int q = lines[k / 4 * 128 + n * 4 + k % 4];
      const bool second = format == WeightFormat::kQ6 && k >= 16;
      const float limit = minimum ? 65504 : 65504 / static_cast<float>(OffsetOf(format));
      const auto scale = [&](float half) {
        return std::clamp(NearestHalf(half * 256.75), -limit, limit);
      };
      const float d = scale(scales[second ? 32 + n : n]);
      const float m =
          minimum ? scale(scales[32 + n]) : NearestHalf(static_cast<double>(-OffsetOf(format)) * d);
      // Exact in double: 19 bits, and 11 at most 40 places away.
      const uint16_t h = tensor::DoubleToHalf(static_cast<double>(q) * d + m);
      const uint32_t bits = static_cast<uint32_t>(static_cast<int16_t>(h) >> 3);
      const auto v = static_cast<uint16_t>((bits & 0x8fff) | 0x3000);
      std::memcpy(pairs + k / 2 * 128 + 4 * n + 2 * (k % 2), &v, sizeof v);
    }
  }
}

template <WeightFormat kFormat>
void TileWidened(const TileArgs& args) {
  StartTile(args);
  const size_t block_bytes = BlockBytes(kFormat);
  for (int32_t b = 0; b < args.blocks; ++b) {
    uint8_t pairs[2048];
    WidenBlock(kFormat, args.w + static_cast<size_t>(b) * block_bytes, pairs);
    MultiplyInTiles(args, b, pairs);
  }
  for (int32_t m = 0; m < args.rows; ++m) {
    for (size_t n = 0; n < 32; ++n)
      args.c[static_cast<size_t>(m) * args.c_stride + n] *= kWidenedSumScale;
  }
}

template <WeightFormat kFormat>
void TileFloat(const TileArgs& args) {
  StartTile(args);
  constexpr size_t kBytes = kFormat == WeightFormat::kF32 ? 4 : 2;
  for (int32_t k = 0; k < args.blocks * 32; ++k) {
    float w[32];
    WidenRow(kFormat, args.w + static_cast<size_t>(k) * 32 * kBytes, w);
    for (int32_t m = 0; m < args.rows; ++m) {
      const float x = args.x[static_cast<size_t>(m) * args.x_stride + static_cast<size_t>(k)];
      float* c = args.c + static_cast<size_t>(m) * args.c_stride;
      for (int n = 0; n < 32; ++n) c[n] = std::fma(w[n], x, c[n]);
    }
  }
}

// A format with a scale per block. `in_bf16`: activations in bfloat16.
template <WeightFormat kFormat>
TileKernel BlockTileOf(bool in_bf16) {
  return in_bf16 ? TileWidened<kFormat> : TileDirect<kFormat>;
}

// `bf16_tiles`: whether sums of kBf16Pairs have the order of a tile unit.
TileKernel TileOf(WeightFormat format, bool bf16_tiles, bool in_bf16) {
  switch (format) {
    case WeightFormat::kQ4_0:
      return BlockTileOf<WeightFormat::kQ4_0>(in_bf16);
    case WeightFormat::kQ4_1:
      return BlockTileOf<WeightFormat::kQ4_1>(in_bf16);
    case WeightFormat::kMXFP4:
      return BlockTileOf<WeightFormat::kMXFP4>(in_bf16);
    case WeightFormat::kQ5_0:
      return BlockTileOf<WeightFormat::kQ5_0>(in_bf16);
    case WeightFormat::kQ5_1:
      return BlockTileOf<WeightFormat::kQ5_1>(in_bf16);
    case WeightFormat::kQ6:
      return BlockTileOf<WeightFormat::kQ6>(in_bf16);
    case WeightFormat::kQ8_0:
      return BlockTileOf<WeightFormat::kQ8_0>(in_bf16);
    case WeightFormat::kI8Row:
      return TileRowScaled;
    case WeightFormat::kBf16Pairs:
      return bf16_tiles ? TileBf16Tiles : TileBf16Pairs;
    case WeightFormat::kF32:
      return TileFloat<WeightFormat::kF32>;
    case WeightFormat::kF16:
      return TileFloat<WeightFormat::kF16>;
    case WeightFormat::kBf16:
      return TileFloat<WeightFormat::kBf16>;
  }
  __builtin_unreachable();
}

TileKernel UnpackedTile(WeightFormat format, int32_t) {
  if (format > WeightFormat::kQ8_0) return TileFloat<WeightFormat::kF32>;
  if (format == WeightFormat::kQ6) return TileUnpacked<WeightFormat::kQ6>;
  return FormatHasMinimum(format) ? TileUnpacked<WeightFormat::kQ4_1>
                                  : TileUnpacked<WeightFormat::kQ4_0>;
}

void PrefetchRange(const uint8_t*, size_t) {}

namespace pairs {
TileKernel DirectTile(WeightFormat format, int32_t) { return TileOf(format, false, false); }
#include "kernels/cpu/gemm_driver.inc"
constexpr GemmKernels kTable = {"scalar",      true,      false,     RegisterTileRows,
                                QuantizeRange, GemmRange, GateStored};
}  // namespace pairs

namespace widened {
TileKernel DirectTile(WeightFormat format, int32_t) { return TileOf(format, true, true); }
#include "kernels/cpu/gemm_driver.inc"
}  // namespace widened

namespace tiles {
TileKernel DirectTile(WeightFormat format, int32_t) { return TileOf(format, true, false); }
#include "kernels/cpu/gemm_driver.inc"
void Gemm(const GemmArgs& args, int32_t panel_begin, int32_t panel_end, std::byte* scratch) {
  const auto range = args.x.scale == ScalePer::kNone ? widened::GemmRange : GemmRange;
  range(args, panel_begin, panel_end, scratch);
}
constexpr GemmKernels kTable = {"scalar bf16 tiles", true, true,      RegisterTileRows,
                                QuantizeRange,       Gemm, GateStored};
}  // namespace tiles

}  // namespace

const GemmKernels& ScalarGemmKernels() { return pairs::kTable; }
const GemmKernels& ScalarBf16TilesGemmKernels() { return tiles::kTable; }

}  // namespace tutti::kernels
