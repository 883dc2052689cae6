#include "tensor/dtype.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tensor/blocks.h"

namespace tutti::tensor {
namespace {

TEST(DType, KnowsEveryIdEverAssignedByAName) {
  std::set<std::string_view> names;
  for (uint32_t id = 0; id <= 41; ++id) {
    const DTypeInfo* info = FindTypeInfo(id);
    ASSERT_NE(info, nullptr) << id;
    EXPECT_TRUE(names.insert(info->name).second) << info->name;
    EXPECT_EQ(info->block_elements == 0, info->block_bytes == 0) << info->name;
  }
  EXPECT_EQ(FindTypeInfo(42), nullptr);
  EXPECT_EQ(FindTypeInfo(0xFFFFFFFFu), nullptr);
}

TEST(DType, ExactlyTheListedTypesAreReadable) {
  std::set<uint32_t> listed;
  for (DType dtype : kReadableTypes) listed.insert(static_cast<uint32_t>(dtype));
  EXPECT_EQ(listed.size(), 11u);
  for (DType dtype : kTranscodedTypes) listed.insert(static_cast<uint32_t>(dtype));
  EXPECT_EQ(listed.size(), 25u);
  for (uint32_t id = 0; id < 64; ++id) {
    EXPECT_EQ(ReadableType(id).has_value(), listed.count(id) == 1) << id;
  }
}

TEST(DType, BlockBytesAreThoseOfTheStructs) {
  EXPECT_EQ(Info(DType::kQ4_0).block_bytes, static_cast<int>(sizeof(BlockQ4_0)));
  EXPECT_EQ(Info(DType::kQ4_1).block_bytes, static_cast<int>(sizeof(BlockQ4_1)));
  EXPECT_EQ(Info(DType::kQ5_0).block_bytes, static_cast<int>(sizeof(BlockQ5_0)));
  EXPECT_EQ(Info(DType::kQ5_1).block_bytes, static_cast<int>(sizeof(BlockQ5_1)));
  EXPECT_EQ(Info(DType::kQ8_0).block_bytes, static_cast<int>(sizeof(BlockQ8_0)));
  EXPECT_EQ(Info(DType::kQ4_K).block_bytes, static_cast<int>(sizeof(BlockQ4_K)));
  EXPECT_EQ(Info(DType::kQ5_K).block_bytes, static_cast<int>(sizeof(BlockQ5_K)));
  EXPECT_EQ(Info(DType::kQ6_K).block_bytes, static_cast<int>(sizeof(BlockQ6_K)));
  EXPECT_EQ(RowBytes(DType::kQ4_1, 576), 576u / 32 * 20);
  EXPECT_EQ(RowBytes(DType::kF16, 3), 6u);
  EXPECT_DEATH(RowBytes(DType::kQ4_K, 288), "Q4_K row of 288");
}

TEST(TensorView, FindsRowsByTheirBytes) {
  const Shape shape{64, 10, 2};
  EXPECT_EQ(shape.columns(), 64);
  EXPECT_EQ(shape.rows(), 20);
  EXPECT_EQ(shape.elements(), 1280);
  EXPECT_EQ(shape.ToString(), "{64, 10, 2}");
  std::byte bytes[20 * 2 * 34] = {};
  const TensorView view{DType::kQ8_0, shape, bytes};
  EXPECT_EQ(view.bytes(), sizeof(bytes));
  EXPECT_EQ(view.row(3), bytes + 3 * 68);
}

TEST(ScalesK, PackAndUnpackAreInverse) {
  for (int value = 0; value < 64; ++value) {
    uint8_t sc[8], mn[8], packed[12], sc_back[8], mn_back[8];
    for (int j = 0; j < 8; ++j) {
      sc[j] = static_cast<uint8_t>((value + 7 * j) % 64);
      mn[j] = static_cast<uint8_t>((value * 5 + 11 * j) % 64);
    }
    PackScalesK(sc, mn, packed);
    UnpackScalesK(packed, sc_back, mn_back);
    EXPECT_THAT(sc_back, testing::ElementsAreArray(sc));
    EXPECT_THAT(mn_back, testing::ElementsAreArray(mn));
  }
}

}  // namespace
}  // namespace tutti::tensor
