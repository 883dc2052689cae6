#include "bench/kernels_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <chrono>

#include "app/loading/model_loader.h"
#include "base/ascii.h"
#include "base/quote.h"
#include "base/random.h"
#include "base/threads.h"
#include "bench/machine.h"
#include "kernels/aligned_buffer.h"
#include "kernels/bench/measure_attention.h"
#include "kernels/bench/measure_gemm.h"

namespace tutti::bench {
namespace {

constexpr int kWidth = 576;  // of a row of activations: SmolLM2-135M

// Seconds of RMSNorm + quantisation of `rows` rows on one thread, best of many.
Result<double> NormSeconds(const kernels::KernelTable& table, int32_t rows, double budget_s) {
  ASSIGN_OR_RETURN(kernels::AlignedBuffer memory,
                   kernels::AlignedBuffer::Allocate(kernels::QuantizedRowsBytes(rows, kWidth)));
  std::vector<float> x(static_cast<size_t>(rows) * kWidth), weight(kWidth, 1.0f);
  Random random(1);
  for (float& value : x) value = static_cast<float>(2 * random.Uniform() - 1);
  kernels::QuantizeArgs args;
  args.x = x.data();
  args.x_stride = kWidth;
  args.norm_weight = weight.data();
  args.norm_eps = 1e-5f;
  args.out = kernels::MakeQuantizedRows(memory.data(), rows, kWidth);
  const auto now = [] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  };
  const double until = now() + budget_s;
  double best = 1e9;
  do {
    const double start = now();
    for (int i = 0; i < 16; ++i) table.gemm.quantize(args, 0, rows);
    best = std::min(best, (now() - start) / 16);
  } while (now() < until);
  return best;
}

// Looks up `names` in `among`, without regard to case. Errors: invalid_value, listing the known
// names.
Result<std::vector<kernels::WeightFormat>> FormatsNamed(
    const std::vector<std::string>& names, const std::vector<kernels::WeightFormat>& among) {
  std::vector<kernels::WeightFormat> formats;
  for (const std::string& name : names) {
    const auto found = std::find_if(among.begin(), among.end(), [&](kernels::WeightFormat format) {
      return AsciiLower(name) == AsciiLower(kernels::WeightFormatName(format));
    });
    if (found == among.end()) {
      std::string known;
      for (const kernels::WeightFormat format : among)
        known += fmt::format("{}{}", known.empty() ? "" : ", ", kernels::WeightFormatName(format));
      return InvalidArgument("invalid_value", fmt::format("no format {}: {}", Quote(name), known))
          .WithParam("formats");
    }
    formats.push_back(*found);
  }
  return formats;
}

// The rate of a row of either table, with its limit. A sample is the best trial of a part, so that
// one trial during which another program ran does not count.
template <typename Row>
Figure RateFigure(const char* metric, const std::string& series, const char* axis, double at,
                  const Row& row) {
  Figure figure;
  figure.metric = metric;
  figure.unit = "GOPS";
  figure.series = series;
  figure.axis = axis;
  figure.at = at;
  figure.limit = row.limit_ops_per_s / 1e9;
  figure.ops_per_byte = row.ops_per_s / row.bytes_per_s;
  figure.samples = PartsOf(row.trial_s, [&](std::span<const double> part) {
    return row.ops_per_s / 1e9 * row.seconds / *std::min_element(part.begin(), part.end());
  });
  return figure;
}

}  // namespace

Result<Report> BenchKernels(const KernelsOptions& options, const Progress& progress) {
  ASSIGN_OR_RETURN(const kernels::KernelTable* table, app::KernelsNamed(options.isa));
  const int threads = options.threads > 0 ? options.threads : UsableCores();
  kernels::GemmBenchOptions gemm;
  gemm.threads = threads;
  if (options.quick) {
    gemm.shapes = {{256, 256}};
    gemm.rows = {1, 32};
    gemm.cold_bytes = size_t{1} << 20;
    gemm.seconds_per_point = 0.005;
  }
  if (!options.formats.empty()) {
    ASSIGN_OR_RETURN(gemm.formats, FormatsNamed(options.formats, gemm.formats));
  } else if (options.quick) {
    gemm.formats = {kernels::WeightFormat::kQ4_1, kernels::WeightFormat::kQ8_0};
  }
  Calibration calibration(table->isa, threads);
  for (int i = 0; i < (options.quick ? 0 : 3); ++i) calibration.AtFullSpeed();
  const kernels::MachineLimits& limits = calibration.best();

  Report report;
  const auto say = [&](const std::string& line) { report.Print(line, progress); };
  say(MachineLine(limits));

  boost::json::array gemm_rows, attention_rows, norm_rows;
  say(fmt::format("{:<6} {:>11} {:>5} {:>10} {:>8} {:>7} {:>7} {:>7}", "GEMM", "N x K", "rows",
                  "us", "GOPS", "GB/s", "% peak", "% read"));
  for (const kernels::WeightFormat format : gemm.formats) {
    kernels::GemmBenchOptions one = gemm;
    one.formats = {format};
    ASSIGN_OR_RETURN(const std::vector<kernels::GemmBenchRow> rows,
                     kernels::MeasureGemm(table->gemm, limits, one));
    for (const kernels::GemmBenchRow& row : rows) {
      say(fmt::format("{:<6} {:>11} {:>5} {:>10.1f} {:>8.0f} {:>7.1f} {:>7.0f} {:>7.0f}",
                      kernels::WeightFormatName(row.format),
                      fmt::format("{} x {}", row.shape.n, row.shape.k), row.rows, row.seconds * 1e6,
                      row.ops_per_s / 1e9, row.bytes_per_s / 1e9, 100 * row.fraction_of_peak,
                      100 * row.fraction_of_read));
      gemm_rows.push_back(boost::json::object{{"format", kernels::WeightFormatName(row.format)},
                                              {"n", row.shape.n},
                                              {"k", row.shape.k},
                                              {"rows", row.rows},
                                              {"us", row.seconds * 1e6},
                                              {"gops", row.ops_per_s / 1e9},
                                              {"gb_s", row.bytes_per_s / 1e9},
                                              {"fraction_of_peak", row.fraction_of_peak},
                                              {"fraction_of_read", row.fraction_of_read},
                                              {"ops_per_byte", row.ops_per_s / row.bytes_per_s},
                                              {"limit_gops", row.limit_ops_per_s / 1e9}});
      report.figures.push_back(
          RateFigure("matrix product",
                     fmt::format("{} {} x {}", kernels::WeightFormatName(row.format), row.shape.n,
                                 row.shape.k),
                     "rows", row.rows, row));
    }
  }

  kernels::AttentionBenchOptions attention;
  attention.threads = threads;
  if (options.quick) {
    attention.points = {{2, 63, 1}, {1, 0, 64}};
    attention.cold_bytes = 0;
    attention.seconds_per_point = 0.005;
  }
  say(fmt::format("{:<10} {:<5} {:>9} {:>8} {:>5} {:>7} {:>6} {:>10} {:>8} {:>7} {:>7} {:>7}",
                  "attention", "cache", "sequences", "context", "rows", "shared", "chunk", "us",
                  "GOPS", "GB/s", "% peak", "% read"));
  for (const kernels::KvFormat format : {table->attention.native16, kernels::KvFormat::kI8}) {
    attention.format = format;
    ASSIGN_OR_RETURN(const std::vector<kernels::AttentionBenchRow> rows,
                     kernels::MeasureAttention(table->attention, limits, attention));
    for (const kernels::AttentionBenchRow& row : rows) {
      say(fmt::format(
          "{:<10} {:<5} {:>9} {:>8} {:>5} {:>7} {:>6} {:>10.1f} {:>8.0f} {:>7.1f} {:>7.0f} "
          "{:>7.0f}",
          row.point.rows == 1 ? "decode" : "prefill", model::KvFormatName(format),
          row.point.sequences, row.point.context, row.point.rows, row.point.shared, row.point.chunk,
          row.seconds * 1e6, row.ops_per_s / 1e9, row.bytes_per_s / 1e9, 100 * row.fraction_of_peak,
          100 * row.fraction_of_read));
      attention_rows.push_back(
          boost::json::object{{"cache", model::KvFormatName(format)},
                              {"sequences", row.point.sequences},
                              {"context", row.point.context},
                              {"rows", row.point.rows},
                              {"shared", row.point.shared},
                              {"chunk", row.point.chunk},
                              {"us", row.seconds * 1e6},
                              {"append_us", row.append_seconds * 1e6},
                              {"gops", row.ops_per_s / 1e9},
                              {"gb_s", row.bytes_per_s / 1e9},
                              {"fraction_of_peak", row.fraction_of_peak},
                              {"fraction_of_read", row.fraction_of_read},
                              {"ops_per_byte", row.ops_per_s / row.bytes_per_s},
                              {"limit_gops", row.limit_ops_per_s / 1e9}});
      std::string series = fmt::format("{}, {} rows x {}", model::KvFormatName(format),
                                       row.point.rows, row.point.sequences);
      if (row.point.shared > 0) series += fmt::format(", {} shared", row.point.shared);
      if (row.point.chunk > 0) series += fmt::format(", in steps of {}", row.point.chunk);
      report.figures.push_back(RateFigure("attention", series, "context", row.point.context, row));
    }
  }

  say(fmt::format("norm + quantise, {} columns, one thread", kWidth));
  for (const int32_t count : {1, 8, 32, 512}) {
    ASSIGN_OR_RETURN(const double seconds, NormSeconds(*table, count, options.quick ? 0.002 : 0.1));
    const double bytes_per_s = 4.0 * count * kWidth / seconds;
    say(fmt::format("{:>5} rows {:>10.2f} us {:>7.1f} GB/s", count, seconds * 1e6,
                    bytes_per_s / 1e9));
    norm_rows.push_back(
        boost::json::object{{"rows", count}, {"us", seconds * 1e6}, {"gb_s", bytes_per_s / 1e9}});
  }
  report.json = {{"schema", "tutti.bench.kernels.v1"}, {"machine", calibration.Json()},
                 {"gemm", std::move(gemm_rows)},       {"attention", std::move(attention_rows)},
                 {"norm", std::move(norm_rows)},       {"passed", true}};
  return report;
}

}  // namespace tutti::bench
