// The tensors of the GGUF that folder_gguf presents, and where their bytes come from in the folder.
//
// A tensor of the GGUF is made of whole tensors of the folder, in pieces one after another; some
// are widened to float32, multiplied, or have rows in another order. Plain values; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "model/decoder_checkpoint.h"
#include "model/families/family.h"
#include "model/hyper_parameters.h"
#include "model/tensor_store.h"
#include "tensor/dtype.h"

namespace tutti::model {

// Order of the rows of a tensor, where a folder and a GGUF differ:
// - queries and keys: a folder has the two halves of a head one after the other; in the GGUF of
//   some architectures their rows alternate;
// - value heads, or the columns that read them: a folder has the heads of a group one after
//   another; in the GGUF of Qwen 3.5, head h belongs to group h % groups;
// - a table that has fewer rows in the folder: the further rows of the GGUF repeat the first one.
struct RowOrder {
  int64_t head = 0;      // rows of a head; 0: the order is the same
  int64_t rotating = 0;  // rows of a head that rotate, from the first on
  int64_t groups = 0;    // groups of value heads; 0: the order of queries and keys
  int64_t heads_of_group = 0;
  int64_t begin = 0;     // rows before the value heads
  bool columns = false;  // columns are reordered, not rows
  int64_t known = 0;     // rows of the folder's tensor; 0: as many as in the GGUF

  // The folder's row that becomes the GGUF's `row`.
  int64_t Source(int64_t row) const {
    if (known != 0) return row < known ? row : 0;
    if (head == 0 || row < begin) return row;
    if (groups != 0) {
      const int64_t to = (row - begin) / head;
      return begin + (to % groups * heads_of_group + to / groups) * head + (row - begin) % head;
    }
    const int64_t in_head = row % head;
    if (in_head >= rotating) return row;
    return row - in_head + in_head % 2 * (rotating / 2) + in_head / 2;
  }
};

struct FolderPiece {
  const StoredTensor* tensor;
  RowOrder order;
  uint64_t bytes = tensor->bytes;  // size in the GGUF
};

// A tensor of the GGUF: consecutive pieces of the folder's tensors.
struct WholeTensor {
  std::string name;
  std::vector<FolderPiece> pieces;
  std::vector<float> values;  // instead of pieces, if no file has the tensor
  tensor::DType type = tensor::DType::kF32;
  tensor::Shape shape;
  bool floats = false;           // widened to float32
  std::vector<RowScale> scales;  // factors of all rows; only if there is one piece
  uint64_t bytes = 0;
};

// The tensors in the order of the GGUF, which does not depend on the folder's. They refer to those
// of `checkpoint.tensors`. `keys`: the folder's. Errors: model_hparam, st_shape.
Result<std::vector<WholeTensor>> LayOutTensors(const DecoderCheckpoint& checkpoint,
                                               const HyperParameters& keys);

}  // namespace tutti::model
