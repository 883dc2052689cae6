#include "kernels/machine_limits.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "base/check.h"
#include "kernels/aligned_buffer.h"
#include "kernels/cpu/gemm_peak.h"
#include "kernels/spmd.h"

namespace tutti::kernels {
namespace {

constexpr size_t kReadBytes = size_t{128} << 20;
constexpr size_t kSliceBytes = size_t{8} << 20;
constexpr double kSecondsPerLimit = 0.035;
constexpr double kBurstSeconds = 0.0005;

PeakKernels PeaksFor(Isa isa) {
  switch (isa) {
    case Isa::kScalar:
      return ScalarPeakKernels();
#if defined(__x86_64__)
#ifndef TUTTI_WITHOUT_AVX2
    case Isa::kAvx2:
      return Avx2PeakKernels();
#endif
#ifndef TUTTI_WITHOUT_AVXVNNI
    case Isa::kAvxVnni:
      return AvxVnniPeakKernels();
#endif
#ifndef TUTTI_WITHOUT_AVX512VNNI
    case Isa::kAvx512Vnni:
      return Avx512VnniPeakKernels();
    case Isa::kAvx512Bf16:
      return {Avx512VnniPeakKernels().int8, Avx512VnniPeakKernels().float32, Avx512Bf16Peak};
#endif
#ifndef TUTTI_WITHOUT_AMX
    case Isa::kAmx:
      return {AmxInt8Peak, Avx512VnniPeakKernels().float32, AmxBf16Peak};
#endif
#elif defined(__aarch64__)
    case Isa::kNeonDot:
      return NeonDotPeakKernels();
    case Isa::kI8mm:
      return I8mmPeakKernels();
#endif
    default:  // another architecture, or not in this build
      break;
  }
  CHECK(false) << "instruction set " << static_cast<int>(isa);
  __builtin_unreachable();
}

// Greatest rate over many short bursts of all threads: a burst is short against a scheduler's
// slice, so that on a busy machine some are undisturbed. `burst(worker, i)` returns the units it
// did.
template <typename Burst>
double BestRate(int threads, const Burst& burst) {
  double best = 0;
  bool stop = false;
  SpinBarrier barrier(threads);
  RunOnThreads(threads, [&](int worker) {
    const double deadline = MonotonicSeconds() + kSecondsPerLimit;
    for (int i = 0;; ++i) {
      barrier.Wait();
      if (stop) return;
      const double begin = MonotonicSeconds();
      const double units = burst(worker, i) * threads;
      barrier.Wait();
      const double end = MonotonicSeconds();
      if (worker == 0) {
        if (i > 0)
          best = std::max(best, units / (end - begin));  // the first warms up pages and clock
        stop = i >= 3 && end > deadline;
      }
    }
  });
  return best;
}

// Sums 64-byte lines in four streams, prefetching ahead of the hardware's reach across pages.
uint64_t SumLines(const std::byte* data, size_t bytes) {
  uint64_t sum[8] = {};
  for (size_t i = 0; i + 64 <= bytes; i += 64) {
    __builtin_prefetch(data + i + 2048);
    uint64_t line[8];
    std::memcpy(line, data + i, sizeof line);
    for (int j = 0; j < 8; ++j) sum[j] += line[j];
  }
  uint64_t total = 0;
  for (uint64_t s : sum) total += s;
  return total;
}

double MeasureRead(int threads) {
  Result<AlignedBuffer> buffer = AlignedBuffer::Allocate(kReadBytes);
  if (!buffer.ok()) return 0;
  const size_t part = kReadBytes / static_cast<size_t>(threads) / 4096 * 4096;
  // First touch by the thread that will read.
  RunOnThreads(threads, [&](int worker) {
    std::memset(buffer->data() + static_cast<size_t>(worker) * part, 1, part);
  });
  // Each burst continues where the last one ended, so that every line was last touched a whole
  // round ago.
  const size_t slice = std::min(part, kSliceBytes);
  const size_t slices = part / slice;
  std::atomic<uint64_t> sink{0};
  return BestRate(threads, [&](int worker, int i) {
    const size_t at = static_cast<size_t>(worker) * part + static_cast<size_t>(i) % slices * slice;
    sink += SumLines(buffer->data() + at, slice);
    return static_cast<double>(slice);
  });
}

// Rounds that take about kBurstSeconds.
template <typename Kernel>
int64_t RoundsFor(Kernel kernel) {
  int64_t rounds = 1000;
  for (;;) {
    const double begin = MonotonicSeconds();
    kernel(rounds);
    if (MonotonicSeconds() - begin > kBurstSeconds) return rounds;
    rounds *= 2;
  }
}

}  // namespace

double MonotonicSeconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

MachineLimits MeasureMachineLimits(Isa isa, int threads) {
  CHECK_GE(threads, 1);
  const PeakKernels peaks = PeaksFor(isa);
  MachineLimits out{};
  out.isa = isa;
  out.threads = threads;
  const int64_t int8_rounds = RoundsFor(peaks.int8);
  out.int8_ops_per_s = BestRate(threads, [&](int, int) { return peaks.int8(int8_rounds); });
  const int64_t float_rounds = RoundsFor(peaks.float32);
  out.float32_ops_per_s = BestRate(threads, [&](int, int) { return peaks.float32(float_rounds); });
  if (peaks.bf16 != nullptr) {
    const int64_t bf16_rounds = RoundsFor(peaks.bf16);
    out.bf16_ops_per_s = BestRate(threads, [&](int, int) { return peaks.bf16(bf16_rounds); });
  }
  out.read_bytes_per_s = MeasureRead(threads);
  return out;
}

}  // namespace tutti::kernels
