#include <gtest/gtest.h>

#include "api/models.h"

namespace tutti::api {
namespace {

TEST(SamplingDefaultsTest, SilentParametersTakeTheModelsDefaults) {
  SamplingParams params;
  ApplyDefaults({.temperature = 0.6, .top_p = 0.95, .top_k = 20, .min_p = 0.05}, &params);
  EXPECT_EQ(params.temperature, 0.6);
  EXPECT_EQ(params.top_p, 0.95);
  EXPECT_EQ(params.top_k, 20);
  EXPECT_EQ(params.min_p, 0.05);
  EXPECT_EQ(params.repetition_penalty, 1.0);  // set neither by the request nor by the model
}

TEST(SamplingDefaultsTest, GivenValuesWinEvenWhereTheyEqualTheUsualOnes) {
  SamplingParams params;
  params.temperature = 1.0;
  params.top_k = 0;
  ApplyDefaults({.temperature = 0.6, .top_p = {}, .top_k = 20}, &params);
  EXPECT_EQ(params.temperature, 1.0);
  EXPECT_EQ(params.top_k, 0);
}

TEST(SamplingDefaultsTest, ADefaultThatWasAppliedIsStillNotGiven) {
  SamplingParams params;
  ApplyDefaults({.temperature = 0.6}, &params);
  EXPECT_FALSE(params.temperature.given());
}

TEST(SamplingDefaultsTest, WhatWasNotGivenSurvivesACopyByBits) {
  SamplingParams params;
  params.temperature = 1.0;
  params.min_p = Parameter<double>::Default(0.25);
  SamplingParams copy;
  copy.temperature = params.temperature.value();
  copy.min_p = params.min_p.value();
  copy.top_k = params.top_k.value();
  MarkSilent(SilentParameters(params) | 1u << 31, &copy);
  EXPECT_TRUE(copy.temperature.given());
  EXPECT_FALSE(copy.min_p.given());
  EXPECT_FALSE(copy.top_k.given());
  EXPECT_EQ(copy.min_p, 0.25);
}

}  // namespace
}  // namespace tutti::api
