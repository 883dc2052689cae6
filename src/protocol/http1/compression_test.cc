#include "protocol/http1/compression.h"

#include <gtest/gtest.h>

#include <string>

namespace tutti::protocol {
namespace {

std::string Text(size_t bytes) {
  std::string text;
  uint32_t state = 7;
  while (text.size() < bytes) {
    state = state * 1664525 + 1013904223;
    text += static_cast<char>(state >> 24 & 0x3f);
  }
  return text;
}

TEST(Compression, WhatIsDeflatedInflatesAgain) {
  for (const Coding coding : {Coding::kGzip, Coding::kDeflate}) {
    for (const size_t bytes : {0, 1, 100, 5'000, 300'000}) {
      for (const std::string& text : {Text(bytes), std::string(bytes, 'x')}) {
        const Result<std::string> small = Deflate(coding, text);
        ASSERT_TRUE(small.ok()) << small.status();
        const Result<std::string> again = Inflate(coding, *small, bytes);
        ASSERT_TRUE(again.ok()) << again.status() << " " << bytes;
        EXPECT_TRUE(*again == text) << bytes;
        if (bytes > 0) {
          EXPECT_EQ(Inflate(coding, *small, bytes - 1).status().reason(), "request_too_large");
        }
      }
    }
  }
}

// RFC 1952, section 2.2, as of `cat a.gz b.gz`: they were called malformed.
TEST(Compression, SeveralMembersOfGzipAreOneMessageWithinOneBound) {
  const std::string text = Text(5000);
  std::string small;
  for (size_t at = 0; at < text.size(); at += 1000)
    small += *Deflate(Coding::kGzip, text.substr(at, 1000)) + *Deflate(Coding::kGzip, "");
  const Result<std::string> inflated = Inflate(Coding::kGzip, small, text.size());
  ASSERT_TRUE(inflated.ok()) << inflated.status();
  EXPECT_TRUE(*inflated == text);
  EXPECT_EQ(Inflate(Coding::kGzip, small, text.size() - 1).status().reason(), "request_too_large");
  EXPECT_EQ(Inflate(Coding::kGzip, small + "x", 1 << 20).status().reason(), "invalid_value");
  EXPECT_EQ(Inflate(Coding::kGzip, small.substr(0, small.size() - 1), 1 << 20).status().reason(),
            "invalid_value");
  const std::string stream = *Deflate(Coding::kDeflate, text);
  EXPECT_EQ(Inflate(Coding::kDeflate, stream + stream, 1 << 20).status().reason(), "invalid_value")
      << "zlib has no members";
}

TEST(Compression, WhatIsNoWholeStreamIsMalformed) {
  const std::string text = Text(1000);
  for (const Coding coding : {Coding::kGzip, Coding::kDeflate}) {
    const Coding other = coding == Coding::kGzip ? Coding::kDeflate : Coding::kGzip;
    const std::string small = *Deflate(coding, text);
    EXPECT_EQ(Inflate(other, small, 1 << 20).status().reason(), "invalid_value");
    EXPECT_EQ(Inflate(coding, small + "x", 1 << 20).status().reason(), "invalid_value");
    EXPECT_EQ(Inflate(coding, "", 1 << 20).status().reason(), "invalid_value");
    for (size_t cut = 1; cut < small.size(); ++cut)
      EXPECT_FALSE(Inflate(coding, small.substr(0, cut), 1 << 20).ok()) << cut;
    for (size_t i = 0; i < small.size(); ++i) {
      std::string wrong = small;
      wrong[i] = static_cast<char>(wrong[i] ^ 0x55);
      const Result<std::string> inflated = Inflate(coding, wrong, 1 << 20);
      // Some bytes of gzip's header, such as the modification time, do not affect the content.
      EXPECT_TRUE(!inflated.ok() || *inflated == text) << i;
    }
  }
}

}  // namespace
}  // namespace tutti::protocol
