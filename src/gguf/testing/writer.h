// Writer: builds GGUF files in memory for tests, sound ones by default and broken ones on request.
//
// Written from the format's specification, not from the parser, and deliberately without checks:
// every count, offset and byte can be overridden to make hostile files. Test code only. Not
// thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gguf/value.h"
#include "tensor/dtype.h"

namespace tutti::gguf::testing {

using Bytes = std::vector<std::byte>;

void AppendBytes(Bytes* out, const void* data, size_t size);
template <typename T>
void Append(Bytes* out, T value) {
  AppendBytes(out, &value, sizeof(T));
}
void AppendString(Bytes* out, std::string_view text);  // length word and bytes

struct WriterTensor {
  std::string name;
  std::vector<uint64_t> ne;  // ne[0] first; any length, any values
  uint32_t type_id = 0;
  Bytes data;
  std::optional<uint64_t> offset;  // instead of the one behind the tensor before
};

class Writer {
 public:
  uint32_t version = 3;
  uint64_t alignment = 32;               // for padding; add the key yourself if it is not 32
  std::optional<uint64_t> tensor_count;  // instead of the truth
  std::optional<uint64_t> key_count;

  template <typename T>
  Writer& Number(std::string_view key, ValueType type, T value) {
    Bytes bytes;
    Append(&bytes, value);
    return Raw(key, static_cast<uint32_t>(type), bytes);
  }
  Writer& U32(std::string_view key, uint32_t value) {
    return Number(key, ValueType::kUint32, value);
  }
  Writer& U64(std::string_view key, uint64_t value) {
    return Number(key, ValueType::kUint64, value);
  }
  Writer& F32(std::string_view key, float value) { return Number(key, ValueType::kFloat32, value); }
  Writer& Bool(std::string_view key, bool value) {
    return Number(key, ValueType::kBool, static_cast<uint8_t>(value));
  }
  Writer& String(std::string_view key, std::string_view value);
  Writer& Strings(std::string_view key, std::span<const std::string> values);
  Writer& Floats(std::string_view key, std::span<const float> values);
  Writer& Int32s(std::string_view key, std::span<const int32_t> values);
  // Any type id with any bytes behind it.
  Writer& Raw(std::string_view key, uint32_t type_id, const Bytes& value);
  // An array head (element type, count) with any bytes behind it.
  Writer& RawArray(std::string_view key, uint32_t element_id, uint64_t count,
                   const Bytes& elements);

  // Floats encoded as `dtype`, one row after the other; of kTranscodedTypes random blocks of about
  // the same size.
  Writer& Tensor(std::string_view name, tensor::DType dtype, std::initializer_list<uint64_t> ne,
                 std::span<const float> values);
  Writer& Tensor(WriterTensor tensor);

  // Takes away the key or the tensor of that name, if it is there.
  Writer& Without(std::string_view name);

  Bytes Build() const;
  Bytes BuildHeader() const;  // without padding and data

 private:
  struct Pair {
    std::string key;
    uint32_t type_id;
    Bytes value;
  };
  std::vector<Pair> pairs_;
  std::vector<WriterTensor> tensors_;
};

// A file in the folder for temporary files, removed with the object. CHECKs that it could be
// written.
class TempFile {
 public:
  explicit TempFile(std::span<const std::byte> bytes, std::string_view suffix = ".gguf");
  ~TempFile();
  TempFile(const TempFile&) = delete;
  TempFile& operator=(const TempFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace tutti::gguf::testing
