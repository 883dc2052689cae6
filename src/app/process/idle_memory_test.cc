#include <gtest/gtest.h>
#include <malloc.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <thread>
#include <vector>

#include "app/process/memory.h"

namespace tutti::app {
namespace {

size_t ResidentBytes() {
  size_t pages = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  return resident * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

// Many small blocks, of which every hundredth stays allocated, so that the freed memory is
// fragmented.
std::vector<std::unique_ptr<char[]>> Crumbs(size_t bytes) {
  constexpr size_t kBlock = 2000;
  std::vector<std::unique_ptr<char[]>> blocks, stay;
  for (size_t i = 0; i < bytes / kBlock; ++i) {
    blocks.push_back(std::make_unique<char[]>(kBlock));  // written: zeros
    if (i % 100 == 99) stay.push_back(std::move(blocks.back()));
  }
  return stay;
}

TEST(IdleMemory, FreedSmallBlocksGoBackToTheSystemOnceNobodyIsServed) {
  if (mallinfo2().arena == 0) GTEST_SKIP() << "a sanitizer's allocator";
  TimePoint now{std::chrono::hours(1)};
  IdleMemory memory;
  memory.Look(false, now);
  std::vector<std::unique_ptr<char[]>> stay;
  std::thread([&] { stay = Crumbs(size_t{96} << 20); }).join();  // in an arena of its own
  const size_t before = ResidentBytes();
  for (int i = 0; i < 100; ++i) memory.Look(true, now += std::chrono::seconds(1));
  memory.Look(false, now += std::chrono::seconds(4));
  EXPECT_GT(ResidentBytes() + (size_t{8} << 20), before) << "not while it is busy, nor at once";
  memory.Look(false, now += std::chrono::seconds(2));
  EXPECT_LT(ResidentBytes() + (size_t{48} << 20), before);
}

}  // namespace
}  // namespace tutti::app
