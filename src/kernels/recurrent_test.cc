#include "kernels/recurrent.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "base/random.h"
#include "kernels/kernels.h"

namespace tutti::kernels {
namespace {

class RecurrentTest : public ::testing::TestWithParam<Isa> {
 protected:
  const RecurrentKernels& kernels() const { return KernelsFor(GetParam()).recurrent; }
};
INSTANTIATE_TEST_SUITE_P(All, RecurrentTest, ::testing::ValuesIn(DetectIsas()),
                         [](const auto& test) { return std::string(IsaName(test.param)); });

std::vector<float> RandomFloats(Random& random, size_t n, double low, double high) {
  std::vector<float> x(n);
  for (float& v : x) v = static_cast<float>(low + random.Uniform() * (high - low));
  return x;
}

struct Conv {
  int taps;
  std::vector<float> weight, bias, history, x;
  std::vector<float> out;
};
constexpr int kChannels = 48, kRows = 11;
constexpr size_t kConvStride = 3 * kChannels + 5;

// Runs the rows in calls of `chunk`; the history stays in `conv`.
void RunConv(const RecurrentKernels& kernels, Conv& conv, bool gated, int chunk) {
  conv.out.assign(size_t{kRows} * kChannels, 0);
  for (int row = 0; row < kRows; row += chunk) {
    CausalConvArgs args;
    args.taps = conv.taps;
    args.channels = kChannels;
    args.rows = std::min(chunk, kRows - row);
    args.weight = conv.weight.data();
    args.bias = gated ? nullptr : conv.bias.data();
    args.history = conv.history.data();
    args.x = conv.x.data() + static_cast<size_t>(row) * kConvStride;
    args.before = gated ? args.x + kChannels : nullptr;
    args.after = gated ? args.x + size_t{2} * kChannels : nullptr;
    args.stride = kConvStride;
    args.out = conv.out.data() + static_cast<size_t>(row) * kChannels;
    args.out_stride = kChannels;
    kernels.causal_conv(args, 0, 16);
    kernels.causal_conv(args, 16, kChannels);
  }
}

TEST_P(RecurrentTest, ConvolutionIsItsDefinitionInAnyCut) {
  Random random(1);
  for (int taps = kMinTaps; taps <= kMaxTaps; ++taps) {
    for (const bool gated : {false, true}) {
      const auto wide = static_cast<size_t>(taps) * kChannels;
      const Conv start = {taps,
                          RandomFloats(random, wide, -1, 1),
                          RandomFloats(random, kChannels, -1, 1),
                          RandomFloats(random, wide - kChannels, -1, 1),
                          RandomFloats(random, kRows * kConvStride, -2, 2),
                          {}};
      Conv whole = start;
      RunConv(kernels(), whole, gated, kRows);
      for (int row = 0; row < kRows; ++row) {
        for (size_t c = 0; c < kChannels; ++c) {
          const auto input = [&](int at) {
            if (at < 0)
              return double{start.history[static_cast<size_t>(at + taps - 1) * kChannels + c]};
            const float* x = start.x.data() + static_cast<size_t>(at) * kConvStride + c;
            return double{x[0]} * (gated ? double{x[kChannels]} : 1.0);
          };
          double want = gated ? 0 : double{start.bias[c]};
          for (int k = 0; k < taps; ++k)
            want += double{start.weight[static_cast<size_t>(k) * kChannels + c]} *
                    input(row - taps + 1 + k);
          if (gated)
            want *= double{start.x[static_cast<size_t>(row) * kConvStride + 2 * kChannels + c]};
          ASSERT_NEAR(whole.out[static_cast<size_t>(row) * kChannels + c], want, 1e-5);
        }
      }
      for (int chunk = 1; chunk < kRows; ++chunk) {
        Conv cut = start;
        RunConv(kernels(), cut, gated, chunk);
        ASSERT_EQ(cut.out, whole.out) << taps << " taps in calls of " << chunk;
        ASSERT_EQ(cut.history, whole.history);
      }
      Conv scalar = start;
      RunConv(ScalarRecurrentKernels(), scalar, gated, kRows);
      ASSERT_EQ(scalar.out, whole.out);
      ASSERT_EQ(scalar.history, whole.history);
    }
  }
}

struct Head {
  int keys, columns;
  std::vector<float> state, rows;
  std::vector<float> out;
};
// Columns of a row: query, key, value, decay, rate.
size_t RowStride(int keys, int columns) {
  return 2 * static_cast<size_t>(keys) + static_cast<size_t>(columns) + 2;
}

void RunHead(void (*recurrence)(const RecurrenceArgs&), Head& head, int chunk) {
  const auto keys = static_cast<size_t>(head.keys), columns = static_cast<size_t>(head.columns);
  head.out.assign(kRows * columns, 0);
  for (int row = 0; row < kRows; row += chunk) {
    RecurrenceArgs args;
    args.keys = head.keys;
    args.columns = head.columns;
    args.rows = std::min(chunk, kRows - row);
    args.state = head.state.data();
    args.stride = RowStride(head.keys, head.columns);
    args.query = head.rows.data() + static_cast<size_t>(row) * args.stride;
    args.key = args.query + keys;
    args.value = args.key + keys;
    args.decay = args.value + columns;
    args.rate = args.decay + 1;
    args.skip = 0.75F;
    args.out = head.out.data() + static_cast<size_t>(row) * columns;
    args.out_stride = columns;
    recurrence(args);
  }
}

Head RandomHead(Random& random, int keys, int columns) {
  const size_t stride = RowStride(keys, columns);
  Head head = {
      keys,
      columns,
      RandomFloats(random, static_cast<size_t>(keys) * static_cast<size_t>(columns), -1, 1),
      RandomFloats(random, kRows * stride, -0.5, 0.5),
      {}};
  for (size_t row = 0; row < kRows; ++row) {
    float* last = head.rows.data() + (row + 1) * stride;
    last[-2] = static_cast<float>(random.Uniform());
    last[-1] = static_cast<float>(random.Uniform());
  }
  return head;
}

// The definition in float64.
std::vector<double> Expected(const Head& head, bool delta) {
  const auto keys = static_cast<size_t>(head.keys), columns = static_cast<size_t>(head.columns);
  std::vector<double> state(head.state.begin(), head.state.end()), out;
  for (size_t row = 0; row < kRows; ++row) {
    const float* query = head.rows.data() + row * RowStride(head.keys, head.columns);
    const float* key = query + keys;
    const float* value = key + keys;
    const double decay = double{value[columns]}, rate = double{value[columns + 1]};
    for (size_t j = 0; j < columns; ++j) {
      double remembered = 0, read = 0;
      for (size_t i = 0; i < keys; ++i) {
        state[i * columns + j] *= decay;
        remembered += double{key[i]} * state[i * columns + j];
      }
      const double d = rate * (double{value[j]} - (delta ? remembered : 0));
      for (size_t i = 0; i < keys; ++i) {
        state[i * columns + j] += double{key[i]} * d;
        read += double{query[i]} * state[i * columns + j];
      }
      out.push_back(delta ? read : read + 0.75 * double{value[j]});
    }
  }
  return out;
}

TEST_P(RecurrentTest, RecurrencesAreTheirDefinitionsInAnyCut) {
  Random random(2);
  for (const int keys : {2, 16, 34, 128}) {
    for (const auto& [delta, columns] : {std::pair{false, kStateColumns},
                                         {true, kStateColumns},
                                         {false, kStateColumns / 2},
                                         {true, kStateColumns / 2}}) {
      const auto run = [delta = delta](const RecurrentKernels& table, Head& head, int chunk) {
        RunHead(delta ? table.delta_rule : table.state_space, head, chunk);
      };
      const Head start = RandomHead(random, keys, columns);
      Head whole = start;
      run(kernels(), whole, kRows);
      const std::vector<double> want = Expected(start, delta);
      double greatest = 1;
      for (const double v : want) greatest = std::max(greatest, std::abs(v));
      for (size_t i = 0; i < want.size(); ++i)
        ASSERT_NEAR(whole.out[i], want[i], 1e-5 * greatest) << keys << " keys, at " << i;
      for (int chunk = 1; chunk < kRows; ++chunk) {
        Head cut = start;
        run(kernels(), cut, chunk);
        ASSERT_EQ(cut.out, whole.out) << keys << " keys in calls of " << chunk;
        ASSERT_EQ(cut.state, whole.state);
      }
      Head scalar = start;
      run(ScalarRecurrentKernels(), scalar, kRows);
      ASSERT_EQ(scalar.out, whole.out);
      ASSERT_EQ(scalar.state, whole.state);
    }
  }
}

}  // namespace
}  // namespace tutti::kernels
