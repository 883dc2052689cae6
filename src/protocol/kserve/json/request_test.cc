#include "protocol/kserve/json/request.h"

#include <gtest/gtest.h>

namespace tutti::kserve {
namespace {

// Regression: parameters of HTTP alone reached the core, which dropped them for every server.
TEST(KserveRequestBody, WhatIsHttpsOwnDoesNotReachTheModel) {
  const Result<RequestBody> body =
      ReadInfer(R"({"inputs":[],"parameters":{"binary_data_output":true,"headers":"x","top_k":3}})",
                std::nullopt, {});
  ASSERT_TRUE(body.ok()) << body.status();
  EXPECT_TRUE(body->binary_outputs);
  ASSERT_EQ(body->request.parameters.size(), 1u);
  EXPECT_EQ(body->request.parameters[0].first, "top_k");
}

}  // namespace
}  // namespace tutti::kserve
