// The GEMM table of AVX-512 VNNI: driver, quantisation and unpacking; the tiles are in
// gemm_tiles_*.cc.
#include <immintrin.h>

#include "kernels/cpu/avx512vnni/gemm_tiles.h"
#include "kernels/cpu/avx512vnni/gemm_vec.h"
#include "kernels/cpu/gemm_tile.h"
#include "kernels/cpu/unroll.h"
#include "kernels/gemm.h"
#include "kernels/isa.h"

namespace tutti::kernels {
namespace avx512vnni {
namespace {

#include "kernels/cpu/gemm_rows.inc"

// Measured. Unpacking in registers costs nothing on Zen 4 until the activations outgrow L2, and
// pays earlier on Cascade Lake; fifth bits cost more than nibbles, bytes are unpacked already,
// floats pay from a few tiles on.
inline int32_t UnpackFromRows(WeightFormat format) {
  switch (format) {
    case WeightFormat::kQ4_0:
    case WeightFormat::kQ4_1:
    case WeightFormat::kMXFP4:  // not measured
      return IsAmdProcessor() ? 384 : 64;
    case WeightFormat::kQ5_0:
    case WeightFormat::kQ5_1:
      return IsAmdProcessor() ? 96 : 48;
    case WeightFormat::kQ6:
      return IsAmdProcessor() ? 64 : 48;
    case WeightFormat::kF16:
    case WeightFormat::kBf16:
      return 48;
    default:
      return 0x7fffffff;
  }
}

TileKernel DirectTile(WeightFormat format, int32_t rows) {
  switch (format) {
    case WeightFormat::kQ4_0:
      return kTilesQ4_0[rows - 1];
    case WeightFormat::kQ4_1:
      return kTilesQ4_1[rows - 1];
    case WeightFormat::kMXFP4:
      return kTilesMXFP4[rows - 1];
    case WeightFormat::kQ5_0:
      return kTilesQ5_0[rows - 1];
    case WeightFormat::kQ5_1:
      return kTilesQ5_1[rows - 1];
    case WeightFormat::kQ6:
      return kTilesQ6[rows - 1];
    case WeightFormat::kQ8_0:
      return kTilesQ8_0[rows - 1];
    case WeightFormat::kI8Row:
      return kTilesI8Row[rows - 1];
    case WeightFormat::kBf16Pairs:
      return kTilesBf16Pairs[rows - 1];
    case WeightFormat::kF32:
      return kTilesF32[rows - 1];
    case WeightFormat::kF16:
      return kTilesF16[rows - 1];
    case WeightFormat::kBf16:
      return kTilesBf16[rows - 1];
  }
  __builtin_unreachable();
}

TileKernel UnpackedTile(WeightFormat format, int32_t rows) {
  if (format > WeightFormat::kQ8_0) return kTilesF32[rows - 1];
  if (format == WeightFormat::kQ6) return kTilesUnpackedHalves[rows - 1];
  const bool has_min = format == WeightFormat::kQ4_1 || format == WeightFormat::kQ5_1;
  return has_min ? kTilesUnpackedMin[rows - 1] : kTilesUnpacked[rows - 1];
}

inline void WidenScales(const uint8_t* halves, float* out) {
  const __m256i* h = reinterpret_cast<const __m256i*>(halves);
  _mm512_store_ps(out, _mm512_cvtph_ps(_mm256_load_si256(h)));
  _mm512_store_ps(out + 16, _mm512_cvtph_ps(_mm256_load_si256(h + 1)));
}

void UnpackPanel(WeightFormat format, const uint8_t* blocks, int32_t count, uint8_t* panel,
                 float* scales) {
  if (format > WeightFormat::kQ8_0) {
    float* out = reinterpret_cast<float*>(panel);
    for (int32_t i = 0; i < count * 64; ++i, out += 16) {  // 64 vectors of 16 halves a block
      const __m256i halves = _mm256_load_si256(reinterpret_cast<const __m256i*>(blocks) + i);
      _mm512_store_ps(out, format == WeightFormat::kF16 ? _mm512_cvtph_ps(halves)
                                                        : _mm512_castsi512_ps(_mm512_slli_epi32(
                                                              _mm512_cvtepu16_epi32(halves), 16)));
    }
    return;
  }
  const bool bytes = format == WeightFormat::kQ8_0;
  const bool five = format == WeightFormat::kQ5_0 || format == WeightFormat::kQ5_1;
  const bool six = format == WeightFormat::kQ6;
  const bool codes = format == WeightFormat::kMXFP4;
  const bool two_scales = six || format == WeightFormat::kQ4_1 || format == WeightFormat::kQ5_1;
  const __m512i low = _mm512_set1_epi8(15);
  const __m512i sixteen = _mm512_set1_epi8(16);
  const __m512i upper = _mm512_set1_epi8(0x30);
  const __m512i table =
      _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(kE2M1Codes)));
  const uint8_t* w = blocks;
  for (int32_t b = 0; b < count; ++b, panel += 1024, scales += 64) {
    if (bytes) {
      for (int i = 0; i < 1024; i += 64) _mm512_store_si512(panel + i, _mm512_load_si512(w + i));
      w += 1024;
    } else {
      for (int i = 0; i < 8; ++i) {
        const __m512i nibbles = _mm512_load_si512(w + i * 64);
        __m512i first = _mm512_and_si512(nibbles, low);
        __m512i second = _mm512_and_si512(_mm512_srli_epi16(nibbles, 4), low);
        if (five) {
          const __mmask64* masks = reinterpret_cast<const __mmask64*>(w + 512);
          first = _mm512_mask_add_epi8(first, masks[i], first, sixteen);
          second = _mm512_mask_add_epi8(second, masks[8 + i], second, sixteen);
        } else if (codes) {
          first = _mm512_shuffle_epi8(table, first);
          second = _mm512_shuffle_epi8(table, second);
        } else if (six) {
          // Groups i / 2 and i / 2 + 4: fields (i / 4) and (i / 4 + 2) of the line.
          const __m512i line = _mm512_load_si512(w + 512 + i % 4 * 64);
          const __m512i bits = i < 4 ? _mm512_slli_epi16(line, 4) : _mm512_slli_epi16(line, 2);
          const __m512i more = i < 4 ? line : _mm512_srli_epi16(line, 2);
          first = _mm512_or_si512(first, _mm512_and_si512(bits, upper));
          second = _mm512_or_si512(second, _mm512_and_si512(more, upper));
        }
        _mm512_store_si512(panel + i * 64, first);
        _mm512_store_si512(panel + 512 + i * 64, second);
      }
      w += six ? 768 : five ? 640 : 512;
    }
    WidenScales(w, scales);
    w += 64;
    if (two_scales) {
      WidenScales(w, scales + 32);
      w += 64;
    }
  }
}

#include "kernels/cpu/gemm_driver.inc"

constexpr GemmKernels kTable = {"avx512vnni",  false,     false,     RegisterTileRows,
                                QuantizeRange, GemmRange, GateStored};
// As above, with tiles that not every such processor runs.
constexpr GemmKernels kBf16Table = {"avx512bf16",  true,      false,     RegisterTileRows,
                                    QuantizeRange, GemmRange, GateStored};

}  // namespace
}  // namespace avx512vnni

const GemmKernels& Avx512VnniGemmKernels() { return avx512vnni::kTable; }
const GemmKernels& Avx512Bf16GemmKernels() { return avx512vnni::kBf16Table; }

}  // namespace tutti::kernels
