// The JSON files of an encoder's folder: refused by name, or every value is within the range that
// later code relies on. The texts are config.json, modules.json, and the config.json of all modules
// (0 bytes between them).
#include <string>
#include <string_view>

#include "base/check.h"
#include "model/config.h"
#include "model/encoder_config.h"

namespace {

namespace model = tutti::model;

void CheckConfig(const model::EncoderConfig& config) {
  CHECK(config.layers >= 1 && config.layers <= model::kMaxLayers);
  CHECK(config.width >= 32 && config.width % 32 == 0 && config.feed_forward % 32 == 0);
  CHECK(config.heads >= 1 && config.width % config.heads == 0 && config.head_dim() % 16 == 0);
  CHECK(config.vocab_size >= 1 && config.token_types >= 0 && config.token_types <= 64);
  CHECK(config.longest() >= 1 && config.max_tokens <= config.longest());
  CHECK(config.rope_base == 0 || config.rope_base >= 1);
  CHECK(config.rope_divisor >= 1 && config.norm_eps >= 0);
  CHECK(config.windowed.empty() || config.windowed.size() == static_cast<size_t>(config.layers));
  CHECK(config.windowed.empty() || config.window >= 1);
  CHECK(config.labels.size() <= model::kMaxLabels);
  CHECK(config.relative.span >= 0 && config.relative.span <= model::kMaxContext);
  CHECK(config.relative.buckets % 2 == 0 || config.relative.span == 0);
  CHECK(config.relative.span == 0 || config.relative.farthest >= 1);
  CHECK(config.score_terms >= 1 && config.score_terms <= 3);
  int before = config.width;
  for (const model::DenseModule& dense : config.dense) {
    CHECK(dense.in == before && dense.in % 32 == 0 && dense.out >= 1);
    CHECK(dense.folder.find('/') == std::string::npos && dense.folder != "..");
    before = dense.out;
  }
  CHECK(config.vector_width() >= 0 && config.token_width() >= 1);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  const auto next = [&] {
    const size_t end = rest.find('\0');
    const std::string text(rest.substr(0, end));
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    return text;
  };
  model::ModuleFiles files;
  files.config = next();
  files.modules = next();
  const std::string module = next();
  if (const auto entries = model::ListModules(files.modules); entries.ok()) {
    for (const auto& [kind, folder] : *entries) {
      if (folder.empty()) continue;
      (kind == "Pooling" ? files.pooling : files.modules_by_folder[folder]) = module;
    }
  }
  const auto decoders = model::ReadVectorModules(files, 64);
  if (!decoders.ok()) CHECK(decoders.status().reason() == "model_hparam") << decoders.status();
  const auto config = model::ReadEncoderConfig(files);
  if (config.ok()) {
    CheckConfig(*config);
  } else {
    CHECK(config.status().reason() == "model_hparam") << config.status();
  }
  return 0;
}
