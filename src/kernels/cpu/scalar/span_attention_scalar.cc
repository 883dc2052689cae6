// Attention over spans in plain C++: the oracle.
#include "kernels/span_attention.h"

namespace tutti::kernels {
namespace {

constexpr float kNoScore = -1e30f;  // below every finite score worth having; not -inf: see Update
constexpr float kLog2E = 1.44269504f;

struct Row {
  const float* q;  // scaled
  float* out;      // weighted values, not yet divided
  float maximum = kNoScore;
  float sum = 0;
};

int32_t Within(int32_t distance, int32_t farthest) {
  if (distance > farthest) return farthest;
  return distance < -farthest ? -farthest : distance;
}

// The terms of the head whose first dim is `column`.
SpanRelative OfHead(SpanRelative terms, size_t column) {
  if (terms.keys == nullptr) return terms;
  terms.keys += column * terms.stride;
  terms.queries += column * terms.stride;
  return terms;
}

// What keys are compared with, besides the query.
struct Distances {
  const float* bias;      // bias[-t]: of key t; or null
  SpanRelative relative;  // the head's
  int32_t first;          // distance of key 0
  float factor;           // scales products with relative terms
};

// Adds `keys` keys to a row's softmax. With a finite start, keys of -inf weigh 0 until a finite one
// comes.
void Update(Row& row, const float* k, const float* v, size_t stride, int32_t keys, int32_t head_dim,
            const Distances& distances) {
  const float* bias = distances.bias;
  const SpanRelative& relative = distances.relative;
  float scores[kSpanChunkKeys];
  float maximum = row.maximum;
  for (int32_t t = 0; t < keys; ++t) {
    const float* key = k + static_cast<size_t>(t) * stride;
    float score = 0;
    if (relative.keys == nullptr) {
      for (int32_t d = 0; d < head_dim; ++d) score += key[d] * row.q[d];
    } else {
      std::ptrdiff_t at = Within(distances.first - t, relative.farthest);
      for (int32_t d = 0; d < head_dim; ++d, at += static_cast<std::ptrdiff_t>(relative.stride)) {
        score += key[d] * relative.queries[at];
        score += row.q[d] * (key[d] + relative.keys[at]);
      }
      score *= distances.factor;
    }
    if (bias != nullptr) score += bias[-t] * kLog2E;
    scores[t] = score;
    if (score > maximum) maximum = score;
  }
  const float keep = __builtin_exp2f(row.maximum - maximum);
  row.maximum = maximum;
  row.sum *= keep;
  for (int32_t d = 0; d < head_dim; ++d) row.out[d] *= keep;
  for (int32_t t = 0; t < keys; ++t) {
    const float p = __builtin_exp2f(scores[t] - maximum);
    row.sum += p;
    const float* value = v + static_cast<size_t>(t) * stride;
    for (int32_t d = 0; d < head_dim; ++d) row.out[d] += p * value[d];
  }
}

void RunItem(const SpanAttentionArgs& args, const SpanAttentionItem& item, std::byte* scratch) {
  const int32_t head_dim = args.shape.head_dim;
  float* q = reinterpret_cast<float*>(scratch);
  for (int32_t head = item.head_begin; head < item.head_end; ++head) {
    const size_t column = static_cast<size_t>(head) * static_cast<size_t>(head_dim);
    const float* base = args.qkv + static_cast<size_t>(item.first_row) * args.stride + column;
    const float* bias =
        args.bias == nullptr ? nullptr : args.bias + static_cast<size_t>(head) * args.bias_stride;
    const float factor = args.shape.scale * kLog2E;
    const float query_factor = args.relative.keys == nullptr ? factor : 1;
    for (int32_t r = item.query_begin; r < item.query_end; ++r) {
      const float* from = base + static_cast<size_t>(r) * args.stride + args.q_column;
      Row row;
      row.q = q;
      row.out = args.out + static_cast<size_t>(item.first_row + r) * args.out_stride + column;
      for (int32_t d = 0; d < head_dim; ++d) {
        q[d] = from[d] * query_factor;
        row.out[d] = 0;
      }
      const bool bounded = args.reach > 0;
      const int32_t low = bounded && r > args.reach ? r - args.reach : 0;
      const int32_t high =
          bounded && item.rows - r - 1 > args.reach ? r + 1 + args.reach : item.rows;
      for (int32_t begin = low, count = 0; begin < high; begin += count) {
        const int32_t whole = kSpanChunkKeys - begin % kSpanChunkKeys;
        count = high - begin < whole ? high - begin : whole;
        const size_t at = static_cast<size_t>(begin) * args.stride;
        Update(row, base + args.k_column + at, base + args.v_column + at, args.stride, count,
               head_dim,
               {bias == nullptr ? nullptr : bias + r - begin, OfHead(args.relative, column),
                r - begin, factor});
      }
      const float inverse = 1.0f / row.sum;
      for (int32_t d = 0; d < head_dim; ++d) row.out[d] *= inverse;
    }
  }
}

}  // namespace

const SpanAttentionKernels& ScalarSpanAttentionKernels() {
  static constexpr SpanAttentionKernels kKernels = {"scalar", RunItem};
  return kKernels;
}

}  // namespace tutti::kernels
