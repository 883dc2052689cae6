#include "gguf/value.h"

#include <fmt/format.h>

#include <algorithm>

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

// Length of the well-formed UTF-8 sequence at the front (Unicode 15, table 3-7), or 0.
size_t SequenceLength(std::string_view bytes) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(bytes[i]); };
  const auto continues = [&](size_t i, uint8_t low, uint8_t high) {
    return i < bytes.size() && byte(i) >= low && byte(i) <= high;
  };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead < 0xC2 || lead > 0xF4) return 0;
  if (lead < 0xE0) return continues(1, 0x80, 0xBF) ? 2 : 0;
  const uint8_t low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const uint8_t high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  if (!continues(1, low, high) || !continues(2, 0x80, 0xBF)) return 0;
  if (lead < 0xF0) return 3;
  return continues(3, 0x80, 0xBF) ? 4 : 0;
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

bool IsValidUtf8(std::string_view bytes) {
  while (!bytes.empty()) {
    const size_t length = SequenceLength(bytes);
    if (length == 0) return false;
    bytes.remove_prefix(length);
  }
  return true;
}

std::string Quote(std::string_view bytes, size_t max_bytes) {
  std::string out = "\"";
  const bool cut = bytes.size() > max_bytes;
  if (cut) bytes = bytes.substr(0, max_bytes);
  while (!bytes.empty()) {
    const uint8_t lead = static_cast<uint8_t>(bytes[0]);
    const size_t length = SequenceLength(bytes);
    // C1 controls (U+0080..U+009F) would reach a terminal as control codes.
    const bool control = lead < 0x20 || lead == 0x7F ||
                         (lead == 0xC2 && length == 2 && static_cast<uint8_t>(bytes[1]) < 0xA0);
    if (lead == '"' || lead == '\\') {
      out += '\\';
      out += bytes[0];
    } else if (lead == '\n') {
      out += "\\n";
    } else if (length == 0 || control) {
      for (size_t i = 0; i < std::max<size_t>(length, 1); ++i) {
        out += fmt::format("\\x{:02x}", static_cast<uint8_t>(bytes[i]));
      }
    } else {
      out.append(bytes.substr(0, length));
    }
    bytes.remove_prefix(std::max<size_t>(length, 1));
  }
  out += cut ? "\"..." : "\"";
  return out;
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
