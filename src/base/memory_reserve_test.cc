#include "base/memory_reserve.h"

#include <gtest/gtest.h>

namespace tutti {
namespace {

TEST(MemoryReserve, WorkIsTriedUntilThereIsMemory) {
  KeepMemoryReserve();
  int tries = 0;
  UntilMemory([&] {
    if (++tries < 4) throw std::bad_alloc();
  });
  EXPECT_EQ(tries, 4);
  UntilMemory([&] { ++tries; });
  EXPECT_EQ(tries, 5);
}

TEST(MemoryReserve, OtherFailuresAreTheCallers) {
  EXPECT_THROW(UntilMemory([] { throw 1; }), int);
}

}  // namespace
}  // namespace tutti
