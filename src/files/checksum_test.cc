#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "files/digest.h"

namespace tutti::files {
namespace {

uint64_t Of(std::string_view text) { return Xxh64(std::as_bytes(std::span(text))); }

// Values of the reference implementation (xxhash 4.1.0 of PyPI).
TEST(Xxh64, IsTheReferencesOfEveryLengthOfTail) {
  EXPECT_EQ(Of(""), 0xef46db3751d8e999U);
  EXPECT_EQ(Of("a"), 0xd24ec4f1a98c6e5bU);
  EXPECT_EQ(Of("abc"), 0x44bc2cf5ad770999U);
  std::vector<std::byte> bytes(200);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 37 + 11);
  const std::pair<size_t, uint64_t> sums[] = {
      {0, 0xef46db3751d8e999U},   {1, 0xf592c0c7639c4cb6U},  {3, 0x22c08528601d4f27U},
      {4, 0xfb1e5cf2f1ae4d95U},   {5, 0x9d213eca1f68f273U},  {7, 0x5613ac510496c04eU},
      {8, 0x57cb2b7521f3e21aU},   {12, 0x2f53b00266039e64U}, {15, 0x90a9714eb00e8d29U},
      {31, 0xe4a0e629e519a4aeU},  {32, 0xcc6b8aaada790b2dU}, {33, 0x35ec49850475a832U},
      {63, 0xbf9f0ba3cf95b28aU},  {64, 0x155ccce4bf32befcU}, {100, 0x4826e367566ea023U},
      {199, 0xc2f64bc669817a94U},
  };
  for (const auto& [size, sum] : sums) EXPECT_EQ(Xxh64(std::span(bytes).first(size)), sum) << size;
}

TEST(Xxh64, ABitThatTurnedAnywhereIsSeen) {
  std::vector<std::byte> bytes(131);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 37);
  const uint64_t whole = Xxh64(bytes);
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    const auto mask = static_cast<std::byte>(1U << (bit % 8));
    bytes[bit / 8] ^= mask;
    EXPECT_NE(Xxh64(bytes), whole) << bit;
    bytes[bit / 8] ^= mask;
  }
  EXPECT_NE(Xxh64(std::span(bytes).first(130)), whole);
}

}  // namespace
}  // namespace tutti::files
