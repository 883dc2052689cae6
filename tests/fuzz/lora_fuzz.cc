// A LoRA adapter: a GGUF, or the text of adapter_config.json, a zero byte and a safetensors file
// (without the zero byte: the file of a sound adapter). It is refused with a code, or every matrix
// of it lies in the memory of the packed adapter and has the base's shape.
#include <cmath>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/utf8.h"
#include "gguf/file.h"
#include "model/adapters/lora.h"
#include "model/adapters/lora_file.h"
#include "safetensors/checkpoint.h"

namespace {

using tutti::Result;
using tutti::Status;
using tutti::model::LoraAdapter;
using tutti::model::LoraFile;
using tutti::model::ModelConfig;

// A llama of 2 layers of 32.
ModelConfig Base() {
  ModelConfig config;
  config.architecture = "llama";
  config.layers = 2;
  config.width = 32;
  config.heads = 2;
  config.kv_heads = 1;
  config.head_dim = 16;
  config.rope_dims = 16;
  config.feed_forward = 32;
  return config;
}

constexpr std::string_view kTensors =
    R"({"base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight":)"
    R"({"dtype":"F32","shape":[2,32],"data_offsets":[0,256]},)"
    R"("base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight":)"
    R"({"dtype":"F32","shape":[32,2],"data_offsets":[256,512]}})";

std::vector<std::byte> SoundTensors() {
  std::vector<std::byte> bytes(8);
  for (size_t i = 0; i < 8; ++i) bytes[i] = static_cast<std::byte>(kTensors.size() >> (8 * i));
  for (const char c : kTensors) bytes.push_back(static_cast<std::byte>(c));
  bytes.resize(bytes.size() + 512);
  return bytes;
}

void CheckRefusal(const Status& status) {
  const std::string reason = status.reason();
  CHECK(reason.starts_with("adapter_") || reason.starts_with("gguf_") ||
        reason.starts_with("st_") || reason == "model_hparam" || reason == "model_nonfinite" ||
        reason == "model_path")
      << status;
  CHECK(tutti::IsValidUtf8(status.message()) && status.message().size() < 2000) << status;
}

void CheckAdapter(const LoraAdapter& adapter, const ModelConfig& base) {
  CHECK(adapter.digest().size() == 64);
  CHECK(adapter.max_rank() >= 1 && adapter.max_rank() <= tutti::model::kMaxLoraRank);
  for (int layer = 0; layer < base.layers; ++layer) {
    for (int place = 0; place < tutti::model::kLoraPlaces; ++place) {
      const auto& product = adapter.product(layer, static_cast<tutti::model::LoraPlace>(place));
      CHECK((product.ranks == 0) == product.expands.empty());
      CHECK(product.ranks <= tutti::model::kMaxLoraRanks);
      for (const auto& expand : product.expands) {
        CHECK(expand.first_rank + expand.rank <= product.ranks);
        CHECK(expand.first_column >= 0 && std::isfinite(expand.scale));
        const int panels = tutti::kernels::LowRankPanels(expand.columns);
        CHECK(expand.first_column + (panels - 1) * expand.step < 2 * 64);
      }
    }
  }
}

Result<LoraFile> Open(std::string_view text) {
  const tutti::model::Family& family = *tutti::model::FamilyOfArchitecture("llama");
  if (text.starts_with("GGUF")) {
    auto file =
        tutti::gguf::File::FromSource(tutti::gguf::MemorySource(std::as_bytes(std::span(text))));
    if (!file.ok()) return file.status();
    return LoraFile::FromGguf(*std::move(file), family);
  }
  const size_t end = text.find('\0');
  const std::vector<std::byte> sound = SoundTensors();
  const auto bytes = end == std::string_view::npos ? std::span<const std::byte>(sound)
                                                   : std::as_bytes(std::span(text.substr(end + 1)));
  auto file = tutti::safetensors::File::FromSource(tutti::safetensors::MemorySource(bytes));
  if (!file.ok()) return file.status();
  return LoraFile::FromPeft(
      text.substr(0, end),
      tutti::model::MakeTensorStore(tutti::safetensors::Checkpoint::Of(*std::move(file))), family);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const Result<LoraFile> file = Open({reinterpret_cast<const char*>(data), size});
  if (!file.ok()) {
    CheckRefusal(file.status());
    return 0;
  }
  const ModelConfig base = Base();
  for (const bool narrow : {false, true}) {
    const auto adapter = LoraAdapter::Load(*file, base, {.scale = 0.5, .narrow = narrow});
    if (adapter.ok()) {
      CheckAdapter(**adapter, base);
    } else {
      CheckRefusal(adapter.status());
    }
  }
  return 0;
}
