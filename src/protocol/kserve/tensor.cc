#include "protocol/kserve/tensor.h"

#include <array>
#include <bit>

#include "base/check.h"

namespace tutti::kserve {
namespace {

static_assert(std::endian::native == std::endian::little, "raw tensors are read where they lie");

struct TypeRow {
  std::string_view name, config_name;
  size_t bytes;
};

constexpr std::array<TypeRow, 15> kTypes = {{
    {"INVALID", "TYPE_INVALID", 0},
    {"BOOL", "TYPE_BOOL", 1},
    {"UINT8", "TYPE_UINT8", 1},
    {"UINT16", "TYPE_UINT16", 2},
    {"UINT32", "TYPE_UINT32", 4},
    {"UINT64", "TYPE_UINT64", 8},
    {"INT8", "TYPE_INT8", 1},
    {"INT16", "TYPE_INT16", 2},
    {"INT32", "TYPE_INT32", 4},
    {"INT64", "TYPE_INT64", 8},
    {"FP16", "TYPE_FP16", 2},
    {"FP32", "TYPE_FP32", 4},
    {"FP64", "TYPE_FP64", 8},
    {"BYTES", "TYPE_STRING", 0},
    {"BF16", "TYPE_BF16", 2},
}};

const TypeRow& RowOf(DataType type) { return kTypes[static_cast<size_t>(type)]; }

}  // namespace

std::string_view NameOf(DataType type) { return RowOf(type).name; }
std::string_view ConfigNameOf(DataType type) { return RowOf(type).config_name; }
size_t ElementBytes(DataType type) { return RowOf(type).bytes; }

DataType DataTypeOf(std::string_view name) {
  for (size_t i = 1; i < kTypes.size(); ++i) {
    if (kTypes[i].name == name) return static_cast<DataType>(i);
  }
  return DataType::kInvalid;
}

std::optional<uint64_t> CountElements(const Shape& shape) {
  // A zero makes the product 0, but the other dimensions are still checked.
  int64_t product = 1;
  for (const int64_t dimension : shape) {
    if (dimension < 0 || __builtin_mul_overflow(product, dimension, &product)) return std::nullopt;
  }
  return static_cast<uint64_t>(product);
}

std::string ShapeText(const Shape& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size() && i < kMaxDimensions; ++i) {
    text += (i == 0 ? "" : ",") + std::to_string(shape[i]);
  }
  return text + (shape.size() > kMaxDimensions ? ",...]" : "]");
}

void AppendBytesElement(std::string_view element, std::string* data) {
  CHECK_LE(element.size(), UINT32_MAX);
  AppendElement(static_cast<uint32_t>(element.size()), data);
  data->append(element);
}

std::optional<std::vector<std::string_view>> SplitBytes(std::string_view data, uint64_t count) {
  // Each element takes at least four bytes, so a false count is rejected before memory is reserved.
  if (count > data.size() / sizeof(uint32_t)) return std::nullopt;
  std::vector<std::string_view> elements;
  elements.reserve(count);
  for (uint64_t i = 0; i < count; ++i) {
    if (data.size() < sizeof(uint32_t)) return std::nullopt;
    const auto length = ElementAt<uint32_t>(data, 0);
    data.remove_prefix(sizeof(uint32_t));
    if (length > data.size()) return std::nullopt;
    elements.push_back(data.substr(0, length));
    data.remove_prefix(length);
  }
  if (!data.empty()) return std::nullopt;
  return elements;
}

}  // namespace tutti::kserve
