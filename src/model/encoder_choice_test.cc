#include "model/encoder_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "files/source.h"
#include "kernels/isa.h"
#include "kernels/pack.h"
#include "model/testing/generated_encoder.h"
#include "safetensors/checkpoint.h"

namespace tutti::model {
namespace {

using testing::GeneratedEncoder;
using testing::GenerateEncoder;
using ::testing::HasSubstr;

// Letters, some with what follows a word's beginning: 50 tokens with the special ones.
std::shared_ptr<const tokenizer::Tokenizer> Letters() {
  tokenizer::TokenizerSpec spec;
  spec.model = "bert";
  spec.wordpiece_plain_vocabulary = true;
  spec.tokens = {"[PAD]", "[UNK]", "[CLS]", "[SEP]"};
  spec.pad = 0;
  spec.unk = 1;
  spec.cls = 2;
  spec.sep = 3;
  for (char c = 'a'; c <= 'z'; ++c) spec.tokens.emplace_back(1, c);
  for (char c = 'a'; c <= 't'; ++c) spec.tokens.push_back(std::string("##") + c);
  return *tokenizer::Tokenizer::Create(std::move(spec));
}

Result<EncoderChoice> Choose(const GeneratedEncoder& generated,
                             std::optional<EncoderDType> dtype = std::nullopt, int threads = 1) {
  const auto bytes = generated.writer.Build();
  auto file = safetensors::File::FromSource(files::MemorySource(bytes, "st_offsets"));
  EXPECT_TRUE(file.ok()) << file.status();
  const auto store = MakeTensorStore(safetensors::Checkpoint::Of(*file));
  ChooseOptions options;
  options.dtype = dtype;
  options.kernels = &kernels::KernelsFor(kernels::DetectIsas().back());
  options.threads = threads;
  return ChooseEncoderWeights(generated.config, *store, *Letters(), options);
}

// As generated, but of one tensor every value went through `change`.
GeneratedEncoder Changed(const std::string& name, float (*change)(float)) {
  const GeneratedEncoder plain = GenerateEncoder();
  GeneratedEncoder changed;
  changed.config = plain.config;
  const auto bytes = plain.writer.Build();
  auto file = *safetensors::File::FromSource(files::MemorySource(bytes, "st_offsets"));
  for (const auto& tensor : file->tensors()) {
    const auto dims = tensor.shape.dims();
    std::vector<float> values = plain.tensors.at(tensor.name);
    if (tensor.name.find(name) != std::string::npos)
      std::transform(values.begin(), values.end(), values.begin(), change);
    changed.Add(tensor.name, {dims.begin(), dims.end()}, std::move(values));
  }
  return changed;
}

TEST(EncoderChoice, Int8IsTheDefaultWhereItStaysNearFloat32) {
  const auto choice = Choose(GenerateEncoder());
  ASSERT_TRUE(choice.ok()) << choice.status();
  EXPECT_EQ(choice->dtype(), EncoderDType::kInt8);
  EXPECT_GE(*choice->cosine, kMinCosine);
  EXPECT_LT(*choice->cosine, 1);
  EXPECT_THAT(choice->ToString(), HasSubstr("int8, a scale per row (minimum cosine "));
  EXPECT_NE(choice->weights->layer(0).qkv.input_factors, nullptr);
  EXPECT_EQ(choice->weights->layer(0).attn_output.input_factors, nullptr);
}

TEST(EncoderChoice, TheChoiceDoesNotDependOnThreads) {
  const auto one = Choose(GenerateEncoder()), three = Choose(GenerateEncoder(), std::nullopt, 3);
  ASSERT_TRUE(one.ok() && three.ok());
  EXPECT_EQ(one->cosine, three->cosine);
  const auto& a = one->weights->layer(1).down.weight;
  const auto& b = three->weights->layer(1).down.weight;
  EXPECT_TRUE(std::equal(a.data, a.data + kernels::PackedBytes(a), b.data));
}

TEST(EncoderChoice, WhatIsAskedForIsLoaded) {
  for (const EncoderDType dtype : {EncoderDType::kF32, EncoderDType::kBf16, EncoderDType::kInt8}) {
    const auto choice = Choose(GenerateEncoder(), dtype);
    ASSERT_TRUE(choice.ok()) << choice.status();
    EXPECT_EQ(choice->dtype(), dtype);
    EXPECT_THAT(choice->ToString(), HasSubstr(EncoderDTypeName(dtype)));
  }
  EXPECT_FALSE(Choose(GenerateEncoder(), EncoderDType::kBf16)->cosine.has_value());
  EXPECT_EQ(Choose(GenerateEncoder(), EncoderDType::kF32)->ToString(), "f32");
}

// A Dense module to one value leaves nothing of a direction but its sign.
TEST(EncoderChoice, WhatRequestsGetIsCompared) {
  const double plain = *Choose(GenerateEncoder())->cosine;
  const auto with_dense = [](int out) {
    GeneratedEncoder generated = GenerateEncoder();
    const auto rows = static_cast<size_t>(out);
    const auto columns = static_cast<size_t>(generated.config.width);
    std::vector<float> weight(rows * columns);
    for (size_t i = 0; i < weight.size(); ++i) weight[i] = static_cast<float>(i * 37 % 11) - 5;
    DenseModule& dense = generated.config.dense.emplace_back();
    dense.folder = "2_Dense";
    dense.in = generated.config.width;
    dense.out = out;
    dense.bias = false;
    generated.Add("2_Dense/linear.weight", {rows, columns}, std::move(weight));
    return generated;
  };
  EXPECT_LT(plain, 1 - 1e-9);
  EXPECT_NEAR(*Choose(with_dense(1))->cosine, 1, 1e-9);
  GeneratedEncoder tokens = with_dense(8);
  const double pooled = *Choose(tokens)->cosine;
  tokens.config.per_token = true;
  EXPECT_LT(*Choose(tokens)->cosine, pooled) << "a mean of tokens is nearer than each of them";
}

// Attention that is all or nothing: which key wins depends on digits that smaller types lack.
TEST(EncoderChoice, AModelThatSmallerTypesSpoilStaysLarger) {
  GeneratedEncoder fragile =
      Changed("attention.self.query.weight", [](float v) { return v * 3000; });
  fragile.config.pooling = Pooling::kCls;
  const auto choice = Choose(fragile);
  ASSERT_TRUE(choice.ok()) << choice.status();
  const auto asked = Choose(fragile, EncoderDType::kInt8);
  ASSERT_TRUE(asked.ok()) << asked.status();
  std::printf("%s; asked: %s\n", choice->ToString().c_str(), asked->ToString().c_str());
  EXPECT_LT(*asked->cosine, kMinCosine);
  EXPECT_GE(*choice->cosine, kMinCosine);
  EXPECT_NE(choice->dtype(), EncoderDType::kInt8);
}

TEST(EncoderChoice, AModelThatGivesNoNumbersIsRefused) {
  EXPECT_EQ(Choose(GenerateEncoder({.poisoned = 2})).status().reason(), "model_nonfinite");
}

TEST(EncoderChoice, TypesAreKnownByName) {
  EXPECT_EQ(*ParseEncoderDType("f32"), EncoderDType::kF32);
  EXPECT_EQ(*ParseEncoderDType("bf16"), EncoderDType::kBf16);
  EXPECT_EQ(*ParseEncoderDType("int8"), EncoderDType::kInt8);
  EXPECT_EQ(*ParseEncoderDType("INT8"), EncoderDType::kInt8);
  EXPECT_EQ(*ParseEncoderDType("FP32"), EncoderDType::kF32);
  for (const char* name : {"", "fp8", "int4", "q4_1"})
    EXPECT_EQ(ParseEncoderDType(name).status().reason(), "invalid_value") << name;
}

TEST(CheckTexts, NoneIsSeenBeforeItIsChecked) {
  std::set<std::string_view> seen(PeakTexts().begin(), PeakTexts().end());
  EXPECT_EQ(seen.size(), 16u);
  EXPECT_EQ(CheckTexts().size(), 16u);
  for (const std::string_view text : CheckTexts()) EXPECT_TRUE(seen.insert(text).second) << text;
}

}  // namespace
}  // namespace tutti::model
