#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "kv/prefix_index.h"

namespace tutti::kv {
namespace {

// The first vectors of the reference implementation (vectors_sip128): key 00..0f, input 00 01 02
// ...
TEST(SipHash128, EqualsTheReferenceVectors) {
  const Hash128 key = {0x0706050403020100ULL, 0x0f0e0d0c0b0a0908ULL};
  std::vector<uint8_t> input;
  EXPECT_THAT(SipHash128(key, input),
              testing::ElementsAre(0xe6a825ba047f81a3ULL, 0x930255c71472f66dULL));
  input.push_back(0);
  EXPECT_THAT(SipHash128(key, input),
              testing::ElementsAre(0x44af996bd8c187daULL, 0x45fc229b11597634ULL));
}

TEST(SipHash128, EveryBitOfInputAndKeyCounts) {
  const std::vector<uint8_t> base(144, 7);
  const Hash128 key = {1, 2};
  const Hash128 hash = SipHash128(key, base);
  for (size_t byte = 0; byte < base.size(); ++byte) {
    std::vector<uint8_t> changed = base;
    changed[byte] ^= 1;
    EXPECT_NE(SipHash128(key, changed), hash) << byte;
  }
  EXPECT_NE(SipHash128({1, 3}, base), hash);
}

}  // namespace
}  // namespace tutti::kv
