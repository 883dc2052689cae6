#include "quantize/output_file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "temp_folder.h"

namespace tutti::quantize {
namespace {

class OutputFileTest : public testing::Test {
 protected:
  std::string Path() const { return folder_.File("out.gguf"); }
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
      names.push_back(entry.path().filename().string());
    }
    return names;
  }
  static std::vector<std::byte> Of(const std::string& text) {
    const auto* data = reinterpret_cast<const std::byte*>(text.data());
    return {data, data + text.size()};
  }
  static std::string TextOf(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }

  support::TempFolder folder_;
};

TEST_F(OutputFileTest, AppearsWholeWhenItIsKept) {
  {
    auto out = OutputFile::Create(Path(), false, 6);
    ASSERT_TRUE(out.ok()) << out.status();
    ASSERT_TRUE(out->Append(Of("abc")).ok());
    EXPECT_FALSE(std::filesystem::exists(Path()));
    ASSERT_TRUE(out->Append(Of("def")).ok());
    ASSERT_TRUE(out->Keep().ok());
  }
  EXPECT_EQ(TextOf(Path()), "abcdef");
  EXPECT_EQ(Names(), std::vector<std::string>{"out.gguf"});
}

TEST_F(OutputFileTest, LeavesNothingThatWasNotKept) {
  {
    auto out = OutputFile::Create(Path(), false, 3);
    ASSERT_TRUE(out.ok());
    ASSERT_TRUE(out->Append(Of("abc")).ok());
  }
  EXPECT_EQ(Names(), std::vector<std::string>{});
}

TEST_F(OutputFileTest, ReplacesOnlyWhereItMay) {
  std::ofstream(Path()) << "old";
  EXPECT_EQ(OutputFile::Create(Path(), false, 3).status().reason(), "output_exists");
  {
    auto out = OutputFile::Create(Path(), true, 3);
    ASSERT_TRUE(out.ok()) << out.status();
    ASSERT_TRUE(out->Append(Of("new")).ok());
    EXPECT_EQ(TextOf(Path()), "old");
    ASSERT_TRUE(out->Keep().ok());
  }
  EXPECT_EQ(TextOf(Path()), "new");
  EXPECT_EQ(Names(), std::vector<std::string>{"out.gguf"});
}

TEST_F(OutputFileTest, AFileThatCameMeanwhileIsNotReplaced) {
  auto out = OutputFile::Create(Path(), false, 3);
  ASSERT_TRUE(out.ok());
  ASSERT_TRUE(out->Append(Of("new")).ok());
  std::ofstream(Path()) << "another's";
  EXPECT_EQ(out->Keep().reason(), "output_exists");
  EXPECT_EQ(TextOf(Path()), "another's");
}

TEST_F(OutputFileTest, RefusesWhatIsNoPlaceForAFile) {
  EXPECT_EQ(OutputFile::Create(folder_.File("none/out.gguf"), false, 1).status().reason(),
            "output_path");
  EXPECT_EQ(OutputFile::Create(folder_.path(), true, 1).status().reason(), "output_path");
  EXPECT_EQ(OutputFile::Create("-", true, 1).status().reason(), "output_path");
  ASSERT_EQ(mkfifo(Path().c_str(), 0600), 0);
  EXPECT_EQ(OutputFile::Create(Path(), true, 1).status().reason(), "output_path");
}

TEST_F(OutputFileTest, MoreThanTheDiskHasIsRefusedBeforeItIsWritten) {
  EXPECT_EQ(OutputFile::Create(Path(), false, uint64_t{1} << 60).status().reason(), "storage_full");
  EXPECT_EQ(Names(), std::vector<std::string>{});
}

TEST_F(OutputFileTest, ADiskThatFillsMeanwhileLeavesNothing) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  {
    auto out = OutputFile::Create(Path(), false, 10);
    ASSERT_TRUE(out.ok());
    const rlimit little{1000, before.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &little), 0);
    EXPECT_EQ(out->Append(std::vector<std::byte>(4000)).reason(), "storage_full");
  }
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(Names(), std::vector<std::string>{});
}

}  // namespace
}  // namespace tutti::quantize
