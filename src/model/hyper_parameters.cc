#include "model/hyper_parameters.h"

#include <fmt/format.h>

#include <cmath>

namespace tutti::model {

Status ReadInt(const HyperParameters& parameters, std::string_view name, int64_t low, int64_t high,
               int* out) {
  ASSIGN_OR_RETURN(const int64_t value, parameters.Int(name, low, high));
  *out = static_cast<int>(value);
  return OkStatus();
}

Result<std::vector<std::string>> HyperParameters::Kinds(std::string_view name,
                                                        int /*layers*/) const {
  return RefuseParameter("{} is missing", Spelled(name));
}

Result<std::vector<bool>> HyperParameters::Positive(std::string_view name, int /*layers*/) const {
  return RefuseParameter("{} is missing", Spelled(name));
}

Result<std::vector<float>> HyperParameters::FloatsOfLayers(std::string_view name,
                                                           int /*layers*/) const {
  return RefuseParameter("{} is missing", Spelled(name));
}

Result<std::vector<int>> HyperParameters::IntsOfLayers(std::string_view name, int layers,
                                                       int64_t low, int64_t high) const {
  ASSIGN_OR_RETURN(const int64_t number, Int(name, low, high));
  return std::vector<int>(static_cast<size_t>(layers), static_cast<int>(number));
}

std::optional<int64_t> IntegerAt(const gguf::Value& value, uint64_t index) {
  if (!gguf::IsInteger(value.element)) return std::nullopt;
  const __int128 number = gguf::LoadInteger(value.element, value.at(index));
  if (number > INT64_MAX) return std::nullopt;
  return static_cast<int64_t>(number);
}

Status GgufParameters::Missing(std::string_view name) const {
  return RefuseParameter("the file does not have the key {}{}", prefix_, name);
}

Status GgufParameters::WrongType(std::string_view name, const gguf::Value& value,
                                 std::string_view wanted) const {
  return RefuseParameter("{}{} is {}, not {}", prefix_, name, gguf::RenderValue(value, 64), wanted);
}

Result<int64_t> GgufParameters::Int(std::string_view name, int64_t low, int64_t high) const {
  const std::optional<gguf::Value> value = Find(name);
  if (!value) return Missing(name);
  if (!gguf::IsInteger(value->element) || value->count == 0)
    return WrongType(name, *value, "an integer");
  const std::optional<int64_t> number = IntegerAt(*value, 0);
  if (!number || *number < low || *number > high) {
    return RefuseParameter("{}{} is {}, outside {}..{}", prefix_, name,
                           gguf::RenderValue(*value, 64), low, high);
  }
  for (uint64_t i = 1; i < value->count; ++i) {
    if (IntegerAt(*value, i) != number) {
      return RefuseParameter("{}{} differs from layer to layer ({}), which is not supported",
                             prefix_, name, gguf::RenderValue(*value, 64));
    }
  }
  return *number;
}

Result<int64_t> GgufParameters::IntOfSome(std::string_view name, int64_t low, int64_t high) const {
  const std::optional<gguf::Value> value = Find(name);
  if (!value || !value->is_array()) return Int(name, low, high);
  std::optional<int64_t> number;
  for (uint64_t i = 0; i < value->count; ++i) {
    const std::optional<int64_t> each = IntegerAt(*value, i);
    if (each == 0) continue;
    if (!each || *each < low || *each > high || (number && number != each)) {
      return RefuseParameter("{}{} is {}: one number from {} to {}, or 0, is supported", prefix_,
                             name, gguf::RenderValue(*value, 64), low, high);
    }
    number = each;
  }
  if (!number) return WrongType(name, *value, "a list with a number above 0");
  return *number;
}

Result<std::vector<int>> GgufParameters::IntsOfLayers(std::string_view name, int layers,
                                                      int64_t low, int64_t high) const {
  const std::optional<gguf::Value> value = Find(name);
  if (!value || !value->is_array()) return HyperParameters::IntsOfLayers(name, layers, low, high);
  if (value->count != static_cast<uint64_t>(layers))
    return WrongType(name, *value, fmt::format("{} numbers, one for each layer", layers));
  std::vector<int> numbers;
  for (uint64_t i = 0; i < value->count; ++i) {
    const std::optional<int64_t> number = IntegerAt(*value, i);
    if (!number || *number < low || *number > high) {
      return RefuseParameter("{}{} is {}, with a number outside {}..{}", prefix_, name,
                             gguf::RenderValue(*value, 64), low, high);
    }
    numbers.push_back(static_cast<int>(*number));
  }
  return numbers;
}

Result<std::vector<double>> GgufParameters::NumbersOfLayers(std::string_view name, int layers,
                                                            double low, double high) const {
  const std::optional<gguf::Value> value = Find(name);
  if (!value) return Missing(name);
  if (!value->is_array() || value->element != gguf::ValueType::kFloat32 ||
      value->count != static_cast<uint64_t>(layers))
    return WrongType(name, *value, fmt::format("{} floats, one for each layer", layers));
  std::vector<double> numbers;
  for (uint64_t i = 0; i < value->count; ++i) {
    numbers.push_back(static_cast<double>(gguf::LoadUnaligned<float>(value->at(i))));
    if (numbers.back() >= low && numbers.back() <= high) continue;
    return RefuseParameter("{}{} is {} in layer {}, outside {}..{}", prefix_, name, numbers.back(),
                           i, low, high);
  }
  return numbers;
}

Result<std::vector<bool>> GgufParameters::Positive(std::string_view name, int layers) const {
  const std::optional<gguf::Value> value = Find(name);
  if (!value) return Missing(name);
  if (!value->is_array() || value->count != static_cast<uint64_t>(layers))
    return WrongType(name, *value, fmt::format("{} numbers, one for each layer", layers));
  std::vector<bool> positive(static_cast<size_t>(layers));
  for (size_t i = 0; i < positive.size(); ++i) positive[i] = IntegerAt(*value, i) != 0;
  return positive;
}

Result<std::vector<bool>> GgufParameters::Recurrent(std::string_view /*kind*/, int layers) const {
  ASSIGN_OR_RETURN(std::vector<bool> attends, Positive("attention.head_count_kv", layers));
  attends.flip();
  return attends;
}

Result<double> GgufParameters::Float(std::string_view name, double low, double high) const {
  const std::optional<gguf::Value> value = Find(name);
  if (!value) return Missing(name);
  double number = 0;
  if (value->type == gguf::ValueType::kFloat32) {
    number = static_cast<double>(gguf::LoadUnaligned<float>(value->data));
  } else if (value->type == gguf::ValueType::kFloat64) {
    number = gguf::LoadUnaligned<double>(value->data);
  } else {
    return WrongType(name, *value, "a float");
  }
  if (!(number >= low && number <= high)) {  // NaN too
    return RefuseParameter("{}{} is {}, outside {}..{}", prefix_, name, number, low, high);
  }
  return number;
}

Result<std::string> GgufParameters::Text(std::string_view name) const {
  const std::optional<gguf::Value> value = Find(name);
  if (!value) return Missing(name);
  if (value->type != gguf::ValueType::kString) return WrongType(name, *value, "a string");
  return std::string(value->string());
}

Result<bool> GgufParameters::Bool(std::string_view name) const {
  const std::optional<gguf::Value> value = Find(name);
  if (!value) return Missing(name);
  if (value->type != gguf::ValueType::kBool) return WrongType(name, *value, "true or false");
  return gguf::LoadUnaligned<uint8_t>(value->data) != 0;
}

Result<std::vector<bool>> GgufParameters::Windowed(std::string_view name, int layers) const {
  const std::optional<gguf::Value> value = Find(name);
  if (!value) return Missing(name);
  if (value->is_array()) return Flags(name, layers);
  std::vector<bool> windowed(static_cast<size_t>(layers));
  ASSIGN_OR_RETURN(const int64_t pattern, Int(name, 1, 1 << 20));
  for (int i = 0; i < layers; ++i) windowed[static_cast<size_t>(i)] = (i + 1) % pattern != 0;
  return windowed;
}

Result<std::vector<bool>> GgufParameters::Flags(std::string_view name, int layers) const {
  const std::optional<gguf::Value> value = Find(name);
  if (!value) return Missing(name);
  std::vector<bool> flags(static_cast<size_t>(layers));
  if (!value->is_array() || value->element != gguf::ValueType::kBool || value->count < flags.size())
    return WrongType(name, *value, fmt::format("{} flags, one for each layer", layers));
  for (size_t i = 0; i < flags.size(); ++i)
    flags[i] = gguf::LoadUnaligned<uint8_t>(value->at(i)) != 0;
  return flags;
}

Result<std::vector<float>> GgufParameters::FloatsOfLayers(std::string_view name, int layers) const {
  const std::optional<gguf::Value> value = header_.Find(name);
  if (!value) return RefuseParameter("the file does not have the key {}", name);
  const auto wanted = static_cast<uint64_t>(layers);
  const bool fits = !value->is_array() || value->count == wanted;
  std::vector<float> values;
  for (uint64_t i = 0; fits && value->element == gguf::ValueType::kFloat32 && i < wanted; ++i) {
    values.push_back(gguf::LoadUnaligned<float>(value->at(value->is_array() ? i : 0)));
    if (!std::isfinite(values.back())) break;
  }
  if (values.size() == wanted && std::isfinite(values.back())) return values;
  return RefuseParameter("{} is {}, not a finite number for each of {} layers", name,
                         gguf::RenderValue(*value, 64), layers);
}

Result<std::vector<bool>> GgufParameters::Listed(std::string_view name, int /*layers*/) const {
  return Missing(name);  // a GGUF has other keys for these
}

Result<std::vector<float>> GgufParameters::Floats(std::string_view name) const {
  return Missing(name);  // a GGUF has tensors for these
}

}  // namespace tutti::model
