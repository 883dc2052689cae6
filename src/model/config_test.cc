#include "model/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "gguf/file.h"
#include "gguf/testing/checkpoint.h"
#include "kernels/rows_rope.h"
#include "model/families/family.h"
#include "model/testing/config_reading.h"

namespace tutti::model {
namespace {

using gguf::testing::CheckpointSpec;
using gguf::testing::Writer;
using testing::ExpectFolderRefused;
using testing::ExpectRefused;
using ::testing::HasSubstr;
using testing::Keys;
using testing::Read;
using testing::ReadFolder;
using testing::WriteKeys;

TEST(ModelConfigTest, ReadsASoundFileAndFillsDefaults) {
  const auto config = Read({});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->layers, 1);
  EXPECT_EQ(config->width, 32);
  EXPECT_EQ(config->head_dim, 16);
  EXPECT_EQ(config->kv_heads, 1);
  EXPECT_EQ(config->vocab_size, 40);
  EXPECT_EQ(config->rope_freq_base, 10000.0);
  EXPECT_TRUE(config->tied_head);
  EXPECT_FLOAT_EQ(config->attention_shape().scale, 0.25f);
}

TEST(ModelConfigTest, RefusesHyperParametersOutsideTheirRangeWithTheNumbers) {
  ExpectRefused({.layers = 0}, "llama.block_count is 0, outside 1..512");
  ExpectRefused({.layers = 513}, "513");
  ExpectRefused({.layers = 4294967295}, "4294967295");
  ExpectRefused({.layers = -1}, "18446744073709551615");
  ExpectRefused({.context = 0}, "llama.context_length");
  ExpectRefused({.width = 0}, "llama.embedding_length");
  ExpectRefused({.width = 1 << 17}, "131072");
  ExpectRefused({.width = 48}, "not a multiple of 32");
  ExpectRefused({.feed_forward = 40}, "feed_forward_length is 40");
  ExpectRefused({.heads = 0}, "llama.attention.head_count");
  ExpectRefused({.heads = 3}, "does not divide");
  ExpectRefused({.heads = 2, .kv_heads = 3}, "2 attention heads cannot share 3 kv heads");
  ExpectRefused({.width = 96, .heads = 6, .kv_heads = 4},
                "6 attention heads cannot share 4 kv heads");
  ExpectRefused({.rope_dims = 15}, "odd");
  ExpectRefused({.rope_dims = 18}, "llama.rope.dimension_count is 18, outside 0..16");
  ExpectRefused({.heads = 4, .rope_dims = 8}, "head dimension");  // of 8: the kernels start at 16
  ExpectRefused({.eps = 0.0f}, "layer_norm_rms_epsilon");
  ExpectRefused({.eps = std::numeric_limits<float>::quiet_NaN()}, "layer_norm_rms_epsilon");
  ExpectRefused({.eps = std::numeric_limits<float>::infinity()}, "layer_norm_rms_epsilon");
}

TEST(ModelConfigTest, RefusesOtherArchitecturesByName) {
  for (const char* name : {"mamba", "LLAMA", "llama\n"}) {
    Keys keys;
    keys.architecture = name;
    ExpectRefused(keys, "gemma2, gemma3, ");
  }
}

TEST(ModelConfigTest, RefusesWhatLiesBesideAModelByItsType) {
  for (const char* type : {"imatrix", "mmproj", "adapter"}) {
    Keys keys;
    keys.architecture = "clip";
    keys.more = [&](Writer& w) { w.String("general.type", type); };
    ExpectRefused(keys, std::string("the file is of type \"") + type + "\", not a model");
  }
}

TEST(ModelConfigTest, RefusesKeysOfAnotherTypeAndValuesThatDifferByLayer) {
  Writer none;
  none.String("general.architecture", "llama").String("llama.block_count", "2");
  const auto file = gguf::File::FromSource(gguf::MemorySource(none.Build()));
  ASSERT_TRUE(file.ok()) << file.status();
  const auto config = ReadModelConfig(**file);
  EXPECT_EQ(config.status().reason(), "model_hparam");
  EXPECT_THAT(config.status().message(), HasSubstr("llama.block_count is \"2\", not an integer"));

  Keys differing;
  differing.more = [](Writer& w) { w.Int32s("llama.expert_count", std::vector<int32_t>{0, 0, 4}); };
  ExpectRefused(differing, "differs from layer to layer");
}

TEST(ModelConfigTest, RefusesFeaturesItDoesNotCompute) {
  const std::vector<std::pair<std::function<void(Writer&)>, std::string>> cases = {
      {[](Writer& w) { w.U32("llama.expert_count", 8); },
       "does not have the key llama.expert_used_count"},
      {[](Writer& w) { w.U32("llama.expert_count", 8).U32("llama.expert_used_count", 9); },
       "llama.expert_used_count is 9, outside 1..8"},
      {[](Writer& w) { w.U32("llama.nextn_predict_layers", 1); },
       "llama.nextn_predict_layers is 1, but llama.block_count is 1; there must be more blocks"},
      {[](Writer& w) { w.Bool("llama.attention.causal", false); }, "causal"},
      {[](Writer& w) { w.F32("llama.final_logit_softcapping", 30.0f); }, "final_logit_softcapping"},
      {[](Writer& w) { w.F32("llama.residual_scale", 0.22f); }, "residual_scale"},
      {[](Writer& w) { w.F32("llama.logit_scale", NAN); }, "logit_scale"},
      {[](Writer& w) { w.String("llama.rope.scaling.type", "longrope"); },
       "\"longrope\" is not supported (none, linear, dynamic, llama3, yarn are, and longrope in "
       "phi3)"},
      {[](Writer& w) { w.String("llama.rope.scaling.type", "yarn"); }, "llama.rope.scaling.factor"},
      {[](Writer& w) { w.String("llama.rope.scaling.type", "linear"); },
       "llama.rope.scaling.factor"},
      {[](Writer& w) {
         w.String("llama.rope.scaling.type", "linear").F32("llama.rope.scaling.factor", 0.0f);
       },
       "outside"},
      {[](Writer& w) { w.F32("llama.rope.freq_base", 0.0f); }, "freq_base"},
      {[](Writer& w) { w.U32("llama.attention.value_length", 32); }, "differ"},
      {[](Writer& w) { w.U32("llama.vocab_size", 41); },
       "llama.vocab_size is 41, token_embd.weight has 40 rows"},
  };
  for (const auto& [more, part] : cases) {
    Keys keys;
    keys.more = more;
    ExpectRefused(keys, part);
  }
}

TEST(ModelConfigTest, ReadsRopeScalingFromKeysAndFromTheTensor) {
  Keys linear;
  linear.more = [](Writer& w) {
    w.String("llama.rope.scaling.type", "linear").F32("llama.rope.scaling.factor", 4.0f);
  };
  EXPECT_EQ(Read(linear)->rope_linear_factor, 4.0);

  Keys keys;
  keys.more = [](Writer& w) {
    w.String("llama.rope.scaling.type", "llama3")
        .F32("llama.rope.scaling.factor", 8.0f)
        .U32("llama.rope.scaling.original_context_length", 128);
  };
  const auto from_keys = Read(keys);
  ASSERT_TRUE(from_keys.ok()) << from_keys.status();
  EXPECT_EQ(from_keys->rope_freq_factors,
            kernels::Llama3FreqFactors(16, 10000.0, 8.0, 1.0, 4.0, 128.0));

  CheckpointSpec spec;
  spec.rope = gguf::testing::RopeScaling::kLlama3;
  const auto file =
      gguf::File::FromSource(gguf::MemorySource(gguf::testing::MakeCheckpoint(spec).Build()));
  const auto from_tensor = ReadModelConfig(**file);
  ASSERT_TRUE(from_tensor.ok()) << from_tensor.status();
  EXPECT_EQ(from_tensor->rope_freq_factors, gguf::testing::Llama3RopeFactors(64, 10000.0f));
}

TEST(ModelConfigTest, RefusesARopeTensorThatDoesNotFit) {
  const auto with_factors = [](std::vector<float> factors) {
    Keys keys;
    keys.more = [factors](Writer& w) {
      w.Tensor("rope_freqs.weight", tensor::DType::kF32, {factors.size()}, factors);
    };
    return keys;
  };
  ExpectRefused(with_factors(std::vector<float>(9, 1.0f)),
                "rope_freqs.weight is F32 {9}, expected F32 {8}", "gguf_shape");
  std::vector<float> factors(8, 1.0f);
  factors[3] = 0.0f;
  ExpectRefused(with_factors(factors), "factor 0");
  factors[3] = NAN;
  ExpectRefused(with_factors(factors), "not finite", "model_nonfinite");
}

TEST(ModelConfigTest, RefusesAVocabularyOnlyFile) {
  CheckpointSpec spec;
  spec.tensors = false;
  const auto file =
      gguf::File::FromSource(gguf::MemorySource(gguf::testing::MakeCheckpoint(spec).Build()));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(ReadModelConfig(**file).status().reason(), "model_tensor_missing");
}

// Such traits once took another's arithmetic without a word, or ended the server in a check.
TEST(ModelConfigTest, RefusesTraitsThatNoPassComputesTogether) {
  struct Case {
    Status (*describe)(const FamilySource&, ModelConfig&);
    const char* fault;
  };
  const Case cases[] = {
      {[](const FamilySource&, ModelConfig& config) {
         config.layer_norm = true;
         config.experts = 2;
         return OkStatus();
       },
       "LayerNorm in a model with experts"},
      {[](const FamilySource&, ModelConfig& config) {
         config.layer_norm = config.norm_after = true;
         return OkStatus();
       },
       "LayerNorm after a part"},
      {[](const FamilySource&, ModelConfig& config) {
         config.parallel = true;
         config.recurrence = Recurrence::kShortConv;
         config.recurrent = {true};
         return OkStatus();
       },
       "parallel parts in a model with experts or a recurrence"},
      {[](const FamilySource&, ModelConfig& config) {
         config.gated = false;
         config.gate = GateKind::kRelu2;
         config.experts = 2;
         config.expert_bias = true;
         return OkStatus();
       },
       "experts without a gate that have xIELU or biases"},
      {[](const FamilySource&, ModelConfig& config) {
         config.gate = GateKind::kRelu2;
         return OkStatus();
       },
       "a gate with squared ReLU"},
      {[](const FamilySource&, ModelConfig& config) {
         config.gate = GateKind::kXielu;
         return OkStatus();
       },
       "a gate with xIELU"},
      {[](const FamilySource&, ModelConfig& config) {
         config.gated = false;
         return OkStatus();
       },
       "SiLU without a gate"},
  };
  Writer writer;
  WriteKeys(Keys(), writer);
  const auto file = gguf::File::FromSource(gguf::MemorySource(writer.Build()));
  ASSERT_TRUE(file.ok()) << file.status();
  for (const Case& wrong : cases) {
    Family family = *FamilyOfArchitecture("llama");
    family.describe = wrong.describe;
    const auto config = ReadModelConfig(
        family, Form::kGguf, GgufParameters((*file)->header(), "llama."), *MakeTensorStore(**file));
    ASSERT_FALSE(config.ok()) << wrong.fault;
    EXPECT_EQ(config.status().reason(), "model_hparam");
    EXPECT_THAT(config.status().message(), HasSubstr(wrong.fault));
  }
}

TEST(ModelConfigTest, ReadsBothListsOfLongRopesFactors) {
  const std::string phi = R"("model_type":"phi3","original_max_position_embeddings":)";
  const std::string lists = R"(,"rope_scaling":{"type":"longrope",
      "short_factor":[1,1,1,1,1,1,1,1],"long_factor":[2,2,2,2,2,2,2,2]})";
  const auto longer = ReadFolder(phi + "32" + lists);
  ASSERT_TRUE(longer.ok()) << longer.status();
  EXPECT_EQ(longer->context_length, 32);
  EXPECT_EQ(longer->max_context(), 128);
  EXPECT_EQ(longer->rope_long_factors, std::vector<float>(8, 2.0F));
  const auto whole = ReadFolder(phi + "128" + lists);
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_EQ(whole->max_context(), 128);
  EXPECT_EQ(whole->rope_freq_factors, std::vector<float>(8, 1.0F));
  ExpectFolderRefused(phi + R"(32,"rope_scaling":{"type":"longrope",
                              "short_factor":[1,1,1,1,1,1,1,1],"long_factor":[2]})",
                      "longrope has 1 factors, 16 dimensions rotate");
}

}  // namespace
}  // namespace tutti::model
