#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/grpc/kserve_run.h"

namespace tutti::rpc {
namespace {

using ::testing::Pair;
using ::testing::UnorderedElementsAre;

// Regression: these parameters were silently dropped.
TEST(KserveConvertTest, ParametersThatHttpAloneKnowsAreOrdinaryOnesAsWithTriton) {
  inference::ModelInferRequest message;
  (*message.mutable_parameters())["binary_data_output"].set_bool_param(true);
  (*message.mutable_parameters())["headers"].set_string_param("x");
  const Result<kserve::InferRequest> request = ToRequest(message, TimePoint());
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_THAT(request->parameters,
              UnorderedElementsAre(Pair("binary_data_output", kserve::ParameterValue(true)),
                                   Pair("headers", kserve::ParameterValue(std::string("x")))));
}

}  // namespace
}  // namespace tutti::rpc
