#include <gtest/gtest.h>

#include "services/idempotency/keys.h"

namespace tutti::idempotency {
namespace {

TEST(CanonicalBodyHash, IsOfWhatTheBodySaysHoweverItIsWritten) {
  EXPECT_EQ(CanonicalBodyHash("{}").size(), 32u);
  EXPECT_EQ(CanonicalBodyHash(R"({"a":1,"b":"\u0061"})"),
            CanonicalBodyHash("{ \"a\" : 1,\n\"b\":\"a\" }"));
  EXPECT_NE(CanonicalBodyHash(R"({"a":1})"), CanonicalBodyHash(R"({"a":2})"));
  EXPECT_NE(CanonicalBodyHash("no json"), CanonicalBodyHash("no  json")) << "or of its bytes";
}

TEST(CheckSameBody, RefusesAnotherBody) {
  EXPECT_TRUE(CheckSameBody("a", "a").ok());
  EXPECT_EQ(CheckSameBody("a", "b").reason(), "idempotency_key_mismatch");
}

}  // namespace
}  // namespace tutti::idempotency
