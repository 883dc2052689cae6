#include "protocol/kserve/json/elements.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

namespace tutti::kserve {
namespace {

using ::testing::HasSubstr;

template <typename T>
std::string Raw(const std::vector<T>& numbers) {
  std::string data;
  for (const T number : numbers) AppendElement(number, &data);
  return data;
}

Status Read(const std::string& list, DataType type, std::string* data, Shape shape = {}) {
  Tensor tensor{"x", type, std::move(shape), {}};
  const Result<protocol::JsonDocument> document = protocol::ParseJson(list);
  EXPECT_TRUE(document.ok()) << list;
  Status status = ReadElements(document->root(), &tensor);
  *data = tensor.data;
  return status;
}

std::string Write(DataType type, Shape shape, const std::string& data, bool scalar = false) {
  std::string text;
  protocol::JsonWriter json(&text);
  const Status status = WriteElements({"x", type, std::move(shape), data}, scalar, &json);
  return status.ok() ? text : status.message();
}

// Writing and reading gives the same bytes.
void BothWays(DataType type, const std::string& data, const std::string& list, int64_t count) {
  EXPECT_EQ(Write(type, {count}, data), list);
  std::string again;
  EXPECT_TRUE(Read(list, type, &again).ok()) << list;
  EXPECT_TRUE(again == data) << list;
}

TEST(KserveElements, EveryTypeHasTheSameElementsBothWaysToTheEndsOfItsRange) {
  BothWays(DataType::kBool, std::string("\0\1", 2), "[false,true]", 2);
  BothWays(DataType::kUint8, Raw<uint8_t>({0, 255}), "[0,255]", 2);
  BothWays(DataType::kUint16, Raw<uint16_t>({0, 65535}), "[0,65535]", 2);
  BothWays(DataType::kUint32, Raw<uint32_t>({0, 4294967295}), "[0,4294967295]", 2);
  BothWays(DataType::kUint64, Raw<uint64_t>({0, UINT64_MAX}), "[0,18446744073709551615]", 2);
  BothWays(DataType::kInt8, Raw<int8_t>({-128, 127}), "[-128,127]", 2);
  BothWays(DataType::kInt16, Raw<int16_t>({-32768, 32767}), "[-32768,32767]", 2);
  BothWays(DataType::kInt32, Raw<int32_t>({INT32_MIN, INT32_MAX}), "[-2147483648,2147483647]", 2);
  BothWays(DataType::kInt64, Raw<int64_t>({INT64_MIN, INT64_MAX}),
           "[-9223372036854775808,9223372036854775807]", 2);
  BothWays(DataType::kFp32, Raw<float>({0.1f, -3.4028235e38f, 1e-45f}),
           "[0.1,-3.4028235e+38,1e-45]", 3);
  BothWays(DataType::kFp64, Raw<double>({0.1, -1.7976931348623157e308}),
           "[0.1,-1.7976931348623157e+308]", 2);
  std::string texts;
  AppendBytesElement("a\"\n", &texts);
  AppendBytesElement("", &texts);
  BothWays(DataType::kBytes, texts, R"(["a\"\n",""])", 2);
  BothWays(DataType::kInt32, "", "[]", 0);
}

TEST(KserveElements, ValuesOutsideATypeAreNoneOfIt) {
  const std::vector<std::pair<DataType, std::vector<const char*>>> cases = {
      {DataType::kBool, {"1", "0", "\"true\"", "null", "[]"}},
      {DataType::kUint8, {"-1", "256", "1.5", "true", "\"1\"", "null"}},
      {DataType::kInt8, {"-129", "128", "1e2000000", "{}"}},
      {DataType::kUint64, {"-1", "18446744073709551616", "1e300"}},
      {DataType::kInt64, {"9223372036854775808", "-9223372036854775809", "0.5", "1e18"}},
      {DataType::kFp32, {"3.5e38", "-1e300", "\"1\"", "true", "null"}},
      {DataType::kFp64, {"\"NaN\"", "false", "null"}},
      {DataType::kBytes, {"1", "null", "true", "[]", "{}"}}};
  for (const auto& [type, values] : cases) {
    for (const std::string value : values) {
      if (!protocol::ParseJson(value).ok()) continue;  // not JSON for this parser
      std::string data;
      EXPECT_THAT(Read("[" + value + "]", type, &data).message(),
                  HasSubstr("'data' of input 'x' holds a value that is no"))
          << NameOf(type) << " " << value;
    }
  }
  std::string data;
  EXPECT_TRUE(Read("[3.0,-2e1]", DataType::kInt8, &data).ok()) << "whole numbers all the same";
  EXPECT_EQ(data, Raw<int8_t>({3, -20}));
  for (const DataType type : {DataType::kFp16, DataType::kBf16}) {
    EXPECT_THAT(Read("[1]", type, &data).message(), HasSubstr("as binary data"));
    EXPECT_THAT(Write(type, {1}, "ab"), HasSubstr("ask for it as binary data"));
  }
}

TEST(KserveElements, WhatJsonCannotSayIsNotWritten) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  EXPECT_THAT(Write(DataType::kFp32, {2}, Raw<float>({1, kNan})), HasSubstr("no number"));
  EXPECT_THAT(Write(DataType::kFp32, {1}, Raw<float>({kNan}), true), HasSubstr("no number"));
  EXPECT_THAT(Write(DataType::kFp64, {1}, Raw<double>({kInfinity})), HasSubstr("no number"));
  std::string texts;
  AppendBytesElement("\xff", &texts);
  EXPECT_THAT(Write(DataType::kBytes, {1}, texts), HasSubstr("no UTF-8 text"));
}

TEST(KserveElements, NestedListsFollowTheShapeAndOneElementMayStandAlone) {
  std::string data;
  EXPECT_TRUE(Read("[[[1,2]],[[3,4]]]", DataType::kInt8, &data, {2, 1, 2}).ok());
  EXPECT_EQ(data, Raw<int8_t>({1, 2, 3, 4}));
  for (const char* list : {"[[[1,2]],[[3]]]", "[[[1,2]]]", "[[1,2],[3,4]]", "[[[1,2]],3]",
                           "[[[1,2]],[[3,[4]]]]", "[[],[]]"}) {
    EXPECT_FALSE(Read(list, DataType::kInt8, &data, {2, 1, 2}).ok()) << list;
  }
  EXPECT_TRUE(Read("[[],[]]", DataType::kInt8, &data, {2, 0}).ok());
  EXPECT_EQ(Write(DataType::kInt8, {1, 1}, "\7", true), "7");
  EXPECT_EQ(Write(DataType::kInt8, {1, 1}, "\7", false), "[7]");
  EXPECT_EQ(Write(DataType::kInt8, {2}, "\7\7", true), "[7,7]");
  EXPECT_EQ(Write(DataType::kInt8, {0}, "", true), "[]");
  EXPECT_EQ(ShapeOf(protocol::ParseJson("7")->root()), Shape{});
  EXPECT_EQ(ShapeOf(protocol::ParseJson("[[1,2,3],[4]]")->root()), (Shape{2, 3}));
  EXPECT_EQ(ShapeOf(protocol::ParseJson("[]")->root()), Shape{0});
  const std::string deep = std::string(60, '[') + std::string(60, ']');
  EXPECT_EQ(ShapeOf(protocol::ParseJson(deep)->root()).size(), kMaxDimensions + 1);
}

TEST(KserveElements, AnEstimateIsNoLessThanWhatIsWritten) {
  std::string all(4096, '\0');
  uint32_t state = 3;
  for (char& byte : all) {
    state = state * 1664525 + 1013904223;
    byte = static_cast<char>(state >> 24 & 0x7d);  // floats of it are finite
  }
  for (int type = 1; type < 13; ++type) {
    const auto kind = static_cast<DataType>(type);
    if (kind == DataType::kFp16) continue;
    const auto count = static_cast<int64_t>(all.size() / ElementBytes(kind));
    const std::string text = Write(kind, {count}, all);
    ASSERT_TRUE(text.starts_with('[')) << text;
    EXPECT_LE(text.size(), EstimateElements({"x", kind, {count}, all}) + 2) << NameOf(kind);
  }
}

}  // namespace
}  // namespace tutti::kserve
