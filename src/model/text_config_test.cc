#include "model/text_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace tutti::model {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct ConfigReading {
  Result<TextConfig> config;
  std::vector<std::string> remarks;
};

ConfigReading Read(std::string_view text) {
  const auto file = JsonFile::Parse(text, "config.json");
  EXPECT_TRUE(file.ok()) << file.status();
  std::vector<std::string> remarks;
  Result<TextConfig> config = TextConfig::Read(*file, remarks);
  return {std::move(config), std::move(remarks)};
}

std::string Refusal(std::string_view text) {
  const ConfigReading reading = Read(text);
  EXPECT_FALSE(reading.config.ok()) << text;
  return reading.config.ok() ? "" : std::string(reading.config.status().message());
}

TEST(TextConfigTest, KeysThatAreAbsentHaveTheDefaultsOfTheClass) {
  const ConfigReading reading = Read(R"({"model_type":"mistral","num_key_value_heads":null})");
  ASSERT_TRUE(reading.config.ok()) << reading.config.status();
  const JsonFile& keys = reading.config->keys;
  EXPECT_EQ(keys.Find("sliding_window")->to_number<int>(), 4096);
  EXPECT_EQ(keys.Find("num_key_value_heads"), nullptr) << "null is not absent";
  EXPECT_THAT(reading.remarks, IsEmpty());
}

TEST(TextConfigTest, ThePartForTextIsFoundAndRemarked) {
  const ConfigReading reading = Read(
      R"({"model_type":"gemma3","tie_word_embeddings":true,"vision_config":{"hidden_act":"x"},
          "text_config":{"model_type":"gemma3_text","hidden_size":2560,"sliding_window":1024,
                         "rope_scaling":{"factor":8.0,"rope_type":"linear"}}})");
  ASSERT_TRUE(reading.config.ok()) << reading.config.status();
  EXPECT_TRUE(reading.config->wrapped);
  EXPECT_EQ(reading.config->family->architecture, "gemma3");
  const JsonFile& keys = reading.config->keys;
  EXPECT_EQ(keys.Find("hidden_size")->to_number<int>(), 2560);
  EXPECT_EQ(keys.Find("num_attention_heads")->to_number<int>(), 8);
  EXPECT_EQ(keys.Find("rope_theta")->to_number<double>(), 1e6);
  EXPECT_TRUE(keys.Has("tie_word_embeddings")) << "of the whole";
  EXPECT_THAT(reading.remarks, ElementsAre(HasSubstr("the text part (gemma3_text)")));
}

TEST(TextConfigTest, ModelsOfOtherTypesAreRefusedByName) {
  EXPECT_THAT(Refusal(R"({"model_type":"mamba"})"), HasSubstr("model_type is \"mamba\", which"));
  EXPECT_THAT(Refusal(R"({"model_type":"x","text_config":{"model_type":"y"}})"),
              HasSubstr("is \"x\" with text of \"y\", which is not supported"));
  EXPECT_THAT(Refusal(R"({"model_type":"paligemma","text_config":{"model_type":"gemma2"}})"),
              HasSubstr("attend otherwise"));
  EXPECT_THAT(Refusal("{}"), HasSubstr("model_type is \"\""));
}

TEST(TextConfigTest, WithoutATypeTheClassDecides) {
  const ConfigReading reading = Read(R"({"architectures":["Qwen3MoeForCausalLM"]})");
  ASSERT_TRUE(reading.config.ok()) << reading.config.status();
  EXPECT_EQ(reading.config->family->model_type, "qwen3_moe");
  EXPECT_THAT(Refusal(R"({"architectures":["BertModel"]})"), HasSubstr("model_type"));
}

TEST(TextConfigTest, AKeyThatChangesTheArithmeticIsRefusedUnlessItIsOff) {
  const char* const changing[] = {
      R"("attn_logit_softcapping":50.0)",
      R"("use_bidirectional_attention":true)",
      R"("is_causal":false)",
      R"("layer_types":["sliding_attention"])",
      R"("no_rope_layers":[1,0])",
      R"("time_step_limit":[0.001,0.1])",
      R"("num_kv_shared_layers":10)",
      R"("residual_multiplier":0.22)",
      R"("qk_layernorm":true)",
      R"("mlp_bias":true)",
      R"("n_routed_experts":64)",
      R"("clip_qkv":8)",
      R"("rotary_pct":0.25)",
      R"("rope_scaling":{"rope_type":"linear","factor":2,"swirl":3})",
      R"("rope_parameters":{"full_attention":{"interleaved":true}})",
  };
  for (const std::string key : changing) {
    const std::string name = key.substr(1, key.find('"', 1) - 1);
    EXPECT_THAT(Refusal(R"({"model_type":"llama",)" + key + "}"), HasSubstr(name));
  }
  const char* const off[] = {
      R"("attn_logit_softcapping":null)",
      R"("use_bidirectional_attention":false)",
      R"("is_causal":true)",
      R"("layer_types":["full_attention"])",
      R"("no_rope_layers":[1,1])",
      R"("time_step_limit":[0.0,{"__float__":"Infinity"}])",
      R"("num_kv_shared_layers":0)",
      R"("residual_multiplier":1.0)",
      R"("qk_layernorm":false)",
      R"("mlp_only_layers":[])",
      R"("rotary_pct":1)",
      R"("rope_scaling":null)",
      R"("rope_scaling":{"rope_type":"yarn","truncate":true})",
      R"("rope_scaling":{"rope_type":"yarn","truncate":false})",
      R"("torch_dtype":"bfloat16")",
      R"("attention_dropout":0.5)",
  };
  for (const std::string key : off) {
    const ConfigReading reading = Read(R"({"model_type":"llama",)" + key + "}");
    EXPECT_TRUE(reading.config.ok()) << reading.config.status();
    EXPECT_THAT(reading.remarks, IsEmpty()) << key;
  }
}

TEST(TextConfigTest, UnknownKeysAreRemarkedOnceAndBounded) {
  std::string text = R"({"model_type":"llama","made_by":"x","seed\n":null)";
  EXPECT_THAT(Read(text + "}").remarks,
              ElementsAre("config.json: keys that are not known and not used: \"made_by\""));
  for (int i = 0; i < 20; ++i) text += ",\"k" + std::to_string(i) + "\":1";
  const ConfigReading reading = Read(text + "}");
  ASSERT_EQ(reading.remarks.size(), 1U);
  EXPECT_THAT(reading.remarks[0], HasSubstr(" and 13 more"));
}

TEST(TextConfigTest, WhatTransformersPassesOverIsRemarked) {
  const ConfigReading window = Read(R"({"model_type":"llama","sliding_window":64})");
  ASSERT_TRUE(window.config.ok());
  EXPECT_FALSE(window.config->keys.Has("sliding_window"));
  EXPECT_THAT(window.remarks, ElementsAre(HasSubstr("sliding_window is not used")));
  const ConfigReading rope = Read(
      R"({"model_type":"llama","rope_scaling":{"rope_type":"linear","factor":2},
          "rope_parameters":{"rope_type":"linear","factor":4}})");
  ASSERT_TRUE(rope.config.ok());
  EXPECT_FALSE(rope.config->keys.Has("rope_parameters"));
  EXPECT_THAT(rope.remarks, ElementsAre(HasSubstr("rope_parameters is not used")));
}

// A random file is read or refused without a crash, and remarks stay short.
TEST(TextConfigTest, RandomFilesAreReadOrRefused) {
  const char* const keys[] = {"model_type",         "architectures",  "text_config",
                              "layer_types",        "rope_scaling",   "rope_parameters",
                              "sliding_window",     "is_causal",      "no_rope_layers",
                              "mlp_only_layers",    "attention_bias", "odd",
                              "quantization_config"};
  const char* const values[] = {"null",
                                "true",
                                "\"llama\"",
                                "\"gemma3\"",
                                "[]",
                                "[1]",
                                "[\"LlamaForCausalLM\"]",
                                "[\"\"]",
                                "{}",
                                "-1",
                                "1e300",
                                R"({"model_type":"qwen3","layer_types":[null]})",
                                R"({"full_attention":{"x":{}}})",
                                R"({"rope_type":[]})",
                                "\"\""};
  std::mt19937 random(24);
  int read = 0;
  for (int round = 0; round < 5000; ++round) {
    std::string text = R"({"hidden_size":64)";
    for (const char* key : keys) {
      if (random() % 2 == 0) continue;
      text += ",\"" + std::string(key) + "\":" + values[random() % std::size(values)];
    }
    const ConfigReading reading = Read(text + "}");
    read += reading.config.ok();
    for (const std::string& remark : reading.remarks) EXPECT_LT(remark.size(), 600U);
  }
  EXPECT_GT(read, 50);
}

}  // namespace
}  // namespace tutti::model
