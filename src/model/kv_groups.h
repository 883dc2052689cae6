// KvGroups: which memory holds the keys and values, or the state, of each layer. Layers with a
// sliding window may have memory of their own, since they need the blocks of the window alone.
// Pure.
#pragma once

#include <vector>

#include "model/config.h"

namespace tutti::model {

struct KvGroups {
  // [layers] of a layer with attention among those of the same memory, and of one with a recurrence
  // among the states of a sequence; else -1.
  std::vector<int> place, state_place;
  int full_layers = 0;    // in the memory of all layers that are not in ...
  int window_layers = 0;  // ... the memory of layers with a window

  // `split`: layers with a window have memory of their own. Else all are in the first.
  static KvGroups Of(const ModelConfig& config, bool split) {
    KvGroups groups;
    int states = 0;
    for (int layer = 0; layer < config.layers; ++layer) {
      groups.state_place.push_back(config.is_recurrent(layer) ? states++ : -1);
      if (!config.has_attention(layer)) {
        groups.place.push_back(-1);
        continue;
      }
      const bool window = split && config.has_window(layer);
      groups.place.push_back(window ? groups.window_layers++ : groups.full_layers++);
    }
    return groups;
  }
};

}  // namespace tutti::model
