// Recurrences of layers without keys and values: causal convolutions, the gated delta rule
// (Gated DeltaNet) and the selective state space (Mamba-2).
//
// What: one table of function pointers per instruction set, POD only (see attention.h). Each call
// runs consecutive rows of one sequence through a part of its state: a range of channels, or 32 or
// 16 value columns of one head. The rows are computed one after another, so a row's bits
// and the state depend only on the rows before it, however they are cut into calls. Bits: equal in
// all tables. Thread: any, on disjoint states and outputs. Alignment: any; 64 bytes is fastest.
// Sources: Yang et al. 2024, "Gated Delta Networks"; Dao and Gu 2024, "Transformers are SSMs".
#pragma once

#include <cstddef>
#include <cstdint>

namespace tutti::kernels {

inline constexpr int32_t kChannelGranule = 16;  // channels of a convolution: a multiple of this
inline constexpr int32_t kStateColumns = 32;    // value columns of one call, or half of that
inline constexpr int32_t kMaxTaps = 4;
inline constexpr int32_t kMinTaps = 2;

// y[c] = bias[c] + sum over k of weight[k][c] * x[row - (taps - 1) + k][c].
struct CausalConvArgs {
  int32_t taps = 0;      // kMinTaps..kMaxTaps
  int32_t channels = 0;  // of the whole convolution: the stride of `history` and `weight`
  int32_t rows = 0;
  const float* weight = nullptr;  // [taps][channels]
  const float* bias = nullptr;    // [channels], or null
  float* history = nullptr;       // [taps - 1][channels]: the last inputs, the oldest first
  const float* x = nullptr;       // [rows], a row every `stride` floats
  const float* before = nullptr;  // as x: the input is x * before; or null
  const float* after = nullptr;   // as x: the output is y * after; or null
  size_t stride = 0;
  float* out = nullptr;  // may be x
  size_t out_stride = 0;
};

// The state S of these columns of a head is [keys][columns]; keys are even.
struct RecurrenceArgs {
  int32_t keys = 0;
  int32_t columns = kStateColumns;  // or kStateColumns / 2
  int32_t rows = 0;
  float* state = nullptr;
  const float* query = nullptr;  // [rows][keys]; of these five, a row every `stride` floats
  const float* key = nullptr;    // [rows][keys]
  const float* value = nullptr;  // [rows][columns]
  const float* decay = nullptr;  // [rows]
  const float* rate = nullptr;   // [rows]
  size_t stride = 0;
  float skip = 0;        // of the state space
  float* out = nullptr;  // [rows][columns]
  size_t out_stride = 0;
};

struct RecurrentKernels {
  const char* name;  // which file wrote it

  // Channels [begin, end), multiples of kChannelGranule.
  void (*causal_conv)(const CausalConvArgs& args, int32_t begin, int32_t end);
  // S = decay S; S += key (rate (value - key S)); out = query S.
  void (*delta_rule)(const RecurrenceArgs& args);
  // S = decay S + key (rate value); out = query S + skip value.
  void (*state_space)(const RecurrenceArgs& args);
};

// Filled in cpu/<isa>/recurrent_*.cc. Call only on a machine that has the instructions.
const RecurrentKernels& ScalarRecurrentKernels();
const RecurrentKernels& Avx2RecurrentKernels();
const RecurrentKernels& Avx512VnniRecurrentKernels();
const RecurrentKernels& NeonRecurrentKernels();

}  // namespace tutti::kernels
