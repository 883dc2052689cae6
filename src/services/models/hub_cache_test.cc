#include "services/models/hub_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "temp_folder.h"

namespace tutti::models {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class HubCacheTest : public ::testing::Test {
 protected:
  void Put(const std::string& path, const std::string& text) {
    fs::create_directories(fs::path(folder_.File(path)).parent_path());
    std::ofstream(folder_.File(path)) << text;
  }
  // A file of a snapshot and its blob.
  void PutFile(const std::string& commit, const std::string& path, const std::string& hash) {
    Put("models--o--m/blobs/" + hash, "GGUF");
    const fs::path link = folder_.File("models--o--m/snapshots/" + commit + "/" + path);
    fs::create_directories(link.parent_path());
    fs::create_symlink("../../blobs/" + hash, link);
  }
  std::string Found(const std::string& name) {
    const Result<CachedModel> model = cache_.Find(*ParseHubName(name));
    return model.ok() ? fs::path(model->path).lexically_relative(folder_.path()).string()
                      : model.status().reason();
  }

  const std::string a_ = std::string(40, 'a'), b_ = std::string(40, 'b');
  support::TempFolder folder_;
  HubCache cache_{folder_.path()};
};

TEST_F(HubCacheTest, FindsTheRevisionOfItsRefFirstAndOthersAfterIt) {
  PutFile(a_, "m-Q8_0.gguf", "1");
  PutFile(b_, "m-Q4_0.gguf", "2");
  Put("models--o--m/refs/main", b_);
  Put("models--o--m/refs/old/v1", a_ + "\n");
  const std::string snapshots = "models--o--m/snapshots/";
  EXPECT_EQ(Found("o/m"), snapshots + b_ + "/m-Q4_0.gguf");
  EXPECT_EQ(Found("o/m:Q8_0"), snapshots + a_ + "/m-Q8_0.gguf");
  EXPECT_EQ(Found("o/m:Q8_0@old/v1"), snapshots + a_ + "/m-Q8_0.gguf");
  EXPECT_EQ(Found("o/m@" + a_), snapshots + a_ + "/m-Q8_0.gguf");
  EXPECT_EQ(Found("o/m:Q8_0@main"), "model_not_pulled");
  EXPECT_EQ(Found("o/m:Q5_0"), "model_not_pulled");
  EXPECT_EQ(Found("o/other"), "model_not_pulled");
}

TEST_F(HubCacheTest, IncompleteModelsAreNotFound) {
  PutFile(a_, "m-00001-of-00002.gguf", "1");
  EXPECT_EQ(Found("o/m"), "model_not_pulled");
  PutFile(a_, "m-00002-of-00002.gguf", "2");
  EXPECT_EQ(Found("o/m"), "models--o--m/snapshots/" + a_ + "/m-00001-of-00002.gguf");
  fs::remove(folder_.File("models--o--m/blobs/2"));
  EXPECT_EQ(Found("o/m"), "model_not_pulled") << "its blob was removed";
  // A folder whose index names a file that is not there.
  PutFile(b_, "config.json", "3");
  PutFile(b_, "model-00001-of-00002.safetensors", "4");
  EXPECT_EQ(Found("o/m@" + b_), "models--o--m/snapshots/" + b_);
  Put("models--o--m/snapshots/" + b_ + "/model.safetensors.index.json",
      R"({"weight_map": {"x": "model-00002-of-00002.safetensors"}})");
  EXPECT_EQ(Found("o/m@" + b_), "model_not_pulled");
}

TEST_F(HubCacheTest, LinksMayLeadWithinTheCacheOnly) {
  PutFile(a_, "m.gguf", "1");
  const std::string blob = folder_.File("models--o--m/blobs/1");
  // Newer packages share blobs between repositories.
  Put("blobs/11/11", "GGUF");
  fs::remove(blob);
  fs::create_symlink("../../blobs/11/11", blob);
  EXPECT_EQ(Found("o/m"), "models--o--m/snapshots/" + a_ + "/m.gguf");
  EXPECT_TRUE(cache_.HasBlob("o/m", "1", 4));
  EXPECT_FALSE(cache_.HasBlob("o/m", "1", 5));
  support::TempFolder outside;
  std::ofstream(outside.File("x")) << "GGUF";
  fs::remove(blob);
  fs::create_symlink(outside.File("x"), blob);
  EXPECT_EQ(Found("o/m"), "cache_link");
  EXPECT_FALSE(cache_.HasBlob("o/m", "1", 4));
}

TEST_F(HubCacheTest, AFolderOfBlobsMayBeTheOperatorsLink) {
  PutFile(a_, "m.gguf", "1");
  support::TempFolder disk;
  fs::rename(folder_.File("models--o--m/blobs"), disk.File("blobs"));
  fs::create_directory_symlink(disk.File("blobs"), folder_.File("models--o--m/blobs"));
  EXPECT_EQ(Found("o/m"), "models--o--m/snapshots/" + a_ + "/m.gguf");
}

TEST_F(HubCacheTest, DamagedCachesAreReadWithoutHarm) {
  Put("models--o--m/refs/main", "../../../etc");
  Put("models--o--m/snapshots/not-a-commit/m.gguf", "GGUF");
  Put("models--o--m/snapshots/" + a_, "a file");
  Put("models--o", "a file");
  Put("models----", "a file");
  Put("models--..--..", "a file");
  fs::create_symlink("loop", folder_.File("loop"));
  EXPECT_EQ(Found("o/m"), "model_not_pulled");
  EXPECT_TRUE(cache_.List().empty());
  EXPECT_EQ(HubCache("/nonexistent").List().size(), 0U);
}

TEST_F(HubCacheTest, PublishesLinksAndTheRevisionLast) {
  ASSERT_TRUE(cache_.Prepare("o/m").ok());
  FileChoice choice;
  for (const char* const path : {"1_Pooling/config.json", "config.json", "model.safetensors"}) {
    HubFile file;
    file.path = path;
    file.hash = std::string(path).substr(0, 1);
    Put("models--o--m/blobs/" + file.hash, "x");
    choice.files.push_back(file);
  }
  choice.absent = {"vocab.txt"};
  HubName name = *ParseHubName("o/m");
  ASSERT_TRUE(cache_.Publish(name, a_, choice).ok());
  const std::string snapshot = folder_.File("models--o--m/snapshots/" + a_);
  EXPECT_EQ(fs::read_symlink(snapshot + "/1_Pooling/config.json"), "../../../blobs/1");
  EXPECT_EQ(fs::read_symlink(snapshot + "/config.json"), "../../blobs/c");
  EXPECT_TRUE(fs::exists(folder_.File("models--o--m/.no_exist/" + a_ + "/vocab.txt")));
  EXPECT_EQ(Found("o/m"), "models--o--m/snapshots/" + a_);
  name.revision = a_;
  ASSERT_TRUE(cache_.Publish(name, a_, choice).ok());
  EXPECT_FALSE(fs::exists(folder_.File("models--o--m/refs/" + a_)));
}

TEST_F(HubCacheTest, PublishesNoFilesThatWereRemovedMeanwhile) {
  ASSERT_TRUE(cache_.Prepare("o/m").ok());
  FileChoice choice;
  for (const char* const path : {"config.json", "model.safetensors"}) {
    HubFile file;
    file.path = path;
    file.hash = std::string(path).substr(0, 1);
    choice.files.push_back(file);
  }
  Put("models--o--m/blobs/c", "x");
  EXPECT_EQ(cache_.Publish(*ParseHubName("o/m"), a_, choice).reason(), "cache_busy");
  EXPECT_EQ(Found("o/m"), "model_not_pulled");
}

TEST_F(HubCacheTest, RemovesWhatNoOtherSnapshotUses) {
  PutFile(a_, "m-Q8_0.gguf", "1");
  PutFile(b_, "m-Q8_0.gguf", "1");
  PutFile(b_, "m-Q4_0.gguf", "2");
  Put("models--o--m/refs/main", b_);
  EXPECT_EQ(cache_.Remove(*ParseHubName("o/m:Q8_0")).value(), 0U) << "the older commit has it too";
  EXPECT_EQ(Found("o/m:Q8_0"), "models--o--m/snapshots/" + a_ + "/m-Q8_0.gguf");
  EXPECT_EQ(cache_.Remove(*ParseHubName("o/m:Q8_0")).value(), 4U);
  EXPECT_FALSE(fs::exists(folder_.File("models--o--m/blobs/1")));
  EXPECT_EQ(Found("o/m"), "models--o--m/snapshots/" + b_ + "/m-Q4_0.gguf");
  EXPECT_EQ(cache_.Remove(*ParseHubName("o/m")).value(), 4U);
  EXPECT_FALSE(fs::exists(folder_.File("models--o--m")));
  EXPECT_EQ(cache_.Remove(*ParseHubName("o/m")).status().reason(), "model_not_pulled");
}

// Regression: a server that removed o/m removed o/m:Q8_0, which it listed, too.
TEST_F(HubCacheTest, RemovesOneModelByItsCommit) {
  PutFile(a_, "m-Q8_0.gguf", "1");
  PutFile(a_, "m-Q4_0.gguf", "2");
  Put("models--o--m/refs/main", a_);
  HubName name = *ParseHubName("o/m");
  name.revision = a_;
  EXPECT_EQ(cache_.Remove(name).value(), 4U);
  EXPECT_EQ(Found("o/m:Q4_0"), "model_not_pulled");
  EXPECT_EQ(Found("o/m:Q8_0"), "models--o--m/snapshots/" + a_ + "/m-Q8_0.gguf");
  EXPECT_EQ(cache_.Remove(*ParseHubName("o/m:Q8_0")).value(), 4U);
  EXPECT_FALSE(fs::exists(folder_.File("models--o--m"))) << "it was the last";
}

TEST_F(HubCacheTest, ABlobThatIsBeingWrittenIsNotRemoved) {
  ASSERT_TRUE(cache_.Prepare("o/m").ok());
  Put("models--o--m/blobs/1.incomplete", "GG");
  Put("models--o--m/blobs/1.0a1b2c3d.incomplete", "GGUF");  // of a newer package
  {
    const auto lock = cache_.TryLockBlob("o/m", "1");
    ASSERT_TRUE(lock.ok() && lock->has_value());
    EXPECT_FALSE(cache_.TryLockBlob("o/m", "1")->has_value());
    EXPECT_EQ(cache_.Remove(*ParseHubName("o/m")).status().reason(), "cache_busy");
  }
  ASSERT_EQ(cache_.ListUnfinished().size(), 1U);
  EXPECT_EQ(cache_.ListUnfinished()[0].bytes, 6U);
  EXPECT_EQ(cache_.Remove(*ParseHubName("o/m")).value(), 6U);
}

}  // namespace
}  // namespace tutti::models
