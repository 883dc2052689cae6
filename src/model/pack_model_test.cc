#include "model/pack_model.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "files/digest.h"
#include "gguf/testing/checkpoint.h"
#include "packed/file.h"
#include "tensor/dtype.h"

namespace tutti::model {
namespace {

using gguf::testing::MakeCheckpoint;
using tensor::DType;

std::shared_ptr<const gguf::File> SourceOf(const gguf::testing::CheckpointSpec& spec) {
  auto file = gguf::File::FromSource(gguf::MemorySource(MakeCheckpoint(spec).Build()));
  EXPECT_TRUE(file.ok()) << file.status();
  return *file;
}

std::vector<std::byte> BytesOf(const PackedModel& model) {
  std::vector<std::byte> bytes = model.front;
  bytes.insert(bytes.end(), model.weights->data(), model.weights->data() + model.weights->bytes());
  return bytes;
}

Result<DecoderCheckpoint> OpenedFrom(const std::vector<std::byte>& bytes) {
  ASSIGN_OR_RETURN(auto file,
                   packed::File::FromSource(files::MemorySource(bytes, packed::kTruncated)));
  return DecoderCheckpoint::FromPacked(std::move(file));
}

// The panels, vectors and places of another load, and the model's own description.
void ExpectSameModel(const gguf::testing::CheckpointSpec& spec, WeightMode mode,
                     bool bf16_pairs = false) {
  const auto file = SourceOf(spec);
  const auto packed = PackModel(*file, {.mode = mode, .threads = 2});
  ASSERT_TRUE(packed.ok()) << packed.status();
  const std::vector<std::byte> bytes = BytesOf(*packed);
  const auto checkpoint = OpenedFrom(bytes);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  size_t told = 0;
  const auto read = Weights::Load(*checkpoint, {.mode = mode,
                                                .threads = 3,
                                                .bf16_pairs = bf16_pairs,
                                                .progress = [&](size_t done, size_t total) {
                                                  EXPECT_LE(done, total);
                                                  told = done;
                                                  return true;
                                                }});
  ASSERT_TRUE(read.ok()) << read.status();
  const auto made = Weights::Load(*file, {.mode = mode, .bf16_pairs = bf16_pairs});
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(told, (*made)->bytes());
  EXPECT_EQ((*read)->bf16_pairs(), (*made)->bf16_pairs());
  ASSERT_EQ((*read)->bytes(), (*made)->bytes());
  EXPECT_EQ(std::memcmp((*read)->data(), (*made)->data(), (*made)->bytes()), 0);
  const auto offset = [](const Weights& weights, const void* at) {
    return static_cast<const std::byte*>(at) - weights.data();
  };
  for (int i = 0; i < (*made)->config().layers; ++i) {
    const LayerWeights& one = (*read)->layer(i);
    const LayerWeights& other = (*made)->layer(i);
    EXPECT_EQ(offset(**read, one.attn_norm), offset(**made, other.attn_norm));
    ASSERT_EQ(one.qkv.parts.size(), other.qkv.parts.size());
    EXPECT_EQ(offset(**read, one.qkv.parts[0].data), offset(**made, other.qkv.parts[0].data));
    EXPECT_EQ(one.gate_up.parts[0].format, other.gate_up.parts[0].format);
    EXPECT_EQ(offset(**read, one.down.parts[0].data), offset(**made, other.down.parts[0].data));
  }
  EXPECT_EQ(offset(**read, (*read)->output_norm()), offset(**made, (*made)->output_norm()));
  EXPECT_EQ((*read)->config().rope_freq_factors, (*made)->config().rope_freq_factors);
  EXPECT_EQ(checkpoint->tokenizer.tokens.size(), (*made)->config().vocab_size);
}

TEST(PackModelTest, ReadingGivesTheBytesThatPackingGives) {
  gguf::testing::CheckpointSpec spec;
  for (const DType type : {DType::kF32, DType::kBF16, DType::kQ4_1, DType::kQ4_K, DType::kQ8_0}) {
    SCOPED_TRACE(tensor::Name(type));
    spec.type = type;
    ExpectSameModel(spec, WeightMode::kInt8);
  }
  spec.tied = false;
  spec.rope = gguf::testing::RopeScaling::kLlama3;  // a tensor that is no weight
  for (const WeightMode mode : {WeightMode::kF32, WeightMode::kF16, WeightMode::kBf16}) {
    SCOPED_TRACE(static_cast<int>(mode));
    ExpectSameModel(spec, mode);
  }
}

// The file is the same for all machines; where bfloat16 is multiplied, so are the weights of it.
TEST(PackModelTest, SixteenBitsBecomePairsWhereTheProcessorMultipliesThem) {
  gguf::testing::CheckpointSpec spec;
  for (const bool tied : {true, false}) {
    spec.tied = tied;
    for (const DType type : {DType::kF16, DType::kBF16, DType::kQ4_1, DType::kF32}) {
      spec.type = type;
      for (const WeightMode mode : {WeightMode::kInt8, WeightMode::kBf16, WeightMode::kF16}) {
        SCOPED_TRACE(::testing::Message() << tensor::Name(type) << " " << static_cast<int>(mode));
        ExpectSameModel(spec, mode, /*bf16_pairs=*/true);
      }
    }
  }
}

TEST(PackModelTest, TheBytesDoNotDependOnThreads) {
  gguf::testing::CheckpointSpec spec;
  spec.type = DType::kQ4_0;
  const auto file = SourceOf(spec);
  const auto one = PackModel(*file, {.threads = 1});
  const auto four = PackModel(*file, {.threads = 4});
  ASSERT_TRUE(one.ok() && four.ok());
  EXPECT_EQ(BytesOf(*one), BytesOf(*four));
}

TEST(PackModelTest, WhatIsForAnotherProgramOrArithmeticIsRefused) {
  const auto packed = PackModel(*SourceOf({}), {});
  ASSERT_TRUE(packed.ok()) << packed.status();
  std::vector<std::byte> bytes = BytesOf(*packed);
  auto checkpoint = OpenedFrom(bytes);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  const Status other = Weights::Load(*checkpoint, {.mode = WeightMode::kF32}).status();
  EXPECT_EQ(other.reason(), "packed_dtype");
  EXPECT_NE(other.message().find("tutti pack --dtype f32"), std::string::npos) << other;

  const auto sign = [&] {
    const uint64_t sum = files::Xxh64(std::span(bytes).first(120));
    std::memcpy(bytes.data() + 120, &sum, sizeof sum);
  };
  const uint32_t layout = kWeightsLayout + 1;
  std::memcpy(bytes.data() + 12, &layout, sizeof layout);
  sign();
  checkpoint = OpenedFrom(bytes);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  const Status newer = Weights::Load(*checkpoint, {}).status();
  EXPECT_EQ(newer.reason(), "packed_layout");
  EXPECT_NE(newer.message().find("pack the model again"), std::string::npos) << newer;
}

// The weights are of another size than the file's tensor table requires; all checksums are right.
TEST(PackModelTest, WeightsOfAnotherSizeThanTheModelsAreRefused) {
  const auto packed = PackModel(*SourceOf({}), {});
  ASSERT_TRUE(packed.ok()) << packed.status();
  const auto checkpoint = OpenedFrom(BytesOf(*packed));
  ASSERT_TRUE(checkpoint.ok());
  packed::Preamble preamble = checkpoint->packed->preamble();
  const std::vector<std::byte> description(
      packed->front.begin() + static_cast<ptrdiff_t>(preamble.description_at()),
      packed->front.begin() +
          static_cast<ptrdiff_t>(preamble.description_at() + preamble.description_bytes));
  preamble.weight_bytes -= 64;
  const std::span<const std::byte> weights(packed->weights->data(),
                                           static_cast<size_t>(preamble.weight_bytes));
  std::vector<std::byte> bytes = packed::MakeFront(preamble, description, weights);
  bytes.insert(bytes.end(), weights.begin(), weights.end());
  const auto less = OpenedFrom(bytes);
  ASSERT_TRUE(less.ok()) << less.status();
  EXPECT_EQ(Weights::Load(*less, {}).status().reason(), "packed_header");
  EXPECT_EQ(Weights::Plan(*less, {}).status().reason(), "packed_header") << "before it is read";
}

TEST(PackModelTest, ADamagedPieceOrAnAbandonedLoadGivesNoWeights) {
  const auto packed = PackModel(*SourceOf({}), {});
  ASSERT_TRUE(packed.ok()) << packed.status();
  std::vector<std::byte> bytes = BytesOf(*packed);
  auto checkpoint = OpenedFrom(bytes);
  ASSERT_TRUE(checkpoint.ok());
  EXPECT_EQ(Weights::Load(*checkpoint, {.progress = [](size_t, size_t) { return false; }})
                .status()
                .reason(),
            "cancelled");
  bytes[bytes.size() - 100] ^= std::byte{16};
  checkpoint = OpenedFrom(bytes);
  ASSERT_TRUE(checkpoint.ok());
  EXPECT_EQ(Weights::Load(*checkpoint, {.threads = 2}).status().reason(), "packed_checksum");
}

// When this fails, weights lie otherwise in memory than they did: raise kWeightsLayout, so that
// files which were packed before are refused, and put the new numbers here.
TEST(WeightsLayoutTest, IsTheOneThatPackedFilesHold) {
  EXPECT_EQ(kWeightsLayout, 3U);
  const std::map<DType, uint64_t> sums = {
      {DType::kF32, 0xfdfc4f8002ca0ead},  {DType::kF16, 0x338a5c3f3687fef3},
      {DType::kQ4_0, 0x3d9131ebeae48397}, {DType::kQ4_1, 0xc3bce2b53e3e560c},
      {DType::kQ5_0, 0xd713995a458bf7dc}, {DType::kQ5_1, 0xbe9701f399b5c388},
      {DType::kQ8_0, 0x6d6ab2d9af754e67}, {DType::kQ4_K, 0x9d62603a0a30ad8e},
      {DType::kQ5_K, 0x9e0ebb8125ca8978}, {DType::kQ6_K, 0x2a66c292ef8a3666},
      {DType::kBF16, 0xe27039352f4be403},
  };
  for (const auto& [type, sum] : sums) {
    gguf::testing::CheckpointSpec spec;
    spec.type = type;
    spec.tied = false;
    const auto weights = Weights::Load(*SourceOf(spec), {});
    ASSERT_TRUE(weights.ok()) << weights.status();
    EXPECT_EQ(files::Xxh64({(*weights)->data(), (*weights)->bytes()}), sum)
        << "{DType::k" << tensor::Name(type) << ", 0x" << std::hex
        << files::Xxh64({(*weights)->data(), (*weights)->bytes()}) << "},";
  }
}

}  // namespace
}  // namespace tutti::model
