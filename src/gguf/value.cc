#include "gguf/value.h"

#include <fmt/format.h>

#include "base/quote.h"

namespace tutti::gguf {
namespace {

struct TypeTraits {
  std::string_view name;
  size_t bytes;
  bool integer = false;
};

constexpr TypeTraits kTraits[kValueTypes] = {
    {"uint8", 1, true},  {"int8", 1, true},  {"uint16", 2, true}, {"int16", 2, true},
    {"uint32", 4, true}, {"int32", 4, true}, {"float32", 4},      {"bool", 1},
    {"string", 0},       {"array", 0},       {"uint64", 8, true}, {"int64", 8, true},
    {"float64", 8}};

const TypeTraits& Traits(ValueType type) { return kTraits[static_cast<size_t>(type)]; }

std::string RenderNumber(ValueType type, const std::byte* at) {
  switch (type) {
    case ValueType::kFloat32:
      return fmt::format("{}", LoadUnaligned<float>(at));
    case ValueType::kFloat64:
      return fmt::format("{}", LoadUnaligned<double>(at));
    case ValueType::kBool:
      return LoadUnaligned<uint8_t>(at) != 0 ? "true" : "false";
    default:
      break;
  }
  CHECK(IsInteger(type)) << "not a number: " << TypeName(type);
  const __int128 number = LoadInteger(type, at);
  return number < 0 ? fmt::format("{}", static_cast<int64_t>(number))
                    : fmt::format("{}", static_cast<uint64_t>(number));
}

}  // namespace

std::string_view TypeName(ValueType type) { return Traits(type).name; }
size_t FixedBytes(ValueType type) { return Traits(type).bytes; }

bool IsInteger(ValueType type) { return Traits(type).integer; }

__int128 LoadInteger(ValueType type, const std::byte* at) {
  switch (type) {
    case ValueType::kUint8:
      return LoadUnaligned<uint8_t>(at);
    case ValueType::kInt8:
      return LoadUnaligned<int8_t>(at);
    case ValueType::kUint16:
      return LoadUnaligned<uint16_t>(at);
    case ValueType::kInt16:
      return LoadUnaligned<int16_t>(at);
    case ValueType::kUint32:
      return LoadUnaligned<uint32_t>(at);
    case ValueType::kInt32:
      return LoadUnaligned<int32_t>(at);
    case ValueType::kUint64:
      return LoadUnaligned<uint64_t>(at);
    case ValueType::kInt64:
      return LoadUnaligned<int64_t>(at);
    default:
      break;
  }
  CHECK(false) << TypeName(type) << " is not an integer";
  return 0;
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
