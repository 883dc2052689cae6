// Adapters in the forward pass: what rows with a LoRA adapter add to the products of the base.
//
// A product of all rows runs as without adapters. Before it, the rows of each adapter are
// multiplied with its A ("shrink"), and after it with its B ("expand"), which is added to the
// outputs of these rows alone: the bits of other rows do not change. Both use the float inputs of
// the product, also where the base reads them quantised.
#include <algorithm>
#include <utility>

#include "model/decoder.h"

namespace tutti::model {
namespace {

constexpr int Ceil(int a, int b) { return (a + b - 1) / b; }

}  // namespace

const LoraProduct& Decoder::LoraProductOf(const LoraBatch::Group& group, const LoraUse& use) {
  return group.adapter->product(use.layer, use.place);
}

bool Decoder::UsesLora(const LoraUse& use) {
  if (use.batch == nullptr) return false;
  return std::any_of(use.batch->groups.begin(), use.batch->groups.end(),
                     [&](const auto& group) { return LoraProductOf(group, use).ranks != 0; });
}

// Rows of `source` as floats, after its norm if it has one, in memory of this worker.
void Decoder::LoraInputs(const Source& source, std::span<const int32_t> rows,
                         Worker& worker) const {
  for (size_t i = 0; i < rows.size(); ++i) {
    const float* x = source.x + static_cast<size_t>(rows[i]) * source.stride;
    worker.lora_inputs[i] = x;
    if (source.norm_weight == nullptr) continue;
    float* const normed = worker.lora_rows + i * static_cast<size_t>(source.cols);
    if (source.norm_bias != nullptr) {
      NormRow(x, source.norm_weight, source.norm_bias, normed);
    } else {
      kernels_.rows.rms_norm(x, source.norm_weight,
                             source.norm_eps == 0 ? stream_eps_ : source.norm_eps, source.cols,
                             normed);
    }
    worker.lora_inputs[i] = normed;
  }
}

// lora_ranks_ = A x for the rows of the batch, all A of the place one after another.
void Decoder::Shrink(const LoraUse& use, const Source& source, Team& team) {
  if (!UsesLora(use)) return;
  const LoraBatch& batch = *use.batch;
  // A tile of rows reads A once. Few rows are cut into smaller tiles, so that all workers have
  // some.
  const int tile_rows =
      std::clamp(Ceil(static_cast<int>(batch.rows.size()), team.workers()), 1, kLoraTile);
  int tiles = 0, panels = 0;
  for (const LoraBatch::Group& group : batch.groups) {
    const LoraProduct& product = LoraProductOf(group, use);
    if (product.ranks == 0) continue;
    tiles += Ceil(group.count, tile_rows);
    panels = std::max(panels, kernels::LowRankPanels(product.ranks));
  }
  // Still fewer tiles than workers: each panel is an item, and takes the norm of its rows again.
  const int pieces = tiles < team.workers() ? panels : 1;
  Worker& worker = workers_[static_cast<size_t>(team.worker())];
  int normed_tile = -1;  // whose rows are in the worker's memory
  team.ForEachInOrder(tiles * pieces, [&](int item) {
    const int tile = item / pieces, piece = item % pieces;
    int at = tile;
    for (const LoraBatch::Group& group : batch.groups) {
      const LoraProduct& product = LoraProductOf(group, use);
      if (product.ranks == 0) continue;
      const int in_group = Ceil(group.count, tile_rows);
      if (at >= in_group) {
        at -= in_group;
        continue;
      }
      const int all = kernels::LowRankPanels(product.ranks);
      if (piece >= all) return;  // this adapter has fewer ranks than another one
      const int first = at * tile_rows, count = std::min(tile_rows, group.count - first);
      const auto rows =
          batch.rows.subspan(static_cast<size_t>(group.begin + first), static_cast<size_t>(count));
      if (normed_tile != tile) LoraInputs(source, rows, worker);
      normed_tile = tile;
      std::array<float*, kLoraTile> out;
      for (size_t i = 0; i < rows.size(); ++i)
        out[i] = lora_ranks_ + static_cast<size_t>(rows[i]) * kMaxLoraRanks;
      kernels::LowRankArgs args;
      args.weight = product.shrink;
      args.type = group.adapter->type();
      args.inner = product.inputs;
      args.columns = product.ranks;
      args.x = worker.lora_inputs.data();
      args.out = out.data();
      args.rows = count;
      kernels_.rows.low_rank(args, pieces == 1 ? 0 : piece, pieces == 1 ? all : piece + 1);
      return;
    }
  });
}

// Adds scale * B (A x) to the rows' outputs. The columns are divided among the workers, so that no
// two of them write one output.
void Decoder::Expand(const LoraUse& use, float* out, size_t stride, Team& team) {
  if (!UsesLora(use)) return;
  const LoraBatch& batch = *use.batch;
  int panels = 0;  // of all adapters
  for (const LoraBatch::Group& group : batch.groups) {
    for (const LoraExpand& expand : LoraProductOf(group, use).expands)
      panels += kernels::LowRankPanels(expand.columns);
  }
  if (panels == 0) return;  // adapters of keys that the layer does not compute
  team.ForEach(panels, 1, [&](int begin, int end) {
    int at = 0;  // panels before those of `expand`
    for (const LoraBatch::Group& group : batch.groups) {
      for (const LoraExpand& expand : LoraProductOf(group, use).expands) {
        const int all = kernels::LowRankPanels(expand.columns);
        const int first = std::max(begin - at, 0), last = std::min(end - at, all);
        at += all;
        for (int row = 0; first < last && row < group.count; row += kLoraTile) {
          const int count = std::min(kLoraTile, group.count - row);
          std::array<const float*, kLoraTile> from;
          std::array<float*, kLoraTile> to;
          for (int i = 0; i < count; ++i) {
            const auto place =
                static_cast<size_t>(batch.rows[static_cast<size_t>(group.begin + row + i)]);
            from[static_cast<size_t>(i)] = lora_ranks_ + place * kMaxLoraRanks + expand.first_rank;
            to[static_cast<size_t>(i)] = out + place * stride + expand.first_column;
          }
          kernels::LowRankArgs args;
          args.weight = expand.weight;
          args.type = group.adapter->type();
          args.inner = expand.rank;
          args.columns = expand.columns;
          args.x = from.data();
          args.out = to.data();
          args.rows = count;
          args.out_step = expand.step;
          args.scale = expand.scale;
          args.add = true;
          kernels_.rows.low_rank(args, first, last);
        }
      }
    }
  });
}

// GateUp() where rows have adapters there: the sums are stored, so that the adapters can be added
// before gate and up meet. Rows without adapters get the bits of the fused epilogue
// (GemmKernels::gate).
Decoder::Activations Decoder::GateUpStored(int index, Activations in, const LoraBatch& lora,
                                           Team& team) {
  const LayerWeights& layer = weights_->layer(index);
  const int rows = in.rows;
  const int cols = layer.down.parts[0].cols;
  const auto width = static_cast<size_t>(cols);
  const LoraUse use{&lora, index, LoraPlace::kFeedForwardInput};
  Shrink(use, in.source, team);
  Project(layer.gate_up, std::move(in), kernels::Epilogue::kStore, lora_gate_up_,
          lora_gate_up_stride_, &layer.down, team);
  Expand(use, lora_gate_up_, lora_gate_up_stride_, team);
  float* const gated = shared_ffn_.floats;
  const kernels::Epilogue epilogue = EpilogueOf(weights_->config().gate);
  team.ForEachRow(rows, [&](size_t row) {
    kernels_.gemm.gate(epilogue, lora_gate_up_ + row * lora_gate_up_stride_, cols,
                       gated + row * width);
  });
  return Prepare({.x = gated, .stride = width, .rows = rows, .cols = cols}, layer.down, team);
}

}  // namespace tutti::model
