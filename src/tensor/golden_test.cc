// Every decoder, and the encoders that have a reference, against vectors of the format's own
// package (tests/data/gguf, made by tools/make_tensor_goldens.py): equal to the bit.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/random.h"
#include "tensor/dequantize.h"
#include "tensor/quantize.h"
#include "test_paths.h"

namespace tutti::tensor {
namespace {

struct Golden {
  std::vector<std::byte> blocks;
  std::vector<float> values;
};

Golden ReadGolden(const std::string& kind, DType dtype) {
  const std::string path =
      support::SourcePath("tests/data/gguf/" + kind + "_" + std::string(Name(dtype)) + ".bin");
  std::ifstream file(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  Golden golden;
  uint32_t count = 0;
  if (bytes.size() < sizeof(count)) {
    ADD_FAILURE() << "cannot read " << path;
    return golden;
  }
  std::memcpy(&count, bytes.data(), sizeof(count));
  const size_t packed = RowBytes(dtype, count);
  if (bytes.size() != sizeof(count) + packed + count * sizeof(float)) {
    ADD_FAILURE() << path << " has " << bytes.size() << " bytes";
    return golden;
  }
  golden.blocks.resize(packed);
  golden.values.resize(count);
  std::memcpy(golden.blocks.data(), bytes.data() + sizeof(count), packed);
  std::memcpy(golden.values.data(), bytes.data() + sizeof(count) + packed, count * sizeof(float));
  return golden;
}

class EveryType : public testing::TestWithParam<DType> {};

class DecodedType : public testing::TestWithParam<DType> {};

TEST_P(DecodedType, DequantizesToTheBitsOfTheReference) {
  const Golden golden = ReadGolden("dequantize", GetParam());
  const size_t n = golden.values.size();
  ASSERT_GE(n, 2048u);
  std::vector<float> out(n);
  DequantizeRow(GetParam(), golden.blocks.data(), out.data(), static_cast<int64_t>(n));
  for (size_t i = 0; i < n; ++i) {
    ASSERT_EQ(std::memcmp(&out[i], &golden.values[i], sizeof(float)), 0)
        << "element " << i << ": " << out[i] << ", reference " << golden.values[i];
  }
}

// Root mean square error over that of the input, for ordinary weights.
double RelativeError(DType dtype) {
  Random random(static_cast<uint64_t>(dtype) + 1);
  std::vector<float> in(4096);
  for (float& x : in) {
    x = static_cast<float>(random.Uniform() + random.Uniform() + random.Uniform() - 1.5);
  }
  const int64_t n = static_cast<int64_t>(in.size());
  std::vector<std::byte> blocks(RowBytes(dtype, n));
  std::vector<float> out(in.size());
  QuantizeRow(dtype, in.data(), blocks.data(), n);
  DequantizeRow(dtype, blocks.data(), out.data(), n);
  double error = 0, power = 0;
  for (size_t i = 0; i < in.size(); ++i) {
    error += (out[i] - in[i]) * (out[i] - in[i]);
    power += in[i] * in[i];
  }
  return std::sqrt(error / power);
}

TEST_P(EveryType, EncodesWeightsWithTheErrorItsBitsAllow) {
  double limit = 0;
  switch (GetParam()) {
    case DType::kF32:
      limit = 0;
      break;
    case DType::kF16:
      limit = 0.0003;
      break;
    case DType::kBF16:
      limit = 0.002;
      break;
    case DType::kQ8_0:
      limit = 0.007;
      break;
    case DType::kQ6_K:
      limit = 0.025;
      break;
    case DType::kQ5_0:
    case DType::kQ5_1:
    case DType::kQ5_K:
      limit = 0.05;
      break;
    case DType::kQ4_0:
    case DType::kQ4_1:
    case DType::kQ4_K:
      limit = 0.1;
      break;
    default:
      FAIL() << "no encoder";
  }
  EXPECT_LE(RelativeError(GetParam()), limit);
}

TEST_P(EveryType, EncodesZerosAndTinyValuesToFiniteNumbers) {
  for (float value : {0.0f, 1e-42f, -1e-42f, 1e-30f, -1e-9f}) {
    std::vector<float> in(256, value);
    std::vector<std::byte> blocks(RowBytes(GetParam(), 256));
    std::vector<float> out(256, NAN);
    QuantizeRow(GetParam(), in.data(), blocks.data(), 256);
    DequantizeRow(GetParam(), blocks.data(), out.data(), 256);
    for (float x : out) ASSERT_NEAR(x, value, 1e-6) << value;
  }
}

INSTANTIATE_TEST_SUITE_P(Transcoded, DecodedType, testing::ValuesIn(kTranscodedTypes),
                         [](const auto& test) { return std::string(Name(test.param)); });
INSTANTIATE_TEST_SUITE_P(Tensor, DecodedType, testing::ValuesIn(kReadableTypes),
                         [](const auto& test) { return std::string(Name(test.param)); });
INSTANTIATE_TEST_SUITE_P(Tensor, EveryType, testing::ValuesIn(kReadableTypes),
                         [](const auto& test) { return std::string(Name(test.param)); });

class EncodedType : public testing::TestWithParam<DType> {};

TEST_P(EncodedType, QuantizesToTheBytesOfTheReference) {
  const Golden golden = ReadGolden("quantize", GetParam());
  ASSERT_GE(golden.values.size(), 2048u);
  std::vector<std::byte> blocks(golden.blocks.size());
  QuantizeRow(GetParam(), golden.values.data(), blocks.data(),
              static_cast<int64_t>(golden.values.size()));
  for (size_t i = 0; i < blocks.size(); ++i) {
    ASSERT_EQ(blocks[i], golden.blocks[i]) << "byte " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Tensor, EncodedType,
                         testing::Values(DType::kF16, DType::kBF16, DType::kQ4_0, DType::kQ4_1,
                                         DType::kQ5_0, DType::kQ5_1, DType::kQ8_0, DType::kMXFP4),
                         [](const auto& test) { return std::string(Name(test.param)); });

}  // namespace
}  // namespace tutti::tensor
