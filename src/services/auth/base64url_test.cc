#include <gtest/gtest.h>

#include <string>

#include "base/random.h"
#include "services/auth/jwt.h"
#include "services/auth/testing/signed_token.h"

namespace tutti::auth {
namespace {

// RFC 4648 section 10, without padding, and the two letters of its own.
TEST(Base64urlTest, ReadsWhatTheStandardShows) {
  EXPECT_EQ(DecodeBase64url(""), "");
  EXPECT_EQ(DecodeBase64url("Zg"), "f");
  EXPECT_EQ(DecodeBase64url("Zm8"), "fo");
  EXPECT_EQ(DecodeBase64url("Zm9v"), "foo");
  EXPECT_EQ(DecodeBase64url("Zm9vYmFy"), "foobar");
  EXPECT_EQ(DecodeBase64url("-_8"), "\xfb\xff");
}

TEST(Base64urlTest, AnyBytesComeBack) {
  Random random(7);
  for (int size = 0; size < 200; ++size) {
    std::string bytes;
    for (int i = 0; i < size; ++i) bytes += static_cast<char>(random.Below(256));
    EXPECT_EQ(DecodeBase64url(Base64url(bytes)), bytes);
  }
}

TEST(Base64urlTest, ThereIsOneTextForEachSequenceOfBytes) {
  for (const char* bad :
       {"Z", "Zm9vY", "Zg==", "Zm8=", "Zh", "Zm9", "Zm 8", "Zm+v", "Zm/v", "Zm8\n",
        "\xc3\xa9"
        "AA"})
    EXPECT_FALSE(DecodeBase64url(bad).has_value()) << bad;
  EXPECT_FALSE(DecodeBase64url(std::string_view("AA\0A", 4)).has_value());
}

}  // namespace
}  // namespace tutti::auth
