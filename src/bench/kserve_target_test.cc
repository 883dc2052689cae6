#include "bench/kserve_target.h"

#include <gmock/gmock.h>

namespace tutti::bench {
namespace {

using ::testing::HasSubstr;

TEST(KserveTargetTest, TextsGoToTheFirstBytesInputAndFloatsAreTheVectors) {
  const auto model =
      ChooseKserveTensors("m", {{"ids", "INT32", 2}, {"text", "BYTES", 2}, {"more", "BYTES", 1}},
                          {{"tokens", "INT32", 1}, {"vector", "FP32", 2}});
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->input.name, "text");
  EXPECT_EQ(model->input.rank, 2u);
  EXPECT_EQ(model->output.name, "vector");
}

TEST(KserveTargetTest, AModelWithoutSuchTensorsIsDescribed) {
  const auto model = ChooseKserveTensors("m", {{"ids", "INT32", 1}}, {});
  ASSERT_FALSE(model.ok());
  EXPECT_EQ(model.status().reason(), "unsupported_model");
  EXPECT_THAT(model.status().message(), HasSubstr("inputs: INT32 ids; outputs: none"));
}

}  // namespace
}  // namespace tutti::bench
