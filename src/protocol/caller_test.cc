#include "protocol/caller.h"

#include <gtest/gtest.h>

namespace tutti::protocol {
namespace {

TEST(CallerJson, HasTheCallerItsLimitsAndTheServices) {
  CallerView caller{.keys = true,
                    .kind = "key",
                    .id = "a1",
                    .name = "ci",
                    .tenant = "acme",
                    .routes = {"generate"},
                    .model_scope = {"m"},
                    .models = {"m"},
                    .admin = false,
                    .expires_s = 1'800'000'000,
                    .limits = {{.limit = "requests_per_minute",
                                .of = "key",
                                .state = {60, 58, std::chrono::milliseconds(1500)}}},
                    .version = "1.2.3",
                    .services = {{"jobs", true}, {"library", false}},
                    .body_bytes = 1024,
                    .upload_bytes = 2048,
                    .max_timeout_s = 60};
  EXPECT_EQ(
      CallerJson(caller),
      R"({"object":"caller","keys":true,"kind":"key","id":"a1","name":"ci","tenant":"acme",)"
      R"("expires_at":1800000000,"scopes":{"routes":["generate"],"models":["m"]},"admin":false,)"
      R"("models":["m"],"limits":[{"limit":"requests_per_minute","of":"key","max":60,)"
      R"("remaining":58,"reset_s":1.5}],"server":{"version":"1.2.3","services":{"jobs":true,)"
      R"("library":false},"limits":{"body_bytes":1024,"upload_bytes":2048,"timeout_s":60}}})");
  caller.model_scope.clear();
  caller.expires_s.reset();
  EXPECT_NE(CallerJson(caller).find(R"("expires_at":null)"), std::string::npos);
  EXPECT_NE(CallerJson(caller).find(R"("routes":["generate"],"models":null})"), std::string::npos);
}

}  // namespace
}  // namespace tutti::protocol
