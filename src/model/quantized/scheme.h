// Scheme: one method of quantised folders; Matrix: one of its matrices, presented as a type of
// GGUF.
//
// A folder with a quantization_config stores a matrix in several tensors: codes, scales, zero
// points, the group of each column. A scheme finds the matrices by the tensors' names and checks
// their shapes; a matrix reads its values. The store (quantized_store.cc) encodes them. Values;
// immutable after construction; any thread. A new scheme is a file here, declared below, and a row
// in kSchemes, with its tensors in kCompanions.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "model/json_file.h"
#include "model/tensor_store.h"
#include "tensor/dtype.h"

namespace tutti::model::quantized {

// A row: element k is scales[g] * (codes[k] - zeros[g]) with g = groups[k]. Where `floats` is not
// empty, its elements are the values instead.
struct Row {
  std::vector<int16_t> codes;  // [columns]: of 4 bits 0 to 15, of 8 bits -128 to 127
  std::vector<float> scales;   // [groups]
  std::vector<int16_t> zeros;  // [groups]
  std::vector<float> floats;   // [columns], or empty
};

// The values of a matrix, in memory.
class Rows {
 public:
  virtual ~Rows() = default;
  virtual void Read(int64_t row, Row* out) const = 0;
};

struct Matrix {
  virtual ~Matrix() = default;
  // Reads and checks the tensors. Errors: those of TensorStore::Read; model_nonfinite.
  virtual Result<std::unique_ptr<Rows>> Load(const TensorStore& files) const = 0;

  std::string module;  // "model.layers.0.mlp.up_proj"
  int64_t rows = 0;    // of outputs
  int64_t columns = 0;
  int64_t group = 0;            // columns that share a scale
  std::vector<int32_t> groups;  // [columns]: the group of each
  int bits = 8;                 // of a code
  bool symmetric = true;        // every zero point is the middle code: 8 of 4 bits, 0 of 8
  bool floats = false;          // codes are floats
  std::string_view scale_type;  // "BF16": of the scales in the file
  std::string what;             // "GPTQ 4-bit", for remarks
};

struct Parsed {
  std::vector<std::unique_ptr<Matrix>> matrices;
  std::vector<std::string> remarks;
  bool whole = true;  // all matrices of layers are quantised but those of the ignore list
};

struct Scheme {
  std::string_view method;      // of quant_method
  std::string_view ignore_key;  // of the list of modules that stay as they are; "": none
  // nullptr: MXFP4, whose matrices have a type of GGUF (MakeMxfp4Store).
  Result<Parsed> (*parse)(const TensorStore& files, const JsonFile& config);
};
Result<Parsed> ParseCompressedTensors(const TensorStore& files, const JsonFile& config);
Result<Parsed> ParseGptq(const TensorStore& files, const JsonFile& config);
Result<Parsed> ParseAwq(const TensorStore& files, const JsonFile& config);
Result<Parsed> ParseBitNet(const TensorStore& files, const JsonFile& config);
Result<Parsed> ParseFp8(const TensorStore& files, const JsonFile& config);
Result<std::unique_ptr<TensorStore>> MakeMxfp4Store(std::unique_ptr<TensorStore> files,
                                                    const JsonFile& config,
                                                    std::vector<std::string>& notes);

// --- shared by the schemes ---

// `name` without `suffix`, of every tensor that ends with it.
std::vector<std::string> ModulesWith(const TensorStore& files, std::string_view suffix);
// The tensor `name`, of one of the `types` ("I32") and these dimensions, the contiguous one first.
// Errors: model_tensor_missing, and the store's shape code.
Result<const StoredTensor*> ExpectStored(const TensorStore& files, const std::string& name,
                                         std::initializer_list<std::string_view> types,
                                         const tensor::Shape& shape);
// A tensor of a module that has no shape yet: of two dimensions, of `type`.
Result<const StoredTensor*> ExpectMatrix(const TensorStore& files, const std::string& name,
                                         std::string_view type);
Result<std::vector<int32_t>> ReadInts(const TensorStore& files, const StoredTensor& tensor);
Result<std::vector<uint8_t>> ReadBytes(const TensorStore& files, const StoredTensor& tensor);
// Sets columns, group and groups. -1: one group. Errors: a group that does not divide the columns.
Status SetGroups(const TensorStore& files, const StoredTensor* g_idx, int64_t group,
                 Matrix* matrix);
// The rows and columns of blocks that share a scale. Errors: model_hparam.
Result<std::pair<int64_t, int64_t>> ReadBlockSize(const JsonFile& config, std::string_view key);
// E4M3 without infinities; NaN for 0x7f and 0xff.
float FloatOfE4M3(uint8_t code);

// FP8 weights with scales of blocks of `block_rows` x `block_columns`.
Result<std::unique_ptr<Matrix>> MakeFp8(const TensorStore& files, const std::string& module,
                                        const std::string& scale, int64_t block_rows,
                                        int64_t block_columns, std::string what);

}  // namespace tutti::model::quantized
