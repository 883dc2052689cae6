#include "protocol/json/base64.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace tutti::protocol {
namespace {

std::string Encoded(std::string_view bytes) {
  std::string out = "before:";
  AppendBase64(bytes, &out);
  EXPECT_TRUE(out.starts_with("before:"));
  return out.substr(7);
}

// Apart from the code under test: by looking letters up.
std::string Decoded(std::string_view text) {
  const std::string letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    if (c == '=') break;
    const size_t digit = letters.find(c);
    EXPECT_NE(digit, std::string::npos) << c;
    bits = bits << 6 | static_cast<uint32_t>(digit);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes += static_cast<char>(bits >> count);
  }
  return bytes;
}

TEST(Base64, TheVectorsOfRfc4648) {
  EXPECT_EQ(Encoded(""), "");
  EXPECT_EQ(Encoded("f"), "Zg==");
  EXPECT_EQ(Encoded("fo"), "Zm8=");
  EXPECT_EQ(Encoded("foo"), "Zm9v");
  EXPECT_EQ(Encoded("foob"), "Zm9vYg==");
  EXPECT_EQ(Encoded("fooba"), "Zm9vYmE=");
  EXPECT_EQ(Encoded("foobar"), "Zm9vYmFy");
}

TEST(Base64, EveryByteComesBackAtEveryLength) {
  std::string bytes;
  for (int i = 0; i < 600; ++i) {
    EXPECT_EQ(Decoded(Encoded(bytes)), bytes) << i;
    EXPECT_EQ(Encoded(bytes).size() % 4, 0u);
    bytes += static_cast<char>(i * 37);
  }
}

TEST(Base64, FloatsAreLittleEndianAndJoinAcrossBlocks) {
  std::string one;
  AppendBase64Floats(std::vector<float>{1.0f}, &one);
  EXPECT_EQ(one, "AACAPw==") << "00 00 80 3F";
  for (const size_t count : {0u, 1u, 2u, 3u, 383u, 384u, 385u, 1000u}) {
    std::vector<float> numbers;
    for (size_t i = 0; i < count; ++i) numbers.push_back(0.1f * static_cast<float>(i) - 7);
    if (count > 2) {
      numbers[0] = -0.0f;
      numbers[1] = std::numeric_limits<float>::denorm_min();
      numbers[2] = std::numeric_limits<float>::max();
    }
    std::string text;
    AppendBase64Floats(numbers, &text);
    const std::string bytes = Decoded(text);
    ASSERT_EQ(bytes.size(), 4 * count);
    for (size_t i = 0; i < count; ++i) {
      uint32_t bits = 0;
      for (size_t b = 0; b < 4; ++b)
        bits |= static_cast<uint32_t>(static_cast<uint8_t>(bytes[4 * i + b])) << 8 * b;
      EXPECT_EQ(bits, std::bit_cast<uint32_t>(numbers[i])) << i << " of " << count;
    }
  }
}

}  // namespace
}  // namespace tutti::protocol
