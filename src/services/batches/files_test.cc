#include "services/batches/files.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "services/responses/testing/responses_fixture.h"
#include "store/testing/fault_disk.h"
#include "waiting.h"

namespace tutti::batches {
namespace {

using responses::testing::TemporaryFolder;
using support::Call;
using support::Eventually;

class FilesTest : public ::testing::Test {
 protected:
  void SetUp() override { Open(); }
  void TearDown() override { Close(); }
  void Open() {
    auto store = store::Store::Open({.folder = folder_.path()}, {&kFileTables, 1});
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
    options_.folder = folder_.path() + "/files";
    auto files = Files::Open(options_, *store_, clock_, [this] { return now_ms_.load(); });
    ASSERT_TRUE(files.ok()) << files.status();
    files_ = *std::move(files);
  }
  void Close() {
    files_.reset();
    store_.reset();
  }
  std::set<std::string> OnDisk() const {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(options_.folder))
      names.insert(entry.path().filename().string());
    return names;
  }

  static std::string Form(const std::string& content, const std::string& expires = "") {
    const auto part = [](const std::string& name, const std::string& value) {
      return "--b\r\nContent-Disposition: form-data; name=\"" + name + "\"\r\n\r\n" + value +
             "\r\n";
    };
    std::string form = part("purpose", "batch");
    if (!expires.empty())
      form += part("expires_after[anchor]", "created_at") + part("expires_after[seconds]", expires);
    return form + part("file\"; filename=\"f", content) + "--b--";
  }
  Status Append(const Files::UploadRef& upload, const std::string& bytes) {
    Call<Status> call;
    files_->Append(upload, bytes, call.done());
    return call.Get();
  }
  Result<protocol::FileView> Keep(const Files::UploadRef& upload, const std::string& owner = "t") {
    Call<Result<protocol::FileView>> call;
    files_->Keep(upload, owner, call.done());
    return call.Get();
  }
  Result<protocol::FileView> Add(const std::string& content, const std::string& expires = "") {
    const auto upload = files_->Begin("b", {});
    RETURN_IF_ERROR(Append(upload, Form(content, expires)));
    return Keep(upload);
  }
  Result<protocol::FileView> Get(const std::string& id, const std::string& owner = "t") {
    Call<Result<protocol::FileView>> call;
    files_->Get(owner, id, call.done());
    return call.Get();
  }
  std::vector<std::string> Ids(protocol::FileListQuery query = {}) {
    Call<Result<std::vector<protocol::FileView>>> call;
    files_->List("t", std::move(query), call.done());
    std::vector<std::string> ids;
    const auto page = call.Get();
    EXPECT_TRUE(page.ok()) << page.status();
    if (!page.ok()) return ids;
    for (const protocol::FileView& file : *page) ids.push_back(file.id);
    return ids;
  }

  TemporaryFolder folder_;
  ManualClock clock_;
  std::atomic<int64_t> now_ms_{1'000'000'000};
  Files::Options options_;
  std::unique_ptr<store::Store> store_;
  std::unique_ptr<Files> files_;
};

TEST_F(FilesTest, AFileOutlivesTheProcessAndIsItsOwners) {
  const auto made = Add("content");
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->bytes, 7);
  EXPECT_EQ(made->created_s, 1'000'000);
  EXPECT_EQ(Get(made->id, "u").status().reason(), "not_found");
  Close();
  Open();
  EXPECT_EQ(Get(made->id)->filename, "f");
  Call<Result<Files::Content>> content;
  files_->OpenContent("t", made->id, content.done());
  EXPECT_EQ(*content.Get()->reader->Read(3, 100), "tent");
  Call<Status> foreign;
  files_->Delete("u", made->id, foreign.done());
  EXPECT_EQ(foreign.Get().reason(), "not_found");
  Call<Status> deleted;
  files_->Delete("t", made->id, deleted.done());
  EXPECT_TRUE(deleted.Get().ok());
  EXPECT_EQ(Get(made->id).status().reason(), "not_found");
  EXPECT_TRUE(OnDisk().empty());
}

TEST_F(FilesTest, WhatAKilledProcessLeftIsSweptAtTheStart) {
  const std::string id = Add("content")->id;
  const auto half = files_->Begin("b", {});
  ASSERT_TRUE(Append(half, Form("half").substr(0, 200)).ok());
  Close();
  for (const char* name : {"file-0", "upload-0.part", "batch_1.input", "of-others"})
    std::ofstream(options_.folder + "/" + name) << "x";
  Open();
  EXPECT_EQ(OnDisk(), (std::set<std::string>{id, "batch_1.input", "of-others"}));
  files_->KeepInputs({"batch_1"});
  EXPECT_EQ(OnDisk().count("batch_1.input"), 1u);
  files_->KeepInputs({});
  EXPECT_EQ(OnDisk(), (std::set<std::string>{id, "of-others"}));
}

TEST_F(FilesTest, AFileExpires) {
  const auto made = Add("content", "3600"), kept = Add("kept");
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->expires_s, made->created_s + 3600);
  now_ms_ += 3'599'000;
  EXPECT_TRUE(Get(made->id).ok());
  now_ms_ += 1000;
  EXPECT_EQ(Get(made->id).status().reason(), "not_found") << "also before it is swept";
  EXPECT_EQ(Ids(), std::vector<std::string>{kept->id});
  clock_.Advance(std::chrono::minutes(1));
  files_->strand()->Look();
  EXPECT_TRUE(Eventually([&] { return OnDisk() == std::set<std::string>{kept->id}; }));
}

TEST_F(FilesTest, ListsAreInPages) {
  std::vector<std::string> ids;
  for (int i = 0; i < 4; ++i) ids.push_back(Add("x")->id);
  protocol::FileListQuery query;
  query.page.limit = 2;
  EXPECT_EQ(Ids(query), (std::vector<std::string>{ids[3], ids[2], ids[1]})) << "one more";
  query.page.after = ids[2];
  EXPECT_EQ(Ids(query), (std::vector<std::string>{ids[1], ids[0]}));
  query.page.ascending = true;
  EXPECT_EQ(Ids(query), std::vector<std::string>{ids[3]});
  query.page.after.clear();
  query.purpose = "batch_output";
  EXPECT_TRUE(Ids(query).empty());
}

TEST_F(FilesTest, WhatAnOwnerMayKeepIsLimited) {
  Close();
  options_.limits = {.file_bytes = 100, .owner_bytes = 150, .owner_files = 3};
  Open();
  EXPECT_EQ(Add(std::string(101, 'x')).status().reason(), "request_too_large");
  EXPECT_TRUE(Add(std::string(100, 'x')).ok());
  const Status full = Add(std::string(51, 'x')).status();
  EXPECT_EQ(full.reason(), "insufficient_quota");
  EXPECT_NE(full.message().find("bytes: 100 + 51"), std::string::npos) << full;
  EXPECT_TRUE(Add("x").ok());
  EXPECT_TRUE(Add("x").ok());
  EXPECT_EQ(Add("x").status().reason(), "insufficient_quota");
  EXPECT_EQ(OnDisk().size(), 3u) << "what was refused left nothing";
}

// Regression: on a disk filled by uploads, no file could be deleted, because the deletion had to be
// stored first.
TEST_F(FilesTest, AFullDiskGivesBackTheRoomOfWhatIsDeleted) {
  Close();
  store::testing::FaultDisk disk;
  Open();
  const std::string id = Add("content")->id;
  disk.is_full = true;
  Call<Status> foreign;
  files_->Delete("u", id, foreign.done());
  EXPECT_EQ(foreign.Get().reason(), "not_found");
  EXPECT_EQ(OnDisk(), std::set<std::string>{id}) << "nobody else's to delete";
  Call<Status> deleted;
  files_->Delete("t", id, deleted.done());
  EXPECT_TRUE(Eventually([&] { return OnDisk().empty(); })) << "its bytes go first";
  disk.is_full = false;
  EXPECT_TRUE(Eventually([&] {
    clock_.Advance(std::chrono::milliseconds(200));
    files_->strand()->Look();
    return Get(id).status().reason() == "not_found";
  }));
  EXPECT_TRUE(deleted.Get().ok());
  Close();  // before the disk
}

TEST(LeftForTheStore, IsASixteenthAnd64MiBAtMost) {
  EXPECT_EQ(LeftForTheStore(8 << 20), 512 << 10);
  EXPECT_EQ(LeftForTheStore(int64_t{1} << 40), 64 << 20);
}

TEST_F(FilesTest, AFullDiskRefusesAndLeavesNothing) {
  // What the system says at this limit is what it says of a disk without room (EFBIG, ENOSPC).
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit small = before;
  small.rlim_cur = 4 << 20;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  {
    const auto upload = files_->Begin("b", {});
    EXPECT_EQ(Append(upload, Form(std::string(5 << 20, 'x'))).reason(), "storage_full");
  }
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_TRUE(Eventually([&] { return OnDisk().empty(); }));
  EXPECT_TRUE(Add("goes on").ok());
}

}  // namespace
}  // namespace tutti::batches
