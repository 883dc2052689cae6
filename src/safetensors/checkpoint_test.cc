// Folders of one or several files: index and files agree, and nothing outside the folder is read.
#include "safetensors/checkpoint.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "files/digest.h"
#include "safetensors/testing/writer.h"
#include "temp_folder.h"

namespace tutti::safetensors {
namespace {

using testing::Bytes;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::WriteFile;
using testing::Writer;

constexpr const char* kIndex = "model.safetensors.index.json";

// weight_map of these, in this order.
std::string IndexOf(const std::vector<std::pair<std::string, std::string>>& places) {
  std::string text =
      R"({"metadata":{"total_size":32,"nested":[{"weight_map":{"x":1}}]},"weight_map":{)";
  for (size_t i = 0; i < places.size(); ++i) {
    text += fmt::format(R"({}"{}":"{}")", i > 0 ? "," : "", places[i].first, places[i].second);
  }
  return text + "}}";
}

class Folder : public ::testing::Test {
 protected:
  std::string Path(const std::string& name) const { return folder_.File("model/" + name); }
  void Put(const std::string& name, const Writer& writer) const {
    WriteFile(Path(name), writer.Build());
  }
  void PutIndex(std::string_view text) const { WriteFile(Path(kIndex), text); }
  Result<std::shared_ptr<const Checkpoint>> Open() const {
    return testing::OpenCheckpoint(folder_.File("model"));
  }
  Status StatusOf() const {
    const auto opened = Open();
    const Status status = opened.ok() ? OkStatus() : opened.status();
    EXPECT_EQ(status.message().find(folder_.File("model")), std::string::npos) << status;
    return status;
  }
  std::string CodeOf() const {
    const Status status = StatusOf();
    return status.ok() ? "ok" : status.reason();
  }
  std::string CodeOfIndex(std::string_view text) const {
    PutIndex(text);
    return CodeOf();
  }
  // Two files: a and b lie in the first, c in the second.
  void PutShards() const {
    Put("one.safetensors", Writer().Floats("b", {1}, {2}).Floats("a", {1}, {1}));
    Put("deep/two.safetensors", Writer().Floats("c", {1}, {3}));
    PutIndex(IndexOf(kPlaces));
  }
  const std::vector<std::pair<std::string, std::string>> kPlaces = {
      {"c", "deep/two.safetensors"}, {"a", "one.safetensors"}, {"b", "one.safetensors"}};
  const support::TempFolder folder_;
};

TEST_F(Folder, ASingleFileIsACheckpoint) {
  Put("model.safetensors", Writer().Floats("b", {1}, {2}).Floats("a", {2}, {1, 5}));
  const auto opened = Open();
  ASSERT_TRUE(opened.ok()) << opened.status();
  const Checkpoint& checkpoint = **opened;
  ASSERT_EQ(checkpoint.shards().size(), 1u);
  EXPECT_EQ(checkpoint.shards()[0].path, "model.safetensors");
  ASSERT_EQ(checkpoint.tensors().size(), 2u);
  EXPECT_EQ(checkpoint.tensors()[0].info->name, "a") << "by name";
  const Checkpoint::Tensor* a = checkpoint.FindTensor("a");
  ASSERT_NE(a, nullptr);
  EXPECT_THAT(*a->file->ReadFloats(*a->info), ElementsAre(1, 5));
  EXPECT_EQ(checkpoint.FindTensor("c"), nullptr);
  EXPECT_EQ(checkpoint.HeaderDigest().value(), a->file->HeaderDigest().value());
  EXPECT_TRUE(checkpoint.CheckUnchanged().ok());
}

TEST_F(Folder, ShardsAreOneCheckpoint) {
  PutShards();
  const auto opened = Open();
  ASSERT_TRUE(opened.ok()) << opened.status();
  const Checkpoint& checkpoint = **opened;
  ASSERT_EQ(checkpoint.shards().size(), 2u);
  EXPECT_EQ(checkpoint.shards()[0].path, "deep/two.safetensors");
  EXPECT_EQ(checkpoint.shards()[1].path, "one.safetensors");
  float expected = 1;
  for (const char* name : {"a", "b", "c"}) {
    const Checkpoint::Tensor* tensor = checkpoint.FindTensor(name);
    ASSERT_NE(tensor, nullptr) << name;
    EXPECT_THAT(*tensor->file->ReadFloats(*tensor->info), ElementsAre(expected));
    expected += 1;
  }
  ASSERT_EQ(checkpoint.tensors().size(), 3u);
  files::Sha256 digest;
  for (const Checkpoint::Shard& shard : checkpoint.shards()) {
    const std::string line = shard.path + '\0' + shard.file->HeaderDigest().value() + '\n';
    digest.Update(std::as_bytes(std::span(line)));
  }
  EXPECT_EQ(checkpoint.HeaderDigest().value(), digest.FinishHex());
  EXPECT_TRUE(checkpoint.CheckUnchanged().ok());
  ASSERT_EQ(truncate(Path("one.safetensors").c_str(), 20), 0);
  EXPECT_EQ(checkpoint.CheckUnchanged().reason(), "st_offsets");
  EXPECT_THAT(checkpoint.CheckUnchanged().message(),
              HasSubstr("\"one.safetensors\": the file changed"));
}

TEST_F(Folder, TheSingleFileIsTheModelWhereBothLie) {
  PutShards();
  Put("model.safetensors", Writer().Floats("whole", {1}, {1}));
  EXPECT_NE((*Open())->FindTensor("whole"), nullptr);
  WriteFile(Path("model.safetensors"), std::string_view("damaged"));
  EXPECT_EQ(CodeOf(), "st_header") << "and it is not passed over when it is broken";
  std::filesystem::remove(Path("model.safetensors"));
  ASSERT_EQ(mkfifo(Path("model.safetensors").c_str(), 0600), 0);
  EXPECT_EQ(CodeOf(), "model_path") << "nor when it is no file";
}

TEST_F(Folder, AFolderWithoutAModelIsNotFound) {
  EXPECT_EQ(CodeOf(), "model_not_found") << "no folder";
  std::filesystem::create_directory(folder_.File("model"));
  EXPECT_EQ(CodeOf(), "model_not_found");
  EXPECT_THAT(StatusOf().message(), HasSubstr("neither model.safetensors nor"));
  WriteFile(Path("pytorch_model.bin"), std::string_view("PK"));
  EXPECT_EQ(StatusOf().message(),
            "the folder has neither model.safetensors nor model.safetensors.index.json: "
            "pytorch_model.bin is not read; save the model as safetensors");
  std::filesystem::remove(Path("pytorch_model.bin"));
  std::filesystem::remove(folder_.File("model"));
  WriteFile(folder_.File("model"), std::string_view("a file"));
  EXPECT_EQ(CodeOf(), "model_path");
}

TEST_F(Folder, BeneathARootNothingElseIsReached) {
  PutShards();
  std::filesystem::create_symlink("model", folder_.File("inside"));
  std::filesystem::create_directory(folder_.File("root"));
  std::filesystem::create_symlink("../model", folder_.File("root/outside"));
  const auto code = [](const std::string& path, const std::string& root) {
    const auto opened = testing::OpenCheckpoint(path, root);
    return opened.ok() ? "ok" : opened.status().reason();
  };
  EXPECT_EQ(code("model", folder_.path()), "ok");
  EXPECT_EQ(code("inside", folder_.path()), "ok");
  EXPECT_EQ(code("outside", folder_.File("root")), "model_path");
  EXPECT_EQ(code("../model", folder_.File("root")), "model_path");
  EXPECT_EQ(code("none", folder_.File("root")), "model_not_found");
}

TEST_F(Folder, ShardsLieInsideTheFolder) {
  PutShards();
  WriteFile(folder_.File("outside.safetensors"), Writer().Floats("c", {1}, {3}).Build());
  for (const std::string& path :
       {std::string("../outside.safetensors"), folder_.File("outside.safetensors"),
        std::string("deep/../../outside.safetensors"), std::string("deep/../one.safetensors"),
        std::string("./one.safetensors"), std::string("deep//two.safetensors"),
        std::string("deep/two.safetensors/"), std::string(".."), std::string("."), std::string(""),
        std::string("/"), std::string("one.safetensors\\u0000"), std::string(1025, 'a')}) {
    EXPECT_EQ(CodeOfIndex(IndexOf({{"c", path}})), "st_index_path") << path;
  }
  std::filesystem::remove(Path("deep/two.safetensors"));
  for (const std::string& target :
       {std::string("../../outside.safetensors"), folder_.File("outside.safetensors")}) {
    std::filesystem::create_symlink(target, Path("deep/two.safetensors"));
    PutIndex(IndexOf(kPlaces));
    EXPECT_EQ(CodeOf(), "ok") << "the operator's link to " << target;
    std::filesystem::remove(Path("deep/two.safetensors"));
  }
  EXPECT_EQ(CodeOf(), "model_not_found");
  EXPECT_THAT(StatusOf().message(), HasSubstr("\"deep/two.safetensors\": no such file"));
  ASSERT_EQ(mkfifo(Path("deep/two.safetensors").c_str(), 0600), 0);
  EXPECT_EQ(CodeOf(), "model_path");
  std::filesystem::remove(Path("deep/two.safetensors"));
  std::filesystem::create_directory(Path("deep/two.safetensors"));
  EXPECT_EQ(CodeOf(), "model_path");
  std::filesystem::remove(Path("deep/two.safetensors"));
  Put("deep/three.safetensors", Writer().Floats("c", {1}, {3}));
  std::filesystem::create_symlink("three.safetensors", Path("deep/two.safetensors"));
  EXPECT_EQ(CodeOf(), "ok") << "a link that stays inside";
}

TEST_F(Folder, TheIndexMayBeALink) {
  PutShards();
  std::filesystem::rename(Path(kIndex), folder_.File("index"));
  std::filesystem::create_symlink("../index", Path(kIndex));
  EXPECT_EQ(CodeOf(), "ok");
  std::filesystem::remove(Path(kIndex));
  ASSERT_EQ(mkfifo(Path(kIndex).c_str(), 0600), 0);
  EXPECT_EQ(CodeOf(), "model_path");
}

TEST_F(Folder, IndexAndFilesAgree) {
  PutShards();
  EXPECT_EQ(CodeOf(), "ok");
  const std::string one = "one.safetensors", two = "deep/two.safetensors";
  EXPECT_EQ(CodeOfIndex(IndexOf({{"a", one}, {"b", one}, {"c", two}, {"d", two}})),
            "model_tensor_missing");
  EXPECT_THAT(StatusOf().message(), HasSubstr("tensor \"d\" in \"deep/two.safetensors\""));
  EXPECT_EQ(CodeOfIndex(IndexOf({{"a", one}, {"b", two}, {"c", two}})), "model_tensor_missing");
  EXPECT_THAT(StatusOf().message(), HasSubstr("tensor \"b\" in \"deep/two.safetensors\""));
  EXPECT_EQ(CodeOfIndex(IndexOf({{"a", one}, {"b", one}})), "ok") << "a file nobody names";
}

TEST_F(Folder, WhatTheIndexDoesNotNameIsLeftOut) {
  PutShards();
  PutIndex(IndexOf({{"a", "one.safetensors"}, {"c", "deep/two.safetensors"}}));
  auto left = testing::OpenCheckpoint(folder_.File("model"));
  ASSERT_TRUE(left.ok()) << left.status();
  EXPECT_EQ((*left)->FindTensor("b"), nullptr);
  EXPECT_EQ((*left)->tensors().size(), 2U);
  EXPECT_EQ((*left)->unnamed(), std::vector<std::string>{"b"});
  // The same tensor in two files: the index says which one counts.
  Put("deep/two.safetensors", Writer().Floats("c", {1}, {3}).Floats("a", {1}, {7}));
  PutIndex(IndexOf(kPlaces));
  left = testing::OpenCheckpoint(folder_.File("model"));
  ASSERT_TRUE(left.ok()) << left.status();
  const Checkpoint::Tensor* a = (*left)->FindTensor("a");
  ASSERT_NE(a, nullptr);
  EXPECT_NE(a->file->ReadFloats(*a->info)->front(), 7);
  EXPECT_EQ((*left)->unnamed(), std::vector<std::string>{"a"});
}

TEST_F(Folder, AFaultOfAFileNamesTheFile) {
  PutShards();
  WriteFile(Path("one.safetensors"), std::string_view("PK\x03\x04 and so on"));
  EXPECT_EQ(CodeOf(), "st_header");
  EXPECT_THAT(StatusOf().message(), HasSubstr("\"one.safetensors\": "));
  EXPECT_EQ(CodeOfIndex("{"), "st_json");
  EXPECT_THAT(StatusOf().message(), HasSubstr("\"model.safetensors.index.json\": "));
}

TEST_F(Folder, AnIndexThatIsNoneIsRefused) {
  PutShards();
  for (const std::string& text :
       {std::string(""), std::string("[]"), std::string("\"x\""), std::string("5"),
        std::string("null"), std::string("{}"), std::string("{\"weight_map\":[]}"),
        std::string("{\"weight_map\":null}"), std::string("{\"weight_map\":\"one\"}"),
        std::string("{\"weight_map\":1}"), std::string("{\"weight_map\":{\"a\":\"one\"}"),
        std::string("{\"metadata\":{\"weight_map\":{\"a\":\"one\"}}}"), std::string(100000, '['),
        "{\"x\":" + std::string(100000, '[')}) {
    EXPECT_EQ(CodeOfIndex(text), "st_json") << text.substr(0, 40);
  }
  for (const char* value : {"1", "null", "true", "[]", "{}", "[\"one.safetensors\"]"}) {
    EXPECT_EQ(CodeOfIndex(fmt::format(R"({{"weight_map":{{"a":{}}}}})", value)), "st_index_path")
        << value;
  }
  EXPECT_EQ(CodeOfIndex("{\"weight_map\":{}}"), "st_index_path");
  EXPECT_EQ(CodeOfIndex(IndexOf({{"a", "one.safetensors"}, {"a", "one.safetensors"}})),
            "st_duplicate");
  EXPECT_EQ(CodeOfIndex(R"({"weight_map":{"a":"one"},"weight_map":{"a":"one"}})"), "st_duplicate");
  EXPECT_EQ(CodeOfIndex(IndexOf({{std::string(1025, 'n'), "one.safetensors"}})), "st_index_path");
}

Status StatusOfIndex(const std::string& text, size_t chunk = kJsonChunk) {
  return ShardIndex::Parse(*MemorySource(std::as_bytes(std::span(text))), chunk).status();
}

TEST(ShardIndex, CountsHaveCaps) {
  const auto index = [](size_t tensors, size_t shards) {
    std::string text = "{\"weight_map\":{";
    for (size_t i = 0; i < tensors; ++i) {
      text += fmt::format(R"({}"{}":"{}")", i > 0 ? "," : "", i, i % shards);
    }
    return StatusOfIndex(text + "}}");
  };
  EXPECT_TRUE(index(kMaxShards, kMaxShards).ok());
  EXPECT_EQ(index(kMaxShards + 1, kMaxShards + 1).reason(), "st_index_path");
  EXPECT_TRUE(index(kMaxIndexTensors, 7).ok());
  EXPECT_EQ(index(kMaxIndexTensors + 1, 7).reason(), "st_index_path");
  EXPECT_EQ(StatusOfIndex(std::string(kMaxIndexBytes + 1, ' ')).reason(), "st_json");
}

TEST(ShardIndex, TruncationAtEveryByteIsAnErrorAndAnyCutGivesTheSame) {
  const std::string text = IndexOf({{"a", "one"}, {"b\\u00e9", "two"}, {"c", "one"}});
  for (size_t size = 0; size < text.size(); ++size) {
    EXPECT_FALSE(StatusOfIndex(text.substr(0, size)).ok()) << size;
  }
  for (size_t chunk = 1; chunk <= text.size(); ++chunk) {
    const auto index = ShardIndex::Parse(*MemorySource(std::as_bytes(std::span(text))), chunk);
    ASSERT_TRUE(index.ok()) << index.status();
    EXPECT_THAT(index->shards, ElementsAre("one", "two"));
    EXPECT_EQ(index->Find("a"), 0u);
    EXPECT_EQ(index->Find("b\xc3\xa9"), 1u);
    EXPECT_EQ(index->Find("c"), 0u);
    EXPECT_EQ(index->Find("d"), std::nullopt);
  }
}

}  // namespace
}  // namespace tutti::safetensors
