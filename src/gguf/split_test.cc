#include "gguf/split.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <random>

#include "gguf/describe.h"
#include "gguf/file.h"
#include "gguf/testing/writer.h"
#include "temp_folder.h"

namespace tutti::gguf {
namespace {

using ::testing::HasSubstr;
using testing::Writer;

constexpr uint16_t kParts = 3;

// Three parts of a model with three tensors, as llama.cpp's tool splits it.
class SplitTest : public ::testing::Test {
 protected:
  std::string Path(int number) const {
    return folder_.File("m-0000" + std::to_string(number) + "-of-00003.gguf");
  }
  static Writer Part(int number) {
    Writer writer;
    if (number == 1) writer.String("general.architecture", "llama").U32("llama.block_count", 2);
    writer.Number("split.no", ValueType::kUint16, static_cast<uint16_t>(number - 1))
        .Number("split.count", ValueType::kUint16, kParts)
        .Number("split.tensors.count", ValueType::kInt32, int32_t{3});
    const std::vector<float> values = {1.0F * static_cast<float>(number), 2, 3};
    writer.Tensor("t" + std::to_string(number), tensor::DType::kF32, {3}, values);
    return writer;
  }
  void Put(const std::string& path, const Writer& writer) const {
    const testing::Bytes bytes = writer.Build();
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), std::ssize(bytes));
  }
  void PutAll() const {
    for (int number = 1; number <= kParts; ++number) Put(Path(number), Part(number));
  }
  Status StatusOf(int number = 1) const { return File::Open(Path(number)).status(); }

  const support::TempFolder folder_;
};

TEST_F(SplitTest, PartsAreReadAsOneFile) {
  PutAll();
  const auto file = File::Open(Path(1));
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_EQ((*file)->tensors().size(), 3U);
  for (int number = 1; number <= kParts; ++number) {
    const TensorInfo* tensor = (*file)->FindTensor("t" + std::to_string(number));
    ASSERT_NE(tensor, nullptr);
    EXPECT_THAT(*(*file)->ReadFloats(*tensor), ::testing::ElementsAre(number, 2, 3));
  }
  EXPECT_EQ(*GetUint((*file)->header(), "llama.block_count"), 2U);
  EXPECT_FALSE((*file)->header().Find("split.count").has_value());
  EXPECT_TRUE((*file)->CheckUnchanged().ok());
  EXPECT_TRUE((*file)->HeaderDigest().ok());
  const Description description = Describe(Path(1));
  EXPECT_TRUE(description.verdict.ok()) << description.verdict;
  EXPECT_EQ(description.tensors.size(), 3U);
}

TEST_F(SplitTest, NoticesAPartThatChanges) {
  PutAll();
  const auto file = File::Open(Path(1));
  ASSERT_TRUE(file.ok()) << file.status();
  std::filesystem::resize_file(Path(2), 10);
  EXPECT_EQ((*file)->CheckUnchanged().reason(), "gguf_truncated");
  EXPECT_EQ((*file)->ReadFloats(*(*file)->FindTensor("t2")).status().reason(), "gguf_truncated");
}

// llama.cpp's tool can leave the first part with metadata alone.
TEST_F(SplitTest, NoticesThatAPartWithoutTensorsChanges) {
  PutAll();
  Writer first;
  first.String("general.architecture", "llama")
      .Number("split.no", ValueType::kUint16, uint16_t{0})
      .Number("split.count", ValueType::kUint16, kParts)
      .Number("split.tensors.count", ValueType::kInt32, int32_t{2});
  Put(Path(1), first);
  const auto file = File::Open(Path(1));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE((*file)->CheckUnchanged().ok());
  std::filesystem::resize_file(Path(1), 10);
  EXPECT_EQ((*file)->CheckUnchanged().reason(), "gguf_truncated");
}

TEST_F(SplitTest, NamesTheFirstPartAndTheMissingOne) {
  PutAll();
  EXPECT_EQ(StatusOf(2).reason(), "gguf_split");
  EXPECT_EQ(StatusOf(2).message(),
            "this is part 2 of 3 of a split model: open the first, \"m-00001-of-00003.gguf\"");
  std::filesystem::remove(Path(3));
  EXPECT_EQ(StatusOf().reason(), "gguf_split");
  EXPECT_EQ(StatusOf().message(),
            "part 3 of 3 is missing: \"m-00003-of-00003.gguf\" must be in the folder of the first");
}

TEST_F(SplitTest, RefusesPartsThatDoNotBelongTogether) {
  PutAll();
  Put(Path(2), Part(3));
  EXPECT_THAT(StatusOf().message(), HasSubstr("is part 3 of 3 by its keys, not part 2 of 3"));
  Put(Path(2), Part(2).Tensor("t4", tensor::DType::kF32, {1}, std::vector<float>{1}));
  EXPECT_EQ(StatusOf().message(), "the 3 parts hold 4 tensors, the model has 3");
  Writer twin;
  twin.Number("split.no", ValueType::kUint16, uint16_t{1})
      .Number("split.count", ValueType::kUint16, kParts)
      .Tensor("t1", tensor::DType::kF32, {1}, std::vector<float>{1});
  Put(Path(2), twin);
  EXPECT_EQ(StatusOf().reason(), "gguf_tensor_duplicate");
  Put(Path(2), Writer().U32("a", 1));
  EXPECT_EQ(StatusOf().reason(), "gguf_split");
  std::ofstream(Path(2)) << "GGUF";
  EXPECT_THAT(StatusOf().message(), HasSubstr("m-00002-of-00003.gguf"));
}

TEST_F(SplitTest, ANameThatIsNoPartsIsRefusedWithTheRightOne) {
  Put(folder_.File("model.gguf"), Part(1));
  EXPECT_EQ(File::Open(folder_.File("model.gguf")).status().message(),
            "this is part 1 of 3 of a split model: its name must end in -00001-of-00003.gguf");
  Put(Path(2), Part(1));
  EXPECT_THAT(StatusOf(2).message(), HasSubstr("must be called \"m-00001-of-00003.gguf\""));
  Writer many = Writer().Number("split.count", ValueType::kUint16, uint16_t{65535});
  Put(Path(1), many);
  EXPECT_THAT(StatusOf().message(), HasSubstr("at most 512"));
  Put(Path(1), Writer().Number("split.count", ValueType::kUint16, uint16_t{1}));
  EXPECT_TRUE(StatusOf().ok()) << "one part is a whole file";
}

TEST(SplitPathTest, OnlyThePatternIsTakenForAPart) {
  EXPECT_EQ(SplitPath("a/b-00002-of-00003.gguf", 1, 3), "a/b-00001-of-00003.gguf");
  EXPECT_EQ(SplitPath("-00002-of-00003.gguf", 3, 3), "-00003-of-00003.gguf");
  for (const char* path : {"", "b.gguf", "b-00002-of-00004.gguf", "b-0000x-of-00003.gguf",
                           "00002-of-00003.gguf", "b-00002-of-00003.gguf.part"})
    EXPECT_EQ(SplitPath(path, 1, 3), std::nullopt) << path;
}

// A damaged part never crashes a reader and never gives another number of tensors.
TEST_F(SplitTest, SurvivesDamagedParts) {
  PutAll();
  const testing::Bytes sound = Part(2).Build();
  std::mt19937 random(24);
  int refused = 0;
  for (int round = 0; round < 2000; ++round) {
    testing::Bytes bytes = sound;
    for (unsigned i = 0; i < 1 + random() % 3; ++i)
      bytes[random() % bytes.size()] = static_cast<std::byte>(random());
    if (random() % 8 == 0) bytes.resize(random() % bytes.size());
    std::ofstream(Path(2), std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), std::ssize(bytes));
    const auto file = File::Open(Path(1));
    refused += !file.ok();
    if (file.ok()) {
      EXPECT_EQ((*file)->tensors().size(), 3U);
    }
  }
  EXPECT_GT(refused, 100);
}

}  // namespace
}  // namespace tutti::gguf
