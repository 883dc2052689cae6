#include "services/calls/body_hash.h"

#include <gtest/gtest.h>

namespace tutti::calls {
namespace {

TEST(CanonicalBodyHash, IsOfWhatTheBodySaysHoweverItIsWritten) {
  EXPECT_EQ(CanonicalBodyHash("{}").size(), 32u);
  EXPECT_EQ(CanonicalBodyHash(R"({"a":1,"b":"\u0061"})"),
            CanonicalBodyHash("{ \"a\" : 1,\n\"b\":\"a\" }"));
  EXPECT_NE(CanonicalBodyHash(R"({"a":1})"), CanonicalBodyHash(R"({"a":2})"));
  EXPECT_NE(CanonicalBodyHash("no json"), CanonicalBodyHash("no  json")) << "or of its bytes";
}

}  // namespace
}  // namespace tutti::calls
