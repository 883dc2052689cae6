// The feed-forward of a mixture: each row goes through the few experts its router chose.
//
// Rows are gathered by expert, so that an expert's weights are read once for all its rows, and what
// they give is summed for each row in the order of its own choices: its bits depend on it alone.
#include <algorithm>
#include <cmath>

#include "model/decoder.h"

namespace tutti::model {

using kernels::Epilogue;

void Decoder::ExpertLayer(int index, const DecoderBatch& batch, Team& team) {
  const ModelConfig& config = weights_->config();
  const LayerWeights& layer = weights_->layer(index);
  const int rows = static_cast<int>(batch.tokens.size());
  const auto width = static_cast<size_t>(config.width);
  const auto used = static_cast<size_t>(config.experts_used);

  Activations in = Prepare(
      {.x = x_, .stride = width, .rows = rows, .cols = config.width, .norm_weight = layer.ffn_norm},
      layer.router, team);
  Project(layer.router, std::move(in), Epilogue::kStore, router_,
          static_cast<size_t>(layer.router.columns()), nullptr, team);
  team.ForEachRow(rows, [&](size_t row) { ChooseExperts(static_cast<int>(row)); });
  team.ForEach(1, 1, [&](int, int) { ListExperts(index, rows); });

  const int32_t* begin_of = expert_begin_ + index * (config.experts + 1);
  for (int e = 0; e < config.experts; ++e) {
    const int count = begin_of[e + 1] - begin_of[e];
    if (count == 0) continue;
    const ExpertWeights& expert = layer.experts[static_cast<size_t>(e)];
    Activations gathered = Prepare({.x = x_,
                                    .stride = width,
                                    .rows = count,
                                    .cols = config.width,
                                    .gather = expert_rows_ + begin_of[e],
                                    .norm_weight = layer.ffn_norm},
                                   expert.gate_up, team);
    const Activations gated = GateUp(expert.gate_up, expert.down, std::move(gathered), team);
    Project(expert.down, gated, Epilogue::kStore,
            expert_out_ + static_cast<size_t>(begin_of[e]) * width, width, nullptr, team);
  }
  team.ForEachRow(rows, [&](size_t row) {
    float* x = x_ + row * width;
    for (size_t i = 0; i < used; ++i) {
      const ExpertChoice& choice = choices_[row * used + i];
      const float* out = expert_out_ + static_cast<size_t>(choice.slot) * width;
      for (size_t k = 0; k < width; ++k) x[k] = std::fma(choice.weight, out[k], x[k]);
    }
  });
  ReadKeysAhead(index + 1, batch, team);
}

// The experts with the greatest logits, of equals the first; their weights are shares of a softmax.
void Decoder::ChooseExperts(int row) {
  const ModelConfig& config = weights_->config();
  const float* logits =
      router_ + static_cast<size_t>(row) * static_cast<size_t>(weights_->layer(0).router.columns());
  ExpertChoice* const choices = choices_ + static_cast<ptrdiff_t>(row) * config.experts_used;
  int chosen = 0;
  for (int e = 0; e < config.experts; ++e) {
    int at = chosen;
    while (at > 0 && logits[e] > choices[at - 1].weight) --at;
    if (at == config.experts_used) continue;
    chosen = std::min(chosen + 1, config.experts_used);
    std::move_backward(choices + at, choices + chosen - 1, choices + chosen);
    choices[at] = {e, 0, logits[e]};
  }
  const float greatest = choices[0].weight;
  float sum = 0;
  if (config.expert_weights_sum_to_1) {
    for (int i = 0; i < chosen; ++i) sum += std::exp(choices[i].weight - greatest);
  } else {
    for (int e = 0; e < config.experts; ++e) sum += std::exp(logits[e] - greatest);
  }
  for (int i = 0; i < chosen; ++i) choices[i].weight = std::exp(choices[i].weight - greatest) / sum;
}

// By expert, in each the rows ascending.
void Decoder::ListExperts(int index, int rows) {
  const ModelConfig& config = weights_->config();
  const int choices = rows * config.experts_used;
  int32_t* const begin = expert_begin_ + index * (config.experts + 1);
  std::fill_n(begin, config.experts + 1, 0);
  for (int i = 0; i < choices; ++i) ++begin[choices_[i].expert + 1];
  for (int e = 0; e < config.experts; ++e) begin[e + 1] += begin[e];
  // Each expert's begin runs to its end while rows are put down, then all are moved back by one.
  for (int i = 0; i < choices; ++i) {
    choices_[i].slot = begin[choices_[i].expert]++;
    expert_rows_[choices_[i].slot] = i / config.experts_used;
  }
  std::move_backward(begin, begin + config.experts, begin + config.experts + 1);
  begin[0] = 0;
}

}  // namespace tutti::model
