// Small encoders of every family compared with transformers: tensor names, configuration and
// expected rows come from the library, the weights are generated from the same seed on both sides.
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "files/source.h"
#include "kernels/isa.h"
#include "minilm.h"
#include "runner/compute_pool.h"
#include "safetensors/checkpoint.h"
#include "safetensors/testing/writer.h"
#include "splitmix.h"
#include "test_paths.h"

namespace tutti::parity {
namespace {

namespace json = boost::json;

uint64_t Fnv1a64(std::string_view text) {
  uint64_t hash = 0xCBF29CE484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3;
  return hash;
}

// The values of tools/make_encoder_family_goldens.py.
std::vector<float> ValuesOf(const std::string& name, const std::vector<uint64_t>& shape) {
  size_t count = 1;
  for (const uint64_t extent : shape) count *= static_cast<size_t>(extent);
  const bool matrix = shape.size() == 2 && name.find("embeddings") == std::string::npos;
  bool norm = false;
  for (const char* part : {"LayerNorm.", "emb_ln.", "norm1.", "norm2."})
    norm |= name.find(part) != std::string::npos;
  std::vector<float> values = GeneratedFloats(Fnv1a64(name), count, matrix ? 0.125F : 0.25F);
  if (norm && name.ends_with(".weight")) {
    for (float& value : values) value += 1;
  }
  return values;
}

const json::value& Goldens() {
  static const json::value kGoldens = [] {
    std::ifstream in(support::SourcePath("tests/golden/encoder_families.json"));
    EXPECT_TRUE(in.is_open());
    std::ostringstream text;
    text << in.rdbuf();
    return json::parse(text.str());
  }();
  return kGoldens;
}

std::shared_ptr<const model::EncoderWeights> Load(const json::value& golden) {
  safetensors::testing::Writer writer;
  for (const auto& tensor : golden.at("tensors").as_object()) {
    std::vector<uint64_t> shape;
    for (const auto& extent : tensor.value().as_array())
      shape.push_back(extent.to_number<uint64_t>());
    const std::string name(tensor.key());
    writer.Floats(name, shape, ValuesOf(name, shape));
  }
  const auto bytes = writer.Build();
  auto file = safetensors::File::FromSource(files::MemorySource(bytes, "st_offsets"));
  EXPECT_TRUE(file.ok()) << file.status();
  const auto store = model::MakeTensorStore(safetensors::Checkpoint::Of(*file));
  model::EncoderFiles files;
  files.config = json::serialize(golden.at("config"));
  auto config = model::ReadEncoderConfig(files);
  EXPECT_TRUE(config.ok()) << config.status();
  auto weights = model::EncoderWeights::Load(*std::move(config), *store, {});
  EXPECT_TRUE(weights.ok()) << weights.status();
  return *std::move(weights);
}

TEST(EncoderFamilies, RowsAndScoresAreThoseOfTransformers) {
  runner::ComputePool pool({.workers = 2});
  int families = 0;
  for (const auto& golden : Goldens().as_array()) {
    const std::string family(golden.at("family").as_string());
    const auto weights = Load(golden);
    const auto encoder = MakeEncoder(weights, 2, 64);
    for (const auto& run : golden.at("runs").as_array()) {
      std::vector<TokenId> ids;
      for (const auto& id : run.at("ids").as_array()) ids.push_back(id.to_number<TokenId>());
      std::vector<uint8_t> types(run.at("typed").as_bool() ? ids.size() : 0);
      for (size_t i = 0; i < types.size(); ++i) types[i] = 2 * i >= types.size();
      const std::vector<int32_t> offsets = {0, static_cast<int32_t>(ids.size())};
      std::vector<int32_t> scored;
      if (!run.at("logits").as_array().empty()) scored.push_back(0);
      const model::EncoderBatch batch{ids, types, offsets, scored};
      encoder->Prepare(batch);
      pool.Run([&](model::Team& team) { encoder->Run(batch, team); });
      const float* rows = encoder->hidden();
      for (const auto& row : run.at("hidden").as_array()) {
        for (const auto& value : row.as_array())
          ASSERT_NEAR(*rows++, value.to_number<double>(), 1e-5) << family << ", " << ids.size();
      }
      const auto& logits = run.at("logits").as_array();
      EXPECT_EQ(logits.size(), weights->config().labels.size()) << family;
      for (size_t i = 0; i < logits.size(); ++i)
        EXPECT_NEAR(encoder->scores(0)[i], logits[i].to_number<double>(), 1e-5) << family;
    }
    ++families;
  }
  EXPECT_EQ(families, 6);
}

}  // namespace
}  // namespace tutti::parity
