#include "gguf/value.h"

#include <fmt/format.h>

#include "base/quote.h"

namespace tutti::gguf {
namespace {

struct TypeTraits {
  std::string_view name;
  size_t bytes;
};

constexpr TypeTraits kTraits[kValueTypes] = {
    {"uint8", 1},  {"int8", 1},    {"uint16", 2}, {"int16", 2},  {"uint32", 4},
    {"int32", 4},  {"float32", 4}, {"bool", 1},   {"string", 0}, {"array", 0},
    {"uint64", 8}, {"int64", 8},   {"float64", 8}};

const TypeTraits& Traits(ValueType type) { return kTraits[static_cast<size_t>(type)]; }

std::string RenderNumber(ValueType type, const std::byte* at) {
  switch (type) {
    case ValueType::kUint8:
      return fmt::format("{}", LoadUnaligned<uint8_t>(at));
    case ValueType::kInt8:
      return fmt::format("{}", LoadUnaligned<int8_t>(at));
    case ValueType::kUint16:
      return fmt::format("{}", LoadUnaligned<uint16_t>(at));
    case ValueType::kInt16:
      return fmt::format("{}", LoadUnaligned<int16_t>(at));
    case ValueType::kUint32:
      return fmt::format("{}", LoadUnaligned<uint32_t>(at));
    case ValueType::kInt32:
      return fmt::format("{}", LoadUnaligned<int32_t>(at));
    case ValueType::kUint64:
      return fmt::format("{}", LoadUnaligned<uint64_t>(at));
    case ValueType::kInt64:
      return fmt::format("{}", LoadUnaligned<int64_t>(at));
    case ValueType::kFloat32:
      return fmt::format("{}", LoadUnaligned<float>(at));
    case ValueType::kFloat64:
      return fmt::format("{}", LoadUnaligned<double>(at));
    case ValueType::kBool:
      return LoadUnaligned<uint8_t>(at) != 0 ? "true" : "false";
    case ValueType::kString:
    case ValueType::kArray:
      break;
  }
  CHECK(false) << "not a number: " << TypeName(type);
  return "";
}

}  // namespace

std::string_view TypeName(ValueType type) { return Traits(type).name; }
size_t FixedBytes(ValueType type) { return Traits(type).bytes; }

bool IsInteger(ValueType type) {
  switch (type) {
    case ValueType::kUint8:
    case ValueType::kInt8:
    case ValueType::kUint16:
    case ValueType::kInt16:
    case ValueType::kUint32:
    case ValueType::kInt32:
    case ValueType::kUint64:
    case ValueType::kInt64:
      return true;
    default:
      return false;
  }
}

std::string RenderValue(const Value& value, size_t max_bytes) {
  if (value.type == ValueType::kString) return Quote(value.string(), max_bytes);
  if (!value.is_array()) return RenderNumber(value.type, value.data);
  std::string out = fmt::format("{}[{}] ", TypeName(value.element), value.count) + "[";
  StringArray::Iterator string(value.data, value.count);
  for (uint64_t i = 0; i < value.count; ++i) {
    if (i > 0) out += ", ";
    if (out.size() >= max_bytes) return out + "...]";
    if (value.element == ValueType::kString) {
      out += Quote(*string, max_bytes - out.size());
      ++string;
    } else {
      out += RenderNumber(value.element, value.at(i));
    }
  }
  return out + "]";
}

}  // namespace tutti::gguf
