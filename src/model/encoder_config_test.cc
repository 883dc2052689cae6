#include "model/encoder_config.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "model/json_file.h"

namespace tutti::model {
namespace {

using ::testing::HasSubstr;

constexpr char kConfig[] =
    R"({"model_type":"bert","hidden_act":"gelu","hidden_size":64,"intermediate_size":128,
        "num_hidden_layers":2,"num_attention_heads":4,"vocab_size":100,
        "max_position_embeddings":512,"type_vocab_size":2,"layer_norm_eps":1e-12,
        "pad_token_id":0})";
constexpr char kModules[] =
    R"([{"idx":0,"name":"0","path":"","type":"sentence_transformers.models.Transformer"},
        {"idx":1,"name":"1","path":"1_Pooling","type":"sentence_transformers.models.Pooling"},
        {"idx":2,"name":"2","path":"2_Normalize","type":"sentence_transformers.models.Normalize"}])";
constexpr char kPooling[] = R"({"word_embedding_dimension":64,"pooling_mode_mean_tokens":true})";

ModuleFiles Good() {
  ModuleFiles files;
  files.config = kConfig;
  files.modules = kModules;
  files.pooling = kPooling;
  files.sentence_bert = R"({"max_seq_length":256,"do_lower_case":false})";
  return files;
}

std::string Replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(EncoderConfig, ReadsWhatASentenceTransformersFolderSays) {
  const auto config = ReadEncoderConfig(Good());
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  EXPECT_EQ(config->architecture, "bert");
  EXPECT_EQ(config->layers, 2);
  EXPECT_EQ(config->head_dim(), 16);
  EXPECT_EQ(config->pooling, Pooling::kMean);
  EXPECT_TRUE(config->normalize);
  EXPECT_EQ(config->max_tokens, 256);
  EXPECT_EQ(config->first_position, 0);
  EXPECT_TRUE(config->labels.empty());
}

TEST(EncoderConfig, DefaultsToClsPoolingAndAllPositionsWithoutOtherFiles) {
  ModuleFiles files;
  files.config = kConfig;
  const auto config = ReadEncoderConfig(files);
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  EXPECT_EQ(config->pooling, Pooling::kCls);
  EXPECT_FALSE(config->normalize);
  EXPECT_EQ(config->max_tokens, 512);
}

TEST(EncoderConfig, PositionsOfRobertaBeginBehindThePaddingTokens) {
  ModuleFiles files;
  files.config =
      Replaced(Replaced(kConfig, "bert", "roberta"), "\"pad_token_id\":0", "\"pad_token_id\":1");
  const auto config = ReadEncoderConfig(files);
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  EXPECT_EQ(config->first_position, 2);
  EXPECT_EQ(config->max_tokens, 510);
}

TEST(EncoderConfig, LabelsAreThoseOfAClassifierInOrder) {
  ModuleFiles files;
  files.config = Replaced(kConfig, "{",
                          R"({"architectures":["BertForSequenceClassification"],
                              "id2label":{"1":"yes","0":"no"},)");
  const auto config = ReadEncoderConfig(files);
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  EXPECT_EQ(config->labels, (std::vector<std::string>{"no", "yes"}));
}

// The configuration of a classifier with this many labels; `more` holds additional JSON members.
Result<EncoderConfig> Classifier(int labels, const std::string& more,
                                 const std::string& sentence_transformers = "") {
  ModuleFiles files;
  std::string names;
  for (int i = 0; i < labels; ++i) names += (i > 0 ? ",\"" : "\"") + std::to_string(i) + "\":\"x\"";
  files.config = Replaced(
      kConfig, "{",
      R"({"architectures":["BertForSequenceClassification"],"id2label":{)" + names + "}," + more);
  files.sentence_transformers = sentence_transformers;
  return ReadEncoderConfig(files);
}

TEST(EncoderConfig, ScoresGoThroughWhatTheFilesSayElseWhatTheProblemAsksFor) {
  const auto activation = [](const Result<EncoderConfig>& config) {
    return config.ok() ? ScoreActivationName(config->activation) : config.status().ToString();
  };
  EXPECT_EQ(activation(Classifier(1, "")), "sigmoid");
  EXPECT_EQ(activation(Classifier(3, "")), "softmax");
  EXPECT_EQ(activation(Classifier(3, R"("problem_type":"multi_label_classification",)")),
            "sigmoid");
  EXPECT_EQ(activation(Classifier(3, R"("problem_type":"regression",)")), "none");
  EXPECT_EQ(
      activation(Classifier(
          1, R"("sbert_ce_default_activation_function":"torch.nn.modules.linear.Identity",)")),
      "none");
  EXPECT_EQ(
      activation(Classifier(
          3, R"("sentence_transformers":{"activation_fn":"torch.nn.Sigmoid","version":"4"},)")),
      "sigmoid");
  EXPECT_EQ(activation(Classifier(
                1, "", R"({"activation_fn":"torch.nn.modules.linear.Identity","prompts":{}})")),
            "none");
  for (const auto& config : {Classifier(1, R"("sbert_ce_default_activation_function":"my.Curve",)"),
                             Classifier(1, "", R"({"activation_fn":"my.Curve"})")}) {
    EXPECT_EQ(config.status().reason(), "model_hparam");
    EXPECT_THAT(config.status().message(), HasSubstr("my.Curve"));
  }
}

// As the files of nomic-embed-text were first published, with names of their own.
constexpr char kNomic[] =
    R"({"model_type":"nomic_bert","activation_function":"swiglu","n_embd":64,"n_inner":128,
        "n_layer":2,"n_head":4,"vocab_size":100,"n_positions":8192,"type_vocab_size":2,
        "layer_norm_epsilon":1e-12,"rotary_emb_base":1000,"rotary_emb_fraction":1.0,
        "rotary_emb_interleaved":false,"rotary_scaling_factor":null,"max_trained_positions":2048,
        "prenorm":false,"qkv_proj_bias":false,"mlp_fc1_bias":false,"mlp_fc2_bias":false})";

TEST(EncoderConfig, NomicFilesSayTheSameUnderBothSetsOfNames) {
  ModuleFiles files;
  files.config = kNomic;
  const auto config = ReadEncoderConfig(files);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->architecture, "nomic-bert");
  EXPECT_EQ(config->layers, 2);
  EXPECT_EQ(config->feed_forward, 128);
  EXPECT_EQ(config->rope_base, 1000);
  EXPECT_TRUE(config->gated);
  EXPECT_EQ(config->max_tokens, 8192);
  files.config = Replaced(kNomic, "\"rotary_scaling_factor\":null", "\"rotary_scaling_factor\":2");
  EXPECT_EQ(ReadEncoderConfig(files)->max_tokens, 2048) << "longer texts would be stretched";
  files.config =
      R"({"model_type":"nomic_bert","hidden_act":"silu","hidden_size":64,"intermediate_size":128,
          "num_hidden_layers":2,"num_attention_heads":4,"vocab_size":100,
          "max_position_embeddings":512,"layer_norm_eps":1e-5,
          "rope_parameters":{"rope_theta":500.0,"rope_type":"default"}})";
  const auto named = ReadEncoderConfig(files);
  ASSERT_TRUE(named.ok()) << named.status();
  EXPECT_EQ(named->rope_base, 500);
  EXPECT_EQ(named->max_tokens, 512);
  EXPECT_FLOAT_EQ(named->norm_eps, 1e-5f);
}

TEST(EncoderConfig, WhatNomicFilesMayAskForBesidesIsRefusedByName) {
  for (const auto& [from, to, key] :
       {std::tuple{"\"prenorm\":false", "\"prenorm\":true", "prenorm"},
        std::tuple{"\"mlp_fc1_bias\":false", "\"mlp_fc1_bias\":true", "mlp_fc1_bias"},
        std::tuple{"\"rotary_emb_fraction\":1.0", "\"rotary_emb_fraction\":0.5",
                   "rotary_emb_fraction"},
        std::tuple{"\"rotary_emb_interleaved\":false", "\"rotary_emb_interleaved\":true",
                   "rotary_emb_interleaved"},
        std::tuple{"swiglu", "geglu", "activation_function"},
        std::tuple{"\"prenorm\":false", "\"num_experts\":8", "num_experts"},
        std::tuple{"\"prenorm\":false", "\"rope_parameters\":{\"rope_type\":\"yarn\"}",
                   "rope_parameters"},
        std::tuple{"\"prenorm\":false", "\"rope_parameters\":{\"rope_theta\":-1}",
                   "rope_parameters"},
        std::tuple{"\"n_positions\":8192", "\"n_positions\":99999999", "n_positions"},
        std::tuple{"\"n_embd\":64,", "", "hidden_size"}}) {
    ModuleFiles files;
    files.config = Replaced(kNomic, from, to);
    const auto config = ReadEncoderConfig(files);
    EXPECT_EQ(config.status().reason(), "model_hparam") << key;
    EXPECT_THAT(config.status().message(), HasSubstr(key));
  }
}

constexpr char kModern[] =
    R"({"model_type":"modernbert","hidden_activation":"gelu","hidden_size":64,
        "intermediate_size":96,"num_hidden_layers":4,"num_attention_heads":4,"vocab_size":100,
        "max_position_embeddings":8192,"norm_eps":1e-5,"global_attn_every_n_layers":3,
        "local_attention":128,"global_rope_theta":160000.0,"local_rope_theta":10000.0})";

TEST(EncoderConfig, ModernBertHasAWindowInMostLayers) {
  ModuleFiles files;
  files.config = kModern;
  const auto config = ReadEncoderConfig(files);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->architecture, "modern-bert");
  EXPECT_EQ(config->window, 64);
  EXPECT_EQ(config->windowed, (std::vector<bool>{false, true, true, false}));
  EXPECT_EQ(config->rope_base, 160000);
  EXPECT_EQ(config->rope_window_base, 10000);
  EXPECT_TRUE(config->norm_first);
  EXPECT_FALSE(config->norm_bias);
  EXPECT_EQ(config->token_types, 0);
}

TEST(EncoderConfig, GteStretchesItsRotationByAFactor) {
  ModuleFiles files;
  files.config =
      R"({"model_type":"new","hidden_act":"gelu","hidden_size":64,"intermediate_size":96,
          "num_hidden_layers":2,"num_attention_heads":4,"vocab_size":100,"pack_qkv":true,
          "max_position_embeddings":8192,"type_vocab_size":1,"position_embedding_type":"rope",
          "rope_theta":20000,"rope_scaling":{"type":"ntk","factor":8.0},
          "layer_norm_type":"layer_norm","logn_attention_scale":false})";
  const auto config = ReadEncoderConfig(files);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->rope_base, 160000);
  EXPECT_NEAR(config->rope_divisor, std::pow(8.0, 2.0 / 16), 1e-12);
}

// The settings of DeBERTa version 3 in one of their spellings.
constexpr char kDeberta[] =
    R"({"model_type":"deberta-v2","hidden_act":"gelu","hidden_size":64,"intermediate_size":96,
        "num_hidden_layers":2,"num_attention_heads":4,"vocab_size":100,"type_vocab_size":0,
        "max_position_embeddings":512,"relative_attention":true,"position_buckets":256,
        "norm_rel_ebd":"layer_norm","share_att_key":true,"pos_att_type":"p2c|c2p",
        "max_relative_positions":-1,"position_biased_input":false,"pooler_hidden_act":"gelu",
        "pooler_hidden_size":64})";

TEST(EncoderConfig, DebertaHasTermsOfDistancesAndNoTableOfPositions) {
  ModuleFiles files;
  for (const char* terms : {R"("p2c|c2p")", R"(["c2p","p2c"])", R"(" c2p | p2c")"}) {
    files.config = Replaced(kDeberta, R"("p2c|c2p")", terms);
    const auto config = ReadEncoderConfig(files);
    ASSERT_TRUE(config.ok()) << config.status();
    EXPECT_FALSE(config->has_position_table());
    EXPECT_TRUE(config->relative.keys && config->relative.queries);
    EXPECT_TRUE(config->relative.shared && config->relative.norm);
    EXPECT_EQ(config->relative.span, 256);
    EXPECT_EQ(config->relative.farthest, 512);
    EXPECT_EQ(config->score_terms, 3);
    EXPECT_EQ(config->head.activation, Activation::kGelu);
    EXPECT_EQ(config->norm_eps, 1e-7F);
    EXPECT_EQ(config->max_tokens, 512);
  }
  files.config = Replaced(kDeberta, R"("position_buckets":256)", R"("position_buckets":-1)");
  EXPECT_EQ(ReadEncoderConfig(files)->relative.span, 512);
  files.config = Replaced(Replaced(kDeberta, "\"relative_attention\":true", "\"x\":1"),
                          "\"position_biased_input\":false", "\"y\":1");
  EXPECT_EQ(ReadEncoderConfig(files)->relative.span, 0);
  EXPECT_TRUE(ReadEncoderConfig(files)->has_position_table());
}

TEST(EncoderConfig, WhatOtherFamiliesMayAskForBesidesIsRefusedByName) {
  const std::string mpnet =
      R"({"model_type":"mpnet","hidden_size":64,"intermediate_size":96,"num_hidden_layers":2,
          "num_attention_heads":4,"vocab_size":100,"max_position_embeddings":514,
          "relative_attention_num_buckets":32})";
  const std::string distil =
      R"({"model_type":"distilbert","dim":64,"hidden_dim":96,"n_layers":2,"n_heads":4,
          "vocab_size":100,"max_position_embeddings":512,"activation":"gelu"})";
  const std::string gte =
      R"({"model_type":"new","hidden_size":64,"intermediate_size":96,"num_hidden_layers":2,
          "num_attention_heads":4,"vocab_size":100,"max_position_embeddings":512,
          "rope_theta":1e4,"rope_scaling":null})";
  const std::string jina =
      R"({"model_type":"bert","position_embedding_type":"alibi","hidden_size":64,
          "intermediate_size":96,"num_hidden_layers":2,"num_attention_heads":4,"vocab_size":100,
          "max_position_embeddings":512,"feed_forward_type":"geglu","emb_pooler":"mean"})";
  ModuleFiles files;
  for (const std::string& good : {mpnet, distil, gte, jina}) {
    files.config = good;
    const auto config = ReadEncoderConfig(files);
    EXPECT_TRUE(config.ok()) << config.status();
    EXPECT_EQ(config->pooling, good == jina ? Pooling::kMean : Pooling::kCls);
  }
  const std::tuple<std::string, const char*, const char*, const char*> cases[] = {
      {kModern, "\"local_attention\":128", "\"local_attention\":1", "local_attention"},
      {kModern, "\"local_attention\":128", "\"local_attention\":-8", "local_attention"},
      {kModern, "every_n_layers\":3", "every_n_layers\":0", "global_attn_every_n_layers"},
      {kModern, "\"gelu\"", "\"silu\"", "hidden_activation"},
      {kModern, "160000.0", "0", "global_rope_theta"},
      {kModern, "{", R"({"rope_scaling":{"type":"linear"},)", "rope_scaling"},
      {kModern, "{", R"({"layer_types":["full_attention"],)", "layer_types"},
      {kModern, "{", R"({"layer_types":["full_attention","x","x","x"],)", "layer_types"},
      {kModern, "{", R"({"rope_parameters":{"sliding_attention":{"rope_type":"yarn"}},)",
       "rope_parameters"},
      {kModern, "{", R"({"classifier_pooling":"max",)", "classifier_pooling"},
      {kModern, "{", R"({"classifier_activation":"silu",)", "classifier_activation"},
      {kModern, ":8192", ":1048576", "max_position_embeddings"},
      {mpnet, "buckets\":32", "buckets\":64", "relative_attention_num_buckets"},
      {mpnet, ":514", ":2", "max_position_embeddings"},
      {R"({"model_type":"roberta","hidden_size":64,"intermediate_size":96,"num_hidden_layers":2,
           "num_attention_heads":4,"vocab_size":100,"max_position_embeddings":514})",
       ":514", ":2", "max_position_embeddings"},
      {mpnet, ":514", ":1000000", "max_position_embeddings"},
      {distil, "gelu", "relu", "activation"},
      {distil, "\"dim\":64", "\"dim\":40", "hidden_size"},
      {gte, "null", R"({"type":"dynamic","factor":2})", "type"},
      {gte, "null", R"({"type":"ntk","factor":0.5})", "factor"},
      {gte, "null", R"({"type":"ntk","factor":2,"mixed_b":0.5})", "mixed_b"},
      {gte, "{", R"({"pack_qkv":false,)", "pack_qkv"},
      {gte, "{", R"({"logn_attention_scale":true,)", "logn_attention_scale"},
      {gte, "{", R"({"position_embedding_type":"absolute",)", "position_embedding_type"},
      {jina, "geglu", "reglu", "feed_forward_type"},
      {jina, "{", R"({"alibi_scaling":4,)", "alibi_scaling"},
      {kDeberta, "\"gelu\"", "\"gelu_new\"", "hidden_act"},
      {kDeberta, "p2c|c2p", "p2c|p2p", "pos_att_type"},
      {kDeberta, R"("p2c|c2p")", "[1]", "pos_att_type"},
      {kDeberta, R"("p2c|c2p")", "7", "pos_att_type"},
      {kDeberta, "\"layer_norm\"", "\"batch_norm\"", "norm_rel_ebd"},
      {kDeberta, "buckets\":256", "buckets\":255", "position_buckets"},
      {kDeberta, "buckets\":256", "buckets\":1024", "position_buckets"},
      {kDeberta, ":512", ":100000", "max_relative_positions"},
      {kDeberta, "pooler_hidden_act\":\"gelu", "pooler_hidden_act\":\"mish", "pooler_hidden_act"},
      {kDeberta, "pooler_hidden_size\":64", "pooler_hidden_size\":32", "pooler_hidden_size"},
      {kDeberta, "{", R"({"conv_kernel_size":3,)", "conv_kernel_size"},
      {kDeberta, "{", R"({"embedding_size":32,)", "embedding_size"},
      {kDeberta, "{", R"({"attention_head_size":32,)", "attention_head_size"},
  };
  for (const auto& [good, from, to, key] : cases) {
    files.config = Replaced(good, from, to);
    const auto config = ReadEncoderConfig(files);
    EXPECT_EQ(config.status().reason(), "model_hparam") << key << " " << to;
    EXPECT_THAT(config.status().message(), HasSubstr(key));
  }
}

TEST(EncoderConfig, PoolingIsReadInTheFormOf54Too) {
  const std::pair<const char*, Pooling> words[] = {{"\"mean\"", Pooling::kMean},
                                                   {"\"cls\"", Pooling::kCls},
                                                   {"\"max\"", Pooling::kMax},
                                                   {"[\"lasttoken\"]", Pooling::kLast}};
  for (const auto& [word, pooling] : words) {
    ModuleFiles files = Good();
    files.modules =
        R"([{"path":"","type":"sentence_transformers.base.modules.transformer.Transformer"},
        {"path":"1_Pooling",
         "type":"sentence_transformers.sentence_transformer.modules.pooling.Pooling"}])";
    files.pooling =
        std::string(R"({"embedding_dimension":64,"include_prompt":true,"pooling_mode":)") + word +
        "}";
    const auto config = ReadEncoderConfig(files);
    ASSERT_TRUE(config.ok()) << config.status();
    EXPECT_EQ(config->pooling, pooling);
    EXPECT_FALSE(config->normalize);
  }
}

TEST(EncoderConfig, TheLongestTextIsWhatTheFirstFileSays) {
  const auto longest = [](const std::string& sentence_bert, const std::string& tokenizer) {
    ModuleFiles files = Good();
    files.sentence_bert = sentence_bert;
    files.tokenizer = tokenizer;
    const auto config = ReadEncoderConfig(files);
    EXPECT_TRUE(config.ok()) << config.status();
    return config.ok() ? config->max_tokens : -1;
  };
  const std::string tokenizer = R"({"model_max_length":128})";
  EXPECT_EQ(longest(R"({"max_seq_length":256})", tokenizer), 256);
  EXPECT_EQ(longest(R"({"transformer_task":"feature-extraction"})", tokenizer), 128);
  EXPECT_EQ(longest(R"({"max_seq_length":null})", tokenizer), 128);
  EXPECT_EQ(longest("", tokenizer), 128);
  for (const char* any : {R"({"model_max_length":1000000000000000019884624838656})", "{}",
                          R"({"model_max_length":1e30})", R"({"model_max_length":-1})",
                          R"({"model_max_length":"512"})", R"({"model_max_length":0})"})
    EXPECT_EQ(longest("", any), 512) << any;
  EXPECT_EQ(longest("", R"({"model_max_length":4096})"), 512) << "no further than its positions";
}

TEST(EncoderConfig, WithoutItsTypeTheClassDecides) {
  ModuleFiles files;
  files.config = Replaced(kConfig, R"("model_type":"bert")", R"("architectures":["BertModel"])");
  auto config = ReadEncoderConfig(files);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->architecture, "bert");
  files.config =
      Replaced(kConfig, R"("model_type":"bert")", R"("architectures":["BertweetModel"])");
  EXPECT_THAT(ReadEncoderConfig(files).status().message(), HasSubstr("model_type"));
}

TEST(EncoderConfig, WithoutItsClassTheWeightsDecideWhetherItScores) {
  ModuleFiles files;
  files.config = kConfig;
  files.classifies = true;
  EXPECT_EQ(ReadEncoderConfig(files)->labels.size(), 2U);
  files.modules = kModules;
  files.pooling = kPooling;
  EXPECT_TRUE(ReadEncoderConfig(files)->labels.empty()) << "a module pools";
  files = {};
  files.config = Replaced(kConfig, "{", R"({"architectures":["BertModel"],)");
  files.classifies = true;
  EXPECT_TRUE(ReadEncoderConfig(files)->labels.empty());
}

TEST(EncoderConfig, ModulesOfADecoderAreReadWithoutItsConfiguration) {
  ModuleFiles files = Good();
  files.config = "";
  files.pooling = R"({"pooling_mode_lasttoken":true,"word_embedding_dimension":64})";
  files.sentence_transformers = R"({"prompts":{"query":"Q: ","document":""}})";
  const auto modules = ReadVectorModules(files, 64);
  ASSERT_TRUE(modules.ok()) << modules.status();
  EXPECT_TRUE(modules->stated);
  EXPECT_TRUE(modules->normalize);
  EXPECT_EQ(modules->pooling, Pooling::kLast);
  EXPECT_EQ(modules->prompts.at("query"), "Q: ");
  EXPECT_FALSE(ReadVectorModules({}, 64)->stated);
  files.modules =
      R"([{"type":"x.Transformer"},{"type":"x.Pooling","path":"1"},{"type":"x.Dense"}])";
  EXPECT_THAT(ReadVectorModules(files, 64).status().message(), HasSubstr("Dense"));
}

// Files of a folder whose modules after the transformer are these, in the folders "1", "2", ...
ModuleFiles WithModules(const std::vector<std::pair<std::string, std::string>>& modules) {
  ModuleFiles files;
  files.config = kConfig;
  files.modules = R"([{"path":"","type":"sentence_transformers.models.Transformer"})";
  int number = 0;
  for (const auto& [type, config] : modules) {
    const std::string folder = std::to_string(++number);
    files.modules += R"(,{"path":")" + folder + R"(","type":"a.)" + type + R"("})";
    (type == "Pooling" ? files.pooling : files.modules_by_folder[folder]) = config;
  }
  files.modules += "]";
  return files;
}
constexpr char kDense[] = R"({"in_features":64,"out_features":24,"bias":false,
    "activation_function":"torch.nn.modules.linear.Identity"})";

TEST(EncoderConfig, DenseModulesComeAfterPoolingOrApplyToEachToken) {
  const auto pooled =
      ReadEncoderConfig(WithModules({{"Pooling", kPooling}, {"Dense", kDense}, {"Normalize", ""}}));
  ASSERT_TRUE(pooled.ok()) << pooled.status();
  EXPECT_EQ(pooled->vector_width(), 24);
  EXPECT_EQ(pooled->token_width(), 64);
  EXPECT_FALSE(pooled->dense[0].bias);
  EXPECT_FALSE(pooled->dense[0].activation.has_value());
  EXPECT_EQ(pooled->dense[0].folder, "2");
  const auto tokens = ReadEncoderConfig(WithModules({{"Dense", kDense}}));
  ASSERT_TRUE(tokens.ok()) << tokens.status();
  EXPECT_TRUE(tokens->per_token);
  EXPECT_EQ(tokens->vector_width(), 0);
  EXPECT_EQ(tokens->token_width(), 24);
  const auto listed = ListModules(WithModules({{"Pooling", kPooling}, {"Dense", kDense}}).modules);
  ASSERT_TRUE(listed.ok()) << listed.status();
  EXPECT_EQ(listed->back().kind, "Dense");
  EXPECT_EQ(listed->back().folder, "2");
}

// ColBERT as sentence-transformers 6 saves it. A mask that leaves tokens out is refused.
TEST(EncoderConfig, AMaskOfAllTokensIsAccepted) {
  const auto masked = [](std::string_view words, std::string_view ids) {
    return ReadEncoderConfig(WithModules(
        {{"Dense", kDense},
         {"MultiVectorMask", fmt::format(R"({{"skiplist_words":{},"skiplist_tasks":["document"],
             "keep_only_token_ids":{}}})",
                                         words, ids)},
         {"Normalize", ""}}));
  };
  const auto tokens = masked("[]", "null");
  ASSERT_TRUE(tokens.ok()) << tokens.status();
  EXPECT_TRUE(tokens->per_token && tokens->normalize);
  EXPECT_THAT(masked(R"(["."])", "null").status().message(), HasSubstr("2/config.json: skiplist"));
  EXPECT_THAT(masked("[]", "[7]").status().message(), HasSubstr("keep_only_token_ids"));
}

// sentence-transformers 6 renders texts by the chat template then.
TEST(EncoderConfig, TextsAsMessagesAreRefused) {
  ModuleFiles files = WithModules({{"Pooling", kPooling}});
  files.sentence_bert = R"({"modality_config":{"text":{"method":"forward"}}})";
  EXPECT_TRUE(ReadVectorModules(files, 64).ok());
  files.sentence_bert = R"({"modality_config":{"text":{},"message":{"format":"flat"}}})";
  EXPECT_THAT(ReadVectorModules(files, 64).status().message(),
              HasSubstr("modality_config has \"message\""));
  ModuleFiles scores = WithModules({{"LogitScore", R"({"true_token_id":9})"}});
  scores.sentence_bert = files.sentence_bert;
  EXPECT_TRUE(ReadVectorModules(scores, 64).ok()) << "pairs are messages in any case";
}

TEST(EncoderConfig, SpladePoolingGivesAValueForEachWord) {
  const auto config = ReadEncoderConfig(WithModules(
      {{"SpladePooling", R"({"pooling_strategy":"sum","activation_function":"log1p_relu"})"}}));
  ASSERT_TRUE(config.ok()) << config.status();
  ASSERT_TRUE(config->lexical.has_value());
  EXPECT_TRUE(config->lexical->sum && config->lexical->log_twice);
  EXPECT_EQ(config->vector_width(), 100);
}

TEST(EncoderConfig, LogitScoreNamesTokensAndIsForDecoders) {
  ModuleFiles files = WithModules({{"LogitScore", R"({"true_token_id":9,"false_token_id":null})"}});
  const auto modules = ReadVectorModules(files, 64);
  ASSERT_TRUE(modules.ok()) << modules.status();
  ASSERT_TRUE(modules->scores.has_value());
  EXPECT_EQ(modules->scores->yes, 9);
  EXPECT_FALSE(modules->scores->no.has_value());
  EXPECT_EQ(modules->scores->activation, ScoreActivation::kSigmoid);
  EXPECT_THAT(ReadEncoderConfig(files).status().message(), HasSubstr("LogitScore"));
  files.sentence_transformers = R"({"activation_fn":"torch.nn.modules.linear.Identity"})";
  EXPECT_EQ(ReadVectorModules(files, 64)->scores->activation, ScoreActivation::kNone);
  const std::pair<ModuleFiles, const char*> cases[] = {
      {WithModules({{"LogitScore", "{}"}}), "true_token_id"},
      {WithModules({{"LogitScore", ""}}), "1/config.json"},
      {WithModules({{"LogitScore", R"({"true_token_id":-1})"}}), "true_token_id"},
      {WithModules({{"LogitScore", R"({"true_token_id":1,"false_token_id":"no"})"}}),
       "false_token_id"},
      {WithModules({{"LogitScore", R"({"true_token_id":1,"module_input_name":"x"})"}}),
       "module_input_name"},
      {WithModules({{"LogitScore", R"({"true_token_id":1})"}, {"Normalize", ""}}), "Normalize"},
      {WithModules({{"Pooling", kPooling}, {"LogitScore", R"({"true_token_id":1})"}}),
       "LogitScore"}};
  for (const auto& [odd, named] : cases)
    EXPECT_THAT(ReadVectorModules(odd, 64).status().message(), HasSubstr(named));
}

TEST(EncoderConfig, ModulesThatCannotRunAreRefusedByName) {
  const std::pair<std::string, std::string> pooling{"Pooling", kPooling}, dense{"Dense", kDense},
      splade{"SpladePooling", "{}"}, normalize{"Normalize", ""};
  const auto odd = [](const char* from, const char* to) {
    return std::pair<std::string, std::string>{"Dense", Replaced(kDense, from, to)};
  };
  const std::pair<ModuleFiles, const char*> cases[] = {
      {WithModules({dense, pooling}), "Pooling"},
      {WithModules({pooling, splade}), "SpladePooling"},
      {WithModules({splade, dense}), "Dense"},
      {WithModules({pooling, normalize, dense}), "Dense"},
      {WithModules({pooling, {"LayerNorm", "{}"}}), "LayerNorm"},
      {WithModules({pooling, {"Dense", ""}}), "2/config.json"},
      {WithModules({pooling, {"Dense", "{"}}), "2/config.json"},
      {WithModules({pooling, dense, dense}), "reads 64 values, it gets 24"},
      {WithModules({pooling, odd("64", "48")}), "in_features"},
      {WithModules({pooling, odd("64", "-1")}), "in_features"},
      {WithModules({pooling, odd("24", "0")}), "out_features"},
      {WithModules({pooling, odd("Identity", "Softsign")}), "activation_function"},
      {WithModules({pooling, odd("{", R"({"use_residual":true,)")}), "use_residual"},
      {WithModules({{"SpladePooling", R"({"pooling_strategy":"min"})"}}), "pooling_strategy"},
      {WithModules({{"SpladePooling", R"({"activation_function":"gelu"})"}}),
       "activation_function"},
  };
  for (const auto& [files, named] : cases) {
    const auto config = ReadEncoderConfig(files);
    EXPECT_EQ(config.status().reason(), "model_hparam") << named;
    EXPECT_THAT(config.status().message(), HasSubstr(named));
  }
  for (const char* path : {"", "..", "a/b", "/etc"}) {
    const std::string modules = std::string(R"([{"type":"x.Dense","path":")") + path + R"("}])";
    EXPECT_EQ(ListModules(modules).status().reason(), "model_hparam") << path;
  }
}

TEST(EncoderConfig, PromptsAreKnownByName) {
  ModuleFiles files = Good();
  files.sentence_transformers =
      R"({"prompts":{"query":"query: ","passage":"passage: "},"default_prompt_name":"query"})";
  const auto config = ReadEncoderConfig(files);
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  EXPECT_EQ(config->prompts.at("passage"), "passage: ");
  EXPECT_EQ(config->default_prompt, "query");
}

// Each change makes the files invalid or unsupported.
TEST(EncoderConfig, WhatWouldChangeAVectorIsRefusedByName) {
  const auto config = [](const std::string& from, const std::string& to) {
    ModuleFiles files = Good();
    files.config = Replaced(kConfig, from, to);
    return files;
  };
  const auto with = [](std::string ModuleFiles::*file, const std::string& text) {
    ModuleFiles files = Good();
    files.*file = text;
    return files;
  };
  const std::vector<std::pair<ModuleFiles, std::string>> cases = {
      {config("\"bert\"", "\"t5\""), "model_type"},
      {config("\"gelu\"", "\"relu\""), "hidden_act"},
      {config("\"pad_token_id\":0", "\"position_embedding_type\":\"relative_key\""),
       "position_embedding_type"},
      {config("\"hidden_size\":64", "\"hidden_size\":72"), "hidden_size"},
      {config("\"hidden_size\":64", "\"hidden_size\":-1"), "hidden_size"},
      {config("\"hidden_size\":64", "\"hidden_size\":64.5"), "hidden_size"},
      {config("\"hidden_size\":64", "\"hidden_size\":\"64\""), "hidden_size"},
      {config("\"hidden_size\":64,", ""), "hidden_size"},
      {config("\"intermediate_size\":128", "\"intermediate_size\":99999999999999999999"),
       "intermediate_size"},
      {config("\"num_attention_heads\":4", "\"num_attention_heads\":3"), "num_attention_heads"},
      {config("\"num_attention_heads\":4", "\"num_attention_heads\":64"), "num_attention_heads"},
      {config("\"num_hidden_layers\":2", "\"num_hidden_layers\":513"), "num_hidden_layers"},
      {config("1e-12", "-1"), "layer_norm_eps"},
      {with(&ModuleFiles::config, "[]"), "config.json is no JSON object"},
      {with(&ModuleFiles::config, "{"), "config.json is no JSON object"},
      {with(&ModuleFiles::config, std::string(100'000, '[')), "config.json is no JSON object"},
      {with(&ModuleFiles::config, std::string(MaxConfigBytes("config.json") + 1, ' ')),
       "the limit is"},
      {with(&ModuleFiles::modules, R"([{"type":"x.Transformer"},{"type":"x.Dense"}])"), "Dense"},
      {with(&ModuleFiles::modules, "[1]"), "type"},
      {with(&ModuleFiles::pooling, R"({"pooling_mode_weightedmean_tokens":true})"),
       "pooling_mode_weightedmean_tokens"},
      {with(&ModuleFiles::pooling,
            R"({"pooling_mode_mean_tokens":true,"pooling_mode_cls_token":true})"),
       "set 2 times"},
      {with(&ModuleFiles::pooling, "{}"), "set 0 times"},
      {with(&ModuleFiles::pooling, R"({"pooling_mode":"weightedmean"})"),
       "pooling_mode is \"weightedmean\", which is not supported"},
      {with(&ModuleFiles::pooling, R"({"pooling_mode":["mean","cls"]})"),
       "pooling_mode names 2 ways, not one"},
      {with(&ModuleFiles::pooling, R"({"pooling_mode":3})"), "pooling_mode is 3"},
      {with(&ModuleFiles::pooling, R"({"pooling_mode":"mean","embedding_dimension":32})"),
       "embedding_dimension is 32"},
      {with(&ModuleFiles::pooling, R"({"pooling_mode":"mean","include_prompt":false})"),
       "include_prompt"},
      {config("\"pad_token_id\":0", "\"is_decoder\":true"), "is_decoder"},
      {with(&ModuleFiles::pooling,
            R"({"pooling_mode_mean_tokens":true,"word_embedding_dimension":32})"),
       "word_embedding_dimension"},
      {with(&ModuleFiles::sentence_bert, R"({"max_seq_length":0})"), "max_seq_length"},
      {with(&ModuleFiles::sentence_transformers, R"({"prompts":{"a":1}})"), "prompts"},
      {with(&ModuleFiles::sentence_transformers, R"({"default_prompt_name":"a"})"),
       "default_prompt_name"},
  };
  for (const auto& [files, named] : cases) {
    const auto read = ReadEncoderConfig(files);
    ASSERT_FALSE(read.ok()) << named;
    EXPECT_EQ(read.status().reason(), "model_hparam");
    EXPECT_THAT(read.status().message(), HasSubstr(named));
  }
}

TEST(EncoderConfig, ThePoolingFolderLiesInTheCheckpoints) {
  const auto listed = ListModules(kModules);
  ASSERT_TRUE(listed.ok()) << listed.status();
  const auto pooling = std::ranges::find(*listed, "Pooling", &ModuleEntry::kind);
  ASSERT_NE(pooling, listed->end());
  EXPECT_EQ(pooling->folder, "1_Pooling");
  EXPECT_TRUE(ListModules("")->empty());
  for (const char* path : {"", ".", "..", "../x", "/etc", "a/b"}) {
    const std::string modules = std::string(R"([{"type":"x.Pooling","path":")") + path + R"("}])";
    EXPECT_EQ(ListModules(modules).status().reason(), "model_hparam") << path;
  }
}

}  // namespace
}  // namespace tutti::model
