// Products of int8 with one scale per weight row and one per activation row (WeightFormat::kI8Row):
// every table against exact integers, bit for bit.
#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "kernels/gemm.h"
#include "kernels/testing/gemm_test_support.h"
#include "tensor/dequantize.h"

namespace tutti::kernels {
namespace {

using tensor::DType;
using testing::AllKernels;
using testing::Call;
using testing::FileTensor;
using testing::PackOrDie;
using testing::Product;
using testing::QuantizeAll;
using testing::QuantizedBuffer;
using testing::RandomFloats;
using testing::SameBits;

struct Weights {
  FileTensor file;
  OwnedMatrix packed;
  Weights(int64_t rows, int64_t cols, uint64_t seed, DType dtype = DType::kF32)
      : file(dtype, rows, cols, seed),
        packed(PackOrDie(ConcatenateRows({file.view}, WeightFormat::kI8Row))) {}
};

// Approximately normal, deviation 1.
std::vector<float> Gaussian(size_t n, uint64_t seed) {
  Random random(seed);
  std::vector<float> out(n);
  for (float& x : out) {
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += random.Uniform();
    x = static_cast<float>(sum);
  }
  return out;
}

// A float tensor of given values.
struct GivenTensor : FileTensor {
  GivenTensor(const std::vector<float>& values, int64_t rows)
      : FileTensor(DType::kF32, rows, static_cast<int64_t>(values.size()) / rows, 1) {
    std::memcpy(bytes.data(), values.data(), values.size() * sizeof(float));
  }
};

// q of activation row `row`, which lies in tiles.
std::vector<int> QuantsOf(const QuantizedRows& rows, int32_t row) {
  int32_t tile = 0;
  while (TileBegin(rows.rows, tile + 1, rows.tile_rows) <= row) ++tile;
  const int32_t begin = TileBegin(rows.rows, tile, rows.tile_rows);
  const int32_t size = TileBegin(rows.rows, tile + 1, rows.tile_rows) - begin;
  const int32_t blocks = rows.cols / kQuantBlock;
  std::vector<int> out;
  for (int32_t k = 0; k < rows.cols; ++k) {
    const size_t at = static_cast<size_t>(begin * blocks + k / 32 * size + row - begin);
    out.push_back(rows.q[at * 32 + static_cast<size_t>(k % 32)]);
  }
  return out;
}

// The format's definition in exact integers: what every table must give to the bit.
std::vector<float> Definition(const PackedMatrix& weight, const QuantizedRows& x) {
  std::vector<float> out;
  std::vector<float> row(static_cast<size_t>(weight.cols));
  std::vector<std::vector<int>> w;
  std::vector<float> steps;
  for (int32_t n = 0; n < weight.rows; ++n) {
    const uint8_t* panel = weight.data + static_cast<size_t>(n / kPanelRows) * PanelBytes(weight);
    float step;
    std::memcpy(&step, panel + PanelBytes(weight) - 128 + n % kPanelRows * 4, sizeof step);
    UnpackRow(weight, n, row.data());
    steps.push_back(step);
    std::vector<int> q;
    for (float value : row) q.push_back(step == 0 ? 0 : static_cast<int>(std::lrint(value / step)));
    w.push_back(q);
  }
  for (int32_t m = 0; m < x.rows; ++m) {
    const std::vector<int> q = QuantsOf(x, m);
    for (size_t n = 0; n < w.size(); ++n) {
      int64_t sum = 0;
      for (size_t k = 0; k < q.size(); ++k) sum += w[n][k] * q[k];
      out.push_back(static_cast<float>(static_cast<int32_t>(sum)) * (steps[n] * x.d[m]));
    }
  }
  return out;
}

TEST(RowScaledPack, RoundsToTheNearestOf255StepsOfEachRow) {
  for (DType dtype : {DType::kF32, DType::kF16, DType::kQ8_0, DType::kQ4_K}) {
    const int32_t cols = 256;
    const Weights weights(37, cols, 3, dtype);
    EXPECT_EQ(PanelBytes(weights.packed.view), 32u * cols + 128u);
    std::vector<float> want(static_cast<size_t>(cols));
    std::vector<float> got(static_cast<size_t>(cols));
    for (int32_t n = 0; n < 37; ++n) {
      tensor::DequantizeRow(dtype, weights.file.view.row(n), want.data(), cols);
      UnpackRow(weights.packed.view, n, got.data());
      float max = 0;
      for (float v : want) max = std::max(max, std::fabs(v));
      for (size_t k = 0; k < want.size(); ++k)
        ASSERT_NEAR(got[k], want[k], max / 127 * 0.5001) << dtype << " row " << n;
    }
    UnpackRow(weights.packed.view, 40, got.data());  // padding
    EXPECT_THAT(got, ::testing::Each(0.0f));
  }
}

TEST(RowScaledPack, RefusesWhatIsNotFiniteOrTooWide) {
  for (float bad : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
    std::vector<float> values(3 * 32, 1.0f);
    values[40] = bad;
    const GivenTensor file(values, 3);
    const Status status = PackMatrix(ConcatenateRows({file.view}, WeightFormat::kI8Row)).status();
    EXPECT_EQ(status.reason(), "model_nonfinite");
    EXPECT_THAT(status.message(), ::testing::HasSubstr("row 1"));
  }
  const FileTensor wide(DType::kF32, 1, kMaxRowScaledCols + 32, 1);
  EXPECT_EQ(CheckPack(ConcatenateRows({wide.view}, WeightFormat::kI8Row)).reason(), "model_hparam");
  EXPECT_TRUE(CheckPack(ConcatenateRows({wide.view}, WeightFormat::kQ8_0)).ok());
}

TEST(RowScaledQuantize, RoundsToTheNearestOf255StepsOfEachRow) {
  const int32_t rows = 11;
  const int32_t cols = 96;
  std::vector<float> x = RandomFloats(static_cast<size_t>(rows * cols), 21, 3.0f);
  std::fill(x.begin() + cols, x.begin() + 2 * cols, 0.0f);
  for (const GemmKernels* kernels : AllKernels()) {
    SCOPED_TRACE(kernels->name);
    QuantizedBuffer out(rows, cols, ScalePer::kRow);
    QuantizeAll(*kernels, x.data(), out);
    for (int32_t m = 0; m < rows; ++m) {
      const float* source = x.data() + m * cols;
      float max = 0;
      for (int32_t k = 0; k < cols; ++k) max = std::max(max, std::fabs(source[k]));
      ASSERT_EQ(out.rows.d[m], max / 127.0f);
      const std::vector<int> q = QuantsOf(out.rows, m);
      int sum = 0;
      for (size_t k = 0; k < q.size(); ++k) {
        ASSERT_LE(std::abs(q[k]), 127);
        ASSERT_NEAR(static_cast<float>(q[k]) * out.rows.d[m], source[k], max / 127 * 0.5001);
        sum += q[k];
      }
      ASSERT_EQ(out.rows.minus128[m], -128 * sum);
    }
  }
}

TEST(RowScaledQuantize, IsTheSameForEveryInstructionSetSplitGatherAndNorm) {
  const int32_t rows = 29;
  const int32_t cols = 224;
  std::vector<float> x = RandomFloats(static_cast<size_t>(rows * cols), 33, 5.0f);
  x[70] = std::numeric_limits<float>::quiet_NaN();
  x[800] = -std::numeric_limits<float>::infinity();
  std::fill(x.begin() + 5 * cols, x.begin() + 6 * cols, 0.0f);
  x[5 * cols + 9] = 1e-40f;  // alone in its row: the inverse step overflows
  const std::vector<float> norm = RandomFloats(static_cast<size_t>(cols), 34);
  std::vector<int32_t> gather(static_cast<size_t>(rows));
  for (int32_t i = 0; i < rows; ++i) gather[static_cast<size_t>(i)] = i * 7 % rows;
  for (int variant = 0; variant < 4; ++variant) {
    QuantizedBuffer want(rows, cols, ScalePer::kRow);
    for (const GemmKernels* kernels : AllKernels()) {
      QuantizedBuffer got(rows, cols, ScalePer::kRow);
      QuantizeArgs args;
      args.x = x.data();
      args.x_stride = static_cast<size_t>(cols);
      args.gather = variant & 1 ? gather.data() : nullptr;
      args.norm_weight = variant & 2 ? norm.data() : nullptr;
      args.norm_eps = 1e-5f;
      args.out = got.rows;
      kernels->quantize(args, 13, rows);
      kernels->quantize(args, 0, 1);
      kernels->quantize(args, 1, 13);
      if (kernels == &ScalarGemmKernels()) {
        args.out = want.rows;
        kernels->quantize(args, 0, rows);
      }
      ASSERT_EQ(std::memcmp(got.rows.q, want.rows.q, static_cast<size_t>(rows * cols)), 0)
          << kernels->name << " variant " << variant;
      for (int32_t m = 0; m < rows; ++m) {
        ASSERT_EQ(got.rows.minus128[m], want.rows.minus128[m]);
        if (!std::isnan(want.rows.d[m])) {
          ASSERT_EQ(got.rows.d[m], want.rows.d[m]);
        } else {
          ASSERT_TRUE(std::isnan(got.rows.d[m]));
        }
      }
    }
    if (variant == 0) {
      EXPECT_TRUE(std::isnan(want.rows.d[0]));
      EXPECT_TRUE(std::isinf(want.rows.d[3]));
      EXPECT_EQ(want.rows.d[5], 1e-40f / 127.0f);
      EXPECT_TRUE(std::isfinite(want.rows.d[1]));
    }
  }
}

TEST(RowScaledGemm, IsTheDefinitionToTheBitForManyShapes) {
  Random random(31);
  std::vector<std::vector<int32_t>> shapes = {{384, 384, 16}, {40, 1536, 17}, {33, 32, 1}};
  for (int trial = 0; trial < 30; ++trial) {
    shapes.push_back({static_cast<int32_t>(random.Between(1, 160)),
                      static_cast<int32_t>(random.Between(1, 24)) * 32,
                      static_cast<int32_t>(random.Between(1, 40))});
  }
  for (const std::vector<int32_t>& shape : shapes) {
    const Weights weights(shape[0], shape[1], random.Next());
    const PackedMatrix& view = weights.packed.view;
    const std::vector<float> x =
        RandomFloats(static_cast<size_t>(shape[2] * shape[1]), random.Next(), 2.0f);
    QuantizedBuffer quantized(shape[2], shape[1], ScalePer::kRow);
    QuantizeAll(ScalarGemmKernels(), x.data(), quantized);
    const std::vector<float> want = Definition(view, quantized.rows);
    for (const GemmKernels* kernels : AllKernels()) {
      for (GemmPath path : {GemmPath::kAuto, GemmPath::kUnpacked}) {  // there is one path only
        ASSERT_TRUE(SameBits(Product(*kernels, view, x, path), want))
            << kernels->name << " n=" << shape[0] << " k=" << shape[1] << " m=" << shape[2];
      }
    }
  }
}

// The greatest sums there can be, of both signs: int16 in the middle and int32 at the end hold
// them.
TEST(RowScaledGemm, SumsOfExtremesOverTheWidestMatrixAreExact) {
  const int32_t k = kMaxRowScaledCols;
  std::vector<float> w(static_cast<size_t>(4 * k));
  for (size_t i = 0; i < w.size(); ++i) {
    const size_t row = i / static_cast<size_t>(k);
    w[i] = row == 0 ? 127.0f : row == 1 ? -127.0f : row == 2 ? (i % 2 ? 127.0f : -127.0f) : 1.0f;
  }
  const GivenTensor file(w, 4);
  const OwnedMatrix packed = PackOrDie(ConcatenateRows({file.view}, WeightFormat::kI8Row));
  std::vector<float> x(static_cast<size_t>(2 * k), 127.0f);
  std::fill(x.begin() + k, x.end(), -127.0f);
  const float all = 127.0f * 127.0f * static_cast<float>(k);
  for (const GemmKernels* kernels : AllKernels()) {
    const std::vector<float> y = Product(*kernels, packed.view, x);
    EXPECT_EQ(y[0], all);
    EXPECT_EQ(y[1], -all);
    EXPECT_EQ(y[2], 0.0f);
    EXPECT_EQ(y[32], -all);
    EXPECT_EQ(y[33], all);
  }
}

TEST(RowScaledGemm, ARowHasTheSameBitsAtEveryBatchSizePlaceAndSplit) {
  const int32_t n = 96;
  const int32_t k = 160;
  constexpr int32_t kMost = 40;
  const std::vector<float> x = RandomFloats(static_cast<size_t>(kMost * k), 9, 2.0f);
  const Weights weights(n, k, 8);
  for (const GemmKernels* kernels : AllKernels()) {
    std::vector<float> alone;
    for (int32_t row = 0; row < kMost; ++row) {
      const std::vector<float> y =
          Product(*kernels, weights.packed.view, {x.begin() + row * k, x.begin() + (row + 1) * k});
      alone.insert(alone.end(), y.begin(), y.end());
    }
    for (int32_t m = 1; m <= kMost; ++m) {
      const int32_t first = (m * 13) % (kMost - m + 1);
      const std::vector<float> part(x.begin() + first * k, x.begin() + (first + m) * k);
      const std::vector<float> want(alone.begin() + first * n, alone.begin() + (first + m) * n);
      Call call(*kernels, weights.packed.view, part);
      for (int32_t worker = 2; worker >= 0; --worker) {
        const PanelRange range = WorkerPanels(weights.packed.view, worker, 3, 1);
        call.args.next = weights.packed.view.data;
        kernels->gemm(call.args, range.begin, range.end, call.scratch.data());
      }
      ASSERT_TRUE(SameBits(call.out, want)) << kernels->name << " m=" << m;
    }
  }
}

TEST(RowScaledGemm, ReadsAheadToTheEndWithoutChangingABit) {
  const std::vector<std::byte> elsewhere(1 << 14);
  const std::vector<Prefetch::Run> runs = {{0, 70}, {4480, 1}, {8192, 128}};
  const std::vector<float> x = RandomFloats(11 * 192, 5);
  const Weights weights(608, 192, 4);
  for (const GemmKernels* kernels : AllKernels()) {
    const std::vector<float> plain = Product(*kernels, weights.packed.view, x);
    Call call(*kernels, weights.packed.view, x);
    Prefetch ahead{.base = reinterpret_cast<const uint8_t*>(elsewhere.data()),
                   .runs = runs.data(),
                   .count = static_cast<int32_t>(runs.size())};
    call.args.ahead = &ahead;
    EXPECT_TRUE(SameBits(call.Run(), plain)) << kernels->name;
    EXPECT_EQ(ahead.run, ahead.count) << kernels->name;
  }
}

TEST(RowScaledGemm, EpiloguesAreOneRoundingOnTheProduct) {
  const Weights weights(96, 128, 14);
  const std::vector<float> x = RandomFloats(13 * 128, 15, 4.0f);
  const std::vector<float> bias = RandomFloats(96, 16);
  std::vector<float> gelu_bits;
  for (const GemmKernels* kernels : AllKernels()) {
    SCOPED_TRACE(kernels->name);
    const std::vector<float> plain = Product(*kernels, weights.packed.view, x);
    for (Epilogue epilogue : {Epilogue::kStore, Epilogue::kAdd, Epilogue::kGelu}) {
      Call call(*kernels, weights.packed.view, x);
      call.args.epilogue = epilogue;
      call.args.bias = bias.data();
      call.Run();
      for (size_t i = 0; i < plain.size(); ++i) {
        const float y = plain[i] + bias[i % 96];
        if (epilogue == Epilogue::kGelu) {
          const double exact = 0.5 * y * std::erfc(-y / std::sqrt(2.0));
          ASSERT_NEAR(call.out[i], exact, 1e-6 + 1e-6 * std::fabs(y));
        } else {
          ASSERT_EQ(call.out[i], epilogue == Epilogue::kAdd ? -7.0f + y : y);
        }
      }
      if (epilogue != Epilogue::kGelu) continue;
      if (gelu_bits.empty()) gelu_bits = call.out;
      ASSERT_TRUE(SameBits(call.out, gelu_bits));
    }
  }
}

TEST(RowScaledGemm, NotANumberAndInfinityReachTheirOwnRowsOnly) {
  const Weights weights(64, 96, 1);
  std::vector<float> x = RandomFloats(5 * 96, 5);
  const std::vector<float> before = Product(ScalarGemmKernels(), weights.packed.view, x);
  x[96 + 3] = std::numeric_limits<float>::quiet_NaN();
  x[3 * 96 + 40] = -std::numeric_limits<float>::infinity();
  for (const GemmKernels* kernels : AllKernels()) {
    const std::vector<float> y = Product(*kernels, weights.packed.view, x);
    for (size_t i = 0; i < y.size(); ++i) {
      if (i / 64 == 1 || i / 64 == 3) {
        ASSERT_FALSE(std::isfinite(y[i]));
      } else {
        ASSERT_EQ(y[i], before[i]);
      }
    }
  }
}

// Relative L2 distance of x * w^T as a format computes it to the float64 product.
double ErrorOf(WeightFormat format, const std::vector<float>& x, const std::vector<float>& w,
               int32_t n, int32_t k) {
  const GivenTensor file(w, n);
  const OwnedMatrix packed = PackOrDie(ConcatenateRows({file.view}, format));
  const std::vector<float> y = Product(ScalarGemmKernels(), packed.view, x);
  double difference = 0;
  double norm = 0;
  for (size_t i = 0; i < y.size(); ++i) {
    const float* row = x.data() + i / static_cast<size_t>(n) * static_cast<size_t>(k);
    const float* weights = w.data() + i % static_cast<size_t>(n) * static_cast<size_t>(k);
    double want = 0;
    for (int32_t c = 0; c < k; ++c) want += static_cast<double>(row[c]) * weights[c];
    difference += (y[i] - want) * (y[i] - want);
    norm += want * want;
  }
  return std::sqrt(difference / norm);
}

// Error of one scale per row compared with one per 32 values: little more on values of similar
// size, much more where some channels are ten times the others. Callers must check their model.
TEST(RowScaledGemm, ErrorAgainstFloat64IsOnePercentWithoutOutlierChannels) {
  for (int32_t k : {384, 1536}) {
    const int32_t n = 64;
    const std::vector<float> w = Gaussian(static_cast<size_t>(n * k), 1);
    std::vector<float> x = Gaussian(static_cast<size_t>(32 * k), 2);
    for (bool outliers : {false, true}) {
      for (size_t i = 0; outliers && i < x.size(); ++i) {
        if (i % static_cast<size_t>(k) % 100 == 7) x[i] *= 10;
      }
      const double by_row = ErrorOf(WeightFormat::kI8Row, x, w, n, k);
      const double by_block = ErrorOf(WeightFormat::kQ8_0, x, w, n, k);
      const std::string name = std::to_string(k) + (outliers ? "_outliers" : "_plain");
      RecordProperty("percent_row_" + name, std::to_string(by_row * 100));
      RecordProperty("percent_block_" + name, std::to_string(by_block * 100));
      EXPECT_GT(by_row, by_block);
      EXPECT_LT(by_row, (outliers ? 3.5 : 1.6) * by_block) << name;
      EXPECT_LT(by_row, outliers ? 0.04 : 0.013) << name;
    }
  }
}

}  // namespace
}  // namespace tutti::kernels
