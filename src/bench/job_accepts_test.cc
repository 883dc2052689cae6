#include "bench/job_accepts.h"

#include <gtest/gtest.h>

#include <filesystem>

namespace tutti::bench {
namespace {

std::string Temporary() { return std::filesystem::temp_directory_path().string(); }

size_t FoldersOf(const std::string& in) {
  size_t folders = 0;
  for (const auto& entry : std::filesystem::directory_iterator(in))
    folders += entry.path().filename().string().starts_with("tutti-accepts-");
  return folders;
}

TEST(JobAccepts, AreCountedAndTimedAndLeaveNothing) {
  const size_t before = FoldersOf(Temporary());
  for (const int at_once : {1, 16}) {
    const auto figures = AcceptsOf(Temporary(), at_once, 0.2);
    ASSERT_TRUE(figures.ok()) << figures.status();
    EXPECT_EQ(figures->at_once, at_once);
    EXPECT_GE(figures->accept_s.size(), static_cast<size_t>(at_once));
    EXPECT_GT(figures->per_s, 0);
    for (const double took_s : figures->accept_s) EXPECT_GT(took_s, 0);
  }
  const auto plain = PlainCommits(Temporary(), 0.2);
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_GT(plain->accept_s.size(), 0u);
  EXPECT_EQ(FoldersOf(Temporary()), before);
}

TEST(JobAccepts, OfARedisStreamAreCountedAndNothingStays) {
  const size_t before = FoldersOf(Temporary());
  for (const int at_once : {1, 8}) {
    const auto figures = RedisAcceptsOf(Temporary(), at_once, 0.2);
    ASSERT_TRUE(figures.ok()) << figures.status();
    if (!figures->has_value()) GTEST_SKIP() << "there is no redis-server";
    EXPECT_EQ((*figures)->at_once, at_once);
    EXPECT_GE((*figures)->accept_s.size(), static_cast<size_t>(at_once));
    EXPECT_GT((*figures)->per_s, 0);
  }
  EXPECT_EQ(FoldersOf(Temporary()), before);
}

TEST(JobAccepts, AFolderThatIsNotThereIsAnError) {
  EXPECT_EQ(AcceptsOf("/nowhere/at/all", 1, 0.1).status().reason(), "store_failed");
  EXPECT_EQ(PlainCommits("/nowhere/at/all", 0.1).status().reason(), "store_failed");
}

}  // namespace
}  // namespace tutti::bench
