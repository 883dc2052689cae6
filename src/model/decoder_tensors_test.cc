#include "model/decoder_tensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "files/source.h"
#include "gguf/file.h"
#include "gguf/testing/writer.h"
#include "model/families/family.h"
#include "safetensors/testing/writer.h"

namespace tutti::model {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

std::unique_ptr<TensorStore> Folder(const std::vector<std::string>& names) {
  safetensors::testing::Writer writer;
  for (const std::string& name : names) writer.Floats(name, {2}, {1, 2});
  auto file = safetensors::File::FromSource(files::MemorySource(writer.Build(), "st_offsets"));
  CHECK(file.ok()) << file.status();
  return MakeTensorStore(safetensors::Checkpoint::Of(*std::move(file)));
}

std::unique_ptr<TensorStore> Gguf(const std::vector<std::string>& names) {
  gguf::testing::Writer writer;
  const std::vector<float> values = {1, 2};
  for (const std::string& name : names) writer.Tensor(name, tensor::DType::kF32, {2}, values);
  auto file = gguf::File::FromSource(gguf::MemorySource(writer.Build()));
  CHECK(file.ok()) << file.status();
  return MakeTensorStore(*std::move(file));
}

struct Left {
  std::vector<std::string> names, remarks;
};

Left Drop(std::unique_ptr<TensorStore> store, Form form, bool tied = false) {
  DecoderTensors tensors(std::move(store), kLlama, form);
  ModelConfig config;
  config.layers = 2;
  config.tied_head = tied;
  Left left;
  tensors.DropUnneeded(config, left.remarks);
  for (const StoredTensor& tensor : tensors.tensors()) {
    EXPECT_EQ(tensors.Find(tensor.name), &tensor);
    EXPECT_TRUE(tensors.ReadFloats(tensor).ok());
    left.names.push_back(tensor.name);
  }
  return left;
}

TEST(DecoderTensorsTest, NamesOfATextAreFoundBehindAnyPrefix) {
  for (const std::string prefix : {"", "model.", "language_model.model.", "model.language_model.",
                                   "model.text_model.", "thinker.model."}) {
    std::vector<std::string> names;
    for (const char* name : {"embed_tokens.weight", "norm.weight",
                             "layers.0.self_attn.q_proj.weight", "layers.1.mlp.down_proj.weight"})
      names.push_back(prefix + name);
    EXPECT_EQ(TextPrefix(*Folder(names)), prefix);
    const size_t dot = prefix.find('.');
    const bool part = dot != std::string::npos && dot + 1 < prefix.size() && prefix[0] != 'm';
    names.push_back((part ? prefix.substr(0, dot + 1) : "") + "lm_head.weight");
    const Left left = Drop(Folder(names), Form::kTransformers);
    EXPECT_THAT(left.names, UnorderedElementsAre("token_embd.weight", "output_norm.weight",
                                                 "blk.0.attn_q.weight", "blk.1.ffn_down.weight",
                                                 "output.weight"))
        << prefix;
    EXPECT_THAT(left.remarks, IsEmpty()) << prefix;
  }
}

// As transformers 4.57 saves Gemma 3n.
TEST(DecoderTensorsTest, TheProjectionOfLayerInputsHasTwoNames) {
  for (const char* name :
       {"per_layer_model_projection.weight", "per_layer_model.language_model_projection.weight"}) {
    const std::string prefix = "model.language_model.";
    const Left left = Drop(Folder({prefix + "embed_tokens.weight", prefix + "norm.weight",
                                   prefix + name, prefix + "layers.0.self_attn.q_proj.weight"}),
                           Form::kTransformers);
    EXPECT_THAT(left.names, ::testing::Contains("per_layer_model_proj.weight")) << name;
  }
}

TEST(DecoderTensorsTest, WhatNoAnswerDependsOnIsLeftOutWithOneRemark) {
  const Left left =
      Drop(Folder({"model.embed_tokens.weight", "model.norm.weight", "mtp.fc.weight",
                   "model.layers.0.self_attn.rotary_emb.inv_freq", "v_head.summary.weight",
                   "model.layers.2.input_layernorm.weight", "model.vision_tower.a.weight",
                   "vision_tower.b.weight", "score.weight", "language_model.x"}),
           Form::kTransformers);
  EXPECT_THAT(left.names, UnorderedElementsAre("token_embd.weight", "output_norm.weight"));
  ASSERT_EQ(left.remarks.size(), 1U);
  EXPECT_THAT(left.remarks[0], HasSubstr("8 tensors are not needed and not read: "
                                         "\"language_model.x\", "));
}

TEST(DecoderTensorsTest, WhatMayChangeAnswersIsKeptToBeRefused) {
  const std::vector<std::string> odd = {"model.layers.1.self_attn.sinks",
                                        "model.layers.0.extra_norm.weight",
                                        "model.embed_norm.weight", "lm_head.bias"};
  std::vector<std::string> names = {"model.embed_tokens.weight", "model.norm.weight"};
  names.insert(names.end(), odd.begin(), odd.end());
  const Left left = Drop(Folder(names), Form::kTransformers);
  EXPECT_THAT(left.remarks, IsEmpty());
  for (const std::string& name : odd) {
    const std::string known = name == "lm_head.bias" ? "output.bias" : name;
    EXPECT_THAT(left.names, ::testing::Contains(known));
  }
}

TEST(DecoderTensorsTest, AHeadBesideATiedEmbeddingIsNotRead) {
  const std::vector<std::string> names = {"embed_tokens.weight", "norm.weight", "lm_head.weight"};
  EXPECT_THAT(Drop(Folder(names), Form::kTransformers, true).names,
              UnorderedElementsAre("token_embd.weight", "output_norm.weight"));
  EXPECT_EQ(Drop(Folder(names), Form::kTransformers, false).names.size(), 3U);
}

TEST(DecoderTensorsTest, OfAGgufOtherPartsAreLeftOut) {
  const Left left =
      Drop(Gguf({"token_embd.weight", "blk.1.ffn_up.weight", "blk.2.ffn_up.weight",
                 "blk.1.nextn.eh_proj.weight", "v.patch_embd.weight", "mm.input_projection.weight",
                 "blk.0.attn_sinks.weight", "rope_factors_long.weight"}),
           Form::kGguf);
  EXPECT_THAT(left.names, UnorderedElementsAre("token_embd.weight", "blk.1.ffn_up.weight",
                                               "blk.2.ffn_up.weight", "blk.0.attn_sinks.weight",
                                               "rope_factors_long.weight"));
  EXPECT_THAT(left.remarks, ElementsAre(HasSubstr("3 tensors are not needed")));
}

TEST(DecoderTensorsTest, NamesOfTransformersBecomeThoseOfGguf) {
  const Family& llama = *FamilyOfModelType("llama");
  EXPECT_EQ(GgufName(llama, "model.embed_tokens.weight"), "token_embd.weight");
  EXPECT_EQ(GgufName(llama, "lm_head.weight"), "output.weight");
  EXPECT_EQ(GgufName(llama, "model.layers.12.self_attn.q_proj.bias"), "blk.12.attn_q.bias");
  EXPECT_EQ(GgufName(llama, "model.layers.0.post_attention_layernorm.weight"),
            "blk.0.ffn_norm.weight");
  EXPECT_EQ(
      GgufName(*FamilyOfModelType("gemma2"), "model.layers.0.post_attention_layernorm.weight"),
      "blk.0.post_attention_norm.weight");
  EXPECT_EQ(
      GgufName(*FamilyOfModelType("qwen3_moe"), "model.layers.1.mlp.experts.5.up_proj.weight"),
      "blk.1.ffn_up.5.weight");
  EXPECT_EQ(GgufName(*FamilyOfModelType("mixtral"),
                     "model.layers.1.block_sparse_moe.experts.3.w2.weight"),
            "blk.1.ffn_down.3.weight");
  // A name that fits no pattern stays as it is, and is refused under it.
  EXPECT_EQ(GgufName(llama, "model.layers.1.odd.weight"), "model.layers.1.odd.weight");
  EXPECT_EQ(GgufName(llama, "vision.weight"), "vision.weight");
}

}  // namespace
}  // namespace tutti::model
