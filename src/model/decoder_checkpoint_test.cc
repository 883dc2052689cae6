#include "model/decoder_checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "gguf/testing/checkpoint.h"
#include "model/testing/decoder_folder.h"
#include "model/weights.h"
#include "safetensors/testing/writer.h"
#include "tokenizer/tokenizer.h"

namespace tutti::model {
namespace {

using gguf::testing::CheckpointSpec;
using testing::DecoderFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
namespace json = boost::json;

// "part 1 has a weight that is not a number", of which of seven files?
TEST(DecoderCheckpointTest, ANumberThatIsNoneIsToldWithItsTensorAndItsShard) {
  DecoderFolder folder("spoiled");
  const std::string shard = "model-00002-of-00002.safetensors";
  ASSERT_TRUE(folder.Open().ok());
  {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    std::fstream file(folder.path() + "/" + shard, std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(-4, std::ios::end);
    file.write(reinterpret_cast<const char*>(&nan), sizeof nan);
  }
  const auto checkpoint = DecoderCheckpoint::Open(folder.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  const Status status = Weights::Load(*checkpoint, {}).status();
  EXPECT_EQ(status.reason(), "model_nonfinite");
  EXPECT_NE(status.message().find("tensor blk.0."), std::string::npos) << status;
  EXPECT_NE(status.message().find(" (model.layers.0."), std::string::npos)
      << "under the name that the file has for it too: " << status;
  EXPECT_NE(status.message().find(" of " + shard), std::string::npos) << status;
}

TEST(DecoderCheckpointTest, AShardedFolderHasConfigurationTokenizerAndWeights) {
  DecoderFolder folder("whole");
  auto checkpoint = folder.Open();
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_EQ(checkpoint->tokenizer.tokens.back(), "[PAD319]");
  EXPECT_EQ(checkpoint->config.architecture, "llama");
  EXPECT_EQ(checkpoint->config.rope_mode, kernels::RopeMode::kHalf);
  EXPECT_TRUE(checkpoint->config.tied_head);
  EXPECT_EQ(checkpoint->MainType(), "F32");
  const auto weights = Weights::Load(*checkpoint, {});
  ASSERT_TRUE(weights.ok()) << weights.status();

  EXPECT_EQ(checkpoint->tokenizer.chat_template, "{{ messages[0]['content'] }}");
  auto tokenizer = tokenizer::Tokenizer::Create(std::move(checkpoint->tokenizer));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_EQ((*tokenizer)->vocabulary_size(), static_cast<int>(DecoderFolder::kRows));
  EXPECT_TRUE((*tokenizer)->vocabulary().IsEog(2));
  EXPECT_TRUE((*tokenizer)->vocabulary().IsEog(0));  // generation_config.json names both
  EXPECT_FALSE((*tokenizer)->vocabulary().IsEog(1));

  // The same tokens as from a GGUF with that vocabulary.
  const auto file = gguf::File::FromSource(
      gguf::MemorySource(gguf::testing::MakeCheckpoint(CheckpointSpec{}).Build()));
  auto other = DecoderCheckpoint::FromGguf(*file);
  ASSERT_TRUE(other.ok()) << other.status();
  const auto reference = tokenizer::Tokenizer::Create(std::move(other->tokenizer));
  ASSERT_TRUE(reference.ok()) << reference.status();
  for (const char* text :
       {"Hello world", "the 12 hens\n of 1999", "<|im_start|>a<|im_end|>", "\xc3\xa9"})
    EXPECT_EQ((*tokenizer)->Encode(text, {.parse_special = true}),
              (*reference)->Encode(text, {.parse_special = true}))
        << text;
}

TEST(DecoderCheckpointTest, ReadsDefaultsAndAnyNumberOfEndsOfAFolder) {
  DecoderFolder folder("generation");
  folder.generation = R"({"eos_token_id":[0,5,6,7,300],"temperature":0.6,"top_p":2})";
  const auto checkpoint = folder.Open();
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_EQ(checkpoint->generation.temperature, 0.6);
  EXPECT_THAT(checkpoint->generation.ends, ElementsAre(0, 5, 6, 7, 300));
  EXPECT_EQ(checkpoint->tokenizer.eos, 2) << "of tokenizer_config.json";
  EXPECT_THAT(checkpoint->tokenizer.ends, ElementsAre(6, 7, 300));
  EXPECT_THAT(checkpoint->remarks, ElementsAre(HasSubstr("top_p is 2")));
}

TEST(DecoderCheckpointTest, TakesEndsOfTheConfigurationWithoutOthers) {
  DecoderFolder folder("ends");
  folder.config["eos_token_id"] = json::array{1};
  folder.config["temperature"] = "0";
  for (const char* generation : {"", R"({"temperature":0.5})"}) {
    folder.generation = generation;
    const auto checkpoint = folder.Open();
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
    EXPECT_THAT(checkpoint->generation.ends, ElementsAre(1));
    EXPECT_TRUE(checkpoint->remarks.empty());
  }
}

TEST(DecoderCheckpointTest, TakesEndsOfTheTextPartWithoutOthers) {
  DecoderFolder folder("text-ends");
  folder.generation = "";
  folder.config["eos_token_id"] = 1;
  folder.config = {{"model_type", "pictures"}, {"text_config", folder.config}};
  const auto inner = folder.Open();
  ASSERT_TRUE(inner.ok()) << inner.status();
  EXPECT_THAT(inner->generation.ends, ElementsAre(1));
  folder.config["eos_token_id"] = 0;
  const auto outer = folder.Open();
  ASSERT_TRUE(outer.ok()) << outer.status();
  EXPECT_THAT(outer->generation.ends, ElementsAre(0));
}

TEST(DecoderCheckpointTest, ReadsDefaultsOfAGguf) {
  gguf::testing::Writer writer = gguf::testing::MakeCheckpoint(CheckpointSpec{});
  writer.F32("general.sampling.temp", 0.3F).F32("general.sampling.min_p", 7);
  const auto file = gguf::File::FromSource(gguf::MemorySource(writer.Build()));
  const auto checkpoint = DecoderCheckpoint::FromGguf(*file);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_EQ(checkpoint->generation.temperature, 0.3);
  EXPECT_THAT(checkpoint->remarks, ElementsAre(HasSubstr("general.sampling.min_p is 7")));
}

TEST(DecoderCheckpointTest, AnAddedTokenBehindTheRowsIsRemarked) {
  DecoderFolder folder("rows");
  for (uint64_t id = gguf::testing::CheckpointTokens().size(); id < DecoderFolder::kRows; ++id)
    folder.added.emplace_back("<more" + std::to_string(id) + ">", id);
  folder.added.emplace_back("<image>", DecoderFolder::kRows);
  const auto checkpoint = folder.Open();
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_EQ(checkpoint->tokenizer.tokens.size(), DecoderFolder::kRows + 1);
  EXPECT_EQ(checkpoint->config.vocab_size, static_cast<int>(DecoderFolder::kRows));
  EXPECT_THAT(checkpoint->remarks, ElementsAre(HasSubstr("1 added token from 320 \"<image>\"")));
  EXPECT_TRUE(Weights::Load(*checkpoint, {}).ok());
}

TEST(DecoderCheckpointTest, AnUnknownModelIsNamedBeforeItsWeightsAreMissed) {
  DecoderFolder folder("unknown");
  ASSERT_TRUE(folder.Open().ok());
  folder.config["model_type"] = "gpt_neo";
  folder.Put("config.json", json::serialize(folder.config));
  std::filesystem::remove(folder.path() + "/model.safetensors.index.json");
  const Status status = DecoderCheckpoint::Open(folder.path()).status();
  EXPECT_EQ(status.reason(), "model_hparam");
  EXPECT_THAT(status.message(), HasSubstr("\"gpt_neo\""));
}

TEST(DecoderCheckpointTest, ModulesThatAreNotFollowedStopVectorsAlone) {
  DecoderFolder folder("modules");
  ASSERT_TRUE(folder.Open().ok());
  folder.Put("modules.json",
             R"([{"type":"a.Transformer"},{"type":"a.Pooling","path":"1_Pooling"}])");
  std::filesystem::create_directories(folder.path() + "/1_Pooling");
  folder.Put("1_Pooling/config.json", R"({"pooling_mode":"mean","embedding_dimension":64})");
  auto checkpoint = folder.Open();
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  ASSERT_TRUE(checkpoint->vectors.ok()) << checkpoint->vectors.status();
  EXPECT_TRUE(checkpoint->vectors->stated);
  EXPECT_EQ(checkpoint->vectors->pooling, Pooling::kMean);
  EXPECT_FALSE(checkpoint->vectors->normalize);
  folder.Put("modules.json", R"([{"type":"a.Pooling","path":"1_Pooling"},{"type":"a.Dense"}])");
  checkpoint = folder.Open();
  ASSERT_TRUE(checkpoint.ok()) << "it still generates: " << checkpoint.status();
  EXPECT_THAT(checkpoint->vectors.status().message(), HasSubstr("Dense"));
  EXPECT_THAT(checkpoint->remarks,
              ::testing::Contains(HasSubstr("generates text and no embeddings or scores: ")));
}

TEST(DecoderCheckpointTest, AnEmbedderNeedsNoHeadAndMayHaveDenseModules) {
  DecoderFolder folder("embedder");
  folder.config["tie_word_embeddings"] = false;
  ASSERT_TRUE(folder.Open().ok());
  std::filesystem::create_directories(folder.path() + "/1_Pooling");
  folder.Put("1_Pooling/config.json", R"({"pooling_mode":"lasttoken","embedding_dimension":64})");
  std::filesystem::create_directories(folder.path() + "/2_Dense");
  folder.Put("2_Dense/config.json", R"({"in_features":64,"out_features":8,
      "activation_function":"torch.nn.modules.linear.Identity"})");
  folder.Put("modules.json", R"([{"type":"a.Transformer"},{"type":"a.Pooling","path":"1_Pooling"},
      {"type":"a.Dense","path":"2_Dense"}])");
  const auto put = [&](uint64_t columns, bool biased, float value) {
    safetensors::testing::Writer writer;
    writer.Floats("linear.weight", {8, columns}, std::vector<float>(8 * columns, value));
    if (biased) writer.Floats("linear.bias", {8}, std::vector<float>(8, 3));
    const auto bytes = writer.Build();
    folder.Put("2_Dense/model.safetensors",
               {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  };
  EXPECT_THAT(folder.Open().status().message(), HasSubstr("2_Dense")) << "without its weights";
  put(64, true, 0.5F);
  const auto checkpoint = folder.Open();
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_TRUE(checkpoint->encodes());
  EXPECT_TRUE(checkpoint->config.tied_head) << "nothing reads a head";
  EXPECT_TRUE(Weights::Check(*checkpoint).ok());
  ASSERT_EQ(checkpoint->head.dense.size(), 1u);
  EXPECT_EQ(checkpoint->head.dense[0].columns, 8u);
  EXPECT_EQ(checkpoint->head.dense[0].weight.size(), 512u);
  EXPECT_EQ(checkpoint->head.dense[0].bias, std::vector<float>(8, 3));
  const auto refused = [&] { return folder.Open().status(); };
  put(32, true, 0.5F);
  EXPECT_EQ(refused().reason(), "st_shape");
  put(64, false, 0.5F);
  EXPECT_EQ(refused().reason(), "model_tensor_missing");
  put(64, true, std::numeric_limits<float>::quiet_NaN());
  EXPECT_EQ(refused().reason(), "model_nonfinite");
}

TEST(DecoderCheckpointTest, AScoreNeedsItsTokensInTheVocabulary) {
  DecoderFolder folder("score");
  ASSERT_TRUE(folder.Open().ok());
  std::filesystem::create_directories(folder.path() + "/1_LogitScore");
  folder.Put("modules.json", R"([{"type":"a.LogitScore","path":"1_LogitScore"}])");
  folder.Put("1_LogitScore/config.json", R"({"true_token_id":9,"false_token_id":17})");
  const auto checkpoint = folder.Open();
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_TRUE(checkpoint->encodes());
  EXPECT_EQ(checkpoint->head.yes, std::vector<float>(64, 0.5F));
  EXPECT_TRUE(checkpoint->config.tied_head) << "nothing reads the other rows";
  folder.Put("1_LogitScore/config.json", R"({"true_token_id":320})");
  EXPECT_THAT(folder.Open().status().message(), HasSubstr("token 320"));
}

TEST(DecoderCheckpointTest, UnreadTokenizerFormatIsRefusedWithHowToConvertIt) {
  DecoderFolder folder("sentencepiece");
  ASSERT_TRUE(folder.Open().ok());
  std::filesystem::remove(folder.path() + "/tokenizer.json");
  const auto answer = [&] {
    const Status status = DecoderCheckpoint::Open(folder.path()).status();
    EXPECT_EQ(status.reason(), "tokenizer_invalid");
    return std::string(status.message());
  };
  EXPECT_EQ(answer(),
            "the folder has no tokenizer.json; copy it from the model that this one was made of, "
            "or save it there with transformers' AutoTokenizer");
  folder.Put("tokenizer.model", "x");
  EXPECT_EQ(answer(),
            "the folder has no tokenizer.json: tokenizer.model is not read; transformers' "
            "AutoTokenizer makes a tokenizer.json of it");
  std::filesystem::remove(folder.path() + "/tokenizer.model");
  folder.Put("spm.model", "x");  // as DeBERTa calls it
  EXPECT_THAT(answer(), HasSubstr(": spm.model is not read"));
}

TEST(DecoderCheckpointTest, WhatIsNotServedIsRefusedByItsKey) {
  const std::pair<json::object, const char*> cases[] = {
      {{{"model_type", "mamba"}}, "model_type is \"mamba\", which is not supported ("},
      {{{"hidden_act", "gelu"}}, "hidden_act is \"gelu\", which is not supported here (silu is)"},
      {{{"mlp_bias", true}}, "mlp_bias"},
      {{{"quantization_config", json::object{}}}, "quantization_config: quant_method"},
      {{{"compression_config", json::object{}}}, "compression_config: quant_method"},
      {{{"rope_scaling", {{"rope_type", "longrope"}}}}, "\"longrope\" is not supported"},
      {{{"model_type", "phi3"}, {"rope_scaling", {{"rope_type", "longrope"}}}},
       "rope_scaling.short_factor is missing"},
      {{{"model_type", "phi3"}, {"rope_scaling", {{"rope_type", "su"}, {"short_factor", {1, 2}}}}},
       "longrope has 2 factors, 16 dimensions rotate"},
      {{{"partial_rotary_factor", 0.5}}, "partial_rotary_factor of 0.5 is not supported in llama"},
      {{{"rope_scaling", "yarn"}}, "rope_scaling must be an object"},
      {{{"rope_parameters", {{"full_attention", 1}}}},
       "rope_parameters.full_attention must be an object"},
      {{{"num_local_experts", 4}}, "num_experts_per_tok is missing"},
      {{{"num_attention_heads", 2}, {"num_key_value_heads", 2}, {"head_dim", 24}},
       "48, not a multiple of 32"},
      {{{"attention_multiplier", 0.5}}, "attention_multiplier of 0.5 is not supported in llama"},
      {{{"vocab_size", 300}}, "vocab_size is 300, token_embd.weight has 320 rows"},
      {{{"hidden_size", nullptr}}, "hidden_size is missing"},
      {{{"intermediate_size", 100}}, "intermediate_size is 100, not a multiple of 32"},
      {{{"rope_scaling",
         {{"rope_type", "llama3"},
          {"factor", 8},
          {"low_freq_factor", 4},
          {"high_freq_factor", 1}}}},
       "rope_scaling.high_freq_factor 1 is below rope_scaling.low_freq_factor 4"},
      {{{"attention_bias", true}}, "blk.0.attn_q.bias"},
      {{{"tie_word_embeddings", false}}, "output.weight"},
      {{{"model_type", "qwen3"}, {"head_dim", 16}}, "blk.0.attn_q_norm.weight"},
      {{{"model_type", "qwen2"}, {"layer_types", json::array{"sliding_attention"}}},
       "layer_types names layers with a window, use_sliding_window is false"},
      {{{"model_type", "qwen2"}, {"layer_types", json::array{"linear_attention"}}},
       "layer_types names \"linear_attention\" for layer 0"},
      {{{"model_type", "qwen3_moe"}, {"mlp_only_layers", json::array{0}}},
       "no layer has experts, though num_experts is 128"},
      {{{"model_type", "qwen3_moe"}, {"mlp_only_layers", json::array{2}}},
       "mlp_only_layers names layer 2; the last is 0"},
      {{{"model_type", "qwen3_moe"}, {"mlp_only_layers", true}},
       "mlp_only_layers must be a list of layers"},
      {{{"model_type", "qwen3_moe"}, {"decoder_sparse_step", 0}},
       "decoder_sparse_step must be a whole number from 1 to"},
      {{{"model_type", "qwen2_moe"}, {"shared_expert_intermediate_size", 40}},
       "experts of 40 are not a multiple of 32"},
      {{{"model_type", "glm4_moe"}, {"n_group", 2}}, "n_group is 2, which is not supported"},
      {{{"model_type", "glm4_moe"}, {"first_k_dense_replace", 1}},
       "first_k_dense_replace must be a whole number from 0 to 0"},
      {{{"model_type", "glm4_moe"}, {"routed_scaling_factor", 0}},
       "routed_scaling_factor must be a number from"},
      {{{"model_type", "qwen3_moe"}, {"moe_intermediate_size", 48}},
       "experts of 48 are not a multiple of 32"},
  };
  for (const auto& [changed, part] : cases) {
    DecoderFolder folder("refused");
    for (const auto& entry : changed) folder.config[entry.key()] = entry.value();
    const auto checkpoint = folder.Open();
    const Status status =
        checkpoint.ok() ? Weights::Load(*checkpoint, {}).status() : checkpoint.status();
    EXPECT_FALSE(status.ok()) << part;
    EXPECT_THAT(status.message(), HasSubstr(part));
  }
}

}  // namespace
}  // namespace tutti::model
