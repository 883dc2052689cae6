#include "model/config.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "gguf/file.h"
#include "gguf/testing/checkpoint.h"
#include "kernels/rows_rope.h"
#include "model/config_parameters.h"
#include "model/decoder.h"
#include "model/families/family.h"
#include "model/recurrence.h"
#include "model/text_config.h"

namespace tutti::model {
namespace {

using gguf::ValueType;
using gguf::testing::CheckpointSpec;
using gguf::testing::Writer;
using testing::HasSubstr;

// The hyper-parameters of a sound checkpoint, to be spoilt one by one. Written here key by key,
// because a key can be left out of a Writer only by not adding it.
struct Keys {
  std::string architecture = "llama";
  int64_t layers = 1, context = 64, width = 32, feed_forward = 32, heads = 2, kv_heads = 1,
          rope_dims = 16;
  float eps = 1e-5f;
  uint64_t vocabulary = 40;
  std::function<void(Writer&)> more = nullptr;
};

void WriteKeys(const Keys& keys, Writer& writer) {
  writer.String("general.architecture", keys.architecture)
      .U64("llama.block_count", static_cast<uint64_t>(keys.layers))
      .U64("llama.context_length", static_cast<uint64_t>(keys.context))
      .U64("llama.embedding_length", static_cast<uint64_t>(keys.width))
      .U64("llama.feed_forward_length", static_cast<uint64_t>(keys.feed_forward))
      .U64("llama.attention.head_count", static_cast<uint64_t>(keys.heads))
      .U64("llama.attention.head_count_kv", static_cast<uint64_t>(keys.kv_heads))
      .F32("llama.attention.layer_norm_rms_epsilon", keys.eps)
      .U64("llama.rope.dimension_count", static_cast<uint64_t>(keys.rope_dims));
  if (keys.more) keys.more(writer);
  writer.Tensor("token_embd.weight", tensor::DType::kF32, {32, keys.vocabulary},
                std::vector<float>(32 * keys.vocabulary));
}

Result<ModelConfig> Read(const Keys& keys) {
  Writer writer;
  WriteKeys(keys, writer);
  const auto file = gguf::File::FromSource(gguf::MemorySource(writer.Build()));
  CHECK(file.ok()) << file.status();
  return ReadModelConfig(**file);
}

void ExpectRefused(const Keys& keys, const std::string& part,
                   const std::string& reason = "model_hparam") {
  const auto config = Read(keys);
  ASSERT_FALSE(config.ok()) << "expected a refusal about " << part;
  EXPECT_EQ(config.status().reason(), reason) << config.status();
  EXPECT_THAT(config.status().message(), HasSubstr(part));
}

// The configuration of a folder of 4 layers whose config.json has the keys `more` too.
Result<ModelConfig> ReadFolder(const std::string& more) {
  const std::string text =
      R"({"hidden_size":64,"intermediate_size":96,"num_hidden_layers":4,"num_attention_heads":4,
          "num_key_value_heads":2,"rms_norm_eps":1e-5,"max_position_embeddings":128,)" +
      more + "}";
  ASSIGN_OR_RETURN(const JsonFile file, JsonFile::Parse(text, "config.json"));
  std::vector<std::string> remarks;
  ASSIGN_OR_RETURN(const TextConfig config, TextConfig::Read(file, remarks));
  Writer writer;
  writer.Tensor("token_embd.weight", tensor::DType::kF32, {64, 40}, std::vector<float>(64 * 40));
  ASSIGN_OR_RETURN(const auto tensors, gguf::File::FromSource(gguf::MemorySource(writer.Build())));
  return ReadModelConfig(*config.family, Form::kTransformers, ConfigParameters(config.keys),
                         *MakeTensorStore(tensors));
}

void ExpectFolderRefused(const std::string& more, const std::string& part) {
  const auto config = ReadFolder(more);
  ASSERT_FALSE(config.ok()) << more;
  EXPECT_EQ(config.status().reason(), "model_hparam") << config.status();
  EXPECT_THAT(config.status().message(), HasSubstr(part));
}

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

TEST(ModelConfigTest, ReadsWhichLayersOfSmolLm3Rotate) {
  const std::string smollm3 = R"("model_type":"smollm3")";
  using Flags = std::vector<bool>;
  EXPECT_EQ(ReadFolder(smollm3)->unrotated, (Flags{false, false, false, true}));
  EXPECT_EQ(ReadFolder(smollm3 + R"(,"no_rope_layer_interval":2)")->unrotated,
            (Flags{false, true, false, true}));
  EXPECT_EQ(ReadFolder(smollm3 + R"(,"no_rope_layers":[0,1,1,1,0])")->unrotated,
            (Flags{true, false, false, false}));
  const auto refused = [&](const std::string& key, const std::string& part) {
    ExpectFolderRefused(smollm3 + "," + key, part);
  };
  refused(R"("no_rope_layers":[1,0,1])", "no_rope_layers must be a list of 4 flags");
  refused(R"("no_rope_layers":[1,0,2,1])", "no_rope_layers is 2 for layer 2");
  refused(R"("no_rope_layer_interval":0)", "no_rope_layer_interval");
  refused(R"("use_sliding_window":true,"sliding_window":16)", "use_sliding_window");
}

TEST(ModelConfigTest, ReadsBiasesOfSeedOssApart) {
  const std::string seed = R"("model_type":"seed_oss","head_dim":16)";
  EXPECT_TRUE(ReadFolder(seed)->qkv_bias) << "the default of the class";
  EXPECT_FALSE(ReadFolder(seed)->output_bias);
  const auto output = ReadFolder(seed + R"(,"attention_bias":false,"attention_out_bias":true)");
  EXPECT_FALSE(output->qkv_bias);
  EXPECT_TRUE(output->output_bias);
  ExpectFolderRefused(seed + R"(,"mlp_bias":true)", "mlp_bias");
}

TEST(ModelConfigTest, ReadsErnie45WithAdjacentRotation) {
  const std::string ernie = R"("model_type":"ernie4_5","head_dim":16)";
  EXPECT_EQ(ReadFolder(ernie)->rope_mode, kernels::RopeMode::kAdjacent);
  EXPECT_EQ(ReadFolder(ernie)->rope_freq_base, 5e5);
  ExpectFolderRefused(ernie + R"(,"use_bias":true)", "use_bias");
}

TEST(ModelConfigTest, ReadsKindsOfLayersOfOlmo3) {
  const std::string olmo3 = R"("model_type":"olmo3","rope_theta":5e5)";
  const auto listed = ReadFolder(olmo3 + R"(,"sliding_window":16,"layer_types":[
      "full_attention","sliding_attention","full_attention","sliding_attention"])");
  ASSERT_TRUE(listed.ok()) << listed.status();
  EXPECT_EQ(listed->window, 16);
  EXPECT_EQ(listed->windowed, (std::vector<bool>{false, true, false, true}));
  EXPECT_EQ(listed->rope_window_freq_base, 5e5);
  const auto absent = ReadFolder(olmo3);
  ASSERT_TRUE(absent.ok()) << absent.status();
  EXPECT_EQ(absent->window, 128) << "the window of the class, cut to the context";
  EXPECT_EQ(absent->windowed, (std::vector<bool>{true, true, true, false}));
  ExpectFolderRefused(olmo3 + R"(,"sliding_window":null,"layer_types":[
      "full_attention","sliding_attention","full_attention","full_attention"])",
                      "layer_types names layers with a window, but there is no sliding_window");
}

TEST(ModelConfigTest, ReadsRotationOfExaone4FromItsWindows) {
  const std::string exaone = R"("model_type":"exaone4",)";
  using Flags = std::vector<bool>;
  const auto hybrid = ReadFolder(exaone + R"("sliding_window":16,"sliding_window_pattern":2)");
  ASSERT_TRUE(hybrid.ok()) << hybrid.status();
  EXPECT_EQ(hybrid->windowed, (Flags{true, false, true, false}));
  EXPECT_EQ(hybrid->unrotated, (Flags{false, true, false, true}));
  const auto published = ReadFolder(exaone + R"("sliding_window_pattern":"LLLG","layer_types":[
      "sliding_attention","sliding_attention","sliding_attention","full_attention"])");
  ASSERT_TRUE(published.ok()) << published.status();
  EXPECT_EQ(published->unrotated, (Flags{false, false, false, true}));
  const auto full = ReadFolder(exaone + R"("sliding_window":null,"sliding_window_pattern":null)");
  ASSERT_TRUE(full.ok()) << full.status();
  EXPECT_EQ(full->window, 0);
  EXPECT_TRUE(full->rotates(3));
  ExpectFolderRefused(exaone + R"("sliding_window_pattern":"LLLG")", "sliding_window_pattern");
}

TEST(ModelConfigTest, ReadsTheFirstGemma) {
  const std::string gemma = R"("model_type":"gemma","head_dim":16)";
  const auto config = ReadFolder(gemma);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->gate, GateKind::kGeluTanh);
  EXPECT_EQ(config->embedding_scale, 8.0);
  EXPECT_TRUE(config->tied_head);
  EXPECT_TRUE(
      ReadFolder(gemma + R"(,"hidden_act":"gelu","hidden_activation":"gelu_pytorch_tanh")").ok());
  ExpectFolderRefused(gemma + R"(,"hidden_act":"gelu")", "hidden_act is \"gelu\"");
  ExpectFolderRefused(gemma + R"(,"use_bidirectional_attention":true)",
                      "use_bidirectional_attention");
}

// The sizes of heads in layers of both kinds, as 5.24 of transformers writes them and as older
// files have them.
TEST(ModelConfigTest, ReadsTheLayerShapesOfGemma4) {
  const std::string gemma = R"("model_type":"gemma4_text","head_dim":32,"sliding_window":16,
      "hidden_size_per_layer_input":0,"layer_types":["sliding_attention","full_attention",
      "sliding_attention","full_attention"],)";
  const std::string older = R"("attention_k_eq_v":true,"global_head_dim":64,
      "num_global_key_value_heads":1)";
  const std::string newer = R"("attention_k_eq_v":true,"per_layer_config":{
      "1":{"head_dim":64,"num_key_value_heads":1},"3":{"head_dim":64,"num_key_value_heads":1}})";
  for (const std::string& sizes : {older, newer}) {
    const auto config = ReadFolder(gemma + sizes);
    ASSERT_TRUE(config.ok()) << config.status();
    EXPECT_EQ(config->windowed, (std::vector<bool>{true, false, true, false}));
    EXPECT_EQ(config->head_dim_of(0), 32);
    EXPECT_EQ(config->head_dim_of(1), 64);
    EXPECT_EQ(config->kv_heads_of(0), 2);
    EXPECT_EQ(config->kv_heads_of(1), 1);
    EXPECT_TRUE(config->window_heads_differ());
    EXPECT_TRUE(config->has_values(0));
    EXPECT_FALSE(config->has_values(1));
    EXPECT_EQ(config->attention_scale, 1.0);
    EXPECT_EQ(config->attention_shape(true).rope_dims, 32);
    // A quarter of 32 pairs turns.
    ASSERT_EQ(config->rope_freq_factors.size(), 32U);
    EXPECT_EQ(config->rope_freq_factors[7], 1.0F);
    EXPECT_GT(config->rope_freq_factors[8], 1e29F);
    // int8 keys and values of 32 tokens, with two scales each.
    const kernels::KernelTable& table = kernels::KernelsFor(kernels::Isa::kScalar);
    const size_t window = 2 * (2 * 2 * 32 * 32 + 2 * 2 * 32 * 4);
    const size_t full = 2 * (2 * 64 * 32 + 2 * 32 * 4);
    EXPECT_EQ(Decoder::WindowBlockBytes(*config, WeightMode::kInt8, table), window);
    EXPECT_EQ(Decoder::KvBlockBytes(*config, WeightMode::kInt8, table), window + full);
  }
  const auto plain = ReadFolder(gemma + R"("global_head_dim":32,"num_global_key_value_heads":1)");
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_EQ(plain->kv_heads, 2) << "that number has no effect where values are not keys";
  EXPECT_FALSE(plain->window_heads_differ());
  const auto whole = ReadFolder(gemma + R"("per_layer_config":{})");
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_EQ(whole->head_dim, 32);

  const auto refused = [&](const std::string& keys, const std::string& part) {
    ExpectFolderRefused(gemma + keys, part);
  };
  refused(R"("per_layer_config":{"1":{"head_dim":64}})", "per_layer_config");
  refused(R"("per_layer_config":{"0":{"head_dim":64},"1":{"head_dim":64},"3":{"head_dim":64}})",
          "per_layer_config");
  refused(R"("per_layer_config":{"1":{"head_dim":64},"3":{"head_dim":32}})", "per_layer_config");
  refused(R"("per_layer_config":{"1":{"x":1},"3":{"x":1}})", "per_layer_config has \"x\"");
  refused(R"("per_layer_config":7)", "per_layer_config must be an object");
  refused(R"("global_head_dim":24)", "multiple of 16 from 16 to 512");
  refused(R"("global_head_dim":528)", "multiple of 16 from 16 to 512");
  refused(R"("attention_k_eq_v":true,"num_global_key_value_heads":3)", "3 kv heads");
  refused(R"("use_bidirectional_attention":"all")", "use_bidirectional_attention");
  refused(R"("hidden_activation":"silu")", "hidden_activation");
  refused(R"("attention_bias":true)", "attention_bias");
}

TEST(ModelConfigTest, ReadsWhatLayersOfGemma4Share) {
  const std::string gemma = R"("model_type":"gemma4_text","head_dim":32,"global_head_dim":32,
      "sliding_window":16,"layer_types":["sliding_attention","full_attention",
      "sliding_attention","full_attention"],"vocab_size_per_layer_input":40,)";
  const auto config = ReadFolder(gemma + R"("hidden_size_per_layer_input":32,
      "num_kv_shared_layers":2,"use_double_wide_mlp":true)");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->kv_layer, (std::vector<int>{0, 1, 0, 1}));
  EXPECT_EQ(config->feed_forwards, (std::vector<int>{96, 96, 192, 192}));
  EXPECT_EQ(config->layer_inputs, 32);
  const kernels::KernelTable& table = kernels::KernelsFor(kernels::Isa::kScalar);
  const size_t layer = 2 * 2 * (32 * 32 + 32 * 4);  // int8, two kv heads
  EXPECT_EQ(Decoder::WindowBlockBytes(*config, WeightMode::kInt8, table), layer);
  EXPECT_EQ(Decoder::KvBlockBytes(*config, WeightMode::kInt8, table), 2 * layer);

  const auto refused = [&](const std::string& keys, const std::string& part) {
    ExpectFolderRefused(gemma + keys, part);
  };
  const std::string none = R"("hidden_size_per_layer_input":0,)";
  refused(none + R"("num_kv_shared_layers":3)", "no layer of its kind has keys for layer 1");
  refused(none + R"("num_kv_shared_layers":4)", "num_kv_shared_layers is 4 of 4 layers");
  refused(none + R"("num_kv_shared_layers":-1)", "num_kv_shared_layers");
  refused(R"("hidden_size_per_layer_input":24)", "hidden_size_per_layer_input is 24");
  refused(R"("hidden_size_per_layer_input":32,"vocab_size_per_layer_input":39)",
          "vocab_size_per_layer_input is 39, but there are 40 tokens");
  refused(none + R"("enable_moe_block":true)", "num_experts is missing");
  refused(none + R"("enable_moe_block":true,"num_experts":4,"top_k_experts":5)", "top_k_experts");
  refused(none + R"("enable_moe_block":true,"num_experts":4,"top_k_experts":2)",
          "moe_intermediate_size is missing");
}

constexpr std::string_view kGemma3n = R"("model_type":"gemma3n_text","head_dim":32,
    "sliding_window":16,"hidden_size_per_layer_input":32,"vocab_size_per_layer_input":36,
    "laurel_rank":32,"layer_types":["sliding_attention","full_attention","sliding_attention",
    "sliding_attention"],)";

TEST(ModelConfigTest, ReadsTheStreamsOfGemma3n) {
  // The keys of the published files that change no answer, too.
  const auto config = ReadFolder(std::string(kGemma3n) + R"("num_kv_shared_layers":2,
      "activation_sparsity_pattern":[0.95,0.0,0.5,0.999999],"intermediate_size":[96,96,64,32],
      "altup_active_idx":2,"query_pre_attn_scalar":256,"altup_coef_clip":120.0,
      "altup_lr_multiplier":1.0,"rope_local_base_freq":5e3,"final_logit_softcapping":null)");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->streams, 4);
  EXPECT_EQ(config->active_stream, 2);
  EXPECT_EQ(config->laurel_rank, 32);
  EXPECT_EQ(config->layer_inputs, 32);
  EXPECT_EQ(config->layer_vocab, 36) << "tokens beyond have the row of token 0";
  EXPECT_EQ(config->feed_forwards, (std::vector<int>{96, 96, 64, 32}));
  EXPECT_EQ(config->kv_layer, (std::vector<int>{0, 1, 0, 0}));
  EXPECT_EQ(config->rope_window_freq_base, 5e3);
  EXPECT_EQ(config->attention_scale, 1.0);
  EXPECT_EQ(config->logit_softcap, 0);
  // Quantiles of a normal distribution.
  EXPECT_NEAR(config->gate_cutoffs[0], 1.6448536, 1e-6);
  EXPECT_FALSE(config->cuts_gates(1));
  EXPECT_NEAR(config->gate_cutoffs[2], 0, 1e-6);
  EXPECT_TRUE(config->cuts_gates(2));
  EXPECT_NEAR(config->gate_cutoffs[3], 4.7534243, 1e-5);
  const kernels::KernelTable& table = kernels::KernelsFor(kernels::Isa::kScalar);
  const size_t layer = 2 * 2 * (32 * 32 + 32 * 4);  // int8, two kv heads
  EXPECT_EQ(Decoder::WindowBlockBytes(*config, WeightMode::kInt8, table), layer);
  EXPECT_EQ(Decoder::KvBlockBytes(*config, WeightMode::kInt8, table), 2 * layer);

  // The defaults of transformers' class: gates are cut in the first ten layers of more.
  const auto few = ReadFolder(std::string(kGemma3n) + R"("num_kv_shared_layers":0)");
  ASSERT_TRUE(few.ok()) << few.status();
  EXPECT_EQ(few->logit_softcap, 30);
  for (int i = 0; i < 4; ++i) EXPECT_FALSE(few->cuts_gates(i)) << i;
  const auto full =
      ReadFolder(std::string(kGemma3n) +
                 R"("num_kv_shared_layers":0,"layer_types":["full_attention","full_attention",
        "full_attention","full_attention"])");
  ASSERT_TRUE(full.ok()) << full.status();
  EXPECT_EQ(full->window, 0);
}

TEST(ModelConfigTest, RefusesFaultsOfGemma3n) {
  const auto refused = [&](const std::string& keys, const std::string& part) {
    ExpectFolderRefused(std::string(kGemma3n) + R"("num_kv_shared_layers":0,)" + keys, part);
  };
  for (const char* streams : {"0", "1", "9", "2.0", "\"4\""})
    refused(std::string(R"("altup_num_inputs":)") + streams, "altup_num_inputs");
  refused(R"("altup_active_idx":4)", "altup_active_idx must be a whole number from 0 to 3");
  refused(R"("altup_active_idx":-1)", "altup_active_idx");
  refused(R"("altup_correct_scale":false)", "altup_correct_scale");
  for (const char* rank : {"0", "16", "48"})
    refused(std::string(R"("laurel_rank":)") + rank, "laurel_rank");
  for (const char* parts : {"[0.0,0.0,0.0]", "[0.0,0.0,0.0,0.0,0.0]", "[0.0,1.0,0.0,0.0]",
                            "[0.0,-0.1,0.0,0.0]", "[0.0,\"0.5\",0.0,0.0]", "0.5", "[]", "{}"})
    refused(std::string(R"("activation_sparsity_pattern":)") + parts,
            "activation_sparsity_pattern must be a list of 4 numbers");
  refused(R"("intermediate_size":[96,96,96])", "intermediate_size");
  refused(R"("intermediate_size":[96,96,96,40])", "intermediate_size is 40 in layer 3");
  refused(R"("intermediate_size":[96,96,96,"96"])", "intermediate_size");
  refused(R"("num_key_value_heads":[2,2,2,2])", "num_key_value_heads");
  refused(R"("hidden_size_per_layer_input":0)", "hidden_size_per_layer_input is 0");
  refused(R"("hidden_size_per_layer_input":24)", "hidden_size_per_layer_input is 24");
  refused(R"("vocab_size_per_layer_input":0)", "vocab_size_per_layer_input is 0");
  refused(R"("vocab_size_per_layer_input":41)", "vocab_size_per_layer_input is 41");
  refused(R"("hidden_activation":"silu")", "hidden_activation");
  refused(R"("attention_bias":true)", "attention_bias");
  refused(R"("rope_parameters":{"sliding_attention":{"rope_type":"linear"}})", "rope_type");
  ExpectFolderRefused(std::string(kGemma3n) + R"("num_kv_shared_layers":3)",
                      "no layer of its kind has keys for layer 1");
  ExpectFolderRefused(std::string(kGemma3n) + R"("num_kv_shared_layers":4)",
                      "num_kv_shared_layers is 4 of 4 layers");
  ExpectFolderRefused(std::string(kGemma3n) + R"("layer_scales":1)",
                      "num_kv_shared_layers is 15 of 4 layers");
}

// A GGUF has bounds of gates where a folder has shares, and the rank in its tensors' shape.
TEST(ModelConfigTest, ReadsAGgufOfGemma3n) {
  constexpr float kNone = -std::numeric_limits<float>::infinity();
  struct Variant {
    std::vector<float> cutoffs = {1.5F, kNone, kNone};
    uint32_t streams = 4, active = 1, rank = 32;
    bool left = true;
    float shared = 1;  // a float in published files
  };
  const auto read = [](const Variant& variant) {
    Writer writer;
    writer.String("general.architecture", "gemma3n");
    for (const auto& [key, value] : std::initializer_list<std::pair<const char*, uint32_t>>{
             {"block_count", 3},
             {"context_length", 64},
             {"embedding_length", 32},
             {"feed_forward_length", 32},
             {"attention.head_count", 2},
             {"attention.head_count_kv", 1},
             {"attention.key_length", 16},
             {"attention.value_length", 16},
             {"attention.sliding_window", 16},
             {"embedding_length_per_layer_input", 32},
             {"altup.num_inputs", variant.streams},
             {"altup.active_idx", variant.active}})
      writer.U32(fmt::format("gemma3n.{}", key), value);
    writer.F32("gemma3n.attention.layer_norm_rms_epsilon", 1e-6F);
    writer.F32("gemma3n.attention.shared_kv_layers", variant.shared);
    if (!variant.cutoffs.empty())
      writer.Floats("gemma3n.activation_sparsity_scale", variant.cutoffs);
    writer.Tensor("token_embd.weight", tensor::DType::kF32, {32, 40}, std::vector<float>(32 * 40));
    if (variant.left)
      writer.Tensor("blk.0.laurel_l.weight", tensor::DType::kF32, {32, variant.rank},
                    std::vector<float>(size_t{32} * variant.rank));
    const auto file = gguf::File::FromSource(gguf::MemorySource(writer.Build()));
    CHECK(file.ok()) << file.status();
    return ReadModelConfig(**file);
  };
  const auto config = read({});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_TRUE(config->cuts_gates(0));
  EXPECT_FALSE(config->cuts_gates(1));
  EXPECT_EQ(config->gate_cutoffs[0], 1.5F);
  EXPECT_EQ(config->laurel_rank, 32);
  EXPECT_EQ(config->active_stream, 1);
  EXPECT_EQ(config->layer_vocab, 40);
  EXPECT_EQ(config->logit_softcap, 30) << "without a key";
  EXPECT_EQ(config->kv_layer, (std::vector<int>{0, 1, 1}));

  const auto refused = [&](const Variant& variant, const std::string& part,
                           const std::string& reason = "model_hparam") {
    const auto faulty = read(variant);
    ASSERT_FALSE(faulty.ok()) << part;
    EXPECT_EQ(faulty.status().reason(), reason);
    EXPECT_THAT(faulty.status().message(), HasSubstr(part));
  };
  const std::string cutoffs = "gemma3n.activation_sparsity_scale";
  refused({.cutoffs = {}}, cutoffs);
  refused({.cutoffs = {1.5F}}, cutoffs);
  refused({.cutoffs = {1.5F, kNone, std::numeric_limits<float>::quiet_NaN()}}, cutoffs);
  refused({.cutoffs = {1.5F, kNone, -kNone}}, cutoffs);
  for (const float shared : {-1.0F, 1.5F, kNone, 1e9F})
    refused({.shared = shared}, "gemma3n.attention.shared_kv_layers");
  refused({.streams = 1, .active = 0}, "gemma3n.altup.num_inputs");
  refused({.streams = 9}, "gemma3n.altup.num_inputs");
  refused({.active = 4}, "gemma3n.altup.active_idx");
  refused({.rank = 16}, "laurel_rank is 16");
  refused({.left = false}, "blk.0.laurel_l.weight", "model_tensor_missing");
}

TEST(ModelConfigTest, ReadsTheLayersOfLfm2) {
  const std::string lfm2 = R"("model_type":"lfm2",)";
  const std::string kinds = R"("layer_types":["conv","full_attention","conv","conv"])";
  const auto config = ReadFolder(lfm2 + kinds);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->recurrence, Recurrence::kShortConv);
  EXPECT_EQ(config->recurrent, (std::vector<bool>{true, false, true, true}));
  EXPECT_EQ(config->attention_layers(), 1);
  EXPECT_EQ(config->conv_taps, 3);
  EXPECT_EQ(config->feed_forward, 256) << "two thirds of 96, rounded up";
  EXPECT_EQ(Decoder::StateBytes(*config), 3U * 2 * 64 * sizeof(float));
  const auto listed = ReadFolder(lfm2 + R"("full_attn_idxs":[1],"block_auto_adjust_ff_dim":false)");
  ASSERT_TRUE(listed.ok()) << listed.status();
  EXPECT_EQ(listed->recurrent, config->recurrent);
  EXPECT_EQ(listed->feed_forward, 96);

  // Its recurrence once stayed with no layer to run it, which a check of the first step ended.
  const auto attentive = ReadFolder(lfm2 + R"("full_attn_idxs":[0,1,2,3])");
  ASSERT_TRUE(attentive.ok()) << attentive.status();
  EXPECT_EQ(attentive->recurrence, Recurrence::kNone);
  EXPECT_TRUE(attentive->recurrent.empty());
  EXPECT_EQ(ShapeOfRecurrence(*attentive).state_floats, 0U);

  ExpectFolderRefused(lfm2 + kinds + R"(,"conv_L_cache":5)", "convolutions see 2 to 4 tokens");
  ExpectFolderRefused(lfm2 + kinds + R"(,"conv_L_cache":1)", "conv_L_cache");
  ExpectFolderRefused(lfm2 + kinds + R"(,"block_multiple_of":0)", "block_multiple_of");
  ExpectFolderRefused(lfm2 + kinds + R"(,"block_ffn_dim_multiplier":1e-3)",
                      "feed-forward of 0 rows");
  ExpectFolderRefused(lfm2 + R"("layer_types":["conv","conv","conv","conv"])",
                      "no layer has attention");
  ExpectFolderRefused(lfm2 + R"("layer_types":["conv","full_attention","conv"])",
                      "a list of 4 kinds");
  ExpectFolderRefused(lfm2 + R"("layer_types":["conv","full_attention","conv","mamba"])",
                      "names \"mamba\" for layer 3");
  ExpectFolderRefused(lfm2 + R"("full_attn_idxs":[1,4])", "full_attn_idxs");
}

TEST(ModelConfigTest, ReadsMamba2OfGranite4) {
  const std::string granite = R"("model_type":"granitemoehybrid","num_local_experts":0,
      "shared_intermediate_size":128,)";
  const std::string kinds = R"("layer_types":["mamba","mamba","attention","mamba"],)";
  const std::string heads = R"("mamba_n_heads":4,"mamba_d_state":16)";
  const auto config = ReadFolder(granite + kinds + heads);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->recurrence, Recurrence::kMamba2);
  EXPECT_EQ(config->attention_layers(), 1);
  EXPECT_EQ(config->feed_forward, 128);
  EXPECT_EQ(config->state_values, 32);
  EXPECT_TRUE(config->conv_bias);
  EXPECT_EQ(config->rope_mode, kernels::RopeMode::kNone);
  const size_t convolution = 3 * (128 + 2 * 16), state = 4 * 16 * 32;
  EXPECT_EQ(Decoder::StateBytes(*config), 3 * (convolution + state) * sizeof(float));
  const auto renamed = ReadFolder(granite + R"("layer_types":["linear_attention",
      "linear_attention","full_attention","linear_attention"],)" +
                                  heads);  // by transformers 5
  ASSERT_TRUE(renamed.ok()) << renamed.status();
  EXPECT_EQ(renamed->recurrent, config->recurrent);
  const auto dense = ReadFolder(granite + R"("position_embedding_type":"rope",
      "layer_types":["attention","attention","attention","attention"])");
  ASSERT_TRUE(dense.ok()) << dense.status();
  EXPECT_EQ(Decoder::StateBytes(*dense), 0U);
  EXPECT_EQ(dense->rope_mode, kernels::RopeMode::kHalf);

  ExpectFolderRefused(granite + kinds + R"("mamba_n_heads":4,"mamba_d_state":12)",
                      "keys are not a multiple of 16");
  ExpectFolderRefused(granite + kinds + R"("mamba_n_heads":16,"mamba_d_state":16)",
                      "values of a head are not a multiple of 16");
  ExpectFolderRefused(granite + kinds + R"("mamba_n_heads":3,"mamba_d_state":16)",
                      "3 heads do not share 128 values evenly");
  ExpectFolderRefused(granite + kinds + heads + R"(,"mamba_n_groups":3)",
                      "groups do not share heads evenly");
  ExpectFolderRefused(granite + kinds + heads + R"(,"mamba_d_head":64)", "mamba_d_head 64");
  ExpectFolderRefused(granite + kinds + heads + R"(,"mamba_d_conv":9)",
                      "convolutions see 2 to 4 tokens");
}

TEST(ModelConfigTest, ReadsTheExpertsOfGranite4) {
  const std::string granite = R"("model_type":"granitemoehybrid",
      "layer_types":["mamba","mamba","attention","mamba"],"mamba_n_heads":4,"mamba_d_state":16,
      "num_experts_per_tok":2,)";
  const auto config =
      ReadFolder(granite + R"("num_local_experts":6,"shared_intermediate_size":160)");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->experts, 6);
  EXPECT_EQ(config->experts_used, 2);
  EXPECT_EQ(config->expert_feed_forward, config->feed_forward);
  EXPECT_EQ(config->shared_feed_forward, 160);
  EXPECT_FALSE(config->shared_gate);
  const auto alone = ReadFolder(granite + R"("num_local_experts":6,"shared_intermediate_size":0)");
  ASSERT_TRUE(alone.ok()) << alone.status();
  EXPECT_EQ(alone->shared_feed_forward, 0);
  ExpectFolderRefused(granite + R"("num_local_experts":1)", "num_experts_per_tok");
  ExpectFolderRefused(granite + R"("num_local_experts":6,"shared_intermediate_size":40)",
                      "not a multiple of 32");
  ExpectFolderRefused(R"("model_type":"granitemoe","num_local_experts":0)",
                      "num_local_experts is missing");
}

TEST(ModelConfigTest, ReadsGatedDeltaNetOfQwen3Next) {
  const std::string next = R"("model_type":"qwen3_next","head_dim":32)";
  const std::string dense = next + R"(,"num_experts":0)";
  const std::string keys = R"(,"linear_num_key_heads":2,"linear_key_head_dim":16)";
  const std::string values = R"(,"linear_num_value_heads":4,"linear_value_head_dim":32)";
  const auto config = ReadFolder(dense + keys + values);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->recurrence, Recurrence::kDeltaNet);
  EXPECT_EQ(config->recurrent, (std::vector<bool>{true, true, true, false}));
  EXPECT_TRUE(config->attention_gate);
  EXPECT_FALSE(config->tiled_heads);
  EXPECT_EQ(config->rope_dims, 8);
  EXPECT_EQ(config->experts, 0);
  const size_t convolution = 3 * (4 * 32 + 2 * 2 * 16), state = 4 * 16 * 32;
  EXPECT_EQ(Decoder::StateBytes(*config), 3 * (convolution + state) * sizeof(float));
  const auto every = ReadFolder(dense + keys + values + R"(,"full_attention_interval":2)");
  ASSERT_TRUE(every.ok()) << every.status();
  EXPECT_EQ(every->recurrent, (std::vector<bool>{true, false, true, false}));
  const auto mixture = ReadFolder(next + keys + values + R"(,"num_experts":4,
      "num_experts_per_tok":2,"moe_intermediate_size":32,"shared_expert_intermediate_size":64,
      "mlp_only_layers":[1])");
  ASSERT_TRUE(mixture.ok()) << mixture.status();
  EXPECT_EQ(mixture->shared_feed_forward, 64);
  EXPECT_TRUE(mixture->shared_gate);
  EXPECT_TRUE(mixture->has_experts(0));
  EXPECT_FALSE(mixture->has_experts(1));

  ExpectFolderRefused(dense + keys + R"(,"linear_num_value_heads":3,"linear_value_head_dim":32)",
                      "groups do not share heads evenly");
  ExpectFolderRefused(dense + keys + R"(,"linear_num_value_heads":4,"linear_value_head_dim":8)",
                      "values of a head are not a multiple of 16");
  ExpectFolderRefused(dense + values + R"(,"linear_num_key_heads":2,"linear_key_head_dim":4)",
                      "keys are not a multiple of 16");
  ExpectFolderRefused(dense + values + R"(,"linear_num_key_heads":0)", "linear_num_key_heads");
  ExpectFolderRefused(dense + keys + values + R"(,"linear_conv_kernel_dim":5)",
                      "convolutions see 2 to 4 tokens");
  ExpectFolderRefused(dense + keys + values + R"(,"full_attention_interval":0)",
                      "full_attention_interval");
  ExpectFolderRefused(dense + keys + values + R"(,"full_attention_interval":5)",
                      "no layer has attention");
  ExpectFolderRefused(dense + keys + values + R"(,"layer_types":["linear_attention","mamba",
      "linear_attention","full_attention"])",
                      "names \"mamba\" for layer 1");
  ExpectFolderRefused(dense + keys + values + R"(,"attention_bias":true)", "attention_bias");
  ExpectFolderRefused(next + keys + values + R"(,"num_experts":4,"num_experts_per_tok":5)",
                      "num_experts_per_tok");
}

TEST(ModelConfigTest, ReadsAttentionAndMamba2OfFalconH1) {
  const std::string falcon = R"("model_type":"falcon_h1","mamba_d_ssm":128,"mamba_n_heads":4,
      "mamba_d_state":16)";
  const auto config = ReadFolder(falcon + R"(,"attention_in_multiplier":2.0,"key_multiplier":0.5,
      "attention_out_multiplier":3.0,"mlp_multipliers":[0.5,2.0],"ssm_in_multiplier":4.0,
      "ssm_multipliers":[1.0,2.0,3.0,4.0,5.0],"ssm_out_multiplier":8.0,"lm_head_multiplier":0.25,
      "embedding_multiplier":6.0)");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->recurrent_layers(), 4);
  EXPECT_EQ(config->attention_layers(), 4);
  EXPECT_FALSE(config->state_norm);
  EXPECT_EQ(config->embedding_scale, 6);
  EXPECT_EQ(config->logit_scale, 0.25);
  EXPECT_EQ(config->residual_scale, 4);
  EXPECT_EQ(config->ffn_norm_scale, 0.5);
  EXPECT_EQ(config->value_scale, 1.5);
  EXPECT_EQ(config->attention_scale, 0.5);
  EXPECT_EQ(config->state_scales, (StateScales{4, 8, 12, 16, 20, 2}));
  const auto widened = ReadFolder(R"("model_type":"falcon_h1","mamba_d_ssm":null,
      "mamba_n_heads":4,"mamba_d_state":16,"mamba_d_head":"auto")");
  ASSERT_TRUE(widened.ok()) << widened.status();
  EXPECT_EQ(widened->state_values, 32);

  ExpectFolderRefused(falcon + R"(,"mlp_multipliers":[1.0])", "has 1 numbers, 2 are needed");
  ExpectFolderRefused(falcon + R"(,"ssm_multipliers":[1.0,1.0,1.0,1.0,0.0])", "ssm_multipliers");
  ExpectFolderRefused(falcon + R"(,"ssm_in_multiplier":-1.0)", "ssm_in_multiplier");
  ExpectFolderRefused(falcon + R"(,"mamba_proj_bias":true)", "mamba_proj_bias is true");
  ExpectFolderRefused(falcon + R"(,"projectors_bias":true)", "projectors_bias is true");
  ExpectFolderRefused(falcon + R"(,"mamba_rms_norm":true)", "mamba_norm_before_gate is true");
  ExpectFolderRefused(falcon + R"(,"mamba_d_head":16)", "mamba_d_head 16");
}

TEST(ModelConfigTest, ReadsLayersOfOnePartOfNemotronH) {
  const std::string shape = R"("model_type":"nemotron_h","head_dim":16,"mamba_num_heads":2,
      "mamba_head_dim":32,"ssm_state_size":16,"n_groups":1)";
  const auto config = ReadFolder(shape + R"(,"hybrid_override_pattern":"M-*-")");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->recurrent, (std::vector<bool>{true, false, false, false}));
  EXPECT_EQ(config->feed_forward_alone, (std::vector<bool>{false, true, false, true}));
  EXPECT_EQ(config->attention_layers(), 1);
  EXPECT_TRUE(config->has_attention(2));
  EXPECT_FALSE(config->has_feed_forward(2));
  EXPECT_EQ(config->state_values, 32);
  EXPECT_EQ(config->rope_mode, kernels::RopeMode::kNone);
  EXPECT_EQ(
      ReadFolder(shape + R"(,"attention_head_dim":32,"hybrid_override_pattern":"M-*-")")->head_dim,
      32);
  const auto listed = ReadFolder(shape + R"(,"layers_block_type":["mamba","mlp","attention",
      "linear_attention"])");
  ASSERT_TRUE(listed.ok()) << listed.status();
  EXPECT_EQ(listed->recurrent, (std::vector<bool>{true, false, false, true}));

  ExpectFolderRefused(shape, "hybrid_override_pattern");
  ExpectFolderRefused(shape + R"(,"hybrid_override_pattern":"M-*")", "for each of 4 layers");
  ExpectFolderRefused(shape + R"(,"hybrid_override_pattern":"M-*x")", "must have M, *, - or E");
  ExpectFolderRefused(shape + R"(,"hybrid_override_pattern":"-*--")", "has Mamba-2");
  const auto of_width = [](int width) {
    return fmt::format(R"("model_type":"nemotron_h","head_dim":16,"mamba_num_heads":2,
        "mamba_head_dim":{},"ssm_state_size":16,"n_groups":1,"hybrid_override_pattern":"M-*-")",
                       width);
  };
  const auto nano = ReadFolder(of_width(80));  // as Nemotron Nano 9B v2
  ASSERT_TRUE(nano.ok()) << nano.status();
  const size_t convolution = 3 * (2 * 80 + 2 * 16), state = 2 * 80 * 16;
  EXPECT_EQ(Decoder::StateBytes(*nano), (convolution + state) * sizeof(float));
  ExpectFolderRefused(of_width(24), "values of a head are not a multiple of 16");
  ExpectFolderRefused(shape + R"(,"hybrid_override_pattern":"M-M-")", "no layer has attention");
  ExpectFolderRefused(shape + R"(,"layers_block_type":["mamba","mlp"])", "a list of 4 kinds");
  ExpectFolderRefused(shape + R"(,"hybrid_override_pattern":"M-*-","mlp_hidden_act":"silu")",
                      "mlp_hidden_act");
}

TEST(ModelConfigTest, ReadsTheExpertsOfNemotron3) {
  const std::string shape = R"("model_type":"nemotron_h","head_dim":16,"mamba_num_heads":2,
      "mamba_head_dim":32,"ssm_state_size":16,"n_groups":1,"hybrid_override_pattern":"ME*-",
      "n_routed_experts":6,"num_experts_per_tok":2,"moe_intermediate_size":32)";
  const std::string shared = R"(,"moe_shared_expert_intermediate_size":96)";
  const auto config =
      ReadFolder(shape + shared + R"(,"routed_scaling_factor":2.5,"moe_latent_size":null)");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->architecture, "nemotron_h_moe");
  EXPECT_EQ(config->feed_forward_alone, (std::vector<bool>{false, true, false, true}));
  EXPECT_EQ(config->without_experts, (std::vector<bool>{true, false, true, true}));
  EXPECT_EQ(config->experts, 6);
  EXPECT_EQ(config->expert_feed_forward, 32);
  EXPECT_EQ(config->shared_feed_forward, 96);
  EXPECT_EQ(config->router_score, RouterScore::kSigmoid);
  EXPECT_TRUE(config->router_bias);
  EXPECT_TRUE(config->expert_weights_sum_to_1);
  EXPECT_EQ(config->expert_weights_scale, 2.5F);

  ExpectFolderRefused(shape, "experts of 7688 are not a multiple of 32");  // transformers' default
  ExpectFolderRefused(shape + shared + R"(,"moe_latent_size":16)", "moe_latent_size is set");
  ExpectFolderRefused(shape + shared + R"(,"mlp_bias":true)", "mlp_bias is true");
  ExpectFolderRefused(shape + shared + R"(,"n_group":2)", "n_group is 2");
  ExpectFolderRefused(shape + shared + R"(,"layers_block_type":["mamba","moe","attention","x"])",
                      "must have M, *, - or E");
}

TEST(ModelConfigTest, ReadsTheExpertsOfLfm2) {
  const std::string lfm2 = R"("model_type":"lfm2_moe","num_experts":4,"num_experts_per_tok":2,
      "moe_intermediate_size":32,"layer_types":["conv","full_attention","conv","conv"],)";
  const auto config = ReadFolder(lfm2 + R"("num_dense_layers":1)");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->feed_forward, 96);
  EXPECT_EQ(config->router_score, RouterScore::kSigmoid);
  EXPECT_TRUE(config->router_bias);
  EXPECT_FALSE(config->has_experts(0));
  EXPECT_TRUE(config->has_experts(1));
  EXPECT_FALSE(ReadFolder(lfm2 + R"("use_expert_bias":false)")->router_bias);
  ExpectFolderRefused(lfm2 + R"("num_dense_layers":4)", "num_dense_layers");
  ExpectFolderRefused(lfm2 + R"("num_dense_layers":1,"conv_L_cache":9)", "2 to 4 tokens");
}

// The keys of DeepSeek V2 Lite and of Moonlight, but for a smaller width.
TEST(ModelConfigTest, ReadsTheHeadsAndScoresOfDeepseek) {
  const std::string heads = R"(,"num_key_value_heads":4,"q_lora_rank":null,"kv_lora_rank":512,
      "qk_nope_head_dim":128,"qk_rope_head_dim":64,"v_head_dim":128,"moe_intermediate_size":1408,
      "num_experts_per_tok":6,"n_routed_experts":64,"n_shared_experts":2,"n_group":1,
      "topk_group":1,"first_k_dense_replace":1,"ep_size":1,"moe_layer_freq":1,"seq_aux":true,
      "num_nextn_predict_layers":0)";
  const auto lite = ReadFolder(R"("model_type":"deepseek_v2","scoring_func":"softmax",
      "topk_method":"greedy","norm_topk_prob":false,"rope_scaling":{"beta_fast":32,"beta_slow":1,
      "factor":40,"mscale":0.707,"mscale_all_dim":0.707,"original_max_position_embeddings":4096,
      "type":"yarn"})" + heads);
  ASSERT_TRUE(lite.ok()) << lite.status();
  EXPECT_EQ(lite->head_dim, 192);
  EXPECT_EQ(lite->kv_heads, 4);
  EXPECT_EQ(lite->attended_rows(), 4 * 128);
  EXPECT_EQ(lite->rope_dims, 64);
  EXPECT_EQ(lite->rope_mode, kernels::RopeMode::kAdjacent);
  EXPECT_EQ(lite->latent_rank, 512);
  EXPECT_EQ(lite->query_rank, 0);
  EXPECT_EQ(lite->rope_magnitude, 1);
  EXPECT_NEAR(lite->attention_shape().scale, 0.1147213867929261, 1e-7);
  EXPECT_EQ(lite->shared_feed_forward, 2816);
  EXPECT_EQ(lite->without_experts, (std::vector<bool>{true, false, false, false}));
  EXPECT_EQ(lite->expert_groups, 1);
  EXPECT_FALSE(lite->expert_weights_sum_to_1);
  EXPECT_EQ(lite->router_score, RouterScore::kSoftmax);

  const auto moonlight = ReadFolder(R"("model_type":"deepseek_v3","scoring_func":"sigmoid",
      "topk_method":"noaux_tc","norm_topk_prob":true,"rope_scaling":null,"rope_theta":50000.0,
      "routed_scaling_factor":2.446)" +
                                    heads);
  ASSERT_TRUE(moonlight.ok()) << moonlight.status();
  EXPECT_NEAR(moonlight->attention_shape().scale, 1 / std::sqrt(192.0), 1e-7);
  EXPECT_EQ(moonlight->latent_norm_eps, 1e-6F) << "the class has it, whatever the config states";
  EXPECT_EQ(moonlight->norm_eps, 1e-5F);
  EXPECT_EQ(moonlight->router_score, RouterScore::kSigmoid);
  EXPECT_TRUE(moonlight->router_bias);
  EXPECT_TRUE(moonlight->expert_weights_sum_to_1);
  EXPECT_EQ(moonlight->expert_weights_scale, 2.446F);
}

TEST(ModelConfigTest, RefusesXieluWithoutItsParameters) {
  // As published.
  const auto missing = ReadFolder(R"("model_type":"apertus","qk_norm":true,"post_norm":false)");
  EXPECT_EQ(missing.status().reason(), "model_tensor_missing");
  EXPECT_THAT(missing.status().message(), HasSubstr("blk.0.xielu.alpha_p"));
  ExpectFolderRefused(R"("model_type":"apertus","hidden_act":"silu")", "hidden_act");
  const auto read = [](std::vector<float> eps, float alpha) {
    Writer writer;
    writer.String("general.architecture", "apertus");
    for (const char* key : {"block_count", "attention.head_count"})
      writer.U32(fmt::format("apertus.{}", key), 2);
    for (const char* key : {"context_length", "embedding_length", "feed_forward_length"})
      writer.U32(fmt::format("apertus.{}", key), 32);
    writer.F32("apertus.attention.layer_norm_rms_epsilon", 1e-5F);
    writer.F32("xielu.alpha_p", alpha).F32("xielu.alpha_n", alpha).F32("xielu.beta", 0.5F);
    writer.Floats("xielu.eps", eps);
    writer.Tensor("token_embd.weight", tensor::DType::kF32, {32, 1}, std::vector<float>(32));
    const auto file = gguf::File::FromSource(gguf::MemorySource(writer.Build()));
    CHECK(file.ok()) << file.status();
    return ReadModelConfig(**file);
  };
  const auto sound = read({-1e-6F, -1e-3F}, 0.25F);
  ASSERT_TRUE(sound.ok()) << sound.status();
  ASSERT_EQ(sound->xielu.size(), 2U);
  EXPECT_EQ(sound->xielu[1].epsilon, -1e-3F);
  EXPECT_EQ(sound->xielu[1].alpha_negative, 0.25F);
  EXPECT_THAT(read({-1e-6F}, 0).status().message(), HasSubstr("for each of 2 layers"));
  EXPECT_THAT(read({-1e-6F, 0}, 0).status().message(), HasSubstr("eps of layer 1 is 0"));
  EXPECT_THAT(read({-1e-6F, -1e-6F}, NAN).status().message(), HasSubstr("xielu.alpha_p"));
}

TEST(ModelConfigTest, ReadsTheGrowthOfMinistral3) {
  const std::string scaling = R"("model_type":"ministral3","rope_parameters":{"rope_type":"yarn",
      "factor":4.0,"original_max_position_embeddings":32,"rope_theta":1e6)";
  const auto config = ReadFolder(scaling + R"(,"llama_4_scaling_beta":0.1,"mscale":1.0,
      "mscale_all_dim":1.0})");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->query_growth, 0.1);
  EXPECT_EQ(config->query_period, 32);
  EXPECT_EQ(config->rope_magnitude, 1.0);
  EXPECT_NEAR(ReadFolder(scaling + "}")->rope_magnitude, 1 + 0.1 * std::log(4.0), 1e-9);
  EXPECT_EQ(ReadFolder(scaling + "}")->query_growth, 0);
  ExpectFolderRefused(scaling + R"(,"llama_4_scaling_beta":-1})", "llama_4_scaling_beta");
  ExpectFolderRefused(scaling + R"(,"llama_4_scaling":1})", "llama_4_scaling");
}

// The keys of Scout, Maverick and MobileLLM-R1, but for smaller sizes.
TEST(ModelConfigTest, ReadsTheLayersOfLlama4) {
  using Flags = std::vector<bool>;
  const std::string llama4 = R"("model_type":"llama4_text","head_dim":16,
      "intermediate_size_mlp":128,"for_llm_compressor":false)";
  const auto scout = ReadFolder(llama4 + R"(,"num_local_experts":4,"attention_chunk_size":32,
      "attn_temperature_tuning":4,"no_rope_layers":[],"interleave_moe_layer_step":1,
      "rope_scaling":{"rope_type":"llama3","factor":16.0,"low_freq_factor":1.0,
      "high_freq_factor":1.0,"original_max_position_embeddings":64})");
  ASSERT_TRUE(scout.ok()) << scout.status();
  EXPECT_EQ(scout->feed_forward, 128);
  EXPECT_EQ(scout->expert_feed_forward, 96);
  EXPECT_EQ(scout->shared_feed_forward, 96);
  EXPECT_EQ(scout->experts_used, 1) << "the default of the class";
  EXPECT_TRUE(scout->expert_weights_on_inputs);
  EXPECT_FALSE(scout->expert_weights_sum_to_1);
  EXPECT_EQ(scout->router_score, RouterScore::kSigmoid);
  EXPECT_TRUE(scout->without_experts.empty());
  EXPECT_EQ(scout->window, 32);
  EXPECT_TRUE(scout->window_aligned);
  EXPECT_EQ(scout->windowed, (Flags{true, true, true, false}));
  EXPECT_EQ(scout->unrotated, (Flags{false, false, false, true}));
  EXPECT_EQ(scout->rope_mode, kernels::RopeMode::kAdjacent);
  EXPECT_EQ(scout->head_norm, HeadNorm::kUnweighted);
  EXPECT_TRUE(scout->norm_rotated);
  EXPECT_EQ(scout->query_growth, 0.1);
  EXPECT_EQ(scout->query_period, 8192);
  EXPECT_EQ(scout->query_offset, 1);
  EXPECT_TRUE(scout->growth_unrotated);
  ASSERT_EQ(scout->rope_freq_factors.size(), 8U);
  EXPECT_EQ(scout->rope_freq_factors.front(), 1.0F);
  EXPECT_EQ(scout->rope_freq_factors.back(), 16.0F) << "equal borders leave no ramp";

  const std::string maverick =
      llama4 + R"(,"use_qk_norm":false,"interleave_moe_layer_step":2,"num_local_experts":8)";
  const auto dense = ReadFolder(maverick);
  ASSERT_TRUE(dense.ok()) << dense.status();
  EXPECT_EQ(dense->without_experts, (Flags{true, false, true, false}));
  EXPECT_EQ(dense->head_norm, HeadNorm::kNone);
  EXPECT_EQ(dense->window, 128) << "the chunk of the class, cut to the context";
  EXPECT_EQ(ReadFolder(maverick + R"(,"moe_layers":[0])")->without_experts,
            (Flags{false, true, true, true}));
  const auto listed = ReadFolder(maverick + R"(,"attention_chunk_size":16,
      "layer_types":["full_attention","chunked_attention","full_attention","full_attention"],
      "no_rope_layers":[1,1,0,0])");
  ASSERT_TRUE(listed.ok()) << listed.status();
  EXPECT_EQ(listed->windowed, (Flags{false, true, false, false}));
  EXPECT_EQ(listed->unrotated, (Flags{false, false, true, true}));

  const auto mobile = ReadFolder(llama4 + R"(,"num_local_experts":0,"num_experts_per_tok":0,
      "moe_layers":[],"interleave_moe_layer_step":0,"no_rope_layers":[1,1,1,1],
      "attention_chunk_size":null,"attn_temperature_tuning":false,"layer_types":
      ["full_attention","full_attention","full_attention","full_attention"])");
  ASSERT_TRUE(mobile.ok()) << mobile.status();
  EXPECT_EQ(mobile->experts, 0);
  EXPECT_EQ(mobile->window, 0);
  EXPECT_TRUE(mobile->rotates(3));
  EXPECT_EQ(mobile->query_growth, 0);
  EXPECT_EQ(mobile->head_norm, HeadNorm::kUnweighted);
}

TEST(ModelConfigTest, RefusesALlama4ThatContradictsItself) {
  for (const auto& [more, part] :
       {std::pair{R"("attention_chunk_size":0)", "attention_chunk_size must be a whole number"},
        {R"("attention_chunk_size":null)", "attention_chunk_size is missing"},
        {R"("attn_temperature_tuning":"on")", "attn_temperature_tuning"},
        {R"("attn_temperature_tuning":-1)", "attn_temperature_tuning"},
        {R"("floor_scale":0)", "floor_scale"},
        {R"("floor_scale":0.5)", "floor_scale"},
        {R"("attn_scale":-0.1)", "attn_scale"},
        {R"("layer_types":["chunked_attention"])", "layer_types must be a list of 4 kinds"},
        {R"("layer_types":["chunked_attention","full_attention","sliding_attention",
            "full_attention"])",
         "layer_types names \"sliding_attention\" for layer 2"},
        {R"("no_rope_layers":[1,1])", "no_rope_layers must be a list of 4 flags"},
        {R"("no_rope_layers":[1,1,2,1])", "no_rope_layers is 2 for layer 2"},
        {R"("no_rope_layer_interval":0)", "no_rope_layer_interval"},
        {R"("moe_layers":[4])", "moe_layers names layer 4; the last is 3"},
        {R"("moe_layers":2)", "moe_layers must be a list of layers"},
        {R"("interleave_moe_layer_step":0)", "interleave_moe_layer_step"},
        {R"("num_experts_per_tok":17)", "num_experts_per_tok"},
        {R"("num_local_experts":-1)", "num_local_experts"},
        {R"("use_qk_norm":1)", "use_qk_norm must be true or false"},
        {R"("hidden_act":"gelu")", "hidden_act"},
        {R"("attention_bias":true)", "attention_bias"},
        {R"("intermediate_size_mlp":100)", "intermediate_size_mlp is 100, not a multiple of 32"},
        {R"("rope_scaling":{"rope_type":"llama3","factor":8,"low_freq_factor":4,
            "high_freq_factor":1})",
         "high_freq_factor 1 is below"}}) {
    ExpectFolderRefused(std::string(R"("model_type":"llama4_text","head_dim":16,)") + more, part);
  }
  ExpectFolderRefused(R"("model_type":"llama","attention_chunk_size":16)", "attention_chunk_size");
  ExpectFolderRefused(R"("model_type":"llama","intermediate_size_mlp":64)",
                      "intermediate_size_mlp");
}

TEST(ModelConfigTest, ReadsTheGateAndNormsOfBitNet) {
  const auto config = ReadFolder(R"("model_type":"bitnet")");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_TRUE(config->inner_norms && config->gated);
  EXPECT_EQ(config->gate, GateKind::kRelu2) << "the default of the class";
  EXPECT_EQ(ReadFolder(R"("model_type":"bitnet","hidden_act":"silu")")->gate, GateKind::kSilu);
  ExpectFolderRefused(R"("model_type":"bitnet","hidden_act":"gelu")", "hidden_act is \"gelu\"");
  ExpectFolderRefused(R"("model_type":"bitnet","num_experts":4)", "num_experts");
}

TEST(ModelConfigTest, ReadsQwen35WithRotationByParts) {
  const std::string heads = R"(,"head_dim":32,"linear_num_key_heads":2,"linear_key_head_dim":16,
      "linear_num_value_heads":4,"linear_value_head_dim":32)";
  const std::string qwen = R"("model_type":"qwen3_5_text")" + heads;
  const auto config = ReadFolder(qwen + R"(,"rope_parameters":{"rope_type":"default",
      "rope_theta":1e7,"partial_rotary_factor":0.5,"mrope_section":[3,3,2],
      "mrope_interleaved":true})");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->recurrence, Recurrence::kDeltaNet);
  EXPECT_EQ(config->rope_dims, 16);
  EXPECT_EQ(config->rope_freq_base, 1e7);
  ExpectFolderRefused(qwen + R"(,"num_experts":4,"rope_parameters":{"rope_sections":[3,3,2]})",
                      "rope_sections");
  const std::string mixture = R"("model_type":"qwen3_5_moe_text")" + heads;
  ExpectFolderRefused(mixture + R"(,"num_experts":0)", "num_experts");
  ExpectFolderRefused(mixture + R"(,"num_experts":4,"num_experts_per_tok":2,
      "moe_intermediate_size":32,"shared_expert_intermediate_size":0)",
                      "shared_expert_intermediate_size");
}

TEST(ModelConfigTest, ReadsTheLayersOfLfm2FromKvHeads) {
  const auto read = [](const std::vector<int32_t>& kv_heads) {
    gguf::testing::Bytes list;
    for (const int32_t heads : kv_heads) gguf::testing::Append(&list, heads);
    Writer writer;
    writer.String("general.architecture", "lfm2")
        .U32("lfm2.block_count", 2)
        .U32("lfm2.context_length", 64)
        .U32("lfm2.embedding_length", 32)
        .U32("lfm2.feed_forward_length", 32)
        .U32("lfm2.attention.head_count", 2)
        .U32("lfm2.shortconv.l_cache", 3)
        .F32("lfm2.attention.layer_norm_rms_epsilon", 1e-5F)
        .RawArray("lfm2.attention.head_count_kv", static_cast<uint32_t>(gguf::ValueType::kInt32),
                  kv_heads.size(), list)
        .Tensor("token_embd.weight", tensor::DType::kF32, {32, 40}, std::vector<float>(32 * 40));
    const auto file = gguf::File::FromSource(gguf::MemorySource(writer.Build()));
    CHECK(file.ok()) << file.status();
    return ReadModelConfig(**file);
  };
  const auto config = read({0, 1});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->recurrent, (std::vector<bool>{true, false}));
  EXPECT_EQ(config->kv_heads, 1);
  const auto attentive = read({1, 1});
  ASSERT_TRUE(attentive.ok()) << attentive.status();
  EXPECT_EQ(attentive->recurrence, Recurrence::kNone);
  const auto refused = [&](const std::vector<int32_t>& kv_heads) {
    const auto bad = read(kv_heads);
    return bad.ok() ? "" : bad.status().message();
  };
  EXPECT_THAT(refused({0, 1, 0}), HasSubstr("2 numbers, one for each layer"));
  EXPECT_THAT(refused({0, 0}), HasSubstr("a number above 0"));
  EXPECT_THAT(refused({1, 2}), HasSubstr("one number from 1 to"));
  EXPECT_THAT(refused({0, -1}), HasSubstr("one number from 1 to"));
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

TEST(ModelConfigTest, ReadsGlm4WithPartialAdjacentRotation) {
  const std::string glm4 = R"("model_type":"glm4","head_dim":32)";
  const auto config = ReadFolder(glm4);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->rope_mode, kernels::RopeMode::kAdjacent);
  EXPECT_EQ(config->rope_dims, 16);
  EXPECT_TRUE(config->qkv_bias);
  EXPECT_FALSE(config->output_bias);
  EXPECT_FALSE(ReadFolder(glm4 + R"(,"attention_bias":false)")->qkv_bias);
  ExpectFolderRefused(glm4 + R"(,"rope_parameters":{"mrope_section":[8,12,12]})", "mrope_section");
}

TEST(ModelConfigTest, ReadsCohereWithParallelParts) {
  const auto config = ReadFolder(R"("model_type":"cohere","logit_scale":0.25)");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_TRUE(config->layer_norm);
  EXPECT_FALSE(config->norm_bias);
  EXPECT_TRUE(config->parallel);
  EXPECT_EQ(config->logit_scale, 0.25);
  EXPECT_TRUE(config->tied_head);
  EXPECT_EQ(config->rope_mode, kernels::RopeMode::kAdjacent);
  EXPECT_EQ(ReadFolder(R"("model_type":"cohere")")->logit_scale, 0.0625);
  ExpectFolderRefused(R"("model_type":"cohere","use_qk_norm":true)", "use_qk_norm");
  ExpectFolderRefused(R"("model_type":"cohere","logit_scale":0)", "logit_scale");
  ExpectFolderRefused(R"("model_type":"cohere","layer_norm_eps":-1)", "layer_norm_eps");
}

TEST(ModelConfigTest, RotatesWindowedLayersOfCohere2Alone) {
  const auto config = ReadFolder(R"("model_type":"cohere2","sliding_window":16)");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->window, 16);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(config->has_window(i), i != 3);
    EXPECT_EQ(config->rotates(i), i != 3);
  }
  ExpectFolderRefused(R"("model_type":"cohere2","sliding_window":0)", "sliding_window");
  ExpectFolderRefused(R"("model_type":"cohere2","rotary_pct":0.5)", "rotary_pct");
}

TEST(ModelConfigTest, ReadsFeedForwardsWithoutAGate) {
  const auto arcee = ReadFolder(R"("model_type":"arcee","hidden_act":"relu2")");
  ASSERT_TRUE(arcee.ok()) << arcee.status();
  EXPECT_FALSE(arcee->gated);
  EXPECT_EQ(arcee->gate, GateKind::kRelu2);
  EXPECT_FALSE(arcee->layer_norm);
  ExpectFolderRefused(R"("model_type":"arcee","hidden_act":"silu")", "hidden_act");
  ExpectFolderRefused(R"("model_type":"arcee","mlp_bias":true)", "mlp_bias");

  const auto nemotron = ReadFolder(R"("model_type":"nemotron","norm_eps":1e-4)");
  ASSERT_TRUE(nemotron.ok()) << nemotron.status();
  EXPECT_FALSE(nemotron->gated);
  EXPECT_TRUE(nemotron->norm_bias);
  EXPECT_EQ(nemotron->norm_eps, 1e-4F);
  EXPECT_EQ(nemotron->rope_dims, 8);

  const auto starcoder = ReadFolder(R"("model_type":"starcoder2","sliding_window":16)");
  ASSERT_TRUE(starcoder.ok()) << starcoder.status();
  EXPECT_EQ(starcoder->gate, GateKind::kGeluTanh);
  EXPECT_TRUE(starcoder->ffn_bias && starcoder->qkv_bias && starcoder->output_bias);
  EXPECT_EQ(starcoder->window, 16);
  EXPECT_FALSE(ReadFolder(R"("model_type":"starcoder2","use_bias":false)")->ffn_bias);
  ExpectFolderRefused(R"("model_type":"starcoder2","hidden_act":"gelu")", "hidden_act");
}

TEST(ModelConfigTest, ReadsStableLmWithAndWithoutParallelParts) {
  const std::string stablelm = R"("model_type":"stablelm","partial_rotary_factor":0.5)";
  const auto config = ReadFolder(stablelm + R"(,"use_qkv_bias":true)");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_FALSE(config->parallel);
  EXPECT_TRUE(config->qkv_bias);
  EXPECT_FALSE(config->output_bias);
  EXPECT_EQ(config->rope_dims, 8);
  EXPECT_TRUE(ReadFolder(stablelm + R"(,"use_parallel_residual":true)")->parallel);
  ExpectFolderRefused(stablelm + R"(,"qk_layernorm":true)", "qk_layernorm");
}

TEST(ModelConfigTest, ReadsTheBaseOfHunyuansRotation) {
  const std::string hunyuan = R"("model_type":"hunyuan_v1_dense","head_dim":32)";
  const auto config = ReadFolder(hunyuan + R"(,"use_qk_norm":true,"use_cla":false,"rope_theta":1e4,
                               "rope_scaling":{"type":"dynamic","alpha":1000.0,"factor":1.0})");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_DOUBLE_EQ(config->rope_freq_base, 1e4 * std::pow(1000.0, 32.0 / 30.0));
  EXPECT_TRUE(config->norm_rotated);
  EXPECT_EQ(ReadFolder(hunyuan)->rope_freq_base, 1e4);
  ExpectFolderRefused(hunyuan + R"(,"use_qk_norm":false)", "use_qk_norm");
  ExpectFolderRefused(hunyuan + R"(,"use_cla":true)", "use_cla");
  ExpectFolderRefused(R"("model_type":"llama","rope_scaling":{"type":"dynamic","alpha":2.0})",
                      "rope_scaling.alpha");
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
