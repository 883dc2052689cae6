#include "doors/access/key_check.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tutti::access {
namespace {

using Fields = std::vector<std::string_view>;

TEST(KeyCheckTest, OneKeyAsABearerIsTakenAndNothingElse) {
  const KeyCheck check("sk-test");
  EXPECT_TRUE(check.Accepts(Fields{"Bearer sk-test"}));
  EXPECT_TRUE(check.Accepts(Fields{"bEARER sk-test"}));
  EXPECT_FALSE(check.Accepts(Fields{}));
  EXPECT_FALSE(check.Accepts(Fields{"Bearer sk-test", "Bearer sk-test"}));
  const std::string long_key = "Bearer " + std::string(5000, 'k');
  for (const std::string_view wrong :
       {std::string_view(""), std::string_view("sk-test"), std::string_view("Bearer"),
        std::string_view("Bearer "), std::string_view("Basic sk-test"),
        std::string_view("Bearer  sk-test"), std::string_view("Bearer sk-tes"),
        std::string_view("Bearer sk-test "), std::string_view("Bearer SK-TEST"),
        std::string_view(long_key)}) {
    EXPECT_FALSE(check.Accepts(Fields{wrong})) << wrong;
  }
}

TEST(KeyCheckTest, WithoutAKeyEverythingIsAccepted) {
  const KeyCheck check("");
  EXPECT_TRUE(check.Accepts(Fields{}));
  EXPECT_TRUE(check.Accepts(Fields{"Bearer whatever"}));
}

TEST(KeyCheckTest, WhoHasNoneIsToldWhereItBelongs) {
  const Status status = KeyNeeded("Authorization");
  EXPECT_EQ(status.reason(), "invalid_api_key");
  EXPECT_EQ(status.message(), "a valid key is needed: Authorization: Bearer <key>");
}

}  // namespace
}  // namespace tutti::access
