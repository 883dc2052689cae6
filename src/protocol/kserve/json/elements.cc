#include "protocol/kserve/json/elements.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/utf8.h"
#include "protocol/kserve/request.h"

namespace tutti::kserve {
namespace {

using protocol::Json;

// --- elements from JSON: each appends one, or nothing and says false where it does not fit ---

template <typename T>
std::optional<T> ToInteger(const Json& value) {
  if (const int64_t* number = value.if_int64()) {
    if (std::in_range<T>(*number)) return static_cast<T>(*number);
  } else if (const uint64_t* positive = value.if_uint64()) {
    if (std::in_range<T>(*positive)) return static_cast<T>(*positive);
  } else if (const double* real = value.if_double()) {
    // 3.0; further out a double may stand for several whole numbers.
    constexpr double kExact = 9007199254740992.0;  // 2^53
    if (std::trunc(*real) == *real && std::abs(*real) <= kExact &&
        std::in_range<T>(static_cast<int64_t>(*real))) {
      return static_cast<T>(static_cast<int64_t>(*real));
    }
  }
  return std::nullopt;
}

template <typename T>
bool AppendInteger(const Json& value, std::string* data) {
  const std::optional<T> number = ToInteger<T>(value);
  if (number.has_value()) AppendElement(*number, data);
  return number.has_value();
}

// Nothing for a number that is nearer to infinity than to the largest of T. As a double the
// shortest form of the largest float is a little larger than it.
template <typename T>
std::optional<T> Nearest(double number) {
  if constexpr (std::is_same_v<T, double>) {
    return number;
  } else {
    constexpr double kLargest = std::numeric_limits<T>::max();
    constexpr double kHalfUnit = 0x1p103;  // of the last place of the largest
    if (std::abs(number) >= kLargest + kHalfUnit) return std::nullopt;
    return static_cast<T>(std::clamp(number, -kLargest, kLargest));
  }
}

template <typename T>
bool AppendReal(const Json& value, std::string* data) {
  if (const int64_t* number = value.if_int64()) {
    AppendElement(static_cast<T>(*number), data);
  } else if (const uint64_t* positive = value.if_uint64()) {
    AppendElement(static_cast<T>(*positive), data);
  } else if (const double* real = value.if_double()) {
    const std::optional<T> nearest = Nearest<T>(*real);
    if (!nearest.has_value()) return false;
    AppendElement(*nearest, data);
  } else {
    return false;
  }
  return true;
}

bool AppendBool(const Json& value, std::string* data) {
  const bool* flag = value.if_bool();
  if (flag != nullptr) data->push_back(*flag ? '\1' : '\0');
  return flag != nullptr;
}

bool AppendText(const Json& value, std::string* data) {
  const auto* text = value.if_string();
  if (text != nullptr) AppendBytesElement({text->data(), text->size()}, data);
  return text != nullptr;
}

using Append = bool (*)(const Json&, std::string*);

Status ReadOne(const Json& value, Append append, Tensor* tensor) {
  if (append(value, &tensor->data)) return OkStatus();
  return Bad("'data' of input " + Quoted(tensor->name) + " holds a value that is no " +
             std::string(NameOf(tensor->type)));
}

// `value` is what the shape's dimensions from `at` on describe.
Status ReadNested(const Json& value, Append append, size_t at, Tensor* tensor) {
  if (at == tensor->shape.size()) return ReadOne(value, append, tensor);
  const protocol::JsonArray* list = value.if_array();
  if (list == nullptr || !std::in_range<int64_t>(list->size()) ||
      static_cast<int64_t>(list->size()) != tensor->shape[at]) {
    return Bad("'data' of input " + Quoted(tensor->name) + " is nested otherwise than its shape " +
               ShapeText(tensor->shape) + " says");
  }
  for (const Json& element : *list) RETURN_IF_ERROR(ReadNested(element, append, at + 1, tensor));
  return OkStatus();
}

// --- elements to JSON ---

template <typename T, typename Write>
Status WriteEach(const Tensor& tensor, Write write) {
  const std::string_view data = tensor.data;
  for (size_t i = 0; i < data.size() / sizeof(T); ++i) write(ElementAt<T>(data, i));
  return OkStatus();
}

template <typename T>
Status WriteIntegers(const Tensor& tensor, protocol::JsonWriter* json) {
  return WriteEach<T>(tensor, [json](T number) {
    if constexpr (std::is_same_v<T, uint64_t>) {
      json->Raw(std::to_string(number));
    } else {
      json->Int(int64_t{number});
    }
  });
}

Status WriteBools(const Tensor& tensor, protocol::JsonWriter* json) {
  return WriteEach<uint8_t>(tensor, [json](uint8_t flag) { json->Bool(flag != 0); });
}

Status WriteTexts(const Tensor& tensor, protocol::JsonWriter* json) {
  const std::optional<uint64_t> count = CountElements(tensor.shape);
  const auto elements = SplitBytes(tensor.data, count.value_or(UINT64_MAX));
  if (!elements.has_value()) return Internal("malformed BYTES tensor: " + tensor.name);
  for (const std::string_view text : *elements) {
    if (ValidUtf8Prefix(text) != text.size()) {
      return Bad("output " + Quoted(tensor.name) +
                 " holds bytes that are no UTF-8 text; ask for it as binary data (binary_data)");
    }
    json->String(text);
  }
  return OkStatus();
}

// JSON has no word for NaN and infinity.
template <typename T>
Status CheckFinite(const Tensor& tensor) {
  const std::string_view data = tensor.data;
  for (size_t i = 0; i < data.size() / sizeof(T); ++i) {
    if (!std::isfinite(ElementAt<T>(data, i))) {
      return Bad("output " + Quoted(tensor.name) +
                 " holds a value that is no number; ask for it as binary data (binary_data)");
    }
  }
  return OkStatus();
}

template <typename T>
Status WriteReals(const Tensor& tensor, protocol::JsonWriter* json) {
  RETURN_IF_ERROR(CheckFinite<T>(tensor));
  return WriteEach<T>(tensor, [json](T number) {
    if constexpr (std::is_same_v<T, float>) {
      json->Float(number);
    } else {
      json->Double(number);
    }
  });
}

Status WriteFloats(const Tensor& tensor, protocol::JsonWriter* json) {
  RETURN_IF_ERROR(CheckFinite<float>(tensor));
  std::vector<float> numbers(tensor.data.size() / sizeof(float));
  if (!numbers.empty()) std::memcpy(numbers.data(), tensor.data.data(), tensor.data.size());
  json->Floats(numbers);
  return OkStatus();
}

// How elements of a type are read and written; both null for a type without a JSON form.
struct JsonForm {
  Append append = nullptr;
  Status (*write)(const Tensor&, protocol::JsonWriter*) = nullptr;
};
template <typename T>
constexpr JsonForm kInteger = {&AppendInteger<T>, &WriteIntegers<T>};
template <typename T>
constexpr JsonForm kReal = {&AppendReal<T>, &WriteReals<T>};

// In the order of DataType.
constexpr auto kForms = std::to_array<JsonForm>({
    {},  // kInvalid
    {&AppendBool, &WriteBools},
    kInteger<uint8_t>,
    kInteger<uint16_t>,
    kInteger<uint32_t>,
    kInteger<uint64_t>,
    kInteger<int8_t>,
    kInteger<int16_t>,
    kInteger<int32_t>,
    kInteger<int64_t>,
    {},  // kFp16
    kReal<float>,
    kReal<double>,
    {&AppendText, &WriteTexts},
    {},  // kBf16
});

const JsonForm& FormOf(DataType type) { return kForms[static_cast<size_t>(type)]; }

Status WriteEachElement(const Tensor& tensor, protocol::JsonWriter* json) {
  if (const auto write = FormOf(tensor.type).write) return write(tensor, json);
  return Bad("output " + Quoted(tensor.name) + " is " + std::string(NameOf(tensor.type)) +
             ", which JSON does not hold; ask for it as binary data (binary_data)");
}

}  // namespace

Status ReadElements(const Json& data, Tensor* tensor) {
  const Append append = FormOf(tensor->type).append;
  if (append == nullptr) {
    return Bad("sending " + std::string(NameOf(tensor->type)) +
               " as JSON is not supported: send input " + Quoted(tensor->name) + " as binary data");
  }
  const protocol::JsonArray* list = data.if_array();
  if (list == nullptr) return Bad("'data' of input " + Quoted(tensor->name) + " must be a list");
  const bool nested = !list->empty() && list->front().is_array();
  if (nested) return ReadNested(data, append, 0, tensor);
  for (const Json& element : *list) RETURN_IF_ERROR(ReadOne(element, append, tensor));
  return OkStatus();
}

Shape ShapeOf(const Json& value) {
  Shape shape;
  const Json* at = &value;
  while (const protocol::JsonArray* list = at->if_array()) {
    shape.push_back(static_cast<int64_t>(list->size()));
    if (list->empty() || shape.size() > kMaxDimensions) break;
    at = &list->front();
  }
  return shape;
}

Status WriteElements(const Tensor& tensor, bool scalar, protocol::JsonWriter* json) {
  if (scalar && CountElements(tensor.shape) == 1) return WriteEachElement(tensor, json);
  if (tensor.type == DataType::kFp32) return WriteFloats(tensor, json);
  json->BeginArray();
  RETURN_IF_ERROR(WriteEachElement(tensor, json));
  json->EndArray();
  return OkStatus();
}

size_t EstimateElements(const Tensor& tensor) {
  // The longest of a type: "false," for one byte; "-32768,", "-1.17549435e-38," for each of
  // several. A text's quotes and comma are no more than its length in the raw bytes.
  const size_t bytes = ElementBytes(tensor.type);
  return tensor.data.size() * (bytes == 0 ? 1 : bytes == 1 ? 6 : 4);
}

Result<ParameterValue> ReadParameterValue(std::string_view name, const Json& value) {
  ParameterValue read;
  if (const bool* flag = value.if_bool()) {
    read = *flag;
  } else if (const int64_t* number = value.if_int64()) {
    read = *number;
  } else if (const uint64_t* positive = value.if_uint64()) {
    read = *positive;
  } else if (const double* real = value.if_double()) {
    read = *real;
  } else if (const auto* text = value.if_string()) {
    read.emplace<std::string>(text->data(), text->size());
  } else {
    return Bad("invalid value type for " + Quoted(name) +
               " parameter, expected a bool, a number or a string");
  }
  return read;
}

void WriteParameter(const std::string& name, const ParameterValue& value,
                    protocol::JsonWriter* json) {
  json->Key(name);
  if (const auto* flag = std::get_if<bool>(&value)) json->Bool(*flag);
  if (const auto* number = std::get_if<int64_t>(&value)) json->Int(*number);
  if (const auto* number = std::get_if<uint64_t>(&value)) json->Raw(std::to_string(*number));
  if (const auto* number = std::get_if<double>(&value)) json->Double(*number);
  if (const auto* text = std::get_if<std::string>(&value)) json->String(*text);
}

}  // namespace tutti::kserve
