// Requantize: converts the tensors of a GGUF to other types and writes a new file, tensor by
// tensor.
//
// Metadata is copied byte by byte, except for general.file_type and general.quantization_version,
// which are set, and the keys of split models, which are removed. Tensors keep their names, shapes
// and order. A tensor that already has its target type is copied; all others are converted through
// float32 and the searching encoders (tensor/quantize_search.h), and the error is measured. Memory:
// 12 MiB for each thread and the header, whatever the model. The output does not depend on the
// number of threads.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "gguf/file.h"
#include "quantize/file_type.h"
#include "quantize/plan.h"

namespace tutti::quantize {

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

// What Requantize would write: sizes and forms, no errors of numbers. Errors: as PlanTensors.
Result<RequantizeReport> PlanRequantize(const gguf::File& file, const FileType& type);

// Writes `path`. Errors: those of PlanRequantize and OutputFile (output_exists, output_path,
// storage_full, output_unflushed); model_tensor_missing for a vocabulary without weights;
// model_nonfinite for a weight that is no number or beyond the range of its form; gguf_* when the
// source cannot be read or changes meanwhile; cancelled. After any but output_unflushed there is no
// file. `type` outlives the report's use of its names.
Result<RequantizeReport> Requantize(const gguf::File& file, const FileType& type,
                                    const std::string& path, const RequantizeOptions& options);

}  // namespace tutti::quantize
