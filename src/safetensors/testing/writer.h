// Writer: builds safetensors files in memory for tests, sound ones by default and broken ones on
// request.
//
// Written from the format's description, not from the parser, and deliberately without checks:
// every length, offset and byte can be overridden to make hostile files. Test code only. Not
// thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "safetensors/checkpoint.h"
#include "safetensors/file.h"

namespace tutti::safetensors::testing {

using Bytes = std::vector<std::byte>;

template <typename T>
Bytes BytesOf(std::span<const T> values) {
  const auto bytes = std::as_bytes(values);
  return {bytes.begin(), bytes.end()};
}
template <typename T>
Bytes BytesOf(const std::vector<T>& values) {
  return BytesOf(std::span<const T>(values));
}

class Writer {
 public:
  std::string blanks;  // between the JSON and the data; the header's length counts them

  // Behind the tensor before. `offsets` replaces the true text of the list.
  Writer& Tensor(std::string_view name, std::string_view dtype, std::vector<uint64_t> shape,
                 const Bytes& data, std::optional<std::string> offsets = std::nullopt);
  Writer& Floats(std::string_view name, std::vector<uint64_t> shape,
                 const std::vector<float>& values) {
    return Tensor(name, "F32", std::move(shape), BytesOf(values));
  }
  // A member of the root, written unchanged: `"x": {...}`.
  Writer& Member(std::string_view json);
  Writer& Metadata(std::string_view key, std::string_view value);  // without escaping

  std::string Json() const;
  Bytes Build() const;

 private:
  std::vector<std::string> members_;
  std::vector<std::string> metadata_;
  Bytes data_;
};

// The length (or another in its place), the text, the data.
Bytes Frame(std::string_view json, const Bytes& data = {},
            std::optional<uint64_t> length = std::nullopt);

// CHECKs that the file could be written; makes the folders above it.
void WriteFile(const std::string& path, std::span<const std::byte> bytes);
void WriteFile(const std::string& path, std::string_view text);

// Opens a file or folder by its path. `root` as in files::OpenSource.
Result<std::shared_ptr<const File>> OpenFile(const std::string& path, const std::string& root = "");
Result<std::shared_ptr<const Checkpoint>> OpenCheckpoint(const std::string& path,
                                                         const std::string& root = "");

}  // namespace tutti::safetensors::testing
