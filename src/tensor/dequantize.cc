#include "tensor/dequantize.h"

#include <cstring>

#include "tensor/blocks.h"
#include "tensor/transcoded.h"

namespace tutti::tensor {
namespace {

void Dequantize(const BlockQ4_0& block, float* out) {
  const float d = HalfToFloat(block.d);
  for (int i = 0; i < 16; ++i) {
    out[i] = d * static_cast<float>((block.qs[i] & 15) - 8);
    out[i + 16] = d * static_cast<float>((block.qs[i] >> 4) - 8);
  }
}

void Dequantize(const BlockQ4_1& block, float* out) {
  const float d = HalfToFloat(block.d);
  const float m = HalfToFloat(block.m);
  for (int i = 0; i < 16; ++i) {
    out[i] = d * static_cast<float>(block.qs[i] & 15) + m;
    out[i + 16] = d * static_cast<float>(block.qs[i] >> 4) + m;
  }
}

int FifthBit(const uint8_t qh[4], int element) {
  return ((qh[element / 8] >> (element % 8)) & 1) << 4;
}

void Dequantize(const BlockQ5_0& block, float* out) {
  const float d = HalfToFloat(block.d);
  for (int i = 0; i < 16; ++i) {
    out[i] = d * static_cast<float>(((block.qs[i] & 15) | FifthBit(block.qh, i)) - 16);
    out[i + 16] = d * static_cast<float>(((block.qs[i] >> 4) | FifthBit(block.qh, i + 16)) - 16);
  }
}

void Dequantize(const BlockQ5_1& block, float* out) {
  const float d = HalfToFloat(block.d);
  const float m = HalfToFloat(block.m);
  for (int i = 0; i < 16; ++i) {
    out[i] = d * static_cast<float>((block.qs[i] & 15) | FifthBit(block.qh, i)) + m;
    out[i + 16] = d * static_cast<float>((block.qs[i] >> 4) | FifthBit(block.qh, i + 16)) + m;
  }
}

void Dequantize(const BlockQ8_0& block, float* out) {
  const float d = HalfToFloat(block.d);
  for (int i = 0; i < kBlock; ++i) out[i] = d * static_cast<float>(block.qs[i]);
}

// Q4_K and Q5_K differ only in the fifth bit; qh is null for Q4_K.
void DequantizeK(uint16_t d_bits, uint16_t dmin_bits, const uint8_t scales[12], const uint8_t* qh,
                 const uint8_t qs[128], float* out) {
  const float d = HalfToFloat(d_bits);
  const float dmin = HalfToFloat(dmin_bits);
  uint8_t sc[8];
  uint8_t mn[8];
  UnpackScalesK(scales, sc, mn);
  for (int j = 0; j < 8; ++j) {  // sub-block of 32 elements
    const float scale = d * static_cast<float>(sc[j]);
    const float offset = dmin * static_cast<float>(mn[j]);
    const int nibble_shift = (j % 2) * 4;
    const uint8_t* q = qs + (j / 2) * 32;
    for (int l = 0; l < 32; ++l) {
      const int high = qh == nullptr ? 0 : ((qh[l] >> j) & 1) << 4;
      const int value = ((q[l] >> nibble_shift) & 15) | high;
      out[j * 32 + l] = scale * static_cast<float>(value) - offset;
    }
  }
}

void Dequantize(const BlockQ4_K& block, float* out) {
  DequantizeK(block.d, block.dmin, block.scales, nullptr, block.qs, out);
}

void Dequantize(const BlockQ5_K& block, float* out) {
  DequantizeK(block.d, block.dmin, block.scales, block.qh, block.qs, out);
}

void Dequantize(const BlockQ6_K& block, float* out) {
  const float d = HalfToFloat(block.d);
  for (int half = 0; half < 2; ++half) {
    const uint8_t* ql = block.ql + half * 64;
    const uint8_t* qh = block.qh + half * 32;
    for (int quarter = 0; quarter < 4; ++quarter) {  // 32 elements each
      const uint8_t* low = ql + (quarter % 2) * 32;
      const int nibble_shift = (quarter / 2) * 4;
      for (int l = 0; l < 32; ++l) {
        const int element = half * 128 + quarter * 32 + l;
        const int value = ((low[l] >> nibble_shift) & 15) | (((qh[l] >> (quarter * 2)) & 3) << 4);
        const float scale = d * static_cast<float>(block.scales[element / 16]);
        out[element] = scale * static_cast<float>(value - 32);
      }
    }
  }
}

void DequantizeTranscoded(DType dtype, const void* row, float* out, int64_t n) {
  Block32 block;
  for (int64_t at = 0; at < n; at += kBlock) {
    ReadBlock32(dtype, static_cast<const std::byte*>(row), at / kBlock, &block);
    for (int i = 0; i < kBlock; ++i) {
      float value = block.scale[i / 16] * static_cast<float>(block.q[i]);
      if (dtype == DType::kQ2_K) value -= block.offset[i / 16];
      out[at + i] = value;
    }
  }
}

template <typename Block>
void DequantizeBlocks(const void* blocks, float* out, int64_t n, int block_elements) {
  const Block* block = static_cast<const Block*>(blocks);
  for (int64_t i = 0; i < n; i += block_elements) Dequantize(*block++, out + i);
}

bool Finite(uint32_t bits) { return (bits & 0x7F800000u) != 0x7F800000u; }  // float32
bool FiniteHalf(uint16_t bits) { return (bits & 0x7C00u) != 0x7C00u; }
bool FiniteBFloat(uint16_t bits) { return (bits & 0x7F80u) != 0x7F80u; }

bool ScalesFinite(const BlockQ4_0& b) { return FiniteHalf(b.d); }
bool ScalesFinite(const BlockQ4_1& b) { return FiniteHalf(b.d) && FiniteHalf(b.m); }
bool ScalesFinite(const BlockQ5_0& b) { return FiniteHalf(b.d); }
bool ScalesFinite(const BlockQ5_1& b) { return FiniteHalf(b.d) && FiniteHalf(b.m); }
bool ScalesFinite(const BlockQ8_0& b) { return FiniteHalf(b.d); }
bool ScalesFinite(const BlockQ4_K& b) { return FiniteHalf(b.d) && FiniteHalf(b.dmin); }
bool ScalesFinite(const BlockQ5_K& b) { return FiniteHalf(b.d) && FiniteHalf(b.dmin); }
bool ScalesFinite(const BlockQ6_K& b) { return FiniteHalf(b.d); }

template <typename Element, typename Predicate>
int64_t FirstFailing(const void* data, int64_t count, int64_t elements_each, Predicate good) {
  const Element* element = static_cast<const Element*>(data);
  for (int64_t i = 0; i < count; ++i) {
    if (!good(element[i])) return i * elements_each;
  }
  return -1;
}

template <typename Block>
int64_t FirstBadBlock(const void* blocks, int64_t n, int64_t block_elements) {
  return FirstFailing<Block>(blocks, n / block_elements, block_elements,
                             [](const Block& block) { return ScalesFinite(block); });
}

}  // namespace

void DequantizeRow(DType dtype, const void* blocks, float* out, int64_t n) {
  const size_t bytes = RowBytes(dtype, n);
  switch (dtype) {
    case DType::kF32:
      if (bytes > 0) std::memcpy(out, blocks, bytes);
      return;
    case DType::kF16:
      for (int64_t i = 0; i < n; ++i) out[i] = HalfToFloat(static_cast<const uint16_t*>(blocks)[i]);
      return;
    case DType::kBF16:
      for (int64_t i = 0; i < n; ++i) {
        out[i] = BFloatToFloat(static_cast<const uint16_t*>(blocks)[i]);
      }
      return;
    case DType::kQ4_0:
      return DequantizeBlocks<BlockQ4_0>(blocks, out, n, kBlock);
    case DType::kQ4_1:
      return DequantizeBlocks<BlockQ4_1>(blocks, out, n, kBlock);
    case DType::kQ5_0:
      return DequantizeBlocks<BlockQ5_0>(blocks, out, n, kBlock);
    case DType::kQ5_1:
      return DequantizeBlocks<BlockQ5_1>(blocks, out, n, kBlock);
    case DType::kQ8_0:
      return DequantizeBlocks<BlockQ8_0>(blocks, out, n, kBlock);
    case DType::kQ4_K:
      return DequantizeBlocks<BlockQ4_K>(blocks, out, n, kSuperBlock);
    case DType::kQ5_K:
      return DequantizeBlocks<BlockQ5_K>(blocks, out, n, kSuperBlock);
    case DType::kQ6_K:
      return DequantizeBlocks<BlockQ6_K>(blocks, out, n, kSuperBlock);
    default:
      return DequantizeTranscoded(dtype, blocks, out, n);
  }
}

int64_t FirstNonFinite(DType dtype, const void* blocks, int64_t n) {
  switch (dtype) {
    case DType::kF32:
      return FirstFailing<uint32_t>(blocks, n, 1, Finite);
    case DType::kF16:
      return FirstFailing<uint16_t>(blocks, n, 1, FiniteHalf);
    case DType::kBF16:
      return FirstFailing<uint16_t>(blocks, n, 1, FiniteBFloat);
    case DType::kQ4_0:
      return FirstBadBlock<BlockQ4_0>(blocks, n, kBlock);
    case DType::kQ4_1:
      return FirstBadBlock<BlockQ4_1>(blocks, n, kBlock);
    case DType::kQ5_0:
      return FirstBadBlock<BlockQ5_0>(blocks, n, kBlock);
    case DType::kQ5_1:
      return FirstBadBlock<BlockQ5_1>(blocks, n, kBlock);
    case DType::kQ8_0:
      return FirstBadBlock<BlockQ8_0>(blocks, n, kBlock);
    case DType::kQ4_K:
      return FirstBadBlock<BlockQ4_K>(blocks, n, kSuperBlock);
    case DType::kQ5_K:
      return FirstBadBlock<BlockQ5_K>(blocks, n, kSuperBlock);
    case DType::kQ6_K:
      return FirstBadBlock<BlockQ6_K>(blocks, n, kSuperBlock);
    default:
      break;
  }
  const DTypeInfo& info = Info(dtype);
  const std::byte* block = static_cast<const std::byte*>(blocks);
  for (int64_t i = 0; i < n; i += info.block_elements, block += info.block_bytes) {
    if (!TranscodedBlockIsFinite(dtype, block)) return i;
  }
  return -1;
}

}  // namespace tutti::tensor
