#include "gguf/describe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <utility>

#include "gguf/testing/checkpoint.h"
#include "gguf/testing/writer.h"
#include "gguf/value.h"

namespace tutti::gguf {
namespace {

using tensor::DType;
using testing::Bytes;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::TempFile;
using testing::Writer;

TEST(Describe, ListsMetadataTensorsAndTotals) {
  Writer writer;
  writer.String("general.name", "tiny")
      .Strings("words", std::vector<std::string>{"a", "b"})
      .U32("n", 7);
  writer.Tensor("small", DType::kF32, {8}, std::vector<float>(8));
  writer.Tensor("large", DType::kQ8_0, {64, 4}, std::vector<float>(256));
  writer.Tensor("other", DType::kQ8_0, {32}, std::vector<float>(32));
  const TempFile temp(writer.Build());
  const Description description = Describe(temp.path());
  EXPECT_TRUE(description.verdict.ok()) << description.verdict;
  ASSERT_EQ(description.metadata.size(), 3u);
  EXPECT_EQ(description.metadata[0].key, "general.name");
  EXPECT_EQ(description.metadata[0].value, "\"tiny\"");
  EXPECT_EQ(description.metadata[1].type, "array of string");
  EXPECT_EQ(description.metadata[1].count, 2u);
  EXPECT_THAT(description.metadata[1].value, HasSubstr("[\"a\", \"b\"]"));
  EXPECT_EQ(description.metadata[2].value, "7");
  ASSERT_EQ(description.tensors.size(), 3u);
  EXPECT_EQ(description.tensors[1].name, "large");
  EXPECT_EQ(description.tensors[1].type, "Q8_0");
  EXPECT_THAT(description.tensors[1].shape, ElementsAre(64, 4));
  EXPECT_EQ(description.parameters, 8u + 256 + 32);
  ASSERT_EQ(description.types.size(), 2u);
  EXPECT_EQ(description.types[0].type, "Q8_0");
  EXPECT_EQ(description.types[0].tensors, 2u);
  EXPECT_EQ(description.types[0].bytes, 9u * 34);
}

// A Q4_K_M file was introduced as one of Q5_0, its commonest type.
TEST(Describe, AFileSaysOfWhichTypeItIs) {
  for (const auto& [number, name] :
       {std::pair(15u, "Q4_K_M"), {0u, "F32"}, {32u, "BF16"}, {1023u, ""}}) {
    Writer writer;
    writer.U32("general.file_type", number);
    writer.Tensor("t", DType::kQ5_0, {64, 4}, std::vector<float>(256));
    const TempFile temp(writer.Build());
    EXPECT_EQ(Describe(temp.path()).file_type, name);
  }
}

TEST(Describe, WhatLiesBehindTheLastTensorIsCounted) {
  Writer writer;
  writer.Tensor("t", DType::kF32, {9}, std::vector<float>(9));
  Bytes bytes = writer.Build();
  EXPECT_EQ(Describe(TempFile(bytes).path()).unread_bytes, 0u);
  bytes.resize(bytes.size() + 5000);
  const Description found = Describe(TempFile(bytes).path());
  EXPECT_TRUE(found.verdict.ok()) << found.verdict;
  EXPECT_EQ(found.unread_bytes, 5000u);
}

TEST(Describe, ShowsWhatABrokenFileStillTells) {
  Writer writer;
  writer.String("general.name", "tiny");
  writer.Tensor("good", DType::kF32, {8}, std::vector<float>(8));
  writer.Tensor({"unsupported", {256}, 40, Bytes(144), {}});  // NVFP4
  writer.Tensor({"unknown", {8}, 77, Bytes(32), {}});
  const TempFile temp(writer.Build());
  const Description description = Describe(temp.path());
  EXPECT_EQ(description.verdict.reason(), "gguf_unsupported_type");
  EXPECT_THAT(description.verdict.message(), HasSubstr("unknown"));
  EXPECT_EQ(description.metadata.size(), 1u);
  ASSERT_EQ(description.tensors.size(), 2u);
  EXPECT_EQ(description.tensors[1].type, "NVFP4");

  const Bytes header = writer.BuildHeader();
  const TempFile cut(std::span<const std::byte>(header.data(), 60));
  EXPECT_EQ(Describe(cut.path()).verdict.reason(), "gguf_truncated");
  EXPECT_EQ(Describe("/nonexistent").verdict.reason(), "model_not_found");
}

TEST(Describe, AnUnsupportedTypeDoesNotHideTheTable) {
  Writer writer;
  writer.String("general.name", "tiny");
  writer.Tensor({"a", {256}, 40, Bytes(144), {}});
  writer.Tensor("b", DType::kF32, {8}, std::vector<float>(8));
  const TempFile temp(writer.Build());
  const Description description = Describe(temp.path());
  EXPECT_EQ(description.verdict.reason(), "gguf_unsupported_type");
  EXPECT_THAT(description.verdict.message(), HasSubstr("NVFP4"));
  ASSERT_EQ(description.tensors.size(), 2u);
  EXPECT_NE(description.tensors[1].file_offset, 0u);
}

TEST(Describe, ReportsNonFiniteData) {
  Writer writer;
  writer.String("general.name", "tiny");
  writer.Tensor("w", DType::kF32, {8}, std::vector<float>{0, 0, NAN, 0, 0, 0, 0, 0});
  const TempFile temp(writer.Build());
  EXPECT_EQ(Describe(temp.path()).verdict.reason(), "model_nonfinite");
  EXPECT_THAT(Describe(temp.path()).verdict.message(), HasSubstr("column 2"));
}

TEST(Describe, TextOfTheFileCannotReachATerminalRaw) {
  Writer writer;
  writer.String("name", "\x1b[2J\xff\xc2\x9b\n\"q\"");
  const TempFile temp(writer.Build());
  const Description description = Describe(temp.path());
  EXPECT_EQ(description.metadata[0].value, R"("\x1b[2J\xff\xc2\x9b\n\"q\"")");
}

TEST(RenderValue, CutsLongTextAndLongArrays) {
  Writer writer;
  writer.Int32s("numbers", std::vector<int32_t>(1000, 12)).String("text", std::string(10000, 'x'));
  const TempFile temp(writer.Build());
  for (const MetadataLine& line : Describe(temp.path()).metadata) {
    EXPECT_LT(line.value.size(), 120u) << line.key;
    EXPECT_THAT(line.value, HasSubstr("..."));
  }
}

}  // namespace
}  // namespace tutti::gguf
