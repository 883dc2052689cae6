// The quantization_config of a folder whose tensors are there in every layout: it is refused with a
// code, or each matrix can be read. The same text is also the pattern of an ignore list.
#include <span>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/utf8.h"
#include "files/source.h"
#include "model/json_file.h"
#include "model/quantized/ignore_list.h"
#include "model/quantized/quantized_store.h"
#include "safetensors/checkpoint.h"

namespace {

using tutti::Result;
using tutti::model::TensorStore;

struct Layout {
  const char *name, *dtype, *shape;
  size_t bytes;
};

// Matrices of 8 outputs and 64 columns; the values are bytes that repeat.
constexpr Layout kLayouts[] = {
    {"int8.0.weight", "I8", "[8,64]", 512},
    {"int8.0.weight_scale", "F32", "[8,1]", 32},
    {"packed.0.weight_packed", "I32", "[8,8]", 256},
    {"packed.0.weight_shape", "I32", "[2]", 8},
    {"packed.0.weight_scale", "F16", "[8,2]", 32},
    {"gptq.0.qweight", "I32", "[8,8]", 256},
    {"gptq.0.qzeros", "I32", "[2,1]", 8},
    {"gptq.0.scales", "F16", "[2,8]", 32},
    {"gptq.0.g_idx", "I32", "[64]", 256},
    {"awq.0.qweight", "I32", "[64,1]", 256},
    {"awq.0.qzeros", "I32", "[2,1]", 8},
    {"awq.0.scales", "F16", "[2,8]", 32},
    {"fp8.0.weight", "F8_E4M3", "[8,64]", 512},
    {"fp8.0.weight_scale_inv", "F32", "[1,1]", 4},
    {"int8.1.weight", "F32", "[8,64]", 2048},
    {"mxfp4.0.experts_blocks", "U8", "[2,4,2,16]", 256},
    {"mxfp4.0.experts_scales", "U8", "[2,4,2]", 16},
};

// The tensors whose names begin with `kind`.
std::unique_ptr<TensorStore> StoreOf(std::string_view kind) {
  std::string json;
  std::vector<std::byte> data;
  for (const Layout& layout : kLayouts) {
    if (!std::string_view(layout.name).starts_with(kind)) continue;
    json += std::string(json.empty() ? "{" : ",") + "\"" + layout.name + "\":{\"dtype\":\"" +
            layout.dtype + "\",\"shape\":" + layout.shape + ",\"data_offsets\":[" +
            std::to_string(data.size()) + "," + std::to_string(data.size() + layout.bytes) + "]}";
    const bool shape = std::string_view(layout.name).ends_with("_shape");
    for (size_t i = 0; i < layout.bytes; ++i)
      data.push_back(static_cast<std::byte>(shape ? (i == 0 ? 8 : i == 4 ? 64 : 0) : i % 64));
  }
  json += "}";
  std::vector<std::byte> bytes(8);
  for (size_t i = 0; i < 8; ++i) bytes[i] = static_cast<std::byte>(json.size() >> (8 * i));
  for (const char c : json) bytes.push_back(static_cast<std::byte>(c));
  bytes.insert(bytes.end(), data.begin(), data.end());
  auto file = tutti::safetensors::File::FromSource(tutti::files::MemorySource(bytes, "st_offsets"));
  CHECK(file.ok()) << file.status();
  return tutti::model::MakeTensorStore(tutti::safetensors::Checkpoint::Of(*std::move(file)));
}

void CheckRefusal(const tutti::Status& status) {
  const std::string reason = status.reason();
  CHECK(reason == "model_hparam" || reason == "model_tensor_missing" || reason == "st_shape" ||
        reason == "model_nonfinite")
      << status;
  CHECK(tutti::IsValidUtf8(status.message()) && status.message().size() < 2000) << status;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  (void)tutti::model::quantized::MatchPattern(text, "model.layers.0.mlp.up_proj");
  const auto config = tutti::model::JsonFile::Parse(text, "config.json");
  if (!config.ok()) return 0;
  for (const char* kind : {"int8", "packed", "gptq", "awq", "fp8", "mxfp4"}) {
    std::vector<std::string> remarks, notes;
    const auto store = tutti::model::MakeQuantizedStore(StoreOf(kind), *config, remarks, notes);
    if (!store.ok()) {
      CheckRefusal(store.status());
      continue;
    }
    CHECK(!(remarks.empty() && notes.empty()));
    for (const tutti::model::StoredTensor& tensor : (*store)->tensors()) {
      CHECK((*store)->Find(tensor.name) == &tensor);
      if (!tensor.unreadable.empty()) continue;
      const auto values = (*store)->ReadFloats(tensor);
      if (!values.ok()) CheckRefusal(values.status());
    }
  }
  return 0;
}
