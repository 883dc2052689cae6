#include "files/digest.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace tutti::files {
namespace {

std::span<const std::byte> Bytes(std::string_view text) { return std::as_bytes(std::span(text)); }

// The vectors of FIPS 180-2, appendix B.
TEST(Sha256, GivesTheDigestsOfTheStandard) {
  Sha256 hash;
  hash.Update(Bytes("a"));
  hash.Update(Bytes("bc"));
  EXPECT_EQ(hash.FinishHex(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(Sha256().FinishHex(),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST(Sha256, AFrontIsReadInPiecesAndNoFurther) {
  const std::string million(1'000'000, 'a');
  const auto source = MemorySource(Bytes(million + million + "rest"), "gone");
  EXPECT_EQ(DigestFront(*source, 1'000'000).value(),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  Sha256 whole;
  whole.Update(Bytes(million));
  whole.Update(Bytes(million));
  EXPECT_EQ(DigestFront(*source, 2'000'000).value(), whole.FinishHex());
  EXPECT_EQ(DigestFront(*source, 2'000'005).status().reason(), "gone");
}

}  // namespace
}  // namespace tutti::files
