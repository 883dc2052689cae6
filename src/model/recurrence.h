// RecurrentShape: how a layer with a recurrence lies in memory: its row between projection and
// output, and its part of a sequence's state.
//
// Pure functions of a checked configuration; any thread. A row of the projection is
//   ShortConv   before | after | input                     all [width]
//   DeltaNet    query | key | value | gate | rate | decay  the last two by head
//   Mamba2      gate | value | key | query | rate, then decay, which is no part of the projection
// Queries and keys have `groups` heads, which value heads share evenly. Of the last two kinds a
// convolution runs over queries, keys and values. The state is the convolution's last inputs
// [taps - 1][conv_channels], then for each head [values / 32][keys][32]; where values are an odd
// multiple of 16, the last 16 follow as [keys][16].
#pragma once

#include <cstddef>

#include "kernels/recurrent.h"
#include "model/config.h"

namespace tutti::model {

struct RecurrentShape {
  int projected = 0;  // columns of the projection
  int columns = 0;    // of a row in memory
  int inner = 0;      // outputs, which the output projection reads
  int conv_begin = 0;
  int conv_channels = 0;
  int query = 0, key = 0, value = 0, gate = 0, rate = 0, decay = 0;  // first columns

  // Floats of the state that the convolution takes, padded to a cache line.
  size_t conv_floats = 0;
  size_t head_floats = 0;   // of one head, 0 of ShortConv
  size_t state_floats = 0;  // of the layer
};

RecurrentShape ShapeOfRecurrence(const ModelConfig& config);

// The fault of a shape that the kernels do not run, or nullptr.
const char* RecurrenceFault(const ModelConfig& config);

}  // namespace tutti::model
