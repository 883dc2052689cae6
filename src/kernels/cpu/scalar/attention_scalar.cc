// Attention in plain C++: the oracle. Float32 arithmetic; the cache in float, half precision or
// int8.
#include "kernels/attention.h"
#include "tensor/blocks.h"

namespace tutti::kernels {
namespace {

#include "kernels/cpu/attention_driver.inc"

struct ScalarForm : StatesByRow {
  static constexpr int kTileRows = 1;

  struct Block {
    const float* k;  // [head_dim][32]
    const float* v;  // [32][head_dim]
    int32_t keys;
  };

  static size_t QueryBytes(int32_t head_dim) {
    return static_cast<size_t>(head_dim) * sizeof(float);
  }
  static size_t BlockBytes(int32_t head_dim) {
    return 2 * static_cast<size_t>(head_dim) * kBlockTokens * sizeof(float);
  }

  static void PrepareQuery(const float* q, int32_t head_dim, float scale, std::byte* dst,
                           float* q_scale) {
    float* out = reinterpret_cast<float*>(dst);
    for (int32_t d = 0; d < head_dim; ++d) out[d] = q[d] * scale;
    *q_scale = 1.0f;
  }

  static Block LoadBlock(const std::byte* head, const KvLayout& layout, int32_t keys,
                         std::byte* scratch) {
    if (layout.format == KvFormat::kF32) {
      return {reinterpret_cast<const float*>(head),
              reinterpret_cast<const float*>(head + layout.v_offset), keys};
    }
    const int32_t count = layout.head_dim * kBlockTokens;
    if (layout.format == KvFormat::kI8) return LoadInt8(head, layout, keys, scratch);
    const uint16_t* k = reinterpret_cast<const uint16_t*>(head);
    const uint16_t* v = reinterpret_cast<const uint16_t*>(head + layout.v_offset);
    float* wide = reinterpret_cast<float*>(scratch);
    for (int32_t i = 0; i < count; ++i) wide[i] = tensor::HalfToFloat(k[i]);
    for (int32_t i = 0; i < keys * layout.head_dim; ++i)
      wide[count + i] = tensor::HalfToFloat(v[i]);
    return {wide, wide + count, keys};
  }

  static Block LoadInt8(const std::byte* head, const KvLayout& layout, int32_t keys,
                        std::byte* scratch) {
    const int32_t dims = layout.head_dim;
    const int8_t* k8 = reinterpret_cast<const int8_t*>(head);
    const int8_t* v8 = reinterpret_cast<const int8_t*>(head + layout.v_offset);
    const float* k_scale = reinterpret_cast<const float*>(head + layout.k_scale_offset);
    const float* v_scale = reinterpret_cast<const float*>(head + layout.v_scale_offset);
    float* k = reinterpret_cast<float*>(scratch);
    float* v = k + dims * kBlockTokens;
    for (int32_t d = 0; d < dims; ++d) {
      for (int32_t t = 0; t < kBlockTokens; ++t) {
        k[d * kBlockTokens + t] =
            static_cast<float>(k8[(d / 2 * kBlockTokens + t) * 2 + d % 2]) * k_scale[t];
      }
    }
    for (int32_t t = 0; t < keys; ++t) {
      for (int32_t d = 0; d < dims; ++d)
        v[t * dims + d] = static_cast<float>(v8[(t / 2 * dims + d) * 2 + t % 2]) * v_scale[t];
    }
    return {k, v, keys};
  }

  static void Rows(const RowStates& states, int32_t row, int32_t /*count*/, const Block& block,
                   int32_t base, bool /*masked*/, const std::byte* /*next*/) {
    const int32_t head_dim = states.head_dim;
    const float* q =
        reinterpret_cast<const float*>(states.q + static_cast<size_t>(row) * states.q_bytes);
    float score[kBlockTokens] = {};
    for (int32_t d = 0; d < head_dim; ++d) {
      for (int t = 0; t < kBlockTokens; ++t) score[t] += q[d] * block.k[d * kBlockTokens + t];
    }
    const int32_t last = states.position[row] - base;
    const int32_t keys = last + 1 < block.keys ? last + 1 : block.keys;
    const int32_t first = states.first[row] > base ? states.first[row] - base : 0;
    if (states.softcap > 0) {
      for (int32_t t = first; t < keys; ++t)
        score[t] = states.softcap * __builtin_tanhf(score[t] / states.softcap);
    }
    float greatest = states.m[row];
    for (int32_t t = first; t < keys; ++t) greatest = score[t] > greatest ? score[t] : greatest;

    float* o = states.o + static_cast<size_t>(row) * static_cast<size_t>(head_dim);
    float& sum = states.l[static_cast<size_t>(row) * kLanes];
    if (greatest > states.m[row]) {
      const float keep = Exp2(states.m[row] - greatest);
      sum *= keep;
      for (int32_t d = 0; d < head_dim; ++d) o[d] *= keep;
      states.m[row] = greatest;
    }
    for (int32_t t = first; t < keys; ++t) {
      const float p = Exp2(score[t] - greatest);
      sum += p;
      const float* v = block.v + static_cast<size_t>(t) * static_cast<size_t>(head_dim);
      for (int32_t d = 0; d < head_dim; ++d) o[d] += p * v[d];
    }
  }

  static float Exp2(float x) { return __builtin_exp2f(x); }
};

// x rounded to int8, scale = max|x| / 127; returns the scale.
float Quantise(const float* x, int32_t head_dim, int8_t* out) {
  float greatest = 1e-20f;
  for (int32_t d = 0; d < head_dim; ++d) {
    const float size = __builtin_fabsf(x[d]);
    greatest = size > greatest ? size : greatest;
  }
  const float inverse = 127.0f / greatest;
  for (int32_t d = 0; d < head_dim; ++d)
    out[d] = static_cast<int8_t>(__builtin_lrintf(x[d] * inverse));
  return greatest / 127.0f;
}

void AppendHalf(const KvLayout& layout, std::byte* head, int32_t slot, const float* k,
                const float* v) {
  uint16_t* keys = reinterpret_cast<uint16_t*>(head) + slot;
  uint16_t* values = reinterpret_cast<uint16_t*>(head + layout.v_offset) + slot * layout.head_dim;
  for (int32_t d = 0; d < layout.head_dim; ++d) {
    keys[d * kBlockTokens] = tensor::FloatToHalf(k[d]);
    values[d] = tensor::FloatToHalf(v[d]);
  }
}

struct Lanes {
  static constexpr int kCount = 1;
  using Vector = float;
  static Vector Load(const float* x) { return *x; }
  static void Store(float* x, Vector v) { *x = v; }
  static Vector Times(Vector v, float factor) { return v * factor; }
  static Vector Sum(Vector a, Vector b) { return a + b; }
  static Vector Difference(Vector a, Vector b) { return a - b; }
  static Vector Within(Vector v) { return v; }
};

#include "kernels/cpu/attention_append.inc"

size_t ScratchBytes(const AttentionShape& shape) {
  return FormScratchBytes<ScalarForm>(shape.head_dim);
}

void RunItem(const AttentionArgs& args, const AttentionWork& work, int32_t index,
             std::byte* scratch) {
  RunItemForm<ScalarForm>(args, work, index, scratch);
}

}  // namespace

const AttentionKernels& ScalarAttentionKernels() {
  static constexpr AttentionKernels kKernels = {"scalar", KvFormat::kF16, RopeAppend, ScratchBytes,
                                                RunItem};
  return kKernels;
}

}  // namespace tutti::kernels
