#include "model/config_parameters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "model/decoder_tensors.h"

namespace tutti::model {
namespace {

using ::testing::HasSubstr;

JsonFile Parsed(std::string_view text) {
  auto file = JsonFile::Parse(text, "config.json");
  CHECK(file.ok()) << file.status();
  return *std::move(file);
}

TEST(ConfigParametersTest, KeysOfGgufAreReadFromWhatTransformersCallsThem) {
  const JsonFile file = Parsed(R"({"num_hidden_layers": 3, "hidden_size": 64, "rms_norm_eps": 1e-5,
      "num_local_experts": null, "num_experts": 8, "hidden_act": "silu", "tie_word_embeddings": true,
      "rope_scaling": {"rope_type": "yarn", "factor": 4.0}, "rope_theta": 5000})");
  const ConfigParameters keys(file);
  EXPECT_EQ(*keys.Int("block_count", 1, 10), 3);
  EXPECT_EQ(*keys.Float("attention.layer_norm_rms_epsilon", 0, 1), 1e-5);
  EXPECT_EQ(*keys.Int("expert_count", 0, 100), 8);  // null is absent, the next name counts
  EXPECT_EQ(*keys.Text("activation"), "silu");
  EXPECT_TRUE(*keys.Bool("tie_word_embeddings"));  // spelled as it is
  EXPECT_EQ(*keys.Text("rope.scaling.type"), "yarn");
  EXPECT_EQ(*keys.Float("rope.scaling.factor", 1, 100), 4.0);
  EXPECT_EQ(*keys.Float("rope.freq_base", 1, 1e9), 5000.0);  // a whole number is a number
  EXPECT_FALSE(keys.Has("attention.sliding_window"));
  EXPECT_EQ(*keys.IntOr("attention.sliding_window", 7, 0, 9), 7);
}

TEST(ConfigParametersTest, RopeParametersOfTransformers5AreTheSame) {
  const JsonFile plain =
      Parsed(R"({"rope_parameters": {"rope_type": "llama3", "rope_theta": 5e5, "factor": 8}})");
  const ConfigParameters keys(plain);
  EXPECT_EQ(*keys.Text("rope.scaling.type"), "llama3");
  EXPECT_EQ(*keys.Float("rope.freq_base", 1, 1e9), 5e5);
  const JsonFile layered = Parsed(R"({"rope_parameters": {"full_attention": {"rope_theta": 1e6},
      "sliding_attention": {"rope_theta": 1e4}}})");
  const ConfigParameters two(layered);
  EXPECT_EQ(*two.Float("rope.freq_base", 1, 1e9), 1e6);
  EXPECT_EQ(*two.Float("rope.freq_base_swa", 1, 1e9), 1e4);
}

TEST(ConfigParametersTest, RefusalsNameTheFilesOwnKey) {
  const JsonFile file =
      Parsed(R"({"num_hidden_layers": 0, "rms_norm_eps": "small", "hidden_act": 3})");
  const ConfigParameters keys(file);
  EXPECT_THAT(keys.Int("block_count", 1, 10).status().message(),
              HasSubstr("num_hidden_layers must be a whole number from 1 to 10"));
  EXPECT_THAT(keys.Int("embedding_length", 1, 10).status().message(),
              HasSubstr("hidden_size is missing"));
  const double most = std::numeric_limits<double>::max();
  EXPECT_FALSE(keys.Float("attention.layer_norm_rms_epsilon", -most, most).ok());
  EXPECT_FALSE(keys.Text("activation").ok());
}

}  // namespace
}  // namespace tutti::model
