// Describe: the contents of a GGUF file and its first fault, as plain values for `tutti inspect`.
//
// Works on broken files too: everything understood before the fault is reported along with it. Text
// from the file is escaped, so that it can be printed to a terminal. Values; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace tutti::gguf {

struct MetadataLine {
  std::string key;
  std::string type;   // "uint32", "array of string"
  uint64_t count;     // elements of an array; otherwise 1
  std::string value;  // rendered, cut to about 80 bytes
};

struct TensorLine {
  std::string name;
  std::string type;            // "Q4_1"; "type 99" for unknown ids
  std::vector<int64_t> shape;  // ne[0] first
  uint64_t file_offset;        // 0 when the layout was not reached
  uint64_t bytes;
};

struct TypeTotal {
  std::string type;
  uint64_t tensors;
  uint64_t elements;
  uint64_t bytes;
};

struct Description {
  Status verdict;  // of the container and of the data's finiteness
  uint64_t file_bytes = 0;
  uint32_t version = 0;
  uint64_t alignment = 0;
  uint64_t data_offset = 0;
  uint64_t parameters = 0;    // elements of all tensors
  uint64_t unread_bytes = 0;  // as Header's
  std::string file_type;      // "Q4_K_M", of general.file_type; empty if it is absent
  std::vector<MetadataLine> metadata;
  std::vector<TensorLine> tensors;
  std::vector<TypeTotal> types;  // by bytes, largest first
};

// Reads all tensors, for NaN and infinite scales.
Description Describe(const std::string& path);

}  // namespace tutti::gguf
