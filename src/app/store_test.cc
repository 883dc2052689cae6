#include "app/store.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "store/database.h"
#include "temp_folder.h"

namespace tutti::app {
namespace {

// Sets a variable for the length of a test; nothing unsets it.
class Variable {
 public:
  Variable(const char* name, const std::optional<std::string>& value) : name_(name) {
    if (const char* const before = std::getenv(name)) before_ = before;
    Set(value);
  }
  ~Variable() { Set(before_); }

 private:
  void Set(const std::optional<std::string>& value) {
    if (value.has_value()) {
      setenv(name_, value->c_str(), 1);
    } else {
      unsetenv(name_);
    }
  }
  const char* const name_;
  std::optional<std::string> before_;
};

Result<std::string> FolderWith(const std::string& option) {
  Settings::Inputs inputs;
  if (!option.empty()) inputs.flags["store"] = option;
  const Result<Settings> settings = Settings::Resolve(inputs);
  CHECK(settings.ok()) << settings.status();
  return StoreFolder(*settings);
}

mode_t ModeOf(const std::string& path) {
  struct stat info {};
  CHECK(stat(path.c_str(), &info) == 0) << path;
  return info.st_mode & 0777;
}

TEST(StoreFolderTest, ItsPlaceIsToldWithoutMakingIt) {
  const support::TempFolder folder;
  Settings::Inputs inputs;
  inputs.flags["store"] = folder.File("a/store");
  const Result<Settings> settings = Settings::Resolve(inputs);
  ASSERT_TRUE(settings.ok()) << settings.status();
  EXPECT_EQ(*StorePlace(*settings), folder.File("a/store"));
  EXPECT_FALSE(std::filesystem::exists(folder.File("a")));
}

TEST(StoreFolderTest, WhoFindsItsStoreInUseIsToldWhatToDo) {
  const support::TempFolder folder;
  const auto first = OpenStore(folder.path());
  ASSERT_TRUE(first.ok()) << first.status();
  const Status why = OpenStore(folder.path()).status();
  EXPECT_EQ(why.reason(), "store_locked");
  EXPECT_TRUE(why.message().ends_with("; choose another folder with --store")) << why;
}

TEST(StoreFolderTest, TheOptionsFolderIsMadeForThisUserAlone) {
  const support::TempFolder folder;
  const std::string path = folder.File("a/b/store");
  EXPECT_EQ(*FolderWith(path), path);
  EXPECT_EQ(ModeOf(path), 0700U);
  EXPECT_EQ(ModeOf(folder.File("a")), 0700U);
  EXPECT_EQ(*FolderWith(path), path) << "it may be there";
}

TEST(StoreFolderTest, WithoutTheOptionItIsWhereStateBelongs) {
  const support::TempFolder folder;
  const Variable home("HOME", folder.path());
  {
    const Variable state("XDG_STATE_HOME", folder.File("state"));
    EXPECT_EQ(*FolderWith(""), folder.File("state/tutti"));
  }
  for (const auto& ignored :
       {std::optional<std::string>(), std::optional<std::string>("relative")}) {
    const Variable state("XDG_STATE_HOME", ignored);
    EXPECT_EQ(*FolderWith(""), folder.File(".local/state/tutti"));
  }
  EXPECT_EQ(ModeOf(folder.File(".local")), 0700U);
}

TEST(StoreFolderTest, MemoryIsNoFolder) { EXPECT_EQ(*FolderWith("memory"), ""); }

TEST(StoreFolderTest, WhereThereIsNoPlaceForItTheUserIsToldWhatToDo) {
  const Variable home("HOME", std::nullopt), state("XDG_STATE_HOME", std::nullopt);
  EXPECT_EQ(FolderWith("").status().param(), "store");
  const support::TempFolder folder;
  std::ofstream(folder.File("file")) << "x";
  EXPECT_EQ(FolderWith(folder.File("file/store")).status().reason(), "store_failed");
}

TEST(StoreTablesTest, AllCanBeMadeTogetherAndTakenBackByOne) {
  auto database = store::Database::Open("");
  ASSERT_TRUE(database.ok());
  const auto tables = StoreTables();
  ASSERT_TRUE(store::Migrate(tables, &*database).ok());
  EXPECT_TRUE(store::Migrate({tables.data(), tables.size() - 1}, &*database).ok());
  EXPECT_TRUE(store::Migrate(tables, &*database).ok());
}

}  // namespace
}  // namespace tutti::app
