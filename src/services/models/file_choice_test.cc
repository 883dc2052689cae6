#include "services/models/file_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tutti::models {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

std::vector<HubFile> Listed(std::vector<std::string> paths) {
  std::sort(paths.begin(), paths.end());
  std::vector<HubFile> files;
  for (std::string& path : paths) {
    HubFile file;
    file.path = std::move(path);
    files.push_back(std::move(file));
  }
  return files;
}

std::vector<std::string> Chosen(const std::vector<std::string>& paths, std::string_view quant) {
  const Result<FileChoice> choice = ChooseFiles(Listed(paths), quant, "o/m");
  if (!choice.ok()) return {choice.status().reason()};
  std::vector<std::string> names;
  for (const HubFile& file : choice->files) names.push_back(file.path);
  return names;
}

TEST(FileChoiceTest, AFolderHasNoWeightsOfOtherPrograms) {
  EXPECT_THAT(Chosen({"config.json", "model.safetensors", "pytorch_model.bin", "onnx/model.onnx",
                      "tokenizer.json", "README.md", "1_Pooling/config.json",
                      "2_Dense/model.safetensors", "2_Dense/pytorch_model.bin",
                      "model.fp16.safetensors", "flax_model.msgpack", "openvino/config.json"},
                     ""),
              ElementsAre("1_Pooling/config.json", "2_Dense/model.safetensors", "config.json",
                          "model.safetensors", "tokenizer.json"));
}

TEST(FileChoiceTest, PartsComeWithTheirIndexUnlessOneFileHoldsAll) {
  EXPECT_THAT(Chosen({"config.json", "model-00001-of-00002.safetensors",
                      "model-00002-of-00002.safetensors", "model.safetensors.index.json"},
                     ""),
              ElementsAre("config.json", "model-00001-of-00002.safetensors",
                          "model-00002-of-00002.safetensors", "model.safetensors.index.json"));
  EXPECT_THAT(Chosen({"config.json", "model-00001-of-00002.safetensors", "model.safetensors",
                      "model-00002-of-00002.safetensors", "model.safetensors.index.json"},
                     ""),
              ElementsAre("config.json", "model.safetensors"));
}

TEST(FileChoiceTest, AQuantIsNotPartOfALongerOne) {
  const std::vector<std::string> files = {"m-Q4_K.gguf", "m-Q4_K_M.gguf", "m-Q4_K_S.gguf",
                                          "m-IQ4_XS.gguf"};
  EXPECT_THAT(Chosen(files, "Q4_K"), ElementsAre("m-Q4_K.gguf"));
  EXPECT_THAT(Chosen(files, "q4_k_s"), ElementsAre("m-Q4_K_S.gguf"));
  EXPECT_THAT(Chosen(files, "Q4"), ElementsAre("quant_not_found"));
  EXPECT_THAT(Chosen(files, "XS"), ElementsAre("m-IQ4_XS.gguf"));
  EXPECT_THAT(Chosen(files, ""), ElementsAre("m-Q4_K_M.gguf"));
}

TEST(FileChoiceTest, NamesOfPublishersAreUnderstood) {
  EXPECT_THAT(Chosen({"gemma.q4_1.gguf", "gemma.q8_0.gguf"}, "Q4_1"),
              ElementsAre("gemma.q4_1.gguf"));
  EXPECT_THAT(Chosen({"UD-Q2_K_XL/m-UD-Q2_K_XL-00001-of-00002.gguf",
                      "UD-Q2_K_XL/m-UD-Q2_K_XL-00002-of-00002.gguf", "m-Q8_0.gguf"},
                     "UD-Q2_K_XL"),
              ElementsAre("UD-Q2_K_XL/m-UD-Q2_K_XL-00001-of-00002.gguf",
                          "UD-Q2_K_XL/m-UD-Q2_K_XL-00002-of-00002.gguf"));
  EXPECT_THAT(Chosen({"Q8_0/part-00001-of-00001.gguf", "m-Q4_0.gguf"}, "Q8_0"),
              ElementsAre("Q8_0/part-00001-of-00001.gguf"));
  EXPECT_THAT(Chosen({"m-Q4_K_M.gguf", "mmproj-Q4_K_M.gguf", "m-imatrix.gguf"}, "Q4_K_M"),
              ElementsAre("m-Q4_K_M.gguf"));
  EXPECT_THAT(Chosen({"a-Q8_0.gguf", "b-Q8_0.gguf"}, "Q8_0"), ElementsAre("model_ambiguous"));
  EXPECT_THAT(Chosen({"a-Q8_0.gguf", "b-Q8_0.gguf"}, "b-Q8_0"), ElementsAre("b-Q8_0.gguf"));
}

TEST(FileChoiceTest, AnArithmeticOfAFolderIsNoQuant) {
  const std::vector<std::string> folder = {"config.json", "model.safetensors"};
  EXPECT_THAT(Chosen(folder, "bf16"), ElementsAre("config.json", "model.safetensors"));
  EXPECT_THAT(Chosen(folder, "Q8_0"), ElementsAre("quant_not_found"));
  EXPECT_THAT(Chosen({"config.json", "model.safetensors", "m-BF16.gguf"}, "bf16"),
              ElementsAre("m-BF16.gguf"));
  EXPECT_THAT(Chosen({"m-Q8_0.gguf"}, "f32"), ElementsAre("quant_not_found"));
}

TEST(FileChoiceTest, SplitFilesMustBeComplete) {
  EXPECT_THAT(Chosen({"m-00001-of-00002.gguf"}, ""), ElementsAre("model_incomplete"));
  EXPECT_THAT(Chosen({"m-00001-of-00000.gguf"}, ""), ElementsAre("model_incomplete"));
  EXPECT_THAT(QuantsOf(Listed({"m-Q8_0-00001-of-00002.gguf", "m-Q4_0.gguf"})), ElementsAre("Q4_0"));
}

TEST(FileChoiceTest, ErrorsListWhatThereIs) {
  const Status none = ChooseFiles(Listed({"README.md", "m.bin"}), "", "o/m").status();
  EXPECT_THAT(none.message(), HasSubstr("o/m has no GGUF file"));
  std::vector<std::string> many;
  for (int i = 0; i < 5000; ++i) many.push_back("m-X" + std::to_string(i) + ".gguf");
  const Status listed = ChooseFiles(Listed(many), "Q8_0", "o/m").status();
  EXPECT_THAT(listed.message(), HasSubstr("X0, X1, "));
  EXPECT_LT(listed.message().size(), 600U);
}

TEST(FileChoiceTest, FilesThatAFolderLacksAreNamed) {
  const Result<FileChoice> choice =
      ChooseFiles(Listed({"config.json", "model.safetensors"}), "", "o/m");
  ASSERT_TRUE(choice.ok());
  EXPECT_THAT(choice->absent, ::testing::Contains("generation_config.json"));
  EXPECT_THAT(choice->absent, Not(::testing::Contains("config.json")));
  EXPECT_THAT(ChooseFiles(Listed({"m.gguf"}), "", "o/m")->absent, IsEmpty());
}

}  // namespace
}  // namespace tutti::models
