#include "gguf/metadata.h"

#include <fmt/format.h>

#include <limits>
#include <utility>

#include "base/quote.h"

namespace tutti::gguf {
namespace {

Status Missing(std::string_view key) {
  return Refuse("gguf_key", "metadata key {} is missing", Quote(key));
}

std::string Kind(const Value& value) {
  return value.is_array() ? fmt::format("an array of {}", TypeName(value.element))
                          : std::string(TypeName(value.type));
}

Status WrongType(std::string_view key, const Value& value, std::string_view wanted) {
  return Refuse("gguf_type", "metadata key {} is {}, it must be {}", Quote(key), Kind(value),
                wanted);
}

Status OutOfRange(std::string_view key, const std::string& held, std::string_view wanted) {
  return Refuse("gguf_limit", "metadata key {} is {}, it must be {}", Quote(key), held, wanted);
}

template <typename T, typename Get>
Result<T> Or(const Header& header, std::string_view key, T otherwise, Get get) {
  if (!header.Find(key)) return otherwise;
  return get(header, key);
}

}  // namespace

Result<uint64_t> GetUint(const Header& header, std::string_view key) {
  const std::optional<Value> value = header.Find(key);
  if (!value) return Missing(key);
  if (!IsInteger(value->type)) return WrongType(key, *value, "an integer");
  const __int128 number = LoadInteger(value->type, value->data);
  if (number >= 0) return static_cast<uint64_t>(number);
  return OutOfRange(key, RenderValue(*value, 64),
                    fmt::format("0 to {}", std::numeric_limits<uint64_t>::max()));
}

Result<uint64_t> GetUintOr(const Header& header, std::string_view key, uint64_t otherwise) {
  return Or(header, key, otherwise, GetUint);
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

std::string_view FileTypeName(uint64_t id) {
  constexpr std::pair<uint64_t, std::string_view> kNames[] = {
      {0, "F32"},      {1, "F16"},      {2, "Q4_0"},    {3, "Q4_1"},    {7, "Q8_0"},
      {8, "Q5_0"},     {9, "Q5_1"},     {10, "Q2_K"},   {11, "Q3_K_S"}, {12, "Q3_K_M"},
      {13, "Q3_K_L"},  {14, "Q4_K_S"},  {15, "Q4_K_M"}, {16, "Q5_K_S"}, {17, "Q5_K_M"},
      {18, "Q6_K"},    {19, "IQ2_XXS"}, {20, "IQ2_XS"}, {21, "Q2_K_S"}, {22, "IQ3_XS"},
      {23, "IQ3_XXS"}, {24, "IQ1_S"},   {25, "IQ4_NL"}, {26, "IQ3_S"},  {27, "IQ3_M"},
      {28, "IQ2_S"},   {29, "IQ2_M"},   {30, "IQ4_XS"}, {31, "IQ1_M"},  {32, "BF16"},
      {36, "TQ1_0"},   {37, "TQ2_0"},   {38, "MXFP4"},
  };
  for (const auto& [number, name] : kNames) {
    if (number == id) return name;
  }
  return "";
}

std::string_view FileTypeName(const Header& header) {
  constexpr uint64_t kNone = ~uint64_t{0};
  const Result<uint64_t> id = GetUintOr(header, "general.file_type", kNone);
  return id.ok() ? FileTypeName(*id) : "";
}

}  // namespace tutti::gguf
