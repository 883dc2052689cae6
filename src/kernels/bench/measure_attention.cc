#include "kernels/bench/measure_attention.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <string>

#include "base/random.h"
#include "kernels/aligned_buffer.h"
#include "kernels/attention_plan.h"
#include "kernels/machine_limits.h"
#include "kernels/spmd.h"

namespace tutti::kernels {
namespace {

// A filled cache of several layers, the projections of the new rows, and the plans of the steps.
struct Setup {
  AttentionShape shape;
  KvLayout layout;
  size_t layers = 1;
  size_t blocks = 0;       // of the pool
  size_t layer_bytes = 0;  // of all layers
  AlignedBuffer pool;
  std::vector<std::vector<int32_t>> tables;  // of the sequences
  size_t width = 0;                          // floats of a row of qkv
  std::vector<float> context;        // [sequences * context][width]: what was appended before
  std::vector<float> qkv;            // [sequences * rows][width], sequence-major
  std::vector<float> out;            // [sequences * rows][heads * head_dim]
  std::vector<AttentionPlan> plans;  // one per step
  std::vector<size_t> step_row;      // first row of a step in qkv
  AlignedBuffer partials;
  std::vector<AlignedBuffer> scratch;

  KvLayerView Layer(size_t i) const {
    return {const_cast<std::byte*>(pool.data()) + i % layers * layer_bytes, layout.head_bytes,
            blocks * layout.head_bytes};
  }
  AttentionArgs Args(size_t layer, size_t step) {
    const size_t out_width = static_cast<size_t>(shape.heads * shape.head_dim);
    return {shape,        layout,
            Layer(layer), qkv.data() + step_row[step] * width,
            width,        out.data() + step_row[step] * out_width,
            out_width,    reinterpret_cast<float*>(partials.data())};
  }
  RopeAppendArgs Append(size_t layer, size_t step) {
    return {shape,        layout,
            Layer(layer), qkv.data() + step_row[step] * width,
            width,        plans[step].places().data(),
            nullptr};
  }
};

void FillRandom(std::vector<float>& x, uint64_t seed) {
  Random random(seed);
  for (float& v : x) {
    const uint64_t bits = random.Next();
    v = static_cast<float>(static_cast<double>(bits & 0xFFFF) + static_cast<double>(bits >> 48) -
                           65536.0) /
        32768.0f;
  }
}

// Block tables with the first `shared` tokens in common; ids one after the other, as prompts take
// them from a pool.
std::vector<std::vector<int32_t>> DrawTables(const AttentionPoint& point, int32_t* block_count) {
  const int32_t per_sequence = BlocksFor(point.context + point.rows);
  const int32_t common = point.shared / kBlockTokens;
  *block_count = common + point.sequences * (per_sequence - common);
  std::vector<std::vector<int32_t>> tables(static_cast<size_t>(point.sequences));
  int32_t next = common;
  for (std::vector<int32_t>& table : tables) {
    for (int32_t i = 0; i < per_sequence; ++i) table.push_back(i < common ? i : next++);
  }
  return tables;
}

Result<Setup> MakeSetup(const AttentionKernels& kernels, const AttentionBenchOptions& options,
                        const AttentionPoint& point) {
  Setup s;
  s.shape = options.shape;
  s.shape.rope_mode = RopeMode::kNone;  // the rows are random: rotating them shows nothing
  s.layout = MakeKvLayout(options.format, s.shape.kv_heads, s.shape.head_dim);
  s.width = static_cast<size_t>((s.shape.heads + 2 * s.shape.kv_heads) * s.shape.head_dim);
  int32_t block_count = 0;
  s.tables = DrawTables(point, &block_count);
  s.blocks = static_cast<size_t>(block_count);
  s.layer_bytes = s.layout.layer_bytes * s.blocks;
  s.layers = std::max<size_t>(1, options.cold_bytes / s.layer_bytes);
  ASSIGN_OR_RETURN(s.pool, AlignedBuffer::Allocate(s.layers * s.layer_bytes));

  const size_t sequences = static_cast<size_t>(point.sequences);
  s.context.resize(sequences * static_cast<size_t>(point.context) * s.width);
  FillRandom(s.context, 3);
  s.qkv.resize(sequences * static_cast<size_t>(point.rows) * s.width);
  FillRandom(s.qkv, 4);
  s.out.resize(sequences * static_cast<size_t>(point.rows) *
               static_cast<size_t>(s.shape.heads * s.shape.head_dim));
  // A shared prefix has the same tokens in all sequences.
  for (size_t i = 1; i < sequences; ++i) {
    std::copy_n(s.context.begin(), static_cast<size_t>(point.shared) * s.width,
                s.context.begin() +
                    static_cast<ptrdiff_t>(i * static_cast<size_t>(point.context) * s.width));
  }
  std::vector<RowPlace> places;
  for (const std::vector<int32_t>& table : s.tables) {
    for (int32_t t = 0; t < point.context; ++t)
      places.push_back({t, table[static_cast<size_t>(t / kBlockTokens)]});
  }
  kernels.rope_append(
      {s.shape, s.layout, s.Layer(0), s.context.data(), s.width, places.data(), nullptr}, 0,
      static_cast<int32_t>(places.size()));
  for (size_t l = 1; l < s.layers; ++l)
    std::memcpy(s.pool.data() + l * s.layer_bytes, s.pool.data(), s.layer_bytes);

  const int32_t chunk = point.chunk > 0 ? point.chunk : point.rows;
  size_t partial_floats = 0;
  for (int32_t done = 0; done < point.rows; done += chunk) {
    const int32_t rows = std::min(chunk, point.rows - done);
    std::vector<AttentionSequence> batch;
    for (size_t i = 0; i < sequences; ++i) {
      batch.push_back(
          {s.tables[i].data(), point.context + done, rows, static_cast<int32_t>(i) * rows});
    }
    s.step_row.push_back(static_cast<size_t>(done) * sequences);
    s.plans.emplace_back();
    s.plans.back().Build(s.shape, batch, options.threads, point.shared > 0);
    partial_floats = std::max(partial_floats, s.plans.back().partial_floats());
  }
  ASSIGN_OR_RETURN(s.partials, AlignedBuffer::Allocate(partial_floats * sizeof(float)));
  for (int i = 0; i < options.threads; ++i) {
    ASSIGN_OR_RETURN(AlignedBuffer scratch,
                     AlignedBuffer::Allocate(kernels.scratch_bytes(s.shape)));
    s.scratch.push_back(std::move(scratch));
  }
  return s;
}

// One layer, all steps, as worker `worker` of the barrier's. Without `attend` the rows are only
// appended.
void RunLayer(const AttentionKernels& kernels, Setup& s, size_t layer, int worker, int workers,
              SpinBarrier& barrier, std::atomic<int32_t>& next, bool append, bool attend) {
  for (size_t step = 0; step < s.plans.size(); ++step) {
    const int32_t rows = static_cast<int32_t>(s.plans[step].places().size());
    if (append)
      kernels.rope_append(s.Append(layer, step), rows * worker / workers,
                          rows * (worker + 1) / workers);
    if (worker == 0) next.store(0, std::memory_order_relaxed);
    barrier.Wait();
    if (!attend) continue;
    const AttentionArgs args = s.Args(layer, step);
    const AttentionWork work = s.plans[step].work();
    for (int32_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < s.plans[step].items();) {
      kernels.run_item(args, work, i, s.scratch[static_cast<size_t>(worker)].data());
    }
    barrier.Wait();
  }
}

// The last row of the first sequence against the scalar oracle with a float cache.
Status CheckAnswer(const AttentionKernels& kernels, const AttentionBenchOptions& options,
                   const AttentionPoint& point, Setup& s) {
  SpinBarrier barrier(1);
  std::atomic<int32_t> next{0};
  RunLayer(kernels, s, 0, 0, 1, barrier, next, true, true);

  const AttentionKernels& oracle = ScalarAttentionKernels();
  const int32_t tokens = point.context + point.rows;
  const KvLayout layout = MakeKvLayout(KvFormat::kF32, s.shape.kv_heads, s.shape.head_dim);
  std::vector<int32_t> table;
  std::vector<RowPlace> places;
  for (int32_t t = 0; t < tokens; ++t) {
    if (t % kBlockTokens == 0) table.push_back(t / kBlockTokens);
    places.push_back({t, t / kBlockTokens});
  }
  ASSIGN_OR_RETURN(AlignedBuffer pool, AlignedBuffer::Allocate(layout.layer_bytes * table.size()));
  ASSIGN_OR_RETURN(AlignedBuffer scratch, AlignedBuffer::Allocate(oracle.scratch_bytes(s.shape)));
  const KvLayerView view = {pool.data(), layout.layer_bytes, layout.head_bytes};
  // The first sequence's rows lie together in a step, and steps follow each other only with one
  // sequence.
  std::vector<float> rows(
      s.context.begin(),
      s.context.begin() + static_cast<ptrdiff_t>(static_cast<size_t>(point.context) * s.width));
  rows.insert(rows.end(), s.qkv.begin(),
              s.qkv.begin() + static_cast<ptrdiff_t>(static_cast<size_t>(point.rows) * s.width));
  oracle.rope_append({s.shape, layout, view, rows.data(), s.width, places.data(), nullptr}, 0,
                     tokens);
  const size_t out_width = static_cast<size_t>(s.shape.heads * s.shape.head_dim);
  std::vector<float> expected(out_width);
  AttentionPlan plan;
  const AttentionSequence last = {table.data(), tokens - 1, 1, 0};
  plan.Build(s.shape, {&last, 1}, 1);
  const AttentionArgs args = {
      s.shape, layout,          view,      rows.data() + static_cast<size_t>(tokens - 1) * s.width,
      s.width, expected.data(), out_width, nullptr};
  for (int32_t i = 0; i < plan.items(); ++i) oracle.run_item(args, plan.work(), i, scratch.data());

  const float* got = s.out.data() + static_cast<size_t>(point.rows - 1) * out_width;
  double difference = 0;
  double norm = 0;
  for (size_t i = 0; i < out_width; ++i) {
    const double d = static_cast<double>(got[i]) - static_cast<double>(expected[i]);
    difference += d * d;
    norm += static_cast<double>(expected[i]) * static_cast<double>(expected[i]);
  }
  const double error = std::sqrt(difference / norm);
  const double bound = options.format == KvFormat::kF32  ? 1e-5
                       : options.format == KvFormat::kI8 ? 3e-2
                                                         : 2e-3;
  if (!(error <= bound)) {
    return Internal(std::string("attention ") + kernels.name +
                    " differs from the scalar oracle by " + std::to_string(error) + " at context " +
                    std::to_string(point.context));
  }
  return OkStatus();
}

// Seconds of one layer.
double TimeLayer(const AttentionKernels& kernels, const AttentionBenchOptions& options, Setup& s,
                 bool append, bool attend, double seconds, std::vector<double>* trials = nullptr) {
  std::atomic<int32_t> next{0};
  const auto make = [&](int worker, SpinBarrier& barrier) {
    return [&, worker](size_t layer) {
      RunLayer(kernels, s, layer, worker, options.threads, barrier, next, append, attend);
    };
  };
  return BestSecondsPerCall(options.threads, seconds, make, trials);
}

}  // namespace

Result<std::vector<AttentionBenchRow>> MeasureAttention(const AttentionKernels& kernels,
                                                        const MachineLimits& limits,
                                                        const AttentionBenchOptions& options) {
  std::vector<AttentionBenchRow> out;
  for (const AttentionPoint& point : options.points) {
    ASSIGN_OR_RETURN(Setup setup, MakeSetup(kernels, options, point));
    RETURN_IF_ERROR(CheckAnswer(kernels, options, point, setup));
    AttentionBenchRow row{};
    row.point = point;
    row.items = setup.plans.back().items();
    // The first layer holds the new rows already, and the others hold the same contexts: the times
    // of attention do not depend on values.
    row.seconds =
        TimeLayer(kernels, options, setup, false, true, options.seconds_per_point, &row.trial_s);
    row.append_seconds =
        TimeLayer(kernels, options, setup, true, false, options.seconds_per_point / 4);
    const double rows = point.rows;
    const double pairs = point.sequences * (rows * point.context + rows * (rows + 1) / 2);
    row.ops_per_s = 4.0 * options.shape.heads * options.shape.head_dim * pairs / row.seconds;
    row.bytes_per_s = static_cast<double>(setup.layout.layer_bytes) / kBlockTokens *
                      point.sequences * (point.context + rows) / row.seconds;
    // Narrow caches are multiplied in the table's own numbers.
    const bool in_int16 = options.format != KvFormat::kF32 && kernels.native16 == KvFormat::kI16;
    const double peak = in_int16 ? limits.int8_ops_per_s / 2 : limits.float32_ops_per_s;
    row.fraction_of_peak = peak > 0 ? row.ops_per_s / peak : 0;
    row.fraction_of_read =
        limits.read_bytes_per_s > 0 ? row.bytes_per_s / limits.read_bytes_per_s : 0;
    row.limit_ops_per_s = std::min(peak, limits.read_bytes_per_s * row.ops_per_s / row.bytes_per_s);
    out.push_back(std::move(row));
  }
  return out;
}

}  // namespace tutti::kernels
