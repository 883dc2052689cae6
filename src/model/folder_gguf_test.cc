#include "model/folder_gguf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "gguf/metadata.h"
#include "gguf/testing/checkpoint.h"
#include "model/testing/decoder_folder.h"
#include "model/tokenizer_metadata.h"
#include "model/weights.h"
#include "safetensors/testing/writer.h"
#include "tokenizer/tokenizer.h"

namespace tutti::model {
namespace {

using testing::DecoderFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
namespace json = boost::json;

// All bytes of a GGUF that is made of a folder.
std::string BytesOf(const gguf::File& file) {
  std::string bytes;
  for (const gguf::TensorInfo& tensor : file.tensors()) {
    std::string data(static_cast<size_t>(tensor.bytes), '\0');
    EXPECT_TRUE(file.Read(tensor, 0, std::as_writable_bytes(std::span(data))).ok());
    bytes += std::string(tensor.name) + tensor.shape.ToString() + data;
  }
  return bytes;
}

TEST(FolderGgufTest, AFolderIsAGgufWithItsTokenizerHoweverItIsDivided) {
  DecoderFolder folder("as_gguf");
  ASSERT_TRUE(folder.Open().ok());
  const auto sharded = OpenFolderAsGguf(folder.path());
  ASSERT_TRUE(sharded.ok()) << sharded.status();
  EXPECT_EQ(*gguf::GetString((*sharded)->header(), "general.architecture"), "llama");
  EXPECT_EQ(*gguf::GetString((*sharded)->header(), "general.name"), "decoder_folder_as_gguf");
  EXPECT_EQ(*gguf::GetUint((*sharded)->header(), "llama.block_count"), 1U);
  EXPECT_EQ((*sharded)->tensors()[0].name, "token_embd.weight");

  DecoderFolder other("as_gguf_too");
  other.sharded = false;
  ASSERT_TRUE(other.Open().ok());
  const auto whole = OpenFolderAsGguf(other.path());
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_EQ(BytesOf(**sharded), BytesOf(**whole));

  // Read as any GGUF: the configuration and the tokens of the folder.
  auto made = DecoderCheckpoint::FromGguf(*sharded);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->config.context_length, 128);
  EXPECT_TRUE(made->config.tied_head);
  EXPECT_EQ(made->config.rope_mode, kernels::RopeMode::kAdjacent);
  auto given = folder.Open();
  ASSERT_TRUE(given.ok());
  EXPECT_EQ(made->tokenizer.tokens, given->tokenizer.tokens);
  EXPECT_EQ(made->tokenizer.chat_template, given->tokenizer.chat_template);
  const auto one = tokenizer::Tokenizer::Create(std::move(made->tokenizer));
  const auto two = tokenizer::Tokenizer::Create(std::move(given->tokenizer));
  ASSERT_TRUE(one.ok() && two.ok());
  for (const char* text : {"Hello world", "the 12 hens\n of 1999", "<|im_start|>a<|im_end|>",
                           "\xc3\xa9 \xf0\x9f\x98\x80"})
    EXPECT_EQ((*one)->Encode(text, {.parse_special = true}),
              (*two)->Encode(text, {.parse_special = true}))
        << text;
  for (const TokenId id : {0, 1, 2})
    EXPECT_EQ((*one)->vocabulary().IsEog(id), (*two)->vocabulary().IsEog(id)) << id;
}

TEST(FolderGgufTest, CarriesTheDefaultsOfSampling) {
  DecoderFolder folder("sampling");
  folder.generation =
      R"({"do_sample":false,"temperature":0.6,"top_k":7,"top_p":0.95,"min_p":0.1,
          "repetition_penalty":1.1})";
  auto checkpoint = folder.Open();
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  const std::string said = checkpoint->generation.Text();
  const auto file = FolderAsGguf(*std::move(checkpoint), "");
  ASSERT_TRUE(file.ok()) << file.status();
  const auto made = DecoderCheckpoint::FromGguf(*file);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->generation.Text(), said);
}

TEST(FolderGgufTest, CarriesThePipelineOfTheTokenizer) {
  DecoderFolder folder("pipeline");
  folder.generation = R"({"eos_token_id":[0,5,6,7]})";
  auto checkpoint = folder.Open();
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  const tokenizer::TokenizerSpec given = checkpoint->tokenizer;
  const auto file = FolderAsGguf(*std::move(checkpoint), "");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE((*file)->header().Find("tokenizer.ggml.tutti.pipeline").has_value());
  const auto read = ReadTokenizerSpec((*file)->header());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->split, given.split);
  EXPECT_EQ(read->normalizer, given.normalizer);
  EXPECT_EQ(read->ignore_merges, given.ignore_merges);
  EXPECT_EQ(read->pre, given.pre);
  EXPECT_THAT(read->ends, ElementsAre(6, 7)) << "those that no key of the format names";
  EXPECT_TRUE(read->has_steps);
}

TEST(FolderGgufTest, CarriesLayersThatDoNotRotate) {
  DecoderFolder folder("unrotated");
  folder.config["model_type"] = "smollm3";
  folder.config["no_rope_layers"] = json::array{0};
  auto checkpoint = folder.Open();
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  const auto file = FolderAsGguf(*std::move(checkpoint), "");
  ASSERT_TRUE(file.ok()) << file.status();
  const auto made = DecoderCheckpoint::FromGguf(*file);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_FALSE(made->config.rotates(0));
}

TEST(FolderGgufTest, LeavesOutEndsThatAreNoTokens) {
  DecoderFolder folder("no_token");
  folder.generation = R"({"eos_token_id":[100000,0]})";
  auto checkpoint = folder.Open();
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  ASSERT_EQ(checkpoint->tokenizer.eot, 100000);
  const auto file = FolderAsGguf(*std::move(checkpoint), "");
  ASSERT_TRUE(file.ok()) << file.status();
  const auto read = ReadTokenizerSpec((*file)->header());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->eos, 2);
  EXPECT_EQ(read->eot, std::nullopt);
  EXPECT_EQ(read->eom, 0);
}

TEST(FolderGgufTest, RefusesATokenizerThatNoDecoderHas) {
  DecoderFolder folder("unigram");
  auto checkpoint = folder.Open();
  ASSERT_TRUE(checkpoint.ok());
  checkpoint->tokenizer.model = "t5";
  EXPECT_EQ(FolderAsGguf(*std::move(checkpoint), "").status().reason(), "tokenizer_unsupported");
}

TEST(FolderGgufTest, AFolderThatIsNoSuchModelIsRefusedAsALoadDoes) {
  DecoderFolder folder("no_gguf");
  folder.config["num_hidden_layers"] = 2;
  ASSERT_TRUE(folder.Open().ok());
  EXPECT_EQ(OpenFolderAsGguf(folder.path()).status().reason(), "model_tensor_missing");
  folder.config["num_hidden_layers"] = 1;
  folder.config["intermediate_size"] = 128;
  ASSERT_TRUE(folder.Open().ok());
  EXPECT_EQ(OpenFolderAsGguf(folder.path()).status().reason(), "st_shape");
}

// What a folder says of vectors is in its GGUF too, or the conversion is refused.
TEST(FolderGgufTest, CarriesPoolingDenseModulesAndScores) {
  DecoderFolder folder("vectors");
  ASSERT_TRUE(folder.Open().ok());
  for (const char* name : {"/1_Pooling", "/2_Dense", "/1_LogitScore"})
    std::filesystem::create_directories(folder.path() + name);
  const std::string pooled =
      R"([{"type":"a.Transformer"},{"type":"a.Pooling","path":"1_Pooling"},
          {"type":"a.Dense","path":"2_Dense"},{"type":"a.Normalize","path":"3_Normalize"}])";
  const auto put_dense = [&](const char* config) {
    folder.Put("1_Pooling/config.json", R"({"pooling_mode":"cls","embedding_dimension":64})");
    folder.Put("2_Dense/config.json", config);
    folder.Put("modules.json", pooled);
    safetensors::testing::Writer writer;
    std::vector<float> rows(8 * 64, 0);
    rows[64 + 2] = 0.75F;
    writer.Floats("linear.weight", {8, 64}, rows);
    safetensors::testing::WriteFile(folder.path() + "/2_Dense/model.safetensors", writer.Build());
  };
  put_dense(R"({"in_features":64,"out_features":8,"bias":false,
                "activation_function":"torch.nn.modules.linear.Identity"})");
  const auto file = OpenFolderAsGguf(folder.path());
  ASSERT_TRUE(file.ok()) << file.status();
  const auto made = DecoderCheckpoint::FromGguf(*file);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->vectors->pooling, Pooling::kCls);
  EXPECT_TRUE(made->vectors->normalize);
  ASSERT_EQ(made->head.dense.size(), 1u);
  EXPECT_EQ(made->head.dense[0].weight[2 * 8 + 1], 0.75F);
  EXPECT_TRUE(Weights::Check(*made).ok());

  put_dense(R"({"in_features":64,"out_features":8,"bias":false})");
  EXPECT_THAT(OpenFolderAsGguf(folder.path()).status().message(), HasSubstr("activation"));
  folder.Put("modules.json", R"([{"type":"a.Pooling","path":"1_Pooling"}])");
  EXPECT_THAT(OpenFolderAsGguf(folder.path()).status().message(), HasSubstr("not normalised"));
  folder.Put("modules.json", R"([{"type":"a.LogitScore","path":"1_LogitScore"}])");
  folder.Put("1_LogitScore/config.json", R"({"true_token_id":9,"false_token_id":17})");
  EXPECT_THAT(OpenFolderAsGguf(folder.path()).status().message(), HasSubstr("\"document\""));
  folder.Put("chat_template.jinja",
             "{% for m in messages %}{{ m['role'] }} {{ m['content'] }} {% endfor %}\n");
  const auto scores = OpenFolderAsGguf(folder.path());
  ASSERT_TRUE(scores.ok()) << scores.status();
  EXPECT_EQ(*gguf::GetString((*scores)->header(), "tokenizer.chat_template.rerank"),
            "query {query} document {document} ");
  const auto scored = DecoderCheckpoint::FromGguf(*scores);
  ASSERT_TRUE(scored.ok()) << scored.status();
  EXPECT_EQ(scored->head.no, std::vector<float>(64, 0.5F));
  EXPECT_THAT(scored->tokenizer.chat_template, HasSubstr("m['role']")) << "it takes instructions";
  folder.Put("1_LogitScore/config.json", R"({"true_token_id":9})");
  EXPECT_THAT(OpenFolderAsGguf(folder.path()).status().message(), HasSubstr("one token"));
}

TEST(FolderGgufTest, CarriesPrompts) {
  DecoderFolder folder("prompts");
  ASSERT_TRUE(folder.Open().ok());
  std::filesystem::create_directories(folder.path() + "/1_Pooling");
  folder.Put("1_Pooling/config.json", R"({"pooling_mode":"mean","embedding_dimension":64})");
  folder.Put("modules.json", R"([{"type":"a.Transformer"},{"type":"a.Pooling","path":"1_Pooling"},
                                 {"type":"a.Normalize","path":"2_Normalize"}])");
  folder.Put("config_sentence_transformers.json",
             R"({"prompts":{"query":"Instruct: find\nQuery: ","document":""},
                 "default_prompt_name":"query"})");
  const auto file = OpenFolderAsGguf(folder.path());
  ASSERT_TRUE(file.ok()) << file.status();
  const auto made = DecoderCheckpoint::FromGguf(*file);
  ASSERT_TRUE(made.ok()) << made.status();
  const std::map<std::string, std::string> prompts = {{"document", ""},
                                                      {"query", "Instruct: find\nQuery: "}};
  EXPECT_EQ(made->vectors->prompts, prompts);
  EXPECT_EQ(made->vectors->default_prompt, "query");
}

}  // namespace
}  // namespace tutti::model
