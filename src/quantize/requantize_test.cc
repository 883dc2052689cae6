#include "quantize/requantize.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>

#include "gguf/metadata.h"
#include "gguf/testing/checkpoint.h"
#include "temp_folder.h"
#include "tensor/quantize.h"

namespace tutti::quantize {
namespace {

using gguf::testing::CheckpointSpec;
using gguf::testing::MakeCheckpoint;
using tensor::DType;

std::shared_ptr<const gguf::File> Opened(const gguf::testing::Writer& writer) {
  auto file = gguf::File::FromSource(gguf::MemorySource(writer.Build()));
  EXPECT_TRUE(file.ok()) << file.status();
  return *file;
}

FileType Named(const char* name) {
  const auto type = FileTypeByName(name);
  EXPECT_TRUE(type.has_value()) << name;
  return *type;
}

std::map<std::string, TensorPlan> PlansByName(const gguf::File& file, const char* type) {
  const auto plans = PlanTensors(file.header(), Named(type));
  EXPECT_TRUE(plans.ok()) << plans.status();
  std::map<std::string, TensorPlan> out;
  for (const TensorPlan& plan : *plans) out.emplace(plan.from->name, plan);
  return out;
}

TEST(PlanTensors, OfTheFourBitMixtureHalfOfTheLayersGetMoreBits) {
  CheckpointSpec spec;
  spec.layers = 16;
  spec.tied = false;
  const auto file = Opened(MakeCheckpoint(spec));
  const auto plans = PlansByName(*file, "q4_k_m");
  std::string more;
  for (int layer = 0; layer < 16; ++layer) {
    const std::string block = "blk." + std::to_string(layer) + ".";
    const DType form = plans.at(block + "ffn_down.weight").to;
    EXPECT_EQ(plans.at(block + "attn_v.weight").to, form) << layer;
    EXPECT_EQ(plans.at(block + "attn_q.weight").to, DType::kQ4_K) << layer;
    EXPECT_EQ(plans.at(block + "attn_norm.weight").to, DType::kF32) << layer;
    more += form == DType::kQ6_K ? '6' : '4';
  }
  EXPECT_EQ(more, "6644644644644666");
  EXPECT_EQ(plans.at("output.weight").to, DType::kQ6_K);
  EXPECT_EQ(plans.at("token_embd.weight").to, DType::kQ4_K);
  EXPECT_FALSE(plans.at("output.weight").reason.empty());
}

TEST(PlanTensors, AnEmbeddingThatIsTheOutputMatrixIsTreatedAsOne) {
  const auto file = Opened(MakeCheckpoint({}));
  EXPECT_EQ(PlansByName(*file, "Q4_0").at("token_embd.weight").to, DType::kQ6_K);
  EXPECT_EQ(PlansByName(*file, "Q8_0").at("token_embd.weight").to, DType::kQ8_0);
  EXPECT_EQ(PlansByName(*file, "F16").at("token_embd.weight").to, DType::kF16);
}

TEST(PlanTensors, AWidthThatDoesNotFitFallsBackAndSaysWhy) {
  gguf::testing::Writer writer;
  writer.String("general.architecture", "llama");
  const std::vector<float> values(64 * 72, 0.5f);
  const auto add = [&](const char* name, uint64_t width) {
    writer.Tensor(name, DType::kF32, {width, 4}, std::span(values.data(), width * 4));
  };
  add("output.weight", 64);
  add("blk.0.ffn_down.weight", 64);
  add("blk.7.attn_q.weight", 64);
  add("blk.7.attn_k.weight", 72);
  const auto file = Opened(writer);
  const auto plans = PlansByName(*file, "Q4_K_M");
  EXPECT_EQ(plans.at("output.weight").to, DType::kQ8_0);
  EXPECT_EQ(plans.at("blk.0.ffn_down.weight").wanted, DType::kQ6_K);
  EXPECT_EQ(plans.at("blk.0.ffn_down.weight").to, DType::kQ8_0);
  EXPECT_EQ(plans.at("blk.7.attn_q.weight").to, DType::kQ5_0);
  EXPECT_EQ(plans.at("blk.7.attn_k.weight").to, DType::kF16);
  EXPECT_TRUE(plans.at("blk.7.attn_k.weight").fell_back);
  EXPECT_EQ(plans.at("blk.7.attn_k.weight").reason, "width 72 is no multiple of Q4_K's 256");
  EXPECT_EQ(PlansByName(*file, "Q5_K_M").at("blk.7.attn_q.weight").to, DType::kQ5_1);
}

class RequantizeTest : public testing::Test {
 protected:
  std::string Path() const { return folder_.File("out.gguf"); }
  std::string BytesOf() const {
    std::ifstream file(Path(), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  support::TempFolder folder_;
};

TEST_F(RequantizeTest, CarriesMetadataOverAndEveryTensorWithinItsFormsError) {
  CheckpointSpec spec;
  spec.tied = false;
  gguf::testing::Writer writer = MakeCheckpoint(spec);
  writer.U32("general.file_type", 0).String("made.up", "kept \xff as it is");
  const auto file = Opened(writer);
  for (const FileType& type : FileTypes()) {
    RequantizeOptions options;
    options.replace = true;
    options.threads = 2;
    uint64_t last = 0;
    options.progress = [&](uint64_t done, uint64_t total) {
      EXPECT_GT(done, last);
      EXPECT_LE(done, total);
      last = done;
      return true;
    };
    const auto report = Requantize(*file, type, Path(), options);
    ASSERT_TRUE(report.ok()) << type.name << " " << report.status();
    EXPECT_EQ(last, report->parameters);
    EXPECT_EQ(report->bytes_after, std::filesystem::file_size(Path()));

    const auto made = gguf::File::Open(Path());
    ASSERT_TRUE(made.ok()) << type.name << " " << made.status();
    const gguf::Header& header = (*made)->header();
    EXPECT_EQ(*gguf::GetUint(header, "general.file_type"), type.id);
    EXPECT_EQ(*gguf::GetUint(header, "general.quantization_version"), 2u);
    EXPECT_EQ(*gguf::GetString(header, "made.up"), "kept \xff as it is");
    EXPECT_EQ(gguf::GetStrings(header, "tokenizer.ggml.tokens")->size(),
              gguf::GetStrings(file->header(), "tokenizer.ggml.tokens")->size());
    EXPECT_EQ(header.entry_count(), file->header().entry_count());
    ASSERT_EQ(header.tensors().size(), file->tensors().size());
    for (size_t i = 0; i < header.tensors().size(); ++i) {
      const gguf::TensorInfo& info = header.tensors()[i];
      const TensorOutcome& outcome = report->tensors[i];
      EXPECT_EQ(info.name, file->tensors()[i].name);
      EXPECT_EQ(info.shape, file->tensors()[i].shape);
      ASSERT_EQ(info.dtype(), outcome.plan.to) << info.name;
      const auto before = file->ReadFloats(file->tensors()[i]);
      const auto after = (*made)->ReadFloats(info);
      ASSERT_TRUE(before.ok() && after.ok());
      double lost = 0;
      double power = 0;
      for (size_t k = 0; k < before->size(); ++k) {
        lost += std::pow(static_cast<double>((*after)[k] - (*before)[k]), 2);
        power += std::pow(static_cast<double>((*before)[k]), 2);
      }
      EXPECT_NEAR(outcome.relative_error, std::sqrt(lost / power), 1e-6) << info.name;
      EXPECT_LT(outcome.relative_error, 0.09) << info.name;
    }
  }
}

TEST_F(RequantizeTest, TheBytesDoNotDependOnThreadsAndWhatHasItsFormIsCopied) {
  CheckpointSpec spec;
  spec.vocabulary = 9000;  // more than a thread takes at a time
  const auto file = Opened(MakeCheckpoint(spec));
  std::string first;
  for (const int threads : {1, 2, 5}) {
    RequantizeOptions options;
    options.replace = true;
    options.threads = threads;
    ASSERT_TRUE(Requantize(*file, Named("Q4_K_M"), Path(), options).ok());
    if (first.empty()) first = BytesOf();
    EXPECT_EQ(BytesOf(), first) << threads;
  }
  // Requantizing to the same type gives the same file.
  const auto made = gguf::File::Open(Path());
  ASSERT_TRUE(made.ok());
  const auto again = Requantize(**made, Named("Q4_K_M"), Path(), {2, true, nullptr});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(BytesOf(), first);
  for (const TensorOutcome& tensor : again->tensors) EXPECT_EQ(tensor.relative_error, 0);
}

TEST_F(RequantizeTest, RefusesWeightsThatAreNoNumbersOrTooLargeAndLeavesNothing) {
  for (const float bad : {std::nanf(""), 1e30f}) {
    gguf::testing::Writer writer;
    writer.String("general.architecture", "llama");
    std::vector<float> values(512, 0.5f);
    values[300] = bad;
    writer.Tensor("blk.0.attn_q.weight", DType::kF32, {256, 2}, values);
    const auto report = Requantize(*Opened(writer), Named("Q4_0"), Path(), {});
    EXPECT_EQ(report.status().reason(), "model_nonfinite");
    EXPECT_NE(report.status().message().find("blk.0.attn_q.weight\" at row 1"), std::string::npos)
        << report.status();
    EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
  }
}

TEST_F(RequantizeTest, AnAbandonedOneLeavesNothingAndAVocabularyIsRefused) {
  RequantizeOptions options;
  options.progress = [](uint64_t, uint64_t) { return false; };
  EXPECT_EQ(
      Requantize(*Opened(MakeCheckpoint({})), Named("Q8_0"), Path(), options).status().reason(),
      "cancelled");
  CheckpointSpec vocabulary;
  vocabulary.tensors = false;
  EXPECT_EQ(
      Requantize(*Opened(MakeCheckpoint(vocabulary)), Named("Q8_0"), Path(), {}).status().reason(),
      "model_tensor_missing");
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

TEST(FileTypes, AreFoundByNameInAnyCase) {
  EXPECT_EQ(FileTypeByName("q4_k_m")->id, 15u);
  EXPECT_EQ(FileTypeByName("Q8_0")->id, 7u);
  EXPECT_FALSE(FileTypeByName("Q4"));
  EXPECT_FALSE(FileTypeByName(""));
}

}  // namespace
}  // namespace tutti::quantize
