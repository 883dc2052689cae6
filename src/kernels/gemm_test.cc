// Every instruction set this machine can run against the scalar oracle, bit for bit; the oracle
// against float64.
#include "kernels/gemm.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <memory>

#include "amount.h"
#include "kernels/quantized_rows.h"
#include "kernels/spmd.h"
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

constexpr DType kTypes[] = {DType::kQ4_0, DType::kQ4_1, DType::kMXFP4, DType::kQ5_0, DType::kQ5_1,
                            DType::kQ6_K, DType::kQ8_0, DType::kF32,   DType::kF16,  DType::kBF16};

// `cols`, or the next width that rows of the type can have.
int32_t WidthFor(DType dtype, int32_t cols) {
  const int32_t block = dtype == DType::kQ6_K ? 256 : 32;
  return (cols + block - 1) / block * block;
}

// One matrix of a type, ready to be multiplied.
struct Weights {
  FileTensor file;
  OwnedMatrix packed;
  Weights(DType dtype, int64_t rows, int64_t cols, uint64_t seed)
      : file(dtype, rows, cols, seed),
        packed(PackOrDie(ConcatenateRows({file.view}, NativeFormat(dtype)))) {}
};

TEST(Tiling, IsEqualTilesOfAtMostEight) {
  for (int32_t rows = 1; rows <= 70; ++rows) {
    const int32_t tiles = TileCount(rows);
    EXPECT_EQ(tiles, (rows + 7) / 8);
    EXPECT_EQ(TileBegin(rows, 0), 0);
    EXPECT_EQ(TileBegin(rows, tiles), rows);
    for (int32_t t = 0; t < tiles; ++t) {
      const int32_t size = TileBegin(rows, t + 1) - TileBegin(rows, t);
      EXPECT_TRUE(size == rows / tiles || size == rows / tiles + 1);
      EXPECT_LE(size, kMaxTile);
    }
  }
}

TEST(WorkerPanels, CoverEveryPanelOnceOnGranules) {
  PackedMatrix matrix;
  for (int32_t panels : {1, 2, 7, 30, 96}) {
    matrix.rows = panels * kPanelRows;
    for (int32_t workers : {1, 2, 3, 8, 64}) {
      for (int32_t granule : {1, 2}) {
        int32_t next = 0;
        for (int32_t w = 0; w < workers; ++w) {
          const PanelRange range = WorkerPanels(matrix, w, workers, granule);
          EXPECT_EQ(range.begin, next);
          EXPECT_TRUE(range.begin % granule == 0 || range.begin == panels);
          next = range.end;
        }
        EXPECT_EQ(next, panels);
      }
    }
  }
}

TEST(Quantize, RoundsToTheNearestOf255Steps) {
  const int32_t rows = 11;
  const int32_t cols = 96;
  std::vector<float> x = RandomFloats(static_cast<size_t>(rows * cols), 21, 3.0f);
  std::fill(x.begin() + 32, x.begin() + 64, 0.0f);  // an empty block
  for (const GemmKernels* kernels : AllKernels()) {
    SCOPED_TRACE(kernels->name);
    QuantizedBuffer out(rows, cols);
    QuantizeAll(*kernels, x.data(), out);
    for (int32_t t = 0; t < TileCount(rows); ++t) {
      const int32_t begin = TileBegin(rows, t);
      const int32_t size = TileBegin(rows, t + 1) - begin;
      for (int32_t r = 0; r < size; ++r) {
        for (int32_t b = 0; b < cols / 32; ++b) {
          const size_t i = static_cast<size_t>(begin * (cols / 32) + b * size + r);
          const float* source = x.data() + (begin + r) * cols + b * 32;
          float max = 0;
          int sum = 0;
          int halves[2] = {0, 0};
          for (int k = 0; k < 32; ++k) max = std::max(max, std::fabs(source[k]));
          ASSERT_EQ(out.rows.d[i], max / 127.0f);
          for (int k = 0; k < 32; ++k) {
            const int q = out.rows.q[i * 32 + static_cast<size_t>(k)];
            ASSERT_LE(std::abs(q), 127);
            ASSERT_NEAR(static_cast<float>(q) * out.rows.d[i], source[k], max / 127 * 0.5001);
            sum += q;
            halves[k / 16] += q;
          }
          ASSERT_EQ(out.rows.minus32[2 * i], -32 * halves[0]);
          ASSERT_EQ(out.rows.minus32[2 * i + 1], -32 * halves[1]);
          ASSERT_EQ(out.rows.s[i], out.rows.d[i] * static_cast<float>(sum));
          ASSERT_EQ(out.rows.minus8[i], -8 * sum);
          ASSERT_EQ(out.rows.minus16[i], -16 * sum);
          ASSERT_EQ(out.rows.minus128[i], -128 * sum);
        }
      }
    }
  }
}

TEST(Quantize, CarriesNaNAndInfinityInTheScale) {
  for (const GemmKernels* kernels : AllKernels()) {
    SCOPED_TRACE(kernels->name);
    std::vector<float> x = RandomFloats(96, 5);
    x[3] = std::numeric_limits<float>::quiet_NaN();
    x[40] = -std::numeric_limits<float>::infinity();
    x[64] = 1e-40f;  // with 95 zeros: the inverse scale overflows, the block is still finite
    std::fill(x.begin() + 65, x.end(), 0.0f);
    QuantizedBuffer out(1, 96);
    QuantizeAll(*kernels, x.data(), out);
    EXPECT_TRUE(std::isnan(out.rows.d[0]));
    EXPECT_TRUE(std::isinf(out.rows.d[1]));
    EXPECT_TRUE(std::isfinite(out.rows.d[2]) && std::isfinite(out.rows.s[2]));
    const Weights weights(DType::kQ8_0, 32, 96, 1);
    for (float y : Product(*kernels, weights.packed.view, x)) EXPECT_FALSE(std::isfinite(y));
  }
}

TEST(Quantize, IsTheSameForEveryInstructionSetSplitAndGather) {
  const int32_t rows = 29;
  const int32_t cols = 224;
  const std::vector<float> x = RandomFloats(static_cast<size_t>(rows * cols), 33, 5.0f);
  const std::vector<float> norm = RandomFloats(static_cast<size_t>(cols), 34);
  std::vector<int32_t> gather(static_cast<size_t>(rows));
  for (int32_t i = 0; i < rows; ++i) gather[static_cast<size_t>(i)] = i * 7 % rows;
  for (int variant = 0; variant < 4; ++variant) {
    QuantizedBuffer want(rows, cols);
    for (const GemmKernels* kernels : AllKernels()) {
      QuantizedBuffer got(rows, cols);
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
      ASSERT_EQ(std::memcmp(got.memory.data(), want.memory.data(), got.memory.size()), 0)
          << kernels->name << " variant " << variant;
    }
  }
}

TEST(Quantize, ACopiedRowIsTheRowQuantisedInItsPlace) {
  const int32_t cols = 96;
  for (const ScalePer scale : {ScalePer::kBlock, ScalePer::kRow, ScalePer::kNone}) {
    for (const int32_t tile_rows : {kMaxTile, kUnitTile}) {
      for (const int32_t rows : {1, 7, 8, 9, 29, 45}) {
        const std::vector<float> x = RandomFloats(static_cast<size_t>(rows * cols), 35, 5.0f);
        QuantizedBuffer want(rows, cols, scale, tile_rows);
        QuantizeAll(ScalarGemmKernels(), x.data(), want);
        // From rows by themselves, and from tiles of another size.
        QuantizedBuffer from_one(rows, cols, scale, tile_rows);
        QuantizedBuffer from_tiles(rows, cols, scale, tile_rows);
        QuantizedBuffer other(rows, cols, scale, kMaxTile + kUnitTile - tile_rows);
        QuantizeAll(ScalarGemmKernels(), x.data(), other);
        for (int32_t row = 0; row < rows; ++row) {
          QuantizedBuffer one(1, cols, scale);
          QuantizeAll(ScalarGemmKernels(), x.data() + row * cols, one);
          CopyQuantizedRow(one.rows, 0, from_one.rows, row);
          CopyQuantizedRow(other.rows, row, from_tiles.rows, row);
        }
        for (const QuantizedBuffer* got : {&from_one, &from_tiles}) {
          EXPECT_EQ(std::memcmp(got->memory.data(), want.memory.data(), want.memory.size()), 0)
              << rows << " rows in tiles of " << tile_rows << ", scale " << static_cast<int>(scale);
        }
      }
    }
  }
}

TEST(Quantize, NormalisesByTheRootMeanSquare) {
  const int32_t cols = 576;
  const std::vector<float> x = RandomFloats(static_cast<size_t>(cols), 3, 4.0f);
  const std::vector<float> weight = RandomFloats(static_cast<size_t>(cols), 4);
  double squares = 0;
  for (float v : x) squares += static_cast<double>(v) * v;
  const double scale = 1.0 / std::sqrt(squares / cols + 1e-5);
  for (const GemmKernels* kernels : AllKernels()) {
    QuantizedBuffer out(1, cols);
    QuantizeArgs args;
    args.x = x.data();
    args.x_stride = static_cast<size_t>(cols);
    args.norm_weight = weight.data();
    args.norm_eps = 1e-5f;
    args.out = out.rows;
    kernels->quantize(args, 0, 1);
    for (size_t k = 0; k < x.size(); ++k) {
      const double want = x[k] * scale * weight[k];
      ASSERT_NEAR(out.rows.q[k] * out.rows.d[k / 32], want, out.rows.d[k / 32] * 0.501 + 1e-6)
          << kernels->name;
    }
  }
}

// The definition in float64 over what the packed operands mean; only the final sums differ.
TEST(Gemm, EqualsTheDefinitionWithinFloatRounding) {
  Random random(77);
  for (DType dtype : kTypes) {
    const int32_t n = static_cast<int32_t>(random.Between(1, 100));
    const int32_t k = WidthFor(dtype, static_cast<int32_t>(random.Between(1, 20)) * 32);
    const int32_t m = static_cast<int32_t>(random.Between(1, 12));
    const Weights weights(dtype, n, k, 100);
    const std::vector<float> x = RandomFloats(static_cast<size_t>(m * k), 101, 2.0f);
    for (const GemmKernels* kernels : AllKernels()) {
      Call call(*kernels, weights.packed.view, x);
      const std::vector<float>& got = call.Run();
      std::vector<float> row(static_cast<size_t>(k));
      for (int32_t i = 0; i < n; ++i) {
        UnpackRow(weights.packed.view, i, row.data());
        for (int32_t j = 0; j < m; ++j) {
          const int32_t t = [&] {
            int32_t tile = 0;
            while (TileBegin(m, tile + 1) <= j) ++tile;
            return tile;
          }();
          const int32_t begin = TileBegin(m, t);
          const int32_t size = TileBegin(m, t + 1) - begin;
          double want = 0;
          double magnitude = 0;
          for (int32_t c = 0; c < k; ++c) {
            double value = x[static_cast<size_t>(j * k + c)];
            if (tensor::IsQuantized(dtype)) {
              const size_t at = static_cast<size_t>(begin * (k / 32) + c / 32 * size + (j - begin));
              value = static_cast<double>(
                          call.quantized.rows.q[at * 32 + static_cast<size_t>(c % 32)]) *
                      static_cast<double>(call.quantized.rows.d[at]);
            }
            want += value * row[static_cast<size_t>(c)];
            magnitude += std::fabs(value * row[static_cast<size_t>(c)]);
          }
          ASSERT_NEAR(got[static_cast<size_t>(j * weights.packed.view.rows + i)], want,
                      1e-5 * magnitude + 1e-12)
              << kernels->name << " " << dtype << " n=" << n << " k=" << k << " m=" << m;
        }
      }
    }
  }
}

// With powers of two for scales, every product is an integer: no rounding is allowed anywhere.
TEST(Gemm, SumsIntegersExactly) {
  for (DType dtype : {DType::kQ4_0, DType::kQ4_1, DType::kMXFP4, DType::kQ5_0, DType::kQ5_1,
                      DType::kQ6_K, DType::kQ8_0}) {
    const int32_t k = 256;
    FileTensor file(dtype, 64, k, 55);
    // d = 1 (and m = -3): the first and second half of every block. Of Q6_K d = 1 and 16 scales of
    // whole numbers, one of them the least there is.
    const bool super = dtype == DType::kQ6_K;
    const size_t block_bytes = tensor::RowBytes(dtype, super ? 256 : 32);
    Random random(56);
    for (size_t at = 0; at < file.bytes.size(); at += block_bytes) {
      for (size_t i = 0; i < block_bytes; ++i)
        file.bytes[at + i] = static_cast<std::byte>(random.Below(256));
      const uint16_t one = 0x3c00;
      const uint16_t minus_three = 0xc200;
      std::memcpy(&file.bytes[at + (super ? block_bytes - 2 : 0)], &one, 2);
      if (super) {
        for (size_t i = 192; i < 208; ++i)
          file.bytes[at + i] = static_cast<std::byte>(random.Between(-3, 3));
        file.bytes[at + 200] = std::byte{128};
      }
      if (dtype == DType::kQ4_1 || dtype == DType::kQ5_1)
        std::memcpy(&file.bytes[at + 2], &minus_three, 2);
      if (dtype == DType::kMXFP4) file.bytes[at] = std::byte{128};  // halves are whole
    }
    const OwnedMatrix packed = PackOrDie(ConcatenateRows({file.view}, NativeFormat(dtype)));
    const int32_t m = 9;
    std::vector<float> x(static_cast<size_t>(m * k));
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(random.Between(-127, 127));
    // Extremes in every block make its scale exactly one.
    for (size_t i = 0; i < x.size(); i += 32) x[i] = i % 64 == 0 ? 127.0f : -127.0f;
    for (const GemmKernels* kernels : AllKernels()) {
      for (GemmPath path : {GemmPath::kDirect, GemmPath::kUnpacked}) {
        const std::vector<float> got = Product(*kernels, packed.view, x, path);
        std::vector<float> row(static_cast<size_t>(k));
        for (int32_t n = 0; n < 64; ++n) {
          tensor::DequantizeRow(dtype, file.view.row(n), row.data(), k);
          for (int32_t j = 0; j < m; ++j) {
            int64_t want = 0;
            for (int32_t c = 0; c < k; ++c) {
              want += static_cast<int64_t>(row[static_cast<size_t>(c)]) *
                      static_cast<int64_t>(x[static_cast<size_t>(j * k + c)]);
            }
            ASSERT_EQ(got[static_cast<size_t>(j * 64 + n)], static_cast<float>(want))
                << kernels->name << " " << dtype;
          }
        }
      }
    }
  }
}

TEST(Gemm, EveryInstructionSetAndPathGivesTheScalarBits) {
  Random random(31);
  for (DType dtype : kTypes) {
    for (int trial = 0; trial < 6; ++trial) {
      const int32_t n = static_cast<int32_t>(random.Between(1, 160));
      const int32_t k = WidthFor(dtype, static_cast<int32_t>(random.Between(1, 24)) * 32);
      const int32_t m = static_cast<int32_t>(random.Between(1, 40));
      const Weights weights(dtype, n, k, random.Next());
      const std::vector<float> x = RandomFloats(static_cast<size_t>(m * k), random.Next(), 2.0f);
      const std::vector<float> want = Product(ScalarGemmKernels(), weights.packed.view, x);
      for (const GemmKernels* kernels : AllKernels()) {
        for (GemmPath path : {GemmPath::kAuto, GemmPath::kDirect, GemmPath::kUnpacked}) {
          ASSERT_TRUE(SameBits(Product(*kernels, weights.packed.view, x, path), want))
              << kernels->name << " " << dtype << " n=" << n << " k=" << k << " m=" << m << " path "
              << static_cast<int>(path);
        }
      }
    }
  }
}

TEST(Gemm, ARowHasTheSameBitsAtEveryBatchSizeAndPlace) {
  const int32_t n = 96;
  constexpr int32_t kMost = 70;
  for (DType dtype : kTypes) {
    const int32_t k = WidthFor(dtype, 160);
    const std::vector<float> x = RandomFloats(static_cast<size_t>(kMost * k), 9, 2.0f);
    const Weights weights(dtype, n, k, 8);
    for (const GemmKernels* kernels : AllKernels()) {
      if (kernels == &ScalarGemmKernels())
        continue;                // its tiles are loops; equality with it is tested above
      std::vector<float> alone;  // each row in a batch of its own
      for (int32_t row = 0; row < kMost; ++row) {
        const std::vector<float> y = Product(*kernels, weights.packed.view,
                                             {x.begin() + row * k, x.begin() + (row + 1) * k});
        alone.insert(alone.end(), y.begin(), y.end());
      }
      for (int32_t m = 1; m <= kMost; m += support::Amount(1, 3)) {
        const int32_t first = (m * 13) % (kMost - m + 1);
        const std::vector<float> part(x.begin() + first * k, x.begin() + (first + m) * k);
        const std::vector<float> want(alone.begin() + first * n, alone.begin() + (first + m) * n);
        ASSERT_TRUE(SameBits(Product(*kernels, weights.packed.view, part), want))
            << kernels->name << " " << dtype << " m=" << m;
        ASSERT_TRUE(
            SameBits(Product(*kernels, weights.packed.view, part, GemmPath::kUnpacked), want))
            << kernels->name << " " << dtype << " m=" << m << " unpacked";
      }
    }
  }
}

TEST(Gemm, AnySplitOfThePanelsGivesTheSameBits) {
  const Weights weights(DType::kQ4_1, 224, 192, 4);
  const std::vector<float> x = RandomFloats(11 * 192, 5);
  for (const GemmKernels* kernels : AllKernels()) {
    Call whole(*kernels, weights.packed.view, x);
    whole.Run();
    for (int32_t workers = 2; workers <= 7; ++workers) {
      Call split(*kernels, weights.packed.view, x);
      for (int32_t w = workers - 1; w >= 0; --w) {
        const PanelRange range = WorkerPanels(weights.packed.view, w, workers, 1);
        split.args.next = weights.packed.view.data;
        split.kernels.gemm(split.args, range.begin, range.end, split.scratch.data());
      }
      ASSERT_TRUE(SameBits(split.out, whole.out)) << kernels->name << " workers " << workers;
    }
  }
}

// Foreign memory is asked for by register tiles, in order, to its end; the product is the same.
TEST(Gemm, ReadsAheadToTheEndWithoutChangingABit) {
  const std::vector<std::byte> elsewhere(1 << 14);
  const std::vector<Prefetch::Run> runs = {{0, 70}, {4480, 1}, {8192, 128}};
  const std::vector<float> x = RandomFloats(11 * 192, 5);
  for (const DType dtype : {DType::kQ4_1, DType::kF16}) {
    const Weights weights(dtype, 608, 192, 4);
    for (const GemmKernels* kernels : AllKernels()) {
      const std::vector<float> plain = Product(*kernels, weights.packed.view, x);
      Call call(*kernels, weights.packed.view, x);
      Prefetch ahead{.base = reinterpret_cast<const uint8_t*>(elsewhere.data()),
                     .runs = runs.data(),
                     .count = static_cast<int32_t>(runs.size())};
      call.args.ahead = &ahead;
      call.args.path = GemmPath::kDirect;
      EXPECT_TRUE(SameBits(call.Run(), plain)) << kernels->name;
      EXPECT_EQ(ahead.run, ahead.count) << kernels->name;
    }
  }
}

// A feed-forward layer as a step runs it: every worker its own rows, then its own panels, a barrier
// between.
TEST(Gemm, WorkersAtOnceGiveTheBitsOfOne) {
  const int32_t k = 96;
  const int32_t ff = 192;
  const int32_t m = 21;
  const FileTensor gate(DType::kQ5_0, ff, k, 1);
  const FileTensor up(DType::kQ5_0, ff, k, 2);
  const OwnedMatrix gate_up = PackOrDie(InterleaveGateUp(gate.view, up.view, WeightFormat::kQ5_0));
  const Weights down(DType::kQ8_0, k, ff, 3);
  const std::vector<float> x = RandomFloats(static_cast<size_t>(m * k), 4);
  const std::vector<float> norm = RandomFloats(static_cast<size_t>(k), 5);
  for (const GemmKernels* kernels : AllKernels()) {
    std::vector<float> want;
    for (int workers : {1, 2, 3, 5}) {
      QuantizedBuffer in(m, k);
      QuantizedBuffer hidden(m, ff);
      std::vector<float> out = x;
      SpinBarrier barrier(workers);
      RunOnThreads(workers, [&](int worker) {
        AlignedBuffer scratch = AlignedBuffer::Allocate(GemmScratchBytes(m, ff)).value();
        QuantizeArgs quantize;
        quantize.x = x.data();
        quantize.x_stride = static_cast<size_t>(k);
        quantize.norm_weight = norm.data();
        quantize.norm_eps = 1e-6f;
        quantize.out = in.rows;
        kernels->quantize(quantize, m * worker / workers, m * (worker + 1) / workers);
        barrier.Wait();
        GemmArgs first;
        first.weight = gate_up.view;
        first.x = in.rows;
        first.rows = m;
        first.epilogue = Epilogue::kSwiGlu;
        first.quantized = hidden.rows;
        const PanelRange pairs = WorkerPanels(gate_up.view, worker, workers, 2);
        kernels->gemm(first, pairs.begin, pairs.end, scratch.data());
        barrier.Wait();
        GemmArgs second;
        second.weight = down.packed.view;
        second.x = hidden.rows;
        second.rows = m;
        second.epilogue = Epilogue::kAdd;
        second.out = out.data();
        second.out_stride = static_cast<size_t>(k);
        const PanelRange panels = WorkerPanels(down.packed.view, worker, workers, 1);
        kernels->gemm(second, panels.begin, panels.end, scratch.data());
      });
      if (want.empty()) want = out;
      ASSERT_TRUE(SameBits(out, want)) << kernels->name << " workers " << workers;
      ASSERT_FALSE(SameBits(out, x));
    }
  }
}

TEST(Gemm, AVeryWideMatrixIsUnpackedInChunksWithTheSameBits) {
  for (DType dtype :
       {DType::kQ4_0, DType::kQ5_1, DType::kQ6_K, DType::kQ8_0, DType::kF16, DType::kBF16}) {
    const int32_t k = WidthFor(dtype, (2 * kChunkBlocksInt8 + 3) * 32);
    const Weights weights(dtype, 40, k, 6);
    const std::vector<float> x = RandomFloats(static_cast<size_t>(10 * k), 7);
    const std::vector<float> want =
        Product(ScalarGemmKernels(), weights.packed.view, x, GemmPath::kDirect);
    for (const GemmKernels* kernels : AllKernels()) {
      for (GemmPath path : {GemmPath::kDirect, GemmPath::kUnpacked}) {
        ASSERT_TRUE(SameBits(Product(*kernels, weights.packed.view, x, path), want))
            << kernels->name << " " << dtype;
      }
    }
  }
}

double Gelu(double x) { return 0.5 * x * std::erfc(-x / std::sqrt(2.0)); }
double Silu(double x) { return x / (1.0 + std::exp(-x)); }
double ClampedSwiGlu(double gate, double up) {
  gate = std::min(gate, 7.0);
  up = std::clamp(up, -7.0, 7.0);
  return (up + 1.0) * gate / (1.0 + std::exp(-1.702 * gate));
}
double GeluTanh(double x) {
  return 0.5 * x *
         (1.0 + std::tanh(std::sqrt(2.0 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
}

TEST(GemmEpilogue, BiasResidualAndGeluMatchTheirDefinitions) {
  const Weights weights(DType::kQ8_0, 96, 128, 14);
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
        const double want = epilogue == Epilogue::kGelu  ? Gelu(y)
                            : epilogue == Epilogue::kAdd ? -7.0f + y
                                                         : y;
        // GELU is an approximation; the others are one rounding.
        const double tolerance = epilogue == Epilogue::kGelu ? 1e-6 + 1e-6 * std::fabs(y) : 0.0;
        ASSERT_NEAR(call.out[i], want, tolerance);
      }
      if (epilogue != Epilogue::kGelu) continue;
      if (gelu_bits.empty()) gelu_bits = call.out;
      ASSERT_TRUE(SameBits(call.out, gelu_bits));
    }
  }
}

// One weight of 1 makes the epilogue a function of one number.
TEST(GemmEpilogue, GeluIsExactToSevenDigitsEverywhereAndHasItsLimits) {
  std::vector<float> one(32 * 32, 0.0f);
  one[0] = 1.0f;
  FileTensor file(DType::kF32, 32, 32, 1);
  std::memcpy(file.bytes.data(), one.data(), one.size() * sizeof(float));
  const OwnedMatrix packed = PackOrDie(ConcatenateRows({file.view}, WeightFormat::kF32));
  std::vector<float> values;
  for (int i = -4000; i <= 4000; ++i) values.push_back(static_cast<float>(i) * 0.0021f);
  for (float v : {-1e30f, -100.0f, 100.0f, 1e30f, 1e-30f, -1e-6f}) values.push_back(v);
  std::vector<float> x(values.size() * 32, 0.0f);
  for (size_t i = 0; i < values.size(); ++i) x[i * 32] = values[i];
  for (const GemmKernels* kernels : AllKernels()) {
    Call call(*kernels, packed.view, x);
    call.args.epilogue = Epilogue::kGelu;
    call.Run();
    for (size_t i = 0; i < values.size(); ++i) {
      const double v = values[i];
      ASSERT_NEAR(call.out[i * 32], Gelu(v),
                  std::max(1.2e-7 * std::fabs(v), 3e-7 * std::min(1.0, std::fabs(v))))
          << kernels->name << " " << v;
    }
    x[0] = std::numeric_limits<float>::quiet_NaN();
    Call broken(*kernels, packed.view, x);
    broken.args.epilogue = Epilogue::kGelu;
    EXPECT_TRUE(std::isnan(broken.Run()[0])) << kernels->name;
    x[0] = values[0];
  }
}

TEST(GemmEpilogue, GatesMatchTheirDefinitionsAndQuantiseForTheNextMatrix) {
  const int32_t ff = 96;
  const int32_t k = 128;
  const FileTensor gate(DType::kQ4_1, ff, k, 1);
  const FileTensor up(DType::kQ4_1, ff, k, 2);
  const OwnedMatrix packed = PackOrDie(InterleaveGateUp(gate.view, up.view, WeightFormat::kQ4_1));
  int clamped = 0;
  for (Epilogue epilogue :
       {Epilogue::kSwiGlu, Epilogue::kGeGlu, Epilogue::kGeGluErf, Epilogue::kSwiGluClamped}) {
    for (int32_t m : {1, 8, 19}) {
      const std::vector<float> x = RandomFloats(static_cast<size_t>(m * k), 3, 8.0f);
      std::vector<float> want;
      for (const GemmKernels* kernels : AllKernels()) {
        SCOPED_TRACE(kernels->name);
        const std::vector<float> y = Product(*kernels, packed.view, x);
        Call call(*kernels, packed.view, x);
        QuantizedBuffer quantized(m, ff);
        std::vector<float> h(static_cast<size_t>(m * ff));
        call.args.epilogue = epilogue;
        call.args.out = h.data();
        call.args.out_stride = static_cast<size_t>(ff);
        call.args.quantized = quantized.rows;
        // Two workers, borders on pairs.
        for (int32_t w = 0; w < 2; ++w) {
          const PanelRange range = WorkerPanels(packed.view, w, 2, 2);
          kernels->gemm(call.args, range.begin, range.end, call.scratch.data());
        }
        for (int32_t j = 0; j < m; ++j) {
          for (int32_t i = 0; i < ff; ++i) {
            const double g = y[static_cast<size_t>(j * 2 * ff + i / 16 * 32 + i % 16)];
            const double u = y[static_cast<size_t>(j * 2 * ff + i / 16 * 32 + i % 16 + 16)];
            const double exact = epilogue == Epilogue::kSwiGluClamped
                                     ? ClampedSwiGlu(g, u)
                                     : (epilogue == Epilogue::kSwiGlu  ? Silu(g)
                                        : epilogue == Epilogue::kGeGlu ? GeluTanh(g)
                                                                       : Gelu(g)) *
                                           u;
            clamped += std::fabs(g) > 7 || std::fabs(u) > 7;
            ASSERT_NEAR(h[static_cast<size_t>(j * ff + i)], exact,
                        2e-6 * std::fabs(g * (std::fabs(u) + 1)) + 1e-7);
          }
        }
        if (want.empty()) want = h;
        ASSERT_TRUE(SameBits(h, want));
        QuantizedBuffer separately(m, ff);
        QuantizeAll(*kernels, h.data(), separately);
        ASSERT_EQ(
            std::memcmp(quantized.memory.data(), separately.memory.data(), quantized.memory.size()),
            0);
        // Sums that were stored and gated afterwards are the same.
        std::vector<float> gated(h.size());
        for (size_t j = 0; j < static_cast<size_t>(m); ++j) {
          const auto width = static_cast<size_t>(ff);
          kernels->gate(epilogue, y.data() + j * 2 * width, ff, gated.data() + j * width);
        }
        ASSERT_TRUE(SameBits(gated, h));
        // Without `out` the quantised result is the same.
        QuantizedBuffer only(m, ff);
        call.args.out = nullptr;
        call.args.quantized = only.rows;
        kernels->gemm(call.args, 0, PanelCount(packed.view), call.scratch.data());
        ASSERT_EQ(std::memcmp(only.memory.data(), separately.memory.data(), only.memory.size()), 0);
      }
    }
  }
  EXPECT_GT(clamped, 1000);
}

TEST(GemmEpilogue, ArgmaxFindsTheLowestOfTheGreatest) {
  const int32_t n = 150;  // ten padding rows
  const int32_t k = 64;
  const FileTensor file(DType::kQ8_0, n, k, 71);
  PackSpec spec = ConcatenateRows({file.view}, WeightFormat::kQ8_0);
  spec.rows[101] = spec.rows[44];  // ties within and across panels
  spec.rows[50] = spec.rows[44];
  const OwnedMatrix packed = PackOrDie(spec);
  const int32_t m = 37;
  const std::vector<float> x = RandomFloats(static_cast<size_t>(m * k), 72);
  for (const GemmKernels* kernels : AllKernels()) {
    SCOPED_TRACE(kernels->name);
    const std::vector<float> logits = Product(*kernels, packed.view, x);
    for (int32_t workers : {1, 3}) {
      std::vector<ArgmaxState> merged(static_cast<size_t>(m));
      std::vector<std::vector<float>> stored(static_cast<size_t>(m),
                                             std::vector<float>(160, -1.0f));
      std::vector<float*> rows(static_cast<size_t>(m), nullptr);
      for (size_t j = 0; j < rows.size(); j += 3) rows[j] = stored[j].data();
      for (int32_t w = 0; w < workers; ++w) {
        Call call(*kernels, packed.view, x);
        std::vector<ArgmaxState> best(static_cast<size_t>(m));
        call.args.epilogue = Epilogue::kArgmax;
        call.args.out = nullptr;
        call.args.best = best.data();
        call.args.logits = rows.data();
        const PanelRange range = WorkerPanels(packed.view, w, workers, 1);
        kernels->gemm(call.args, range.begin, range.end, call.scratch.data());
        for (size_t j = 0; j < best.size(); ++j) merged[j] = MergeArgmax(best[j], merged[j]);
      }
      for (int32_t j = 0; j < m; ++j) {
        const float* row = logits.data() + j * 160;
        const int32_t want = static_cast<int32_t>(std::max_element(row, row + n) - row);
        ASSERT_EQ(merged[static_cast<size_t>(j)].id, want);
        ASSERT_EQ(merged[static_cast<size_t>(j)].value, row[want]);
        if (j % 3 == 0) {
          ASSERT_EQ(std::memcmp(stored[static_cast<size_t>(j)].data(), row, 160 * sizeof(float)),
                    0);
        }
      }
    }
  }
}

TEST(GemmEpilogue, ArgmaxIgnoresPaddingAndNaN) {
  const FileTensor file(DType::kF32, 33, 32, 1);
  const OwnedMatrix packed = PackOrDie(ConcatenateRows({file.view}, WeightFormat::kF32));
  for (const GemmKernels* kernels : AllKernels()) {
    SCOPED_TRACE(kernels->name);
    // All 33 logits negative: the 31 zeros of the padding must not win.
    std::vector<float> x(32, 0.0f);
    std::vector<float> bias(64, 0.0f);
    for (size_t i = 0; i < 33; ++i) bias[i] = -1.0f - static_cast<float>(i);
    bias[0] = std::numeric_limits<float>::quiet_NaN();
    Call call(*kernels, packed.view, x);
    ArgmaxState best;
    call.args.epilogue = Epilogue::kArgmax;
    call.args.best = &best;
    call.args.bias = bias.data();
    call.Run();
    EXPECT_EQ(best.id, 1);
    EXPECT_EQ(best.value, -2.0f);
    // A row of NaN leaves the state as it was.
    x[0] = std::numeric_limits<float>::quiet_NaN();
    Call broken(*kernels, packed.view, x);
    ArgmaxState none;
    broken.args.epilogue = Epilogue::kArgmax;
    broken.args.best = &none;
    broken.Run();
    EXPECT_EQ(none.id, kNoArgmax);
  }
}

}  // namespace
}  // namespace tutti::kernels
