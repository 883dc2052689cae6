// The feed-forward of a mixture: each row goes through the few experts that its router chose, and
// through the shared expert if the model has one.
//
// All experts of a layer are two phases: one for the gate and up matrices of all of them, one for
// all down matrices; between them a phase of activations where experts have no gate. An item of a
// phase is a pair of panels of one expert, so workers share the work evenly however many rows each
// expert has. Rows are grouped by expert: an expert's weights are read once for all its rows. A row
// is quantised once; its blocks are copied into the groups of its experts. Where weights multiply
// what experts read, it is quantised for each of them. The outputs of a row are summed in the order
// of its own choices, the shared expert last. So a row's bits depend on that row alone.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "kernels/quantized_rows.h"
#include "model/decoder.h"

namespace tutti::model {

using kernels::Epilogue;

namespace {

float Sigmoid(float x) { return 1.0F / (1.0F + std::exp(-x)); }

// Turns a row of a router's logits into scores.
void ScoreExperts(RouterScore kind, int experts, float* logits) {
  if (kind == RouterScore::kSigmoid) {
    for (int e = 0; e < experts; ++e) logits[e] = Sigmoid(logits[e]);
    return;
  }
  const float greatest = *std::max_element(logits, logits + experts);
  float sum = 0;
  for (int e = 0; e < experts; ++e) sum += std::exp(logits[e] - greatest);
  for (int e = 0; e < experts; ++e) logits[e] = std::exp(logits[e] - greatest) / sum;
}

// The panel that a worker reads after panel `end` of `projection`: the next one, or the first of
// `after`.
const uint8_t* PanelAfter(const Projection& projection, int end, const Projection* after) {
  const kernels::PackedMatrix& matrix = projection.parts[0];
  if (end < kernels::PanelCount(matrix))
    return matrix.data + static_cast<size_t>(end) * kernels::PanelBytes(matrix);
  return after == nullptr ? nullptr : after->parts[0].data;
}

// Marks the groups of experts that a row may use: those with the greatest scores, of equals the
// first. `bias` may be null.
void ChooseGroups(const ModelConfig& config, const float* scores, const float* bias, bool* used) {
  const int size = config.experts / config.expert_groups;
  float by_group[kMaxExpertGroups];
  for (int g = 0; g < config.expert_groups; ++g) {
    float best = -std::numeric_limits<float>::infinity(), second = best;
    for (int e = g * size; e < (g + 1) * size; ++e) {
      const float score = bias == nullptr ? scores[e] : scores[e] + bias[e];
      if (score > best) {
        second = std::exchange(best, score);
      } else {
        second = std::max(second, score);
      }
    }
    by_group[g] = config.groups_by_best_two ? best + second : best;
    used[g] = false;
  }
  for (int i = 0; i < config.expert_groups_used; ++i) {
    int greatest = 0;
    while (used[greatest]) ++greatest;
    for (int g = greatest + 1; g < config.expert_groups; ++g)
      if (!used[g] && by_group[g] > by_group[greatest]) greatest = g;
    used[greatest] = true;
  }
}

}  // namespace

void Decoder::ExpertLayer(int index, const DecoderBatch& batch, Team& team) {
  const ModelConfig& config = weights_->config();
  const LayerWeights& layer = weights_->layer(index);
  const int rows = static_cast<int>(batch.tokens.size());
  const auto width = static_cast<size_t>(config.width);

  if (config.dense_and_experts) DenseBesideExperts(index, rows, team);
  Activations in = Prepare({.x = x_,
                            .stride = width,
                            .rows = rows,
                            .cols = config.width,
                            .norm_weight = layer.router_norm},
                           layer.router, team);
  Project(layer.router, std::move(in), Epilogue::kStore, router_, router_stride_, nullptr, team);
  if (rows * config.width <= kSerialExpertValues) {
    team.ForEach(1, 1, [&](int, int) {
      for (int row = 0; row < rows; ++row) ChooseExperts(layer, row);
      GroupRows(index, rows);
      for (int row = 0; row < rows; ++row) SpreadRow(index, row, team);
    });
  } else {
    team.ForEachRow(rows, [&](size_t row) { ChooseExperts(layer, static_cast<int>(row)); });
    team.ForEach(1, 1, [&](int, int) { GroupRows(index, rows); });
    team.ForEachRow(rows, [&](size_t row) { SpreadRow(index, static_cast<int>(row), team); });
  }

  // The number of items may be read between phases: no other layer writes this one's groups.
  const ExpertGroup& end = *EndOfGroups(index);
  // Groups of few rows differ in cost from groups of many: small pieces let workers help each
  // other.
  constexpr int kPieces = 16;
  team.ForEach(
      end.gate_begin, kGatedGranule,
      [&](int from, int to) { GateUpOfGroups(index, from, to, team); }, kPieces);
  if (!config.gated) {
    team.ForEachRow(rows * expert_slots_,
                    [&](size_t slot) { ActivateSlot(index, static_cast<int>(slot)); });
  }
  team.ForEach(
      end.down_begin, 1, [&](int from, int to) { DownOfGroups(index, from, to, team); }, kPieces);
  team.ForEachRow(rows, [&](size_t row) { AddExperts(layer, static_cast<int>(row)); });
  ReadKeysAhead(index + 1, batch, team);
}

// The network of layers without experts, where layers with them have it too. Its output waits in
// dense_.
void Decoder::DenseBesideExperts(int index, int rows, Team& team) {
  const LayerWeights& layer = weights_->layer(index);
  Activations gated = FeedForward(index, rows, {}, team);  // no adapters
  Project(layer.down, std::move(gated), Epilogue::kStore, dense_,
          static_cast<size_t>(weights_->config().width), &layer.router, team);
}

// Chooses the experts with the greatest scores, of equals the first, and their weights.
void Decoder::ChooseExperts(const LayerWeights& layer, int row) {
  const ModelConfig& config = weights_->config();
  float* const scores = router_ + static_cast<size_t>(row) * router_stride_;
  const float* const bias = layer.router_bias;
  ExpertChoice* const choices = choices_ + row * expert_slots_;
  // A softmax keeps the order of the logits: it is taken after the choice, which needs no sum over
  // all experts where the weights of those chosen sum to 1. So does a sigmoid, but it rounds great
  // logits to equal scores.
  const bool sigmoid = config.router_score == RouterScore::kSigmoid;
  const bool by_logits = bias == nullptr && !(sigmoid && config.expert_groups > 1);
  if (!by_logits) ScoreExperts(config.router_score, config.experts, scores);

  bool group_used[kMaxExpertGroups];
  const bool grouped = config.expert_groups > 1;
  if (grouped) ChooseGroups(config, scores, bias, group_used);
  int chosen = 0;
  for (int e = 0; e < config.experts; ++e) {
    if (grouped && !group_used[e / (config.experts / config.expert_groups)]) continue;
    const float score = bias == nullptr ? scores[e] : scores[e] + bias[e];
    int at = chosen;
    while (at > 0 && score > choices[at - 1].weight) --at;
    if (at == config.experts_used) continue;
    chosen = std::min(chosen + 1, config.experts_used);
    std::move_backward(choices + at, choices + chosen - 1, choices + chosen);
    choices[at] = {e, 0, score};
  }
  float sum = 0;
  if (by_logits && !sigmoid) {
    const float greatest = choices[0].weight;
    if (config.expert_weights_sum_to_1) {
      for (int i = 0; i < chosen; ++i) sum += std::exp(choices[i].weight - greatest);
    } else {
      for (int e = 0; e < config.experts; ++e) sum += std::exp(scores[e] - greatest);
    }
    for (int i = 0; i < chosen; ++i)
      choices[i].weight = std::exp(choices[i].weight - greatest) / sum;
  } else {
    for (int i = 0; i < chosen; ++i) {
      const float score = scores[choices[i].expert];
      choices[i].weight = by_logits ? Sigmoid(score) : score;
      sum += choices[i].weight;
    }
    for (int i = 0; config.expert_weights_sum_to_1 && i < chosen; ++i)
      choices[i].weight /= sum + 1e-20F;
  }
  for (int i = 0; config.expert_weights_scale != 1 && i < chosen; ++i)
    choices[i].weight *= config.expert_weights_scale;
  for (int i = 0; layer.expert_scales != nullptr && i < chosen; ++i)
    choices[i].weight *= layer.expert_scales[choices[i].expert];
  if (expert_slots_ == config.experts_used) return;
  // The logit of the shared expert's gate stands after those of the router.
  const float weight = config.shared_gate ? Sigmoid(scores[config.experts]) : 1.0F;
  choices[config.experts_used] = {config.experts, 0, weight};
}

Decoder::ExpertGroup* Decoder::GroupsOf(int index) const {
  return expert_groups_ + index * (weights_->config().experts + 2);
}

Decoder::ExpertGroup* Decoder::EndOfGroups(int index) const {
  return GroupsOf(index) + expert_group_counts_[index];
}

// Lists the experts that have rows, and gives each choice its place in its expert's group, where
// rows ascend.
void Decoder::GroupRows(int index, int rows) {
  const LayerWeights& layer = weights_->layer(index);
  const int choices = rows * expert_slots_;
  // The shared expert is the last one.
  const int experts = weights_->config().experts + 1;
  std::fill_n(expert_counts_, experts, 0);
  for (int i = 0; i < choices; ++i) ++expert_counts_[choices_[i].expert];
  ExpertGroup at;
  ExpertGroup* group = GroupsOf(index);
  for (int e = 0; e < experts; ++e) {
    const int count = expert_counts_[e];
    if (count == 0) continue;
    at.expert = e;
    at.rows = count;
    *group++ = at;
    expert_counts_[e] = at.slot;  // from now on its next free place
    at.slot += count;
    at.gate_begin += ExpertOf(layer, e).gate_up.panels();
    at.down_begin += ExpertOf(layer, e).down.panels();
  }
  at.rows = 0;
  *group = at;
  expert_group_counts_[index] = static_cast<int32_t>(group - GroupsOf(index));
  for (int i = 0; i < choices; ++i) choices_[i].slot = expert_counts_[choices_[i].expert]++;
}

const ExpertWeights& Decoder::ExpertOf(const LayerWeights& layer, int expert) {
  const auto at = static_cast<size_t>(expert);
  return at < layer.experts.size() ? layer.experts[at] : layer.shared_expert;
}

// The group's activations in one of the buffers of all slots, whose rows have `cols` values.
kernels::QuantizedRows Decoder::RowsOfGroup(const ExpertGroup& group, const Projection& consumer,
                                            std::byte* memory, int cols, int most_cols) const {
  const kernels::ScalePer scale = consumer.activation_scale();
  // Rows of one buffer never take more together than each takes alone.
  const size_t row_bytes = kernels::QuantizedRowsBytes(1, most_cols);
  return kernels::MakeQuantizedRows(memory + static_cast<size_t>(group.slot) * row_bytes,
                                    group.rows, cols, scale,
                                    kernels_.gemm.tile_rows(group.rows, scale));
}

// Normalises and quantises one row, and copies it into the groups of its experts. Where weights
// multiply inputs, those of outputs become 1.
void Decoder::SpreadRow(int index, int row, const Team& team) {
  const ModelConfig& config = weights_->config();
  const LayerWeights& layer = weights_->layer(index);
  const auto width = static_cast<size_t>(config.width);
  const Worker& worker = workers_[static_cast<size_t>(team.worker())];
  ExpertChoice* choices = choices_ + row * expert_slots_;
  const float* const x = x_ + static_cast<size_t>(row) * width;
  kernels::QuantizedRows one;
  const float* floats = nullptr;
  const ExpertGroup* const groups = GroupsOf(index);
  const ExpertGroup* const end = EndOfGroups(index);
  for (int i = 0; i < expert_slots_; ++i) {
    ExpertChoice& choice = choices[i];
    const Projection& gate_up = ExpertOf(layer, choice.expert).gate_up;
    const bool weighed = config.expert_weights_on_inputs && choice.expert != config.experts;
    if (config.expert_weights_on_inputs) {  // what the expert before read is of no other
      one = {};
      floats = nullptr;
    }
    if (weighed) {
      float* const input = worker.expert_row.floats;
      kernels_.rows.rms_norm(x, layer.expert_norm, stream_eps_, config.width, input);
      for (size_t k = 0; k < width; ++k) input[k] *= choice.weight;
      choice.weight = 1;
      floats = input;
    }
    const ExpertGroup& group =
        *std::lower_bound(groups, end, choice.expert,
                          [](const ExpertGroup& g, int expert) { return g.expert < expert; });
    if (gate_up.reads_quantized()) {
      if (one.q == nullptr || one.scale != gate_up.activation_scale()) {
        one = kernels::MakeQuantizedRows(worker.expert_row.quantized, 1, config.width,
                                         gate_up.activation_scale());
        kernels::QuantizeArgs args;
        args.x = weighed ? floats : x;
        args.x_stride = width;
        args.norm_weight = weighed ? nullptr : layer.expert_norm;
        args.norm_eps = stream_eps_;
        args.out = one;
        kernels_.gemm.quantize(args, 0, 1);
      }
      kernels::CopyQuantizedRow(one, 0,
                                RowsOfGroup(group, gate_up, expert_in_, config.width, config.width),
                                choice.slot - group.slot);
    } else {
      if (floats == nullptr) {
        floats = x;
        if (layer.expert_norm != nullptr) {
          kernels_.rows.rms_norm(x, layer.expert_norm, stream_eps_, config.width,
                                 worker.expert_row.floats);
          floats = worker.expert_row.floats;
        }
      }
      // The outputs' memory: the last input is read before the first output is written.
      std::memcpy(expert_out_ + static_cast<size_t>(choice.slot) * width, floats,
                  width * sizeof(float));
    }
  }
}

// Panels [from, to) of the gate and up matrices of all groups, counted over them.
void Decoder::GateUpOfGroups(int index, int from, int to, const Team& team) {
  const ModelConfig& config = weights_->config();
  const LayerWeights& layer = weights_->layer(index);
  const auto width = static_cast<size_t>(config.width);
  const ExpertGroup* const first = GroupsOf(index);
  const ExpertGroup* const last = EndOfGroups(index);
  const ExpertGroup* group = std::upper_bound(
      first, last, from, [](int at, const ExpertGroup& g) { return at < g.gate_begin; });
  for (--group; group != last && group->gate_begin < to; ++group) {
    const ExpertWeights& expert = ExpertOf(layer, group->expert);
    kernels::GemmArgs args;
    args.weight = expert.gate_up.parts[0];
    args.rows = group->rows;
    args.epilogue = config.gated ? EpilogueOf(config.gate) : Epilogue::kStore;
    args.bias = expert.gate_up.bias;
    if (expert.gate_up.reads_quantized()) {
      args.x = RowsOfGroup(*group, expert.gate_up, expert_in_, config.width, config.width);
    } else {
      args.x_f32 = expert_out_ + static_cast<size_t>(group->slot) * width;
      args.x_stride = width;
    }
    const int feed_forward = expert.down.parts[0].cols;
    if (config.gated && expert.down.reads_quantized()) {
      args.quantized =
          RowsOfGroup(*group, expert.down, expert_gated_.quantized, feed_forward, expert_width_);
    } else {
      args.out = expert_gated_.floats +
                 static_cast<size_t>(group->slot) * static_cast<size_t>(expert_width_);
      args.out_stride = static_cast<size_t>(feed_forward);
    }
    const int begin = std::max(from - group->gate_begin, 0);
    const int end = std::min(to - group->gate_begin, expert.gate_up.panels());
    const Projection* after =
        group + 1 == last ? nullptr : &ExpertOf(layer, group[1].expert).gate_up;
    args.next = PanelAfter(expert.gate_up, end, after);
    kernels_.gemm.gemm(args, begin, end, workers_[static_cast<size_t>(team.worker())].gemm);
  }
}

// The activation of one row of an expert without a gate, in the form that its down matrix reads.
void Decoder::ActivateSlot(int index, int slot) {
  const ExpertGroup* group =
      std::upper_bound(static_cast<const ExpertGroup*>(GroupsOf(index)),
                       static_cast<const ExpertGroup*>(EndOfGroups(index)), slot,
                       [](int at, const ExpertGroup& g) { return at < g.slot; });
  --group;
  const Projection& down = ExpertOf(weights_->layer(index), group->expert).down;
  const int feed_forward = down.parts[0].cols;
  const int row = slot - group->slot;
  float* const first =
      expert_gated_.floats + static_cast<size_t>(group->slot) * static_cast<size_t>(expert_width_);
  const auto stride = static_cast<size_t>(feed_forward);
  Activate(index, feed_forward, first + static_cast<size_t>(row) * stride);
  if (!down.reads_quantized()) return;
  kernels::QuantizeArgs args;
  args.x = first;
  args.x_stride = stride;
  args.out = RowsOfGroup(*group, down, expert_gated_.quantized, feed_forward, expert_width_);
  kernels_.gemm.quantize(args, row, row + 1);
}

// Panels [from, to) of the down matrices of all groups, counted over them.
void Decoder::DownOfGroups(int index, int from, int to, const Team& team) {
  const LayerWeights& layer = weights_->layer(index);
  const auto width = static_cast<size_t>(weights_->config().width);
  const ExpertGroup* const first = GroupsOf(index);
  const ExpertGroup* const last = EndOfGroups(index);
  const ExpertGroup* group = std::upper_bound(
      first, last, from, [](int at, const ExpertGroup& g) { return at < g.down_begin; });
  for (--group; group != last && group->down_begin < to; ++group) {
    const ExpertWeights& expert = ExpertOf(layer, group->expert);
    const int feed_forward = expert.down.parts[0].cols;
    kernels::GemmArgs args;
    args.weight = expert.down.parts[0];
    args.bias = expert.down.bias;
    args.rows = group->rows;
    if (expert.down.reads_quantized()) {
      args.x =
          RowsOfGroup(*group, expert.down, expert_gated_.quantized, feed_forward, expert_width_);
    } else {
      args.x_f32 = expert_gated_.floats +
                   static_cast<size_t>(group->slot) * static_cast<size_t>(expert_width_);
      args.x_stride = static_cast<size_t>(feed_forward);
    }
    args.out = expert_out_ + static_cast<size_t>(group->slot) * width;
    args.out_stride = width;
    const int begin = std::max(from - group->down_begin, 0);
    const int end = std::min(to - group->down_begin, expert.down.panels());
    const Projection* after = group + 1 == last ? nullptr : &ExpertOf(layer, group[1].expert).down;
    args.next = PanelAfter(expert.down, end, after);
    kernels_.gemm.gemm(args, begin, end, workers_[static_cast<size_t>(team.worker())].gemm);
  }
}

// Adds the weighted outputs of a row's experts to the residual stream, in the order of its choices.
void Decoder::AddExperts(const LayerWeights& layer, int row) {
  const auto width = static_cast<size_t>(weights_->config().width);
  float* x = x_ + static_cast<size_t>(row) * width;
  float* const sum = layer.ffn_after_norm == nullptr ? x : sum_ + static_cast<size_t>(row) * width;
  if (sum != x) std::fill_n(sum, width, 0.0F);
  for (int i = 0; i < expert_slots_; ++i) {
    const ExpertChoice& choice = choices_[row * expert_slots_ + i];
    const float* out = expert_out_ + static_cast<size_t>(choice.slot) * width;
    for (size_t k = 0; k < width; ++k) sum[k] = std::fma(choice.weight, out[k], sum[k]);
  }
  if (sum == x) return;
  if (weights_->config().dense_and_experts) {
    const auto norm = [&](float* out, const float* weight) {
      kernels_.rows.rms_norm(out, weight, weights_->config().norm_eps, static_cast<int>(width),
                             out);
    };
    float* dense = dense_ + static_cast<size_t>(row) * width;
    norm(dense, layer.dense_after_norm);
    norm(sum, layer.experts_after_norm);
    kernels_.rows.add(sum, dense, static_cast<int>(width));
  }
  const bool last = weights_->config().layer_inputs == 0;
  AddNormed(x, sum, layer.ffn_after_norm, last ? layer.output_scale : nullptr);
}

}  // namespace tutti::model
