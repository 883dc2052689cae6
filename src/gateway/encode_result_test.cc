// Processing of an encoder's raw rows by the reader.
#include "gateway/encode_result.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace tutti::gateway {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatNear;

api::EncodeResult Rows(int width, std::vector<float> values) {
  api::EncodeResult result;
  result.width = width;
  result.values = std::move(values);
  return result;
}

TEST(EncodeFinish, RowsAreCutAndThenNormalised) {
  api::EncodeResult result = Rows(3, {3, 4, 100, 0, -2, 7});
  EncodeFinish{.dimensions = 2, .normalize = true}(result);
  EXPECT_EQ(result.width, 2);
  EXPECT_THAT(result.values, ElementsAre(0.6f, 0.8f, 0.f, -1.f));
}

TEST(EncodeFinish, ARowOfZerosStaysOne) {
  api::EncodeResult result = Rows(2, {0, 0});
  EncodeFinish{.dimensions = std::nullopt, .normalize = true}(result);
  EXPECT_THAT(result.values, ElementsAre(0, 0));
}

TEST(EncodeFinish, LengthsBeyondFloatDoNotBecomeInfinite) {
  api::EncodeResult result = Rows(2, {3e30f, 4e30f});
  EncodeFinish{.dimensions = std::nullopt, .normalize = true}(result);
  EXPECT_THAT(result.values, ElementsAre(FloatNear(0.6f, 1e-6f), FloatNear(0.8f, 1e-6f)));
}

TEST(EncodeFinish, ScoresAreSquashedEachForItselfOrTogether) {
  api::EncodeResult one = Rows(1, {0, 100, -100});
  EncodeFinish{.dimensions = std::nullopt, .scale = ScoreScale::kSigmoid}(one);
  EXPECT_THAT(one.values, ElementsAre(0.5f, 1.f, FloatNear(0.f, 1e-6f)));
  api::EncodeResult several = Rows(2, {1000, 1000, 0, std::log(3.f)});
  EncodeFinish{.dimensions = std::nullopt, .scale = ScoreScale::kSoftmax}(several);
  EXPECT_THAT(several.values,
              ElementsAre(0.5f, 0.5f, FloatNear(0.25f, 1e-6f), FloatNear(0.75f, 1e-6f)));
}

TEST(EncodeFinish, WhatARequestAsksForStandsAboveTheModel) {
  ServedEncoder model;
  model.normalize = true;
  model.scale = ScoreScale::kSigmoid;
  api::EncodeRequest request;
  EXPECT_TRUE(FinishFor(model, request).normalize);
  request.normalize = false;
  EXPECT_FALSE(FinishFor(model, request).normalize);
  request.output = api::EncodeOutput::kScores;
  EXPECT_EQ(FinishFor(model, request).scale, ScoreScale::kSigmoid);
  request.raw_scores = true;
  EXPECT_EQ(FinishFor(model, request).scale, ScoreScale::kRaw);
  request.output = api::EncodeOutput::kTokens;
  request.normalize = true;
  EXPECT_FALSE(FinishFor(model, request).normalize) << "tokens' rows are given as they are";
}

}  // namespace
}  // namespace tutti::gateway
