// Row R25: prefixes in a folder: over restarts, within a cap, damaged, foreign, of other tenants.
#include "kv/disk/prefix_disk.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/clock.h"
#include "kv/disk/pin_file.h"
#include "temp_folder.h"

namespace tutti::kv {
namespace {

namespace fs = std::filesystem;

constexpr PrefixShape kShape{.block_bytes = 5000, .window_block_bytes = 0, .state_bytes = 300};

std::vector<TokenId> SomeTokens(int seed, int count) {
  std::vector<TokenId> tokens;
  for (int i = 0; i < count; ++i) tokens.push_back((seed * 7919 + i * 31) % 1000);
  return tokens;
}

// Bytes that belong to this block of these tokens.
std::vector<std::byte> MemoryOf(std::span<const TokenId> tokens, int block, bool state) {
  std::vector<std::byte> memory(BytesOf(kShape, {.state = state}));
  for (size_t i = 0; i < memory.size(); ++i)
    memory[i] =
        static_cast<std::byte>(static_cast<size_t>(tokens[0]) + i * 3 + static_cast<size_t>(block));
  return memory;
}

class PrefixDiskTest : public ::testing::Test {
 protected:
  std::string folder() const { return temporary_.File("prefixes"); }

  std::shared_ptr<PrefixDisk> Open(uint64_t cap = 1 << 30) {
    Result<std::shared_ptr<PrefixDisk>> disk =
        PrefixDisk::Open({.folder = folder(), .max_bytes = cap});
    CHECK(disk.ok()) << disk.status();
    return *disk;
  }

  // Saves all blocks of the tokens that are missing, in one file.
  static void Save(PrefixStore& store, const std::vector<TokenId>& tokens,
                   const std::string& root = "1:r", bool state_at_end = false) {
    const int blocks = static_cast<int>(BlocksFor(tokens.size()));
    std::vector<BlockParts> parts(static_cast<size_t>(blocks));
    parts.back().state = state_at_end;
    MissingBlocks missing = store.Missing(root, tokens, parts);
    PrefixWrite write{.root = root, .tokens = tokens};
    for (int i = 0; i < blocks; ++i) {
      const auto at = static_cast<size_t>(i);
      if (!missing.missing[at]) continue;
      if (write.parts.empty()) write.first_block = i;
      write.names.push_back(missing.names[at]);
      write.parts.push_back(parts[at]);
      const std::vector<std::byte> memory = MemoryOf(tokens, i, parts[at].state);
      write.memory.insert(write.memory.end(), memory.begin(), memory.end());
    }
    if (!write.parts.empty()) {
      ASSERT_TRUE(store.Write(std::move(write)));
    }
    while (!store.Idle()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

  // Reads what the store has of the tokens. The number of blocks with the right bytes; -1 if a read
  // failed.
  static int Load(PrefixStore& store, const std::vector<TokenId>& tokens,
                  const std::string& root = "1:r") {
    const std::vector<StoredBlock> found = store.Find(root, tokens, 0);
    const auto text = std::make_shared<const std::vector<TokenId>>(tokens);
    int right = 0;
    for (size_t i = 0; i < found.size(); ++i) {
      store.Read({.id = i + 1,
                  .root = root,
                  .tokens = text,
                  .first_block = static_cast<int>(i),
                  .blocks = {found[i]}});
      std::vector<PrefixReadResult> results;
      while (results.empty()) {
        std::this_thread::sleep_for(std::chrono::microseconds(200));
        store.Take(results);
      }
      if (!results[0].ok) return -1;
      EXPECT_EQ(results[0].id, i + 1);
      if (results[0].memory == MemoryOf(tokens, static_cast<int>(i), found[i].parts.state)) ++right;
    }
    return right;
  }

  std::vector<fs::path> Files() const {
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(folder())) {
      if (entry.path().extension() == ".prefix") files.push_back(entry.path());
    }
    return files;
  }

  support::TempFolder temporary_;
};

TEST_F(PrefixDiskTest, BlocksSurviveARestart) {
  const std::vector<TokenId> tokens = SomeTokens(1, 96);
  {
    const auto disk = Open();
    const auto store = disk->ForModel("model", kShape);
    Save(*store, tokens);
    EXPECT_EQ(Load(*store, tokens), 3);
  }
  const auto disk = Open();
  const auto store = disk->ForModel("model", kShape);
  EXPECT_EQ(Load(*store, tokens), 3);
  EXPECT_EQ(disk->stats().read_blocks, 3u);
  EXPECT_EQ(disk->stats().files, 1u);
}

TEST_F(PrefixDiskTest, OnlyTheOwnerMayReadIt) {
  const auto disk = Open();
  const auto store = disk->ForModel("model", kShape);
  Save(*store, SomeTokens(1, 96));
  const auto mode = [](const fs::path& path) {
    struct stat found {};
    CHECK_EQ(stat(path.c_str(), &found), 0);
    return found.st_mode & 0777;
  };
  EXPECT_EQ(mode(folder()), 0700u);
  EXPECT_EQ(mode(fs::path(folder()) / "key"), 0600u);
  ASSERT_EQ(Files().size(), 1u);
  EXPECT_EQ(mode(Files()[0]), 0600u);
}

TEST_F(PrefixDiskTest, AFolderOpenToOthersIsRefused) {
  fs::create_directory(folder());
  fs::permissions(folder(), fs::perms(0750));
  const auto disk = PrefixDisk::Open({.folder = folder(), .max_bytes = 1});
  ASSERT_FALSE(disk.ok());
  EXPECT_EQ(disk.status().reason(), "prefix_folder");
  EXPECT_THAT(disk.status().message(), ::testing::HasSubstr("chmod 700"));
}

TEST_F(PrefixDiskTest, ASecondProcessIsRefused) {
  const auto disk = Open();
  const auto second = PrefixDisk::Open({.folder = folder(), .max_bytes = 1});
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(second.status().message(), ::testing::HasSubstr("--prefix-folder"));
}

TEST_F(PrefixDiskTest, ATailIsFoundByItsTokens) {
  std::vector<TokenId> tokens = SomeTokens(1, 75);
  {
    const auto disk = Open();
    Save(*disk->ForModel("model", kShape), tokens, "1:r", /*state_at_end=*/true);
  }
  const auto disk = Open();
  const auto store = disk->ForModel("model", kShape);
  EXPECT_EQ(Load(*store, tokens), 3);
  std::vector<TokenId> longer = tokens;
  longer.resize(90, 3);
  const std::vector<StoredBlock> found = store->Find("1:r", longer, 0);
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[2].tokens, 11);
  EXPECT_TRUE(found[2].parts.state);
  tokens[70] += 1;
  EXPECT_EQ(store->Find("1:r", tokens, 0).size(), 2u) << "another tail";
  EXPECT_EQ(store->Find("1:r", std::span(longer).first(70), 0).size(), 2u) << "a part of the tail";
}

TEST_F(PrefixDiskTest, ModelsAndRootsAreApart) {
  const std::vector<TokenId> tokens = SomeTokens(1, 96);
  const auto disk = Open();
  const auto store = disk->ForModel("model", kShape), other = disk->ForModel("other", kShape);
  Save(*store, tokens, "1:ab");
  EXPECT_EQ(Load(*store, tokens, "1:ab"), 3);
  EXPECT_EQ(Load(*store, tokens, "2:ab"), 0);
  EXPECT_EQ(Load(*store, tokens, "1:a"), 0);
  EXPECT_EQ(Load(*other, tokens, "1:ab"), 0);
}

TEST_F(PrefixDiskTest, WhatIsKeptIsNotMissing) {
  const std::vector<TokenId> tokens = SomeTokens(1, 75);
  const auto disk = Open();
  const auto store = disk->ForModel("model", kShape);
  std::vector<BlockParts> parts(3);
  using ::testing::ElementsAre;
  EXPECT_THAT(store->Missing("r", tokens, parts).missing, ElementsAre(true, true, true));
  Save(*store, tokens, "r");
  EXPECT_THAT(store->Missing("r", tokens, parts).missing, ElementsAre(false, false, false));
  parts[2].state = true;
  EXPECT_THAT(store->Missing("r", tokens, parts).missing, ElementsAre(false, false, true));
  Save(*store, tokens, "r", /*state_at_end=*/true);
  EXPECT_THAT(store->Missing("r", tokens, parts).missing, ElementsAre(false, false, false));
  EXPECT_EQ(Load(*store, tokens, "r"), 3) << "the later file has the state";
}

TEST_F(PrefixDiskTest, TheCapHolds) {
  constexpr uint64_t kCap = 100'000;
  const auto disk = Open(kCap);
  const auto store = disk->ForModel("model", kShape);
  for (int i = 0; i < 40; ++i) {
    Save(*store, SomeTokens(i, 64));
    Load(*store, SomeTokens(0, 64));  // stays in use
    uint64_t bytes = 0;
    for (const fs::path& file : Files()) bytes += fs::file_size(file);
    EXPECT_LE(bytes, kCap);
    EXPECT_LE(disk->stats().bytes, kCap);
  }
  EXPECT_GT(disk->stats().evicted_files, 20u);
  EXPECT_EQ(Load(*store, SomeTokens(0, 64)), 2) << "what is used is not evicted";
  EXPECT_EQ(Load(*store, SomeTokens(39, 64)), 2);
  EXPECT_EQ(Load(*store, SomeTokens(20, 64)), 0);
}

TEST_F(PrefixDiskTest, ALowerCapHoldsAfterARestart) {
  {
    const auto disk = Open();
    const auto store = disk->ForModel("model", kShape);
    for (int i = 0; i < 10; ++i) Save(*store, SomeTokens(i, 64));
  }
  const auto disk = Open(40'000);
  const auto store = disk->ForModel("model", kShape);
  EXPECT_LE(disk->stats().bytes, 40'000u);
  EXPECT_EQ(Load(*store, SomeTokens(9, 64)), 2) << "the newest stay";
}

TEST_F(PrefixDiskTest, AFileBeyondTheCapIsNotWritten) {
  const auto disk = Open(1000);
  const auto store = disk->ForModel("model", kShape);
  Save(*store, SomeTokens(1, 64));
  EXPECT_TRUE(Files().empty());
  EXPECT_EQ(disk->stats().failed_writes, 1u);
}

TEST_F(PrefixDiskTest, DamagedFilesAreRemoved) {
  const std::vector<TokenId> tokens = SomeTokens(1, 96);
  for (const bool restarted : {true, false}) {
    for (const auto& damage : std::vector<std::function<void(const fs::path&)>>{
             [](const fs::path& file) { fs::resize_file(file, fs::file_size(file) - 1); },
             [](const fs::path& file) { fs::resize_file(file, 40); },
             [](const fs::path& file) { fs::resize_file(file, 0); },
             [](const fs::path& file) { fs::resize_file(file, fs::file_size(file) + 1); },
             [](const fs::path& file) {
               std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
               stream.seekp(static_cast<std::streamoff>(fs::file_size(file)) - 7000);
               stream.put('\xee');
             },
             [](const fs::path& file) {
               std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
               stream.seekp(100);
               stream.put('\xee');
             }}) {
      auto disk = Open();
      auto store = disk->ForModel("model", kShape);
      Save(*store, tokens);
      ASSERT_EQ(Files().size(), 1u);
      if (restarted) {
        store.reset();
        disk.reset();
      }
      damage(Files()[0]);
      if (restarted) {
        disk = Open();
        store = disk->ForModel("model", kShape);
      }
      EXPECT_LT(Load(*store, tokens), 3);
      EXPECT_EQ(disk->stats().rejected_files, 1u);
      EXPECT_TRUE(Files().empty());
      EXPECT_EQ(Load(*store, tokens), 0);
    }
  }
}

TEST_F(PrefixDiskTest, FilesOfAnotherFolderAreRemoved) {
  const std::vector<TokenId> tokens = SomeTokens(1, 96);
  {
    const auto disk = Open();
    Save(*disk->ForModel("model", kShape), tokens);
  }
  fs::remove(fs::path(folder()) / "key");
  std::ofstream(fs::path(folder()) / "0123456789abcdef.prefix") << "not one of ours";
  std::ofstream(fs::path(folder()) / "notes.txt") << "the user's";
  fs::create_symlink("/etc/hostname", fs::path(folder()) / "00000000000000aa.prefix");
  const auto disk = Open();
  const auto store = disk->ForModel("model", kShape);
  EXPECT_EQ(disk->stats().rejected_files, 2u);
  EXPECT_EQ(Load(*store, tokens), 0);
  EXPECT_EQ(Files().size(), 1u) << "the link is not touched";
  EXPECT_TRUE(fs::exists(fs::path(folder()) / "notes.txt"));
}

TEST_F(PrefixDiskTest, AFileOfAnotherShapeIsNotUsed) {
  const std::vector<TokenId> tokens = SomeTokens(1, 96);
  const auto disk = Open();
  Save(*disk->ForModel("model", kShape), tokens);
  PrefixShape larger = kShape;
  larger.block_bytes += 64;
  EXPECT_EQ(Load(*disk->ForModel("model", larger), tokens), 0);
}

TEST_F(PrefixDiskTest, ARemovedFileIsAMiss) {
  const std::vector<TokenId> tokens = SomeTokens(1, 96);
  const auto disk = Open();
  const auto store = disk->ForModel("model", kShape);
  Save(*store, tokens);
  fs::remove(Files()[0]);
  EXPECT_EQ(Load(*store, tokens), -1);
  EXPECT_EQ(disk->stats().failed_reads, 1u);
  EXPECT_EQ(disk->stats().rejected_files, 0u);
  EXPECT_EQ(Load(*store, tokens), 0);
}

TEST_F(PrefixDiskTest, RefusesWritesBeyondItsQueue) {
  const auto disk = *PrefixDisk::Open(
      {.folder = folder(), .max_bytes = 1 << 30, .queue_bytes = 3 * kShape.block_bytes});
  const auto store = disk->ForModel("model", kShape);
  int accepted = 0;
  for (int i = 0; i < 200; ++i) {
    const std::vector<TokenId> tokens = SomeTokens(i, 32);
    MissingBlocks missing = store->Missing("r", tokens, std::vector<BlockParts>(1));
    accepted += store->Write({.root = "r",
                              .tokens = tokens,
                              .names = missing.names,
                              .parts = std::vector<BlockParts>(1),
                              .memory = MemoryOf(tokens, 0, false)})
                    ? 1
                    : 0;
  }
  while (!store->Idle()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(disk->stats().written_blocks, static_cast<uint64_t>(accepted));
  EXPECT_GE(accepted, 3);
}

TEST_F(PrefixDiskTest, WhatWaitsIsWrittenAtTheEnd) {
  const std::vector<TokenId> tokens = SomeTokens(1, 32);
  {
    const auto disk = Open();
    const auto store = disk->ForModel("model", kShape);
    MissingBlocks missing = store->Missing("1:r", tokens, std::vector<BlockParts>(1));
    ASSERT_TRUE(store->Write({.root = "1:r",
                              .tokens = tokens,
                              .names = missing.names,
                              .parts = std::vector<BlockParts>(1),
                              .memory = MemoryOf(tokens, 0, false)}));
  }
  const auto disk = Open();
  EXPECT_EQ(Load(*disk->ForModel("model", kShape), tokens), 1);
}

TEST_F(PrefixDiskTest, RecordsOfPinsSurviveARestart) {
  const PinRecord record{.id = "prefix_1",
                         .tenant = "t",
                         .salt = "s",
                         .adapter = "ab12",
                         .tokens = SomeTokens(1, 70),
                         .expires_unix_ms = UnixMillis() + 3'600'000};
  {
    const auto disk = Open();
    const auto store = disk->ForModel("model", kShape);
    PinRecord other = record;
    other.id = "prefix_2";
    PinRecord ended = record;
    ended.id = "prefix_3";
    ended.expires_unix_ms = UnixMillis() - 1;
    store->KeepPin(record);
    store->KeepPin(other);
    store->KeepPin(ended);
    store->DropPin("prefix_2");
  }
  std::ofstream(fs::path(folder()) / "0123456789abcdef.pin") << "not one of ours";
  const auto disk = Open();
  const auto pin_files = [&] {
    return std::count_if(fs::directory_iterator(folder()), fs::directory_iterator(),
                         [](const auto& entry) { return entry.path().extension() == ".pin"; });
  };
  EXPECT_EQ(pin_files(), 3);
  EXPECT_TRUE(disk->ForModel("other", kShape)->Pins().empty());
  EXPECT_EQ(pin_files(), 1) << "what has ended or is damaged is removed, of any model";
  const std::vector<PinRecord> records = disk->ForModel("model", kShape)->Pins();
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].id, record.id);
  EXPECT_EQ(records[0].tenant, record.tenant);
  EXPECT_EQ(records[0].salt, record.salt);
  EXPECT_EQ(records[0].adapter, record.adapter);
  EXPECT_EQ(records[0].tokens, record.tokens);
  EXPECT_EQ(records[0].expires_unix_ms, record.expires_unix_ms);
  EXPECT_EQ(disk->stats().rejected_files, 1u);
}

TEST(PinFile, EveryChangedByteIsFound) {
  const std::vector<std::byte> whole = EncodePin(
      {1, 2}, {.id = "a", .tenant = "b", .salt = "", .adapter = "ad", .tokens = {1, 2, 3}});
  ASSERT_TRUE(DecodePin(whole).ok());
  for (size_t i = 0; i < whole.size(); ++i) {
    std::vector<std::byte> bytes = whole;
    bytes[i] ^= std::byte{4};
    EXPECT_FALSE(DecodePin(bytes).ok()) << i;
    EXPECT_FALSE(DecodePin(std::span(whole).first(i)).ok()) << i;
  }
}

// A file takes the folder's place, because root may write into any folder.
TEST_F(PrefixDiskTest, AnUnwritableFolderFailsWritesOnly) {
  const auto disk = Open();
  const auto store = disk->ForModel("model", kShape);
  const std::string away = std::string(folder()) + ".away";
  fs::rename(folder(), away);
  std::ofstream(folder()) << "no folder";
  Save(*store, SomeTokens(1, 64));
  EXPECT_EQ(disk->stats().failed_writes, 1u);
  EXPECT_EQ(Load(*store, SomeTokens(1, 64)), 0);
  fs::remove(folder());
  fs::rename(away, folder());
  Save(*store, SomeTokens(1, 64));
  EXPECT_EQ(Load(*store, SomeTokens(1, 64)), BlocksFor(64));
}

TEST_F(PrefixDiskTest, ARemovedFolderIsMadeAgain) {
  const std::vector<TokenId> before = SomeTokens(1, 64), after = SomeTokens(2, 64);
  {
    const auto disk = Open();
    const auto store = disk->ForModel("model", kShape);
    Save(*store, before);
    fs::remove_all(folder());
    Save(*store, after);
    EXPECT_EQ(disk->stats().failed_writes, 0u);
    EXPECT_EQ(Load(*store, after), BlocksFor(64));
    EXPECT_EQ(Load(*store, before), -1);
    EXPECT_FALSE(PrefixDisk::Open({.folder = folder()}).ok()) << "it is locked again";
  }
  EXPECT_EQ(Load(*Open()->ForModel("model", kShape), after), BlocksFor(64)) << "with the same key";
}

TEST_F(PrefixDiskTest, AFolderThatAnotherProcessMadeIsLeftAlone) {
  const auto disk = Open();
  const auto store = disk->ForModel("model", kShape);
  fs::rename(folder(), std::string(folder()) + ".away");
  const auto other = Open();
  Save(*store, SomeTokens(1, 64));
  EXPECT_EQ(disk->stats().failed_writes, 1u);
  EXPECT_TRUE(Files().empty());
}

}  // namespace
}  // namespace tutti::kv
