#include "reference_llama.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace tutti::parity {
namespace {

using Row = std::vector<double>;

void AddTo(Row& x, const Row& y) {
  for (size_t i = 0; i < x.size(); ++i) x[i] += y[i];
}

}  // namespace

const std::vector<float>& ReferenceLlama::Tensor(const std::string& name) const {
  const auto it = tensors.find(name);
  CHECK(it != tensors.end()) << name;
  return it->second;
}

Row ReferenceLlama::Multiply(const std::string& matrix, const Row& x) const {
  const std::vector<float>& w = Tensor(matrix);
  Row y(w.size() / x.size(), 0.0);
  for (size_t n = 0; n < y.size(); ++n) {
    for (size_t k = 0; k < x.size(); ++k) y[n] += static_cast<double>(w[n * x.size() + k]) * x[k];
  }
  return y;
}

Row ReferenceLlama::Norm(const std::string& weight, const Row& x) const {
  const std::vector<float>& w = Tensor(weight);
  double squares = 0;
  for (const double v : x) squares += v * v;
  const double scale = 1.0 / std::sqrt(squares / static_cast<double>(x.size()) + norm_eps);
  Row y(x.size());
  for (size_t i = 0; i < x.size(); ++i) y[i] = x[i] * scale * static_cast<double>(w[i]);
  return y;
}

// Adjacent pairs of the first rope_dims of every head.
void ReferenceLlama::Rotate(Row& row, int row_heads, int position) const {
  for (int head = 0; head < row_heads; ++head) {
    for (int i = 0; i < rope_dims / 2; ++i) {
      double frequency = std::pow(rope_base, -2.0 * i / rope_dims) / rope_linear_factor;
      if (!rope_freq_factors.empty()) frequency /= rope_freq_factors[static_cast<size_t>(i)];
      const double c = std::cos(position * frequency), s = std::sin(position * frequency);
      double* pair = row.data() + head * head_dim + 2 * i;
      const double a = pair[0], b = pair[1];
      pair[0] = a * c - b * s;
      pair[1] = a * s + b * c;
    }
  }
}

std::vector<Row> ReferenceLlama::Logits(const std::vector<TokenId>& tokens) const {
  const std::vector<float>& embedding = Tensor("token_embd.weight");
  std::vector<Row> x;
  for (const TokenId token : tokens) {
    const auto row = embedding.begin() + static_cast<std::ptrdiff_t>(token) * width;
    x.emplace_back(row, row + width);
  }
  const int group = heads / kv_heads;
  for (int layer = 0; layer < layers; ++layer) {
    const std::string prefix = "blk." + std::to_string(layer) + ".";
    std::vector<Row> keys, values;
    for (size_t t = 0; t < x.size(); ++t) {
      const Row h = Norm(prefix + "attn_norm.weight", x[t]);
      Row q = Multiply(prefix + "attn_q.weight", h);
      keys.push_back(Multiply(prefix + "attn_k.weight", h));
      values.push_back(Multiply(prefix + "attn_v.weight", h));
      Rotate(q, heads, static_cast<int>(t));
      Rotate(keys.back(), kv_heads, static_cast<int>(t));
      Row out(static_cast<size_t>(heads * head_dim), 0.0);
      for (int head = 0; head < heads; ++head) {
        const int from = head / group * head_dim;
        Row scores;
        for (const Row& key : keys) {
          double dot = 0;
          for (int d = 0; d < head_dim; ++d) {
            dot += q[static_cast<size_t>(head * head_dim + d)] * key[static_cast<size_t>(from + d)];
          }
          scores.push_back(dot / std::sqrt(static_cast<double>(head_dim)));
        }
        const Row weights = LogSoftmax(scores);
        for (size_t j = 0; j < values.size(); ++j) {
          for (int d = 0; d < head_dim; ++d) {
            out[static_cast<size_t>(head * head_dim + d)] +=
                std::exp(weights[j]) * values[j][static_cast<size_t>(from + d)];
          }
        }
      }
      AddTo(x[t], Multiply(prefix + "attn_output.weight", out));
      const Row f = Norm(prefix + "ffn_norm.weight", x[t]);
      Row gate = Multiply(prefix + "ffn_gate.weight", f);
      const Row up = Multiply(prefix + "ffn_up.weight", f);
      for (size_t i = 0; i < gate.size(); ++i)
        gate[i] = gate[i] / (1.0 + std::exp(-gate[i])) * up[i];
      AddTo(x[t], Multiply(prefix + "ffn_down.weight", gate));
    }
  }
  const std::string head =
      tensors.count("output.weight") != 0 ? "output.weight" : "token_embd.weight";
  std::vector<Row> logits;
  for (const Row& row : x) logits.push_back(Multiply(head, Norm("output_norm.weight", row)));
  return logits;
}

std::vector<TokenId> ReferenceLlama::Greedy(std::vector<TokenId> prompt, int count) const {
  std::vector<TokenId> out;
  for (int i = 0; i < count; ++i) {
    const Row last = Logits(prompt).back();
    out.push_back(static_cast<TokenId>(std::max_element(last.begin(), last.end()) - last.begin()));
    prompt.push_back(out.back());
  }
  return out;
}

Row LogSoftmax(const Row& logits) {
  const double top = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const double v : logits) sum += std::exp(v - top);
  Row out;
  for (const double v : logits) out.push_back(v - top - std::log(sum));
  return out;
}

}  // namespace tutti::parity
