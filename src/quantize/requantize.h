// Requantize: converts the tensors of a GGUF to other types and writes a new file, tensor by
// tensor.
//
// Metadata is copied byte by byte, except for general.file_type and general.quantization_version,
// which are set, and the keys of split models, which are removed. Tensors keep their names, shapes
// and order. A tensor that already has its target type is copied; all others are converted through
// float32 and the searching encoders (tensor/quantize.h), and the error is measured. Memory:
// 12 MiB for each thread, and the header; the model's size does not matter. The output does not
// depend on the number of threads.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "gguf/file.h"
#include "gguf/header.h"
#include "tensor/dtype.h"

namespace tutti::quantize {

// What `tutti quantize` can make of a model, by the names the field gives such files. The number is
// general.file_type of a GGUF. Most name the form of every matrix; the _K_M mix two, as
// PlanTensors() decides.
struct FileType {
  std::string_view name;     // "Q4_K_M"
  uint32_t id = 0;           // general.file_type
  tensor::DType form;        // of a matrix that no rule excepts
  bool mixed = false;        // some matrices get more bits than `form` has
  std::string_view summary;  // a line of help
};

// From many bits to few.
std::span<const FileType> FileTypes();

// By name, in capitals or not, FP16 for F16.
std::optional<FileType> FileTypeByName(std::string_view name);

// "F32, F16, ...", for messages.
std::string FileTypeNames();

// The form that a tensor of a file gets, and why. Views live as long as the header.
struct TensorPlan {
  const gguf::TensorInfo* from = nullptr;
  tensor::DType wanted;    // by the rules, before the width is considered
  tensor::DType to;        // the type of the new tensor
  std::string reason;      // why it is not the file type's form; empty if it is
  bool fell_back = false;  // `to` is not `wanted`, for its width
  uint64_t bytes = 0;      // in the new file, without padding
};

// Decides which form each tensor gets, in the order of the file. Pure; any thread.
//
// The rules are llama.cpp's, so that a file of a name is what other programs mean by that name:
// - vectors are float32; norms, tables of positions and token types, routers of experts and the
//   small tables of recurrent models keep the form they have;
// - the output matrix, and an embedding that is the output matrix too, get Q6_K (Q8_0 where the
//   width forbids it or everything is Q8_0), as errors there meet every token;
// - in Q4_K_M and Q5_K_M the values of attention and ffn_down of half of the layers, the first and
//   last eighth among them, get Q6_K;
// - a width that is no multiple of a form's block falls back to one of smaller blocks: Q4_K to
//   Q5_0, Q5_K to Q5_1, Q6_K to Q8_0, and F16 where the width is no multiple of 32 either.
// Source: llama.cpp's quantisation tool, b6000 to 0.3.36 of its Python package.
// Errors: gguf_unsupported_type when a tensor cannot be read.
Result<std::vector<TensorPlan>> PlanTensors(const gguf::Header& header, const FileType& type);

struct RequantizeOptions {
  int threads = 1;       // the calling one included
  bool replace = false;  // a file of the output's name
  // Called on the calling thread with elements done and in all; false ends it (cancelled).
  std::function<bool(uint64_t done, uint64_t total)> progress = nullptr;
};

struct TensorOutcome {
  TensorPlan plan;
  // sqrt(sum (new - old)^2 / sum old^2); 0 where bytes were copied or nothing was lost.
  double relative_error = 0;
};

struct RequantizeReport {
  FileType type;
  uint64_t parameters = 0;
  uint64_t bytes_before = 0, bytes_after = 0;  // of the files
  std::vector<TensorOutcome> tensors;          // in the order of the file
  int fell_back = 0;  // tensors whose width forbade the form they should have
};

// Computes the sizes and forms that Requantize would write, without numerical errors. Errors: as
// PlanTensors.
Result<RequantizeReport> PlanRequantize(const gguf::File& file, const FileType& type);

// Writes `path`. Errors: those of PlanRequantize and OutputFile (output_exists, output_path,
// storage_full, output_unflushed); model_tensor_missing for a vocabulary without weights;
// model_nonfinite for a weight that is no number or beyond the range of its form; gguf_* when the
// source cannot be read or changes meanwhile; cancelled. After any but output_unflushed there is no
// file. `type` outlives the report's use of its names.
Result<RequantizeReport> Requantize(const gguf::File& file, const FileType& type,
                                    const std::string& path, const RequantizeOptions& options);

}  // namespace tutti::quantize
