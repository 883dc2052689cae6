#include "app/loading/model_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace tutti::app {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ModelFolderTest : public ::testing::Test {
 protected:
  ModelFolderTest() { std::filesystem::create_directories(path_); }
  ~ModelFolderTest() override { std::filesystem::remove_all(path_); }

  void Touch(const std::string& name) {
    const std::filesystem::path file = path_ + "/" + name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << "x";
  }

  std::vector<std::string> Names() {
    const Result<std::vector<ModelRef>> found = ModelsInFolder(path_);
    EXPECT_TRUE(found.ok()) << found.status();
    return found.ok() ? ServedNames(*found) : std::vector<std::string>();
  }

  const std::string path_ = ::testing::TempDir() + "model_folder_test." + std::to_string(getpid());
};

TEST_F(ModelFolderTest, ListsFilesAndFoldersByName) {
  Touch("chat.gguf");
  Touch("Packed.tutti");
  Touch("bge-small/config.json");
  Touch("Qwen/Qwen3-0.6B/config.json");
  Touch("Qwen/qwen3.GGUF");
  EXPECT_THAT(Names(), ElementsAre("Packed", "Qwen/Qwen3-0.6B", "Qwen/qwen3", "bge-small", "chat"));
  EXPECT_EQ(ModelsInFolder(path_)->at(3).path, path_ + "/bge-small");
}

TEST_F(ModelFolderTest, SplitModelsAreListedOnce) {
  Touch("big-00001-of-00002.gguf");
  Touch("big-00002-of-00002.gguf");
  Touch("one-of-a-kind.gguf");
  EXPECT_THAT(Names(), ElementsAre("big", "one-of-a-kind"));
}

TEST_F(ModelFolderTest, LeavesOutWhatIsNoModel) {
  Touch("README.md");
  Touch(".hidden.gguf");
  Touch("model.gguf.part");
  Touch("empty/notes.txt");
  Touch("a/b/deep.gguf");
  Touch("bad\x01name.gguf");
  EXPECT_THAT(Names(), IsEmpty());
}

TEST_F(ModelFolderTest, ServesTheFirstOfTwoEqualNames) {
  Touch("same.gguf");
  Touch("same/config.json");
  EXPECT_THAT(Names(), ElementsAre("same"));
}

TEST_F(ModelFolderTest, RefusesAPathThatIsNoFolder) {
  const Status status = ModelsInFolder(path_ + "/none").status();
  EXPECT_EQ(status.reason(), "model_path");
  EXPECT_THAT(status.message(), HasSubstr("none"));
}

}  // namespace
}  // namespace tutti::app
