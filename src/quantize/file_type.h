// FileType: what `tutti quantize` can make of a model, by the names the field gives such files.
//
// The number is general.file_type of a GGUF. Most name the form of every matrix; the _K_M mix two,
// as PlanTensors() decides. Plain data; any thread.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "tensor/dtype.h"

namespace tutti::quantize {

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

}  // namespace tutti::quantize
