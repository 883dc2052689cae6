// KvGroups: where the keys and values, or the state, of each layer are. Layers with a sliding
// window may have memory of their own, since they need the blocks of the window alone. Layers that
// share keys and values have them once. Pure.
#pragma once

#include <cstddef>
#include <vector>

#include "kernels/attention.h"
#include "model/config.h"

namespace tutti::model {

struct KvGroups {
  kernels::KvLayout layouts[2];  // of a layer without a window, and of one with it
  // [layers] of a layer with attention: bytes of a block in the layers before it in the same
  // memory, or in those before the layer that it shares with.
  std::vector<size_t> offset;
  std::vector<int> state_place;  // [layers] among the states of a sequence, or -1
  size_t full_bytes = 0;         // of a block, in the memory of all layers that are not in ...
  size_t window_bytes = 0;       // ... the memory of layers with a window

  const kernels::KvLayout& layout(bool of_window) const { return layouts[of_window ? 1 : 0]; }

  // `split`: layers with a window have memory of their own. Else all are in the first.
  static KvGroups Of(const ModelConfig& config, kernels::KvFormat format, bool split) {
    KvGroups groups{};
    for (const bool of_window : {false, true}) {
      const kernels::AttentionShape shape = config.attention_shape(of_window);
      groups.layouts[of_window ? 1 : 0] =
          kernels::MakeKvLayout(format, shape.kv_heads, shape.head_dim);
    }
    int states = 0;
    for (int layer = 0; layer < config.layers; ++layer) {
      groups.state_place.push_back(config.is_recurrent(layer) ? states++ : -1);
      groups.offset.push_back(0);
      if (!config.has_attention(layer)) continue;
      if (!config.owns_kv(layer)) {
        const int owner = config.kv_layer[static_cast<size_t>(layer)];
        groups.offset.back() = groups.offset[static_cast<size_t>(owner)];
        continue;
      }
      const bool of_window = config.has_window(layer);
      size_t& bytes = split && of_window ? groups.window_bytes : groups.full_bytes;
      groups.offset.back() = bytes;
      bytes += groups.layout(of_window).layer_bytes;
    }
    return groups;
  }
};

}  // namespace tutti::model
