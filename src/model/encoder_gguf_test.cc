#include "model/encoder_gguf.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "gguf/testing/writer.h"
#include "kernels/isa.h"
#include "model/encoder.h"
#include "model/testing/generated_encoder.h"

namespace tutti::model {
namespace {

using gguf::testing::Writer;
using testing::GeneratedEncoder;

// The generated nomic-bert under the names of its GGUF files.
Writer ConvertNomic(const GeneratedEncoder& generated) {
  const EncoderConfig& config = generated.config;
  const auto number = [](int value) { return static_cast<uint32_t>(value); };
  Writer writer;
  writer.String("general.architecture", "nomic-bert")
      .U32("nomic-bert.block_count", number(config.layers))
      .U32("nomic-bert.context_length", number(config.max_tokens))
      .U32("nomic-bert.embedding_length", number(config.width))
      .U32("nomic-bert.feed_forward_length", number(config.feed_forward))
      .U32("nomic-bert.attention.head_count", number(config.heads))
      .F32("nomic-bert.attention.layer_norm_epsilon", config.norm_eps)
      .F32("nomic-bert.rope.freq_base", static_cast<float>(config.rope_base))
      .Bool("nomic-bert.attention.causal", false)
      .U32("nomic-bert.pooling_type", 1);
  const std::pair<const char*, const char*> names[] = {
      {"embeddings.word_embeddings", "token_embd"},
      {"embeddings.token_type_embeddings", "token_types"},
      {"emb_ln", "token_embd_norm"},
      {"encoder.layers", "blk"},
      {"attn.Wqkv", "attn_qkv"},
      {"attn.out_proj", "attn_output"},
      {"norm1", "attn_output_norm"},
      {"mlp.fc11", "ffn_up"},
      {"mlp.fc12", "ffn_gate"},
      {"mlp.fc2", "ffn_down"},
      {"norm2", "layer_output_norm"},
  };
  for (const auto& [name, values] : generated.tensors) {
    std::string renamed = name;
    for (const auto& [from, to] : names) {
      if (const size_t at = renamed.find(from); at != std::string::npos)
        renamed.replace(at, std::strlen(from), to);
    }
    EXPECT_EQ(TransformersName("nomic-bert", renamed), name);
    const bool vector =
        name.find("norm") != std::string::npos || name.find("_ln") != std::string::npos;
    const uint64_t columns =
        name.find("fc2") != std::string::npos ? number(config.feed_forward) : number(config.width);
    if (vector) {
      writer.Tensor(renamed, tensor::DType::kF32, {values.size()}, values);
    } else {
      writer.Tensor(renamed, tensor::DType::kF32, {columns, values.size() / columns}, values);
    }
  }
  return writer;
}

std::vector<float> RowsOf(const std::shared_ptr<const EncoderWeights>& weights,
                          const testing::GeneratedText& text) {
  const auto encoder =
      *Encoder::Create(weights, kernels::KernelsFor(kernels::DetectIsas().back()), {});
  const std::vector<int32_t> offsets = {0, static_cast<int32_t>(text.tokens.size())};
  const EncoderBatch batch{text.tokens, text.types, offsets};
  encoder->Prepare(batch);
  PhaseBoard board(1);
  Team team(board, 0, {});
  encoder->Run(batch, team);
  const size_t floats = text.tokens.size() * static_cast<size_t>(weights->config().width);
  return {encoder->hidden(), encoder->hidden() + floats};
}

TEST(EncoderGguf, ANomicFileGivesTheBitsOfTheCheckpointItWasConvertedFrom) {
  const GeneratedEncoder generated = testing::GenerateEncoder({.architecture = "nomic-bert"});
  const auto file = gguf::File::FromSource(gguf::MemorySource(ConvertNomic(generated).Build()));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE(HoldsEncoder((*file)->header()));
  const auto config = ReadGgufEncoderConfig(**file);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->architecture, "nomic-bert");
  EXPECT_EQ(config->rope_base, 1000);
  EXPECT_EQ(config->pooling, Pooling::kMean);
  for (const EncoderDType dtype : {EncoderDType::kF32, EncoderDType::kInt8}) {
    EncoderWeights::Options options;
    options.dtype = dtype;
    const auto weights = EncoderWeights::Load(*config, *MakeEncoderStore(*file), options);
    ASSERT_TRUE(weights.ok()) << weights.status();
    const auto original = testing::LoadGenerated(generated, dtype);
    for (const auto& text : testing::GenerateTexts(generated.config, 4)) {
      const auto a = RowsOf(*weights, text), b = RowsOf(original, text);
      ASSERT_EQ(std::memcmp(a.data(), b.data(), a.size() * sizeof(float)), 0);
    }
  }
}

TEST(EncoderGguf, NamesThatAreNoEncodersStayAsTheyAre) {
  for (const char* name : {"output.weight", "blk.0", "blk.0.ffn_gate.weight", "rope_freqs.weight"})
    EXPECT_EQ(TransformersName("bert", name), name);
  EXPECT_EQ(TransformersName("bert", "blk.12.attn_q.bias"),
            "encoder.layer.12.attention.self.query.bias");
  EXPECT_EQ(TransformersName("bert", "cls.weight"), "pooler.dense.weight");
  EXPECT_EQ(TransformersName("bert", "cls.output.bias"), "classifier.bias");
}

TEST(EncoderGguf, DecodersAreNoEncoders) {
  for (const char* architecture : {"llama", "qwen2", ""}) {
    Writer writer;
    writer.String("general.architecture", architecture);
    const auto file = gguf::File::FromSource(gguf::MemorySource(writer.Build()));
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_FALSE(HoldsEncoder((*file)->header()));
    EXPECT_EQ(ReadGgufEncoderConfig(**file).status().reason(), "model_hparam");
  }
}

}  // namespace
}  // namespace tutti::model
