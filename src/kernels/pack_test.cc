#include "kernels/pack.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/testing/gemm_test_support.h"
#include "tensor/blocks.h"
#include "tensor/dequantize.h"
#include "tensor/testing/random_blocks.h"

namespace tutti::kernels {
namespace {

using tensor::DType;
using testing::FileTensor;
using testing::PackOrDie;

std::vector<float> Dequantized(const tensor::TensorView& view, int64_t row) {
  std::vector<float> out(static_cast<size_t>(view.shape.columns()));
  tensor::DequantizeRow(view.dtype, view.row(row), out.data(), view.shape.columns());
  return out;
}

std::vector<float> Unpacked(const PackedMatrix& matrix, int32_t row) {
  std::vector<float> out(static_cast<size_t>(matrix.cols));
  UnpackRow(matrix, row, out.data());
  return out;
}

TEST(Pack, SimpleTypesKeepEveryNumber) {
  for (DType dtype : {DType::kQ4_0, DType::kQ4_1, DType::kMXFP4, DType::kQ5_0, DType::kQ5_1,
                      DType::kQ8_0, DType::kF32, DType::kF16, DType::kBF16}) {
    const FileTensor file(dtype, 45, 160, 7);
    const OwnedMatrix packed = PackOrDie(ConcatenateRows({file.view}, NativeFormat(dtype)));
    ASSERT_EQ(packed.view.rows, 64);
    ASSERT_EQ(packed.view.used_rows, 45);
    for (int32_t row = 0; row < 45; ++row) {
      ASSERT_EQ(Unpacked(packed.view, row), Dequantized(file.view, row)) << dtype << " row " << row;
    }
  }
}

TEST(Pack, EveryTypePacksAsFloatToWhatItMeans) {
  for (DType dtype : tensor::kReadableTypes) {
    const FileTensor file(dtype, 33, 512, 11);
    const OwnedMatrix packed = PackOrDie(ConcatenateRows({file.view}, WeightFormat::kF32));
    for (int32_t row = 0; row < 33; ++row) {
      ASSERT_EQ(Unpacked(packed.view, row), Dequantized(file.view, row)) << dtype << " row " << row;
    }
  }
}

TEST(Pack, TranscodedTypesStayWithinTheirDocumentedLoss) {
  for (DType dtype : tensor::kTranscodedTypes) {
    const std::vector<std::byte> blocks = tensor::testing::RandomBlocks(dtype, 512 * 32, 3, 0.1f);
    const tensor::TensorView view{dtype, {512, 32}, blocks.data()};
    ASSERT_EQ(tensor::FirstNonFinite(dtype, blocks.data(), 512 * 32), -1) << dtype;
    const OwnedMatrix floats = PackOrDie(ConcatenateRows({view}, WeightFormat::kF32));
    const OwnedMatrix packed = PackOrDie(ConcatenateRows({view}, NativeFormat(dtype)));
    const std::string_view loss = PackingLoss(dtype);
    ASSERT_FALSE(loss.empty()) << dtype;
    double lost = 0;
    for (int32_t row = 0; row < 32; ++row) {
      const std::vector<float> want = Dequantized(view, row);
      EXPECT_EQ(Unpacked(floats.view, row), want) << dtype;
      const std::vector<float> got = Unpacked(packed.view, row);
      for (size_t block = 0; block < want.size(); block += 32) {
        float max = 0;
        for (size_t i = block; i < block + 32; ++i) max = std::max(max, std::fabs(want[i]));
        for (size_t i = block; i < block + 32; ++i) {
          const float bound = loss.starts_with("exact")    ? 0
                              : loss.starts_with("scales") ? 0x1p-11f * std::fabs(want[i])
                                                           : max / 127 * 0.51f;
          ASSERT_NEAR(got[i], want[i], bound) << dtype << " row " << row << " column " << i;
          lost += std::fabs(static_cast<double>(want[i]));
        }
      }
    }
    EXPECT_GT(lost, 0) << dtype;
  }
}

TEST(Pack, SuperblockTypesStayWithinTheirDocumentedError) {
  for (DType dtype : {DType::kQ4_K, DType::kQ5_K, DType::kQ6_K}) {
    const FileTensor file(dtype, 32, 512, 13);
    const OwnedMatrix packed = PackOrDie(ConcatenateRows({file.view}, NativeFormat(dtype)));
    for (int32_t row = 0; row < 32; ++row) {
      const std::vector<float> want = Dequantized(file.view, row);
      const std::vector<float> got = Unpacked(packed.view, row);
      for (size_t block = 0; block < want.size(); block += 32) {
        float max = 0;
        for (size_t i = block; i < block + 32; ++i) max = std::max(max, std::fabs(want[i]));
        // 2^-11 of the weight; with a minimum of scale * q and of the minimum, which are each at
        // most twice the greatest weight here.
        for (size_t i = block; i < block + 32; ++i) {
          const float bound =
              dtype == DType::kQ6_K ? std::fabs(want[i]) * 0x1p-11f : 4 * max * 0x1p-11f;
          ASSERT_NEAR(got[i], want[i], bound) << dtype << " row " << row;
        }
      }
    }
  }
}

TEST(Pack, FloatTypesQuantiseToEightBitsOnRequest) {
  for (DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    const FileTensor file(dtype, 32, 96, 17);
    const OwnedMatrix packed = PackOrDie(ConcatenateRows({file.view}, WeightFormat::kQ8_0));
    for (int32_t row = 0; row < 32; ++row) {
      const std::vector<float> want = Dequantized(file.view, row);
      const std::vector<float> got = Unpacked(packed.view, row);
      for (size_t i = 0; i < want.size(); ++i)
        ASSERT_NEAR(got[i], want[i], 0.3 / 127 * 0.51) << dtype;
    }
  }
}

TEST(Pack, ConcatenationKeepsOrderAndPadsWithZeros) {
  const FileTensor q(DType::kQ8_0, 40, 64, 1);
  const FileTensor k(DType::kQ8_0, 13, 64, 2);
  const OwnedMatrix packed = PackOrDie(ConcatenateRows({q.view, k.view}, WeightFormat::kQ8_0));
  EXPECT_EQ(packed.view.used_rows, 53);
  ASSERT_EQ(packed.view.rows, 64);
  EXPECT_EQ(Unpacked(packed.view, 39), Dequantized(q.view, 39));
  EXPECT_EQ(Unpacked(packed.view, 40), Dequantized(k.view, 0));
  EXPECT_EQ(Unpacked(packed.view, 52), Dequantized(k.view, 12));
  // The scales of the padding are zero, so it unpacks to zero for any quants.
  EXPECT_THAT(Unpacked(packed.view, 53), ::testing::Each(0.0f));
  EXPECT_THAT(Unpacked(packed.view, 63), ::testing::Each(0.0f));
}

TEST(Pack, GateAndUpShareEveryPanel) {
  const FileTensor gate(DType::kQ4_1, 48, 64, 1);
  const FileTensor up(DType::kQ4_1, 48, 64, 2);
  const OwnedMatrix packed = PackOrDie(InterleaveGateUp(gate.view, up.view, WeightFormat::kQ4_1));
  ASSERT_EQ(packed.view.rows, 96);
  for (int32_t i = 0; i < 48; ++i) {
    const int32_t at = i / 16 * 32 + i % 16;
    EXPECT_EQ(Unpacked(packed.view, at), Dequantized(gate.view, i));
    EXPECT_EQ(Unpacked(packed.view, at + 16), Dequantized(up.view, i));
  }
}

TEST(Pack, PanelsPackedApartEqualPanelsPackedTogether) {
  const FileTensor file(DType::kQ5_1, 128, 96, 3);
  const PackSpec spec = ConcatenateRows({file.view}, WeightFormat::kQ5_1);
  const OwnedMatrix whole = PackOrDie(spec);
  AlignedBuffer parts = AlignedBuffer::Allocate(PackedBytes(whole.view)).value();
  std::memset(parts.data(), 0xee, parts.size());
  uint8_t* out = reinterpret_cast<uint8_t*>(parts.data());
  ASSERT_TRUE(PackPanels(spec, 3, 4, out).ok());
  ASSERT_TRUE(PackPanels(spec, 0, 3, out).ok());
  EXPECT_EQ(std::memcmp(out, whole.view.data, parts.size()), 0);
}

TEST(Pack, ScalesThatAreNotFiniteAreRefusedByRow) {
  for (DType dtype : tensor::kReadableTypes) {
    FileTensor file(dtype, 40, 256, 5);
    std::byte* row = file.bytes.data() + 37 * file.view.row_bytes();
    if (dtype == DType::kF32) {
      const float nan = std::numeric_limits<float>::quiet_NaN();
      std::memcpy(row + 8, &nan, sizeof nan);
    } else {
      const uint16_t infinity = dtype == DType::kBF16 ? 0x7f80 : 0x7c00;
      const size_t at = dtype == DType::kQ6_K ? offsetof(tensor::BlockQ6_K, d) : 0;
      std::memcpy(row + at, &infinity, sizeof infinity);
    }
    const Result<OwnedMatrix> packed =
        PackMatrix(ConcatenateRows({file.view}, NativeFormat(dtype)));
    ASSERT_FALSE(packed.ok()) << dtype;
    EXPECT_EQ(packed.status().reason(), "model_nonfinite");
    EXPECT_THAT(packed.status().message(), ::testing::HasSubstr("row 37")) << dtype;
  }
}

TEST(Pack, ShapesAndTypesThatCannotBePackedAreRefused) {
  const FileTensor f32(DType::kF32, 4, 40, 1);
  EXPECT_EQ(PackMatrix(ConcatenateRows({f32.view}, WeightFormat::kF32)).status().reason(),
            "model_hparam");
  const FileTensor q4(DType::kQ4_0, 4, 64, 1);
  EXPECT_EQ(PackMatrix(ConcatenateRows({q4.view}, WeightFormat::kQ8_0)).status().reason(),
            "gguf_unsupported_type");
  const FileTensor wide(DType::kQ4_0, 4, 96, 1);
  EXPECT_EQ(
      PackMatrix(ConcatenateRows({q4.view, wide.view}, WeightFormat::kQ4_0)).status().reason(),
      "model_hparam");
  PackSpec spec = ConcatenateRows({q4.view}, WeightFormat::kQ4_0);
  spec.rows.push_back({0, 4});
  EXPECT_EQ(CheckPack(spec).reason(), "model_hparam");
  spec.rows.back() = {1, 0};
  EXPECT_EQ(CheckPack(spec).reason(), "model_hparam");
  spec.rows.back() = {-1, 0};
  EXPECT_TRUE(CheckPack(spec).ok());
  EXPECT_EQ(CheckPack(ConcatenateRows({}, WeightFormat::kQ4_0)).reason(), "model_hparam");
}

TEST(AlignedBuffer, IsAlignedZeroedAndMovable) {
  for (size_t bytes : {size_t{0}, size_t{100}, size_t{5} << 20}) {
    Result<AlignedBuffer> made = AlignedBuffer::Allocate(bytes);
    ASSERT_TRUE(made.ok());
    AlignedBuffer buffer = std::move(made).value();
    EXPECT_EQ(buffer.size(), bytes);
    const uintptr_t alignment = bytes >= (size_t{2} << 20) ? size_t{2} << 20 : 4096;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % alignment, 0u);
    for (size_t i = 0; i < bytes; i += 997) ASSERT_EQ(buffer.data()[i], std::byte{0});
    AlignedBuffer other;
    other = std::move(buffer);
    EXPECT_EQ(other.size(), bytes);
  }
  EXPECT_EQ(AlignedBuffer::Allocate(std::numeric_limits<size_t>::max() / 2).status().code(),
            StatusCode::kResourceExhausted);
}

TEST(PackTest, FloatsBecomeTheNearestBfloats) {
  // Ties go to the even value; the last one would round to infinity.
  const std::vector<float> values = {1.0f, 1.00390625f, 1.01171875f, -3.14159265f, 1e-30f, 0.0f};
  std::vector<float> row(kQuantBlock, 0.0f);
  std::copy(values.begin(), values.end(), row.begin());
  const tensor::TensorView view{
      DType::kF32, {kQuantBlock, 1}, reinterpret_cast<const std::byte*>(row.data())};
  const auto packed = PackMatrix(ConcatenateRows({view}, WeightFormat::kBf16));
  ASSERT_TRUE(packed.ok()) << packed.status();
  std::vector<float> back(kQuantBlock);
  UnpackRow(packed->view, 0, back.data());
  EXPECT_EQ(
      std::vector<float>(back.begin(), back.begin() + 6),
      (std::vector<float>{1.0f, 1.0f, 1.015625f, -3.140625f, tensor::BFloatToFloat(0x0DA2), 0.0f}));
  row[3] = 3.4e38f;
  EXPECT_EQ(PackMatrix(ConcatenateRows({view}, WeightFormat::kBf16)).status().reason(),
            "model_nonfinite");
}

}  // namespace
}  // namespace tutti::kernels
