#include "kernels/bench/measure_gemm.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "base/random.h"
#include "kernels/aligned_buffer.h"
#include "kernels/machine_limits.h"
#include "kernels/pack.h"
#include "kernels/spmd.h"
#include "tensor/quantize.h"

namespace tutti::kernels {
namespace {

std::vector<float> RandomFloats(size_t n, uint64_t seed) {
  Random random(seed);
  std::vector<float> out(n);
  for (float& x : out) x = static_cast<float>(2.0 * random.Uniform() - 1.0);
  return out;
}

tensor::DType FileType(WeightFormat format) {
  for (tensor::DType dtype : tensor::kReadableTypes) {
    if (NativeFormat(dtype) == format) return dtype;
  }
  if (format == WeightFormat::kMXFP4) return tensor::DType::kMXFP4;
  return tensor::DType::kF32;
}

double PeakOf(const PackedMatrix& weight, const MachineLimits& limits) {
  if (!IsQuantized(weight.format)) return limits.float32_ops_per_s;
  if (ActivationScale(weight) != ScalePer::kNone) return limits.int8_ops_per_s;
  return limits.bf16_ops_per_s > 0 ? limits.bf16_ops_per_s : limits.float32_ops_per_s;
}

// Copies of one packed matrix, enough of them to overflow the caches.
struct WeightPool {
  AlignedBuffer memory;
  PackedMatrix first;
  size_t bytes_each = 0;
  size_t count = 0;

  PackedMatrix At(size_t i) const {
    PackedMatrix out = first;
    out.data += i % count * bytes_each;
    return out;
  }
};

Result<WeightPool> MakePool(WeightFormat format, GemmShape shape, size_t cold_bytes) {
  tensor::TensorView view;
  view.dtype = FileType(format);
  view.shape = {shape.k, shape.n};
  std::vector<std::byte> file(view.bytes());
  view.data = file.data();
  const std::vector<float> row = RandomFloats(static_cast<size_t>(shape.k), 1);
  for (int32_t r = 0; r < shape.n; ++r) {
    // One random row, rotated, is as good as many to a kernel without branches on data, and quick
    // to make.
    std::vector<float> rotated = row;
    std::rotate(rotated.begin(), rotated.begin() + r % shape.k, rotated.end());
    tensor::QuantizeRow(view.dtype, rotated.data(),
                        file.data() + static_cast<size_t>(r) * view.row_bytes(), shape.k);
  }
  const PackSpec spec = ConcatenateRows({view}, format);
  RETURN_IF_ERROR(CheckPack(spec));
  WeightPool pool;
  pool.first = DescribePacked(spec);
  pool.bytes_each = PackedBytes(pool.first);
  pool.count = std::max<size_t>(1, cold_bytes / pool.bytes_each);
  ASSIGN_OR_RETURN(pool.memory, AlignedBuffer::Allocate(pool.bytes_each * pool.count));
  uint8_t* data = reinterpret_cast<uint8_t*>(pool.memory.data());
  RETURN_IF_ERROR(PackPanels(spec, 0, PanelCount(pool.first), data));
  pool.first.data = data;
  for (size_t i = 1; i < pool.count; ++i)
    std::memcpy(data + i * pool.bytes_each, data, pool.bytes_each);
  return pool;
}

// The operands of one point and the memory they live in.
struct Operands {
  std::vector<float> x;
  AlignedBuffer quantized;
  std::vector<float> out;
  std::vector<AlignedBuffer> scratch;
  GemmArgs args;
};

Result<Operands> MakeOperands(const GemmKernels& kernels, const PackedMatrix& weight, int32_t rows,
                              const GemmBenchOptions& options) {
  Operands op;
  op.x = RandomFloats(static_cast<size_t>(rows) * static_cast<size_t>(weight.cols), 2);
  op.out.resize(static_cast<size_t>(rows) * static_cast<size_t>(weight.rows));
  op.args.weight = weight;
  op.args.rows = rows;
  op.args.x_f32 = op.x.data();
  op.args.x_stride = static_cast<size_t>(weight.cols);
  op.args.out = op.out.data();
  op.args.out_stride = static_cast<size_t>(weight.rows);
  if (IsQuantized(weight.format)) {
    ASSIGN_OR_RETURN(op.quantized, AlignedBuffer::Allocate(QuantizedRowsBytes(rows, weight.cols)));
    const ScalePer scale = ActivationScale(weight);
    op.args.x = MakeQuantizedRows(op.quantized.data(), rows, weight.cols, scale,
                                  kernels.tile_rows(rows, scale));
    QuantizeArgs quantize;
    quantize.x = op.x.data();
    quantize.x_stride = op.args.x_stride;
    quantize.out = op.args.x;
    kernels.quantize(quantize, 0, rows);
  }
  for (int i = 0; i < options.threads; ++i) {
    ASSIGN_OR_RETURN(AlignedBuffer scratch,
                     AlignedBuffer::Allocate(GemmScratchBytes(rows, weight.cols)));
    op.scratch.push_back(std::move(scratch));
  }
  return op;
}

// The first and the last panel of the scalar oracle, by bytes; all panels would take seconds.
Status CheckAnswer(const GemmKernels& kernels, Operands& op) {
  const int32_t panels = PanelCount(op.args.weight);
  kernels.gemm(op.args, 0, panels, op.scratch[0].data());
  std::vector<float> oracle(op.out.size());
  GemmArgs args = op.args;
  args.out = oracle.data();
  for (int32_t panel : {0, panels - 1}) {
    OracleOf(kernels).gemm(args, panel, panel + 1, op.scratch[0].data());
    for (int32_t m = 0; m < args.rows; ++m) {
      const size_t at =
          static_cast<size_t>(m) * args.out_stride + static_cast<size_t>(panel) * kPanelRows;
      if (std::memcmp(&oracle[at], &op.out[at], kPanelRows * sizeof(float)) != 0) {
        return Internal(std::string("gemm ") + kernels.name + " " +
                        WeightFormatName(args.weight.format) +
                        " differs from the scalar oracle at row " + std::to_string(m));
      }
    }
  }
  return OkStatus();
}

// Seconds of one product, with a barrier after every one.
double TimeProduct(const GemmKernels& kernels, const WeightPool& pool, const Operands& op,
                   const GemmBenchOptions& options, std::vector<double>* trials) {
  const auto make = [&](int worker, SpinBarrier& barrier) {
    const PanelRange range = WorkerPanels(op.args.weight, worker, options.threads, 1);
    std::byte* scratch = const_cast<std::byte*>(op.scratch[static_cast<size_t>(worker)].data());
    return [&, range, scratch, args = op.args](size_t matrix) mutable {
      args.weight = pool.At(matrix);
      args.next =
          pool.At(matrix + 1).data + static_cast<size_t>(range.begin) * PanelBytes(args.weight);
      kernels.gemm(args, range.begin, range.end, scratch);
      barrier.Wait();
    };
  };
  return BestSecondsPerCall(options.threads, options.seconds_per_point, make, trials);
}

}  // namespace

Result<std::vector<GemmBenchRow>> MeasureGemm(const GemmKernels& kernels,
                                              const MachineLimits& limits,
                                              const GemmBenchOptions& options) {
  std::vector<GemmBenchRow> out;
  for (const GemmShape& shape : options.shapes) {
    for (WeightFormat format : options.formats) {
      if (format == WeightFormat::kBf16Pairs && !kernels.bf16_pairs) continue;
      if (shape.k % tensor::Info(FileType(format)).block_elements != 0) continue;
      ASSIGN_OR_RETURN(WeightPool pool, MakePool(format, shape, options.cold_bytes));
      pool.first.in_bf16 = kernels.bf16_tiles && HasBlockScales(format);
      for (int32_t rows : options.rows) {
        ASSIGN_OR_RETURN(Operands op, MakeOperands(kernels, pool.first, rows, options));
        RETURN_IF_ERROR(CheckAnswer(kernels, op));
        GemmBenchRow row{};
        row.format = format;
        row.shape = shape;
        row.rows = rows;
        row.seconds = TimeProduct(kernels, pool, op, options, &row.trial_s);
        row.ops_per_s = 2.0 * rows * shape.n * shape.k / row.seconds;
        row.bytes_per_s = static_cast<double>(pool.bytes_each) / row.seconds;
        const double peak = PeakOf(pool.first, limits);
        row.fraction_of_peak = peak > 0 ? row.ops_per_s / peak : 0;
        row.fraction_of_read =
            limits.read_bytes_per_s > 0 ? row.bytes_per_s / limits.read_bytes_per_s : 0;
        row.limit_ops_per_s =
            std::min(peak, limits.read_bytes_per_s * row.ops_per_s / row.bytes_per_s);
        out.push_back(std::move(row));
      }
    }
  }
  return out;
}

}  // namespace tutti::kernels
