#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include "tensor/dequantize.h"
#include "tensor/quantize.h"
#include "test_paths.h"

namespace tutti::tensor {
namespace {

// The 2,048 values of the encoders' goldens: ordinary weights, zeros, equal ones, an outlier, tiny
// ones (tools/make_tensor_goldens.py).
std::vector<float> SearchedValues() {
  std::ifstream file(support::SourcePath("tests/data/gguf/quantize_F16.bin"), std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  std::vector<float> values(2048);
  EXPECT_EQ(bytes.size(), 4 + values.size() * 6);
  std::memcpy(values.data(), bytes.data() + bytes.size() - values.size() * 4, values.size() * 4);
  return values;
}

double LossOf(DType dtype, const std::vector<float>& in,
              void (*encode)(DType, const float*, void*, int64_t)) {
  const int64_t n = static_cast<int64_t>(in.size());
  std::vector<std::byte> blocks(RowBytes(dtype, n));
  std::vector<float> out(in.size());
  encode(dtype, in.data(), blocks.data(), n);
  DequantizeRow(dtype, blocks.data(), out.data(), n);
  double lost = 0;
  double power = 0;
  for (size_t i = 0; i < in.size(); ++i) {
    lost += std::pow(static_cast<double>(out[i] - in[i]), 2);
    power += std::pow(static_cast<double>(in[i]), 2);
  }
  return std::sqrt(lost / power);
}

struct Reference {
  DType dtype;
  double error;  // of ggml's own encoder (llama-cpp-python 0.3.36) for these values
};

class SearchedType : public testing::TestWithParam<Reference> {};

TEST_P(SearchedType, IsAsGoodAsTheEncoderOfTheReference) {
  const std::vector<float> values = SearchedValues();
  const double searched = LossOf(GetParam().dtype, values, QuantizeRowSearched);
  EXPECT_LE(searched, 1.02 * GetParam().error);
  EXPECT_LT(searched, LossOf(GetParam().dtype, values, QuantizeRow));
}

INSTANTIATE_TEST_SUITE_P(Tensor, SearchedType,
                         testing::Values(Reference{DType::kQ4_K, 0.053627409},
                                         Reference{DType::kQ5_K, 0.024433810},
                                         Reference{DType::kQ6_K, 0.009569257}),
                         [](const auto& test) { return std::string(Name(test.param.dtype)); });

TEST(QuantizeSearched, SimpleTypesKeepTheBytesOfTheReference) {
  const std::vector<float> values = SearchedValues();
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16, DType::kQ4_0, DType::kQ4_1,
                            DType::kQ5_0, DType::kQ5_1, DType::kQ8_0}) {
    std::vector<std::byte> searched(RowBytes(dtype, 2048));
    std::vector<std::byte> plain(searched.size());
    QuantizeRowSearched(dtype, values.data(), searched.data(), 2048);
    QuantizeRow(dtype, values.data(), plain.data(), 2048);
    EXPECT_EQ(searched, plain) << dtype;
  }
}

TEST(QuantizeSearched, ValuesOfEverySizeGiveFiniteBlocksOrOnesThatSayTheyAreNot) {
  for (const DType dtype : {DType::kQ4_K, DType::kQ5_K, DType::kQ6_K}) {
    for (const float size : {0.0f, 1e-40f, 1e-20f, 1e-5f, 1.0f, 6e4f, 1e20f, 3e38f}) {
      for (const int kind : {0, 1, 2}) {  // positive, negative, both
        std::vector<float> values(256);
        for (int i = 0; i < 256; ++i) {
          const float value = size * static_cast<float>(i % 17) / 16.0f;
          values[static_cast<size_t>(i)] = kind == 1 || (kind == 2 && i % 2 == 0) ? -value : value;
        }
        std::vector<std::byte> blocks(RowBytes(dtype, 256));
        QuantizeRowSearched(dtype, values.data(), blocks.data(), 256);
        const bool finite = FirstNonFinite(dtype, blocks.data(), 256) < 0;
        EXPECT_EQ(finite, size < 1e10f) << dtype << " " << size << " " << kind;
        if (!finite) continue;
        std::vector<float> out(256);
        DequantizeRow(dtype, blocks.data(), out.data(), 256);
        for (size_t i = 0; i < 256; ++i) {
          // Fp16 scales of scales cannot represent values much smaller than 63 x 15 x 6e-8.
          ASSERT_NEAR(out[i], values[i], 0.1f * size + 3e-5f) << dtype << " " << size;
        }
      }
    }
  }
}

}  // namespace
}  // namespace tutti::tensor
