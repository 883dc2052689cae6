// Values of GGUF metadata as views into the header's bytes, already validated by the parser.
//
// Views are cheap to copy and stay valid as long as the Header they came from. Any thread. Numbers
// lie unaligned and little-endian in the file; the accessors load them. Strings are the file's
// bytes, unchanged. The format requires UTF-8; only keys and tensor names have been checked for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <string>
#include <string_view>

#include "base/check.h"

namespace tutti::gguf {

enum class ValueType : uint8_t {
  kUint8 = 0,
  kInt8 = 1,
  kUint16 = 2,
  kInt16 = 3,
  kUint32 = 4,
  kInt32 = 5,
  kFloat32 = 6,
  kBool = 7,  // one byte, 0 or 1
  kString = 8,
  kArray = 9,
  kUint64 = 10,
  kInt64 = 11,
  kFloat64 = 12,
};
inline constexpr uint32_t kValueTypes = 13;

std::string_view TypeName(ValueType type);  // "uint32", "array", ...
size_t FixedBytes(ValueType type);          // bytes of one number or bool; 0 for strings and arrays
bool IsInteger(ValueType type);

template <typename T>
T LoadUnaligned(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

// The integer of `type` at `at`, sign kept.
__int128 LoadInteger(ValueType type, const std::byte* at);

// The strings of an array, in order. Forward only: the file stores no offsets, and keeping them
// would cost more memory than the file.
class StringArray {
 public:
  class Iterator {
   public:
    using iterator_category = std::forward_iterator_tag;
    using value_type = std::string_view;
    using difference_type = std::ptrdiff_t;
    using pointer = const std::string_view*;
    using reference = std::string_view;

    Iterator() = default;
    Iterator(const std::byte* at, uint64_t left) : at_(at), left_(left) {}
    std::string_view operator*() const {
      return {reinterpret_cast<const char*>(at_) + 8, length()};
    }
    Iterator& operator++() {
      at_ += 8 + length();
      --left_;
      return *this;
    }
    Iterator operator++(int) {
      Iterator before = *this;
      ++*this;
      return before;
    }
    friend bool operator==(const Iterator& a, const Iterator& b) { return a.left_ == b.left_; }

   private:
    size_t length() const { return static_cast<size_t>(LoadUnaligned<uint64_t>(at_)); }
    const std::byte* at_ = nullptr;
    uint64_t left_ = 0;
  };

  StringArray() = default;
  StringArray(const std::byte* data, uint64_t count) : data_(data), count_(count) {}
  size_t size() const { return static_cast<size_t>(count_); }
  bool empty() const { return count_ == 0; }
  Iterator begin() const { return {data_, count_}; }
  Iterator end() const { return {nullptr, 0}; }

 private:
  const std::byte* data_ = nullptr;
  uint64_t count_ = 0;
};

// The numbers of an array whose element type is exactly T's.
template <typename T>
class NumberArray {
 public:
  NumberArray() = default;
  NumberArray(const std::byte* data, uint64_t count) : data_(data), count_(count) {}
  size_t size() const { return static_cast<size_t>(count_); }
  bool empty() const { return count_ == 0; }
  T operator[](size_t i) const { return LoadUnaligned<T>(data_ + i * sizeof(T)); }

 private:
  const std::byte* data_ = nullptr;
  uint64_t count_ = 0;
};

struct Value {
  ValueType type = ValueType::kUint8;
  ValueType element = ValueType::kUint8;  // of an array; otherwise equal to type
  uint64_t count = 1;                     // elements of an array; otherwise 1
  const std::byte* data = nullptr;        // first element; a string's length word
  uint64_t bytes = 0;                     // from data, all elements

  bool is_array() const { return type == ValueType::kArray; }

  // Element i of a number, bool or array of them (a string array has no random access).
  const std::byte* at(uint64_t i) const { return data + i * FixedBytes(element); }
  std::string_view string() const {
    CHECK(type == ValueType::kString);
    return *StringArray::Iterator(data, 1);
  }
};

struct Entry {
  std::string_view key;
  Value value;
};

// One line of printable ASCII-safe text for people: numbers, quoted strings with control characters
// and invalid UTF-8 escaped, the first elements of an array with its count. At most about max_bytes
// long.
std::string RenderValue(const Value& value, size_t max_bytes);

}  // namespace tutti::gguf
