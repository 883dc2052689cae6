#include "tensor/finite.h"

#include "tensor/blocks.h"
#include "tensor/transcoded.h"

namespace tutti::tensor {
namespace {

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
