#include "services/auth/key_text.h"

#include <gtest/gtest.h>

#include <array>
#include <set>
#include <string>

namespace tutti::auth {
namespace {

std::string Made() {
  const Result<std::string> text = MakeKeyText();
  CHECK(text.ok()) << text.status();
  return *text;
}

TEST(KeyText, HasAnIdThatFindsItAndASecret) {
  const std::string text = Made();
  ASSERT_EQ(text.size(), kKeyChars);
  EXPECT_TRUE(text.starts_with("tutti-")) << text;
  const auto id = KeyIdOf(text);
  ASSERT_TRUE(id.has_value());
  EXPECT_EQ(*id, text.substr(6, 12));
}

TEST(KeyText, NoTwoAreAlikeAndAllLettersComeAlikeOften) {
  std::set<std::string> texts;
  std::array<int, 256> count{};
  constexpr int kKeys = 2000;
  for (int i = 0; i < kKeys; ++i) {
    const std::string text = Made();
    texts.insert(text);
    for (const char c : text.substr(text.size() - kKeySecretChars))
      ++count[static_cast<unsigned char>(c)];
  }
  EXPECT_EQ(texts.size(), kKeys);
  // Chi-squared with 61 degrees of freedom: above 140 once in 10^7 runs.
  const double expected = kKeys * static_cast<double>(kKeySecretChars) / 62;
  double chi = 0;
  int letters = 0;
  for (const int n : count) {
    if (n == 0) continue;
    ++letters;
    chi += (n - expected) * (n - expected) / expected;
  }
  EXPECT_EQ(letters, 62);
  EXPECT_LT(chi, 140);
}

TEST(KeyText, WhatIsNoKeyHasNoId) {
  const std::string good = Made();
  EXPECT_FALSE(KeyIdOf("").has_value());
  EXPECT_FALSE(KeyIdOf("sk-test").has_value());
  EXPECT_FALSE(KeyIdOf(good.substr(1)).has_value());
  EXPECT_FALSE(KeyIdOf(good + "A").has_value());
  for (size_t i = 0; i < good.size(); ++i) {
    for (const char bad : {'\0', '_', ' ', '\xc3'}) {
      std::string text = good;
      text[i] = bad;
      EXPECT_FALSE(KeyIdOf(text).has_value()) << i;
    }
  }
}

TEST(KeyText, DigestsAreEqualOnlyOfEqualTexts) {
  EXPECT_TRUE(SameDigest(DigestOf("abc"), DigestOf("abc")));
  EXPECT_FALSE(SameDigest(DigestOf("abc"), DigestOf("abd")));
  const Digest known = DigestOf("abc");  // FIPS 180-2, appendix B.1
  EXPECT_EQ(known[0], 0xba);
  EXPECT_EQ(known[31], 0xad);
}

}  // namespace
}  // namespace tutti::auth
