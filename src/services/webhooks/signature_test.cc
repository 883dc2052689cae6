#include <gtest/gtest.h>

#include <array>
#include <string>

#include "services/webhooks/webhooks.h"

namespace tutti::webhooks {
namespace {

// The example of the specification's reference library.
TEST(WebhookSignature, IsThatOfTheSpecification) {
  const auto secret = ReadSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
  ASSERT_TRUE(secret.ok()) << secret.status();
  EXPECT_EQ(secret->size(), 24u);
  const std::array secrets = {*secret};
  EXPECT_EQ(Sign(secrets, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, R"({"test": 2432232314})"),
            "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
}

TEST(WebhookSignature, TwoSecretsSignBoth) {
  const std::array secrets = {std::string(32, 'a'), std::string(32, 'b')};
  const std::string both = Sign(secrets, "evt_1", 1, "{}");
  EXPECT_EQ(both, Sign(std::span(secrets).first(1), "evt_1", 1, "{}") + " " +
                      Sign(std::span(secrets).last(1), "evt_1", 1, "{}"));
}

TEST(WebhookSignature, WhatIsNoSecretIsRefused) {
  for (const char* text : {"", "whsec_", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_abc",
                           "whsec_YWJj", "whsec_!!!!9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}) {
    EXPECT_EQ(ReadSecret(text).status().reason(), "invalid_value") << text;
  }
  EXPECT_FALSE(ReadSecret("whsec_" + std::string(92, 'A')).ok());
}

}  // namespace
}  // namespace tutti::webhooks
