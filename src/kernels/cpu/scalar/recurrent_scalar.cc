// Recurrences in plain C++: the oracle of the vector ones, in their order of sums.
#include "kernels/recurrent.h"

namespace tutti::kernels {
namespace {

void CausalConv(const CausalConvArgs& args, int32_t begin, int32_t end) {
  const auto channels = static_cast<size_t>(args.channels);
  const auto taps = static_cast<size_t>(args.taps);
  for (auto c = static_cast<size_t>(begin); c < static_cast<size_t>(end); ++c) {
    for (size_t row = 0; row < static_cast<size_t>(args.rows); ++row) {
      const size_t at = row * args.stride + c;
      const float x = args.before != nullptr ? args.x[at] * args.before[at] : args.x[at];
      float y = args.bias != nullptr ? args.bias[c] : 0.0f;
      for (size_t k = 0; k + 1 < taps; ++k)
        y = __builtin_fmaf(args.weight[k * channels + c], args.history[k * channels + c], y);
      y = __builtin_fmaf(args.weight[(taps - 1) * channels + c], x, y);
      args.out[row * args.out_stride + c] = args.after != nullptr ? y * args.after[at] : y;
      for (size_t k = 0; k + 2 < taps; ++k)
        args.history[k * channels + c] = args.history[(k + 1) * channels + c];
      args.history[(taps - 2) * channels + c] = x;
    }
  }
}

// S = decay S + key d for each key of column `column`, and query S.
float UpdateAndRead(const RecurrenceArgs& args, size_t at, size_t column, float d) {
  float sums[2] = {0, 0};
  for (size_t i = 0; i < static_cast<size_t>(args.keys); ++i) {
    float& s = args.state[i * static_cast<size_t>(args.columns) + column];
    s = __builtin_fmaf(args.key[at + i], d, args.decay[at] * s);
    sums[i % 2] = __builtin_fmaf(args.query[at + i], s, sums[i % 2]);
  }
  return sums[0] + sums[1];
}

void DeltaRule(const RecurrenceArgs& args) {
  const auto columns = static_cast<size_t>(args.columns);
  for (size_t row = 0; row < static_cast<size_t>(args.rows); ++row) {
    const size_t at = row * args.stride;
    for (size_t column = 0; column < columns; ++column) {
      float sums[2] = {0, 0};
      for (size_t i = 0; i < static_cast<size_t>(args.keys); ++i)
        sums[i % 2] =
            __builtin_fmaf(args.key[at + i], args.state[i * columns + column], sums[i % 2]);
      const float d = args.rate[at] *
                      __builtin_fmaf(-args.decay[at], sums[0] + sums[1], args.value[at + column]);
      args.out[row * args.out_stride + column] = UpdateAndRead(args, at, column, d);
    }
  }
}

void StateSpace(const RecurrenceArgs& args) {
  for (size_t row = 0; row < static_cast<size_t>(args.rows); ++row) {
    const size_t at = row * args.stride;
    for (size_t column = 0; column < static_cast<size_t>(args.columns); ++column) {
      const float value = args.value[at + column];
      const float read = UpdateAndRead(args, at, column, args.rate[at] * value);
      args.out[row * args.out_stride + column] = __builtin_fmaf(args.skip, value, read);
    }
  }
}

}  // namespace

const RecurrentKernels& ScalarRecurrentKernels() {
  static constexpr RecurrentKernels kKernels = {"scalar", CausalConv, DeltaRule, StateSpace};
  return kKernels;
}

}  // namespace tutti::kernels
