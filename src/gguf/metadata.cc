#include "gguf/metadata.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "base/quote.h"

namespace tutti::gguf {
namespace {

Status Missing(std::string_view key) {
  return InvalidArgument("gguf_key", fmt::format("metadata key {} is missing", Quote(key)));
}

std::string Kind(const Value& value) {
  return value.is_array() ? fmt::format("an array of {}", TypeName(value.element))
                          : std::string(TypeName(value.type));
}

Status WrongType(std::string_view key, const Value& value, std::string_view wanted) {
  return InvalidArgument("gguf_type", fmt::format("metadata key {} is {}, it must be {}",
                                                  Quote(key), Kind(value), wanted));
}

Status OutOfRange(std::string_view key, const std::string& held, std::string_view wanted) {
  return InvalidArgument(
      "gguf_limit", fmt::format("metadata key {} is {}, it must be {}", Quote(key), held, wanted));
}

// The integer at `at`, sign kept.
__int128 Integer(ValueType type, const std::byte* at) {
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

Result<uint64_t> ToUint(std::string_view key, const Value& value, uint64_t i, uint64_t max) {
  const __int128 number = Integer(value.element, value.at(i));
  if (number >= 0 && number <= static_cast<__int128>(max)) return static_cast<uint64_t>(number);
  const std::string held = number < 0 ? fmt::format("{}", static_cast<int64_t>(number))
                                      : fmt::format("{}", static_cast<uint64_t>(number));
  return OutOfRange(key, held, fmt::format("0 to {}", max));
}

Result<uint64_t> UintUpTo(const Header& header, std::string_view key, uint64_t max) {
  const std::optional<Value> value = header.Find(key);
  if (!value) return Missing(key);
  if (!IsInteger(value->type)) return WrongType(key, *value, "an integer");
  return ToUint(key, *value, 0, max);
}

template <typename T, typename Get>
Result<T> Or(const Header& header, std::string_view key, T otherwise, Get get) {
  if (!header.Find(key)) return otherwise;
  return get(header, key);
}

}  // namespace

Result<uint64_t> GetUint(const Header& header, std::string_view key) {
  return UintUpTo(header, key, std::numeric_limits<uint64_t>::max());
}

Result<uint64_t> GetUintOr(const Header& header, std::string_view key, uint64_t otherwise) {
  return Or(header, key, otherwise, GetUint);
}

Result<uint32_t> GetU32(const Header& header, std::string_view key) {
  ASSIGN_OR_RETURN(const uint64_t number,
                   UintUpTo(header, key, std::numeric_limits<uint32_t>::max()));
  return static_cast<uint32_t>(number);
}

Result<float> GetF32(const Header& header, std::string_view key) {
  const std::optional<Value> value = header.Find(key);
  if (!value) return Missing(key);
  double number = 0;
  if (value->type == ValueType::kFloat32) {
    number = LoadUnaligned<float>(value->data);
  } else if (value->type == ValueType::kFloat64) {
    number = LoadUnaligned<double>(value->data);
  } else {
    return WrongType(key, *value, "a float");
  }
  // Also refuses NaN and infinity: no key of the format means one.
  if (!(std::fabs(number) <= static_cast<double>(std::numeric_limits<float>::max()))) {
    return OutOfRange(key, fmt::format("{}", number), "a finite float32");
  }
  return static_cast<float>(number);
}

Result<bool> GetBool(const Header& header, std::string_view key) {
  const std::optional<Value> value = header.Find(key);
  if (!value) return Missing(key);
  if (value->type != ValueType::kBool) return WrongType(key, *value, "a bool");
  return LoadUnaligned<uint8_t>(value->data) != 0;
}

Result<bool> GetBoolOr(const Header& header, std::string_view key, bool otherwise) {
  return Or(header, key, otherwise, GetBool);
}

Result<std::string_view> GetString(const Header& header, std::string_view key) {
  const std::optional<Value> value = header.Find(key);
  if (!value) return Missing(key);
  if (value->type != ValueType::kString) return WrongType(key, *value, "a string");
  return value->string();
}

Result<std::string_view> GetStringOr(const Header& header, std::string_view key,
                                     std::string_view otherwise) {
  return Or(header, key, otherwise, GetString);
}

Result<StringArray> GetStrings(const Header& header, std::string_view key) {
  const std::optional<Value> value = header.Find(key);
  if (!value) return Missing(key);
  if (!value->is_array() || value->element != ValueType::kString) {
    return WrongType(key, *value, "an array of strings");
  }
  return StringArray(value->data, value->count);
}

Result<NumberArray<float>> GetFloats(const Header& header, std::string_view key) {
  const std::optional<Value> value = header.Find(key);
  if (!value) return Missing(key);
  if (!value->is_array() || value->element != ValueType::kFloat32) {
    return WrongType(key, *value, "an array of float32");
  }
  return NumberArray<float>(value->data, value->count);
}

Result<NumberArray<int32_t>> GetInt32s(const Header& header, std::string_view key) {
  const std::optional<Value> value = header.Find(key);
  if (!value) return Missing(key);
  const bool is_unsigned = value->element == ValueType::kUint32;
  if (!value->is_array() || (value->element != ValueType::kInt32 && !is_unsigned)) {
    return WrongType(key, *value, "an array of int32");
  }
  const NumberArray<int32_t> numbers(value->data, value->count);
  for (size_t i = 0; is_unsigned && i < numbers.size(); ++i) {
    if (numbers[i] < 0) {
      return OutOfRange(fmt::format("{}[{}]", key, i),
                        fmt::format("{}", static_cast<uint32_t>(numbers[i])), "below 2^31");
    }
  }
  return numbers;
}

}  // namespace tutti::gguf
