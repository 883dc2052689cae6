// Tensors as KServe v2 carries them: name, element type, shape, raw bytes.
//
// Raw bytes are little-endian, row-major, without padding; BOOL is one byte an element; an element
// of BYTES is its length as a little-endian uint32 and then that many bytes. Values and pure
// functions. Source: the Open Inference Protocol, "Tensor Data" and the binary tensor extension.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/status.h"

namespace tutti::kserve {

// Numbers are those of a model configuration's data_type.
enum class DataType : uint8_t {
  kInvalid = 0,
  kBool = 1,
  kUint8 = 2,
  kUint16 = 3,
  kUint32 = 4,
  kUint64 = 5,
  kInt8 = 6,
  kInt16 = 7,
  kInt32 = 8,
  kInt64 = 9,
  kFp16 = 10,
  kFp32 = 11,
  kFp64 = 12,
  kBytes = 13,  // TYPE_STRING in a configuration
  kBf16 = 14,
};

std::string_view NameOf(DataType type);        // "INT32", "BYTES"
std::string_view ConfigNameOf(DataType type);  // "TYPE_INT32", "TYPE_STRING"
DataType DataTypeOf(std::string_view name);    // kInvalid for an unknown name
size_t ElementBytes(DataType type);            // 0 for BYTES and kInvalid

using Shape = std::vector<int64_t>;

inline constexpr size_t kMaxDimensions = 16;  // more than any model here has

// Elements of a tensor of that shape; nothing where a dimension is negative or the product does not
// fit 63 bits. Zero dimensions are a scalar: 1.
std::optional<uint64_t> CountElements(const Shape& shape);
std::string ShapeText(const Shape& shape);  // "[1,16]", at most kMaxDimensions numbers

struct Tensor {
  std::string name;  // of one of the model's inputs or outputs, once CheckRequest() has passed it
  DataType type = DataType::kInvalid;  // of its elements
  Shape shape;                         // its dimensions, outermost first, the batch's among them
  std::string data;                    // its raw bytes (above)
};

void AppendBytesElement(std::string_view element, std::string* data);

// The elements of a BYTES tensor's data: at most `count`; they refer to `data`. Fails (nullopt)
// where a length runs past the end, or bytes are left over, or there are fewer.
std::optional<std::vector<std::string_view>> SplitBytes(std::string_view data, uint64_t count);

// A number of a tensor of numbers; `index` is inside the data.
template <typename T>
T ElementAt(std::string_view data, size_t index) {
  static_assert(std::is_arithmetic_v<T>);
  T value;
  std::memcpy(&value, data.data() + index * sizeof(T), sizeof(T));
  return value;
}
template <typename T>
void AppendElement(T value, std::string* data) {
  static_assert(std::is_arithmetic_v<T>);
  data->append(reinterpret_cast<const char*>(&value), sizeof(T));
}

}  // namespace tutti::kserve
