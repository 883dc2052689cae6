#include "base/utf8.h"

#include <gtest/gtest.h>
#include <unicode/ustring.h>
#include <unicode/utf16.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/random.h"

namespace tutti {
namespace {

// ICU's own decoder: the code point at the beginning of `text` and its length, or -1. A character
// is the shortest beginning that converts strictly.
std::pair<int32_t, int> IcuDecode(const std::string& text) {
  for (size_t length = 1; length <= std::min<size_t>(text.size(), 4); ++length) {
    UChar units[4] = {};
    int32_t count = 0;
    UErrorCode error = U_ZERO_ERROR;
    u_strFromUTF8(units, 4, &count, text.data(), static_cast<int32_t>(length), &error);
    if (U_FAILURE(error) != 0) continue;
    const int32_t c = count == 1 ? units[0] : U16_GET_SUPPLEMENTARY(units[0], units[1]);
    return {c, static_cast<int>(length)};
  }
  return {-1, 1};
}

void ExpectSameAsIcu(const std::string& text) {
  const auto [code_point, length] = IcuDecode(text);
  const CodePoint got = DecodeAt(text, 0);
  ASSERT_EQ(got.valid, code_point >= 0) << ::testing::PrintToString(text);
  if (!got.valid) {
    ASSERT_EQ(got.length, 1);
    return;
  }
  ASSERT_EQ(static_cast<int32_t>(got.code_point), code_point) << ::testing::PrintToString(text);
  ASSERT_EQ(got.length, length);
}

std::string Bytes(std::initializer_list<int> bytes) {
  std::string out;
  for (const int b : bytes) out.push_back(static_cast<char>(b));
  return out;
}

TEST(Utf8Test, DecodesWhatIcuDecodesForAllSequencesOfUpToThreeBytes) {
  for (int a = 0; a < 256; ++a) {
    ExpectSameAsIcu(Bytes({a}));
    for (int b = 0; b < 256; ++b) {
      ExpectSameAsIcu(Bytes({a, b}));
      if (a < 0xE0) continue;
      for (int c = 0; c < 256; ++c) ExpectSameAsIcu(Bytes({a, b, c}));
    }
  }
}

TEST(Utf8Test, DecodesWhatIcuDecodesForRandomSequencesOfFourBytes) {
  Random random(1);
  for (int i = 0; i < 300000; ++i) {
    const auto tail = [&] { return static_cast<int>(0x70 + random.Below(0x60)); };
    ExpectSameAsIcu(Bytes({static_cast<int>(0xEE + random.Below(8)), tail(), tail(), tail()}));
  }
}

TEST(Utf8Test, WritesEveryScalarValueAsItReadsIt) {
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (c == 0xD800) c = 0xE000;
    std::string text;
    AppendUtf8(c, text);
    const CodePoint got = DecodeAt(text, 0);
    ASSERT_TRUE(got.valid);
    ASSERT_EQ(got.code_point, c);
    ASSERT_EQ(got.length, text.size());
  }
}

// U+FFFD for each maximal subpart, as ICU substitutes.
std::string IcuRepair(const std::string& bytes) {
  std::vector<UChar> units(bytes.size() + 1);
  int32_t count = 0;
  UErrorCode error = U_ZERO_ERROR;
  u_strFromUTF8WithSub(units.data(), static_cast<int32_t>(units.size()), &count, bytes.data(),
                       static_cast<int32_t>(bytes.size()), 0xFFFD, nullptr, &error);
  CHECK(U_SUCCESS(error) != 0);
  std::string out(3 * bytes.size() + 3, '\0');
  int32_t length = 0;
  u_strToUTF8(out.data(), static_cast<int32_t>(out.size()), &length, units.data(), count, &error);
  CHECK(U_SUCCESS(error) != 0);
  out.resize(static_cast<size_t>(length));
  return out;
}

// Bytes with a liking for the edges of well-formed sequences.
std::string RandomBytes(Random& random) {
  constexpr unsigned char kEdges[] = {0x00, 0x41, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF,
                                      0xC0, 0xC1, 0xC2, 0xDF, 0xE0, 0xE1, 0xEC, 0xED, 0xEE,
                                      0xEF, 0xF0, 0xF1, 0xF3, 0xF4, 0xF5, 0xFF};
  std::string bytes;
  const uint64_t count = random.Below(24);
  for (uint64_t i = 0; i < count; ++i)
    bytes.push_back(static_cast<char>(kEdges[random.Below(sizeof(kEdges))]));
  return bytes;
}

TEST(Utf8RepairTest, ReplacesMaximalSubpartsAsIcuDoesHoweverTheBytesAreCut) {
  Random random(2);
  for (int i = 0; i < 100000; ++i) {
    const std::string bytes = RandomBytes(random);
    Utf8Repair repair;
    std::string got;
    for (size_t at = 0; at < bytes.size();) {
      const size_t n = 1 + random.Below(5);
      const size_t before = got.size();
      repair.Push(std::string_view(bytes).substr(at, n), got);
      ASSERT_EQ(IcuRepair(got.substr(before)), got.substr(before)) << "a piece is not valid UTF-8";
      at += n;
    }
    repair.Finish(got);
    ASSERT_FALSE(repair.pending());
    ASSERT_EQ(got, IcuRepair(bytes)) << ::testing::PrintToString(bytes);
  }
}

TEST(Utf8RepairTest, HoldsAnUnfinishedCharacterUntilTheEnd) {
  Utf8Repair repair;
  std::string out;
  repair.Push("\xE2\x82", out);
  EXPECT_EQ(out, "");
  EXPECT_TRUE(repair.pending());
  repair.Push("\xAC", out);
  EXPECT_EQ(out, "\xE2\x82\xAC");
  repair.Push("\xF0\x9F", out);
  repair.Finish(out);
  EXPECT_EQ(out, "\xE2\x82\xAC\xEF\xBF\xBD");
}

}  // namespace
}  // namespace tutti
