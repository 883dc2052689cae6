#include "protocol/kserve/tensor.h"

#include <gtest/gtest.h>

#include <limits>

namespace tutti::kserve {
namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

TEST(TensorTest, EveryTypeIsKnownByItsName) {
  for (int i = 1; i <= 14; ++i) {
    const auto type = static_cast<DataType>(i);
    EXPECT_EQ(DataTypeOf(NameOf(type)), type);
    EXPECT_EQ(ElementBytes(type) == 0, type == DataType::kBytes);
  }
  EXPECT_EQ(NameOf(DataType::kBytes), "BYTES");
  EXPECT_EQ(ConfigNameOf(DataType::kBytes), "TYPE_STRING");
  for (const char* const name : {"", "INVALID", "int32", "STRING", "TYPE_INT32", "INT32 "}) {
    EXPECT_EQ(DataTypeOf(name), DataType::kInvalid) << name;
  }
}

TEST(TensorTest, ElementsAreCountedWithoutOverflow) {
  EXPECT_EQ(CountElements({}), 1u);
  EXPECT_EQ(CountElements({3, 4}), 12u);
  EXPECT_EQ(CountElements({3, 0, 4}), 0u);
  EXPECT_EQ(CountElements({kMax}), static_cast<uint64_t>(kMax));
  EXPECT_EQ(CountElements({int64_t{1} << 62, 4}), std::nullopt);
  EXPECT_EQ(CountElements({kMax, kMax, kMax}), std::nullopt);
  EXPECT_EQ(CountElements({-1}), std::nullopt);
  EXPECT_EQ(CountElements({0, -1}), std::nullopt);
  EXPECT_EQ(CountElements({-2, -2}), std::nullopt);
}

TEST(TensorTest, TheTextOfAShapeIsBounded) {
  EXPECT_EQ(ShapeText({}), "[]");
  EXPECT_EQ(ShapeText({1, -1}), "[1,-1]");
  EXPECT_LT(ShapeText(Shape(10'000, 7)).size(), 64u);
}

TEST(TensorTest, BytesElementsComeBackAsTheyWentIn) {
  std::string data;
  for (const char* const text : {"a", "", "three"}) AppendBytesElement(text, &data);
  const auto elements = SplitBytes(data, 3);
  ASSERT_TRUE(elements.has_value());
  EXPECT_EQ((*elements)[0], "a");
  EXPECT_EQ((*elements)[1], "");
  EXPECT_EQ((*elements)[2], "three");
  EXPECT_TRUE(SplitBytes("", 0).has_value());
}

TEST(TensorTest, BytesThatLieAboutTheirLengthsAreNoElements) {
  std::string data;
  AppendBytesElement("four", &data);
  EXPECT_FALSE(SplitBytes(data, 0).has_value());
  EXPECT_FALSE(SplitBytes(data, 2).has_value());
  EXPECT_FALSE(SplitBytes(data, std::numeric_limits<uint64_t>::max()).has_value());
  for (size_t cut = 0; cut < data.size(); ++cut) {
    EXPECT_FALSE(SplitBytes(data.substr(0, cut), 1).has_value()) << cut;
  }
  EXPECT_FALSE(SplitBytes(data + "x", 1).has_value());
  EXPECT_FALSE(SplitBytes("\xff\xff\xff\xff", 1).has_value());
}

}  // namespace
}  // namespace tutti::kserve
