#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "app/process/memory.h"

namespace tutti::app {
namespace {

class SystemMemoryTest : public ::testing::Test {
 protected:
  void Write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }
  ~SystemMemoryTest() override { std::filesystem::remove_all(root_); }

  const std::string root_ = ::testing::TempDir() + "system_memory_test";
};

TEST_F(SystemMemoryTest, TheMachinesWhereNoGroupLimitsIt) {
  EXPECT_EQ(MostMemory(root_), 0) << "nothing is said";
  Write("/proc/meminfo", "MemTotal:        1024 kB\nMemAvailable:     512 kB\n");
  EXPECT_EQ(MostMemory(root_), 1 << 20);
  Write("/proc/self/cgroup", "0::/a\n");
  Write("/sys/fs/cgroup/a/memory.max", "max\n");
  EXPECT_EQ(MostMemory(root_), 1 << 20);
}

TEST_F(SystemMemoryTest, TheLeastOfTheGroupsThatItIsIn) {
  Write("/proc/meminfo", "MemTotal:        1024 kB\n");
  Write("/proc/self/cgroup", "0::/a/b\n");
  Write("/sys/fs/cgroup/a/b/memory.max", "500000\n");
  EXPECT_EQ(MostMemory(root_), 500000);
  Write("/sys/fs/cgroup/a/memory.max", "400000\n");
  EXPECT_EQ(MostMemory(root_), 400000) << "that of one above";
}

TEST_F(SystemMemoryTest, GroupsOfTheFirstVersion) {
  Write("/proc/meminfo", "MemTotal:        1024 kB\n");
  Write("/proc/self/cgroup", "9:name=systemd:/\n4:cpuset,memory:/x\nnonsense\n0::/\n");
  Write("/sys/fs/cgroup/memory/x/memory.limit_in_bytes", "300000\n");
  EXPECT_EQ(MostMemory(root_), 300000);
  Write("/sys/fs/cgroup/memory/x/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(MostMemory(root_), 1 << 20) << "no limit";
}

TEST_F(SystemMemoryTest, AContainerSeesItsOwnGroupAtTheTop) {
  Write("/proc/meminfo", "MemTotal:        1024 kB\n");
  Write("/proc/self/cgroup", "0::/of/the/host\n");
  Write("/sys/fs/cgroup/memory.max", "200000\n");
  EXPECT_EQ(MostMemory(root_), 200000);
}

TEST_F(SystemMemoryTest, ThisMachineSaysIt) {
  EXPECT_GT(ResidentMemory(), 1 << 20);
  EXPECT_GT(MostMemory(), ResidentMemory());
  EXPECT_GT(AvailableMemory(), 0);
}

}  // namespace
}  // namespace tutti::app
