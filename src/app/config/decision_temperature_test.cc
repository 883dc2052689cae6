#include "app/config/decision_temperature.h"

#include <gtest/gtest.h>

namespace tutti::app {
namespace {

Result<Settings> With(const std::string& text) {
  Settings::Inputs inputs;
  inputs.flags["decision-temperature"] = text;
  return Settings::Resolve(inputs);
}

TEST(DecisionTemperature, IsOfAllModelsOrOfOne) {
  const auto settings = With("1.5,org/chat=2,tiny=0.25");
  ASSERT_TRUE(settings.ok()) << settings.status();
  EXPECT_EQ(DecisionTemperatureFromSettings(*settings, "org/chat"), 2);
  EXPECT_EQ(DecisionTemperatureFromSettings(*settings, "tiny"), 0.25);
  EXPECT_EQ(DecisionTemperatureFromSettings(*settings, "other"), 1.5);
  EXPECT_EQ(DecisionTemperatureFromSettings(*With("tiny=3"), "other"), 1);
  EXPECT_EQ(DecisionTemperatureFromSettings(*Settings::Resolve({}), "other"), 1);
}

TEST(DecisionTemperature, RefusesWhatIsOutOfRange) {
  for (const char* bad : {"0", "-1", "0.009", "100.1", "nan", "inf", "x", "a=", "=2", "a=1,a=2",
                          "1,2", "a=1,,b=2", "a=1e9", "1.5x"}) {
    EXPECT_EQ(With(bad).status().reason(), "invalid_value") << bad;
  }
  for (const char* good : {"0.01", "100", "a=0.01", "a=1,b=2,3", "a=b=2"})
    EXPECT_TRUE(With(good).ok()) << good;
}

TEST(DecisionTemperature, RefusesTheNameOfNoModel) {
  EXPECT_TRUE(CheckDecisionTemperatures(*With("1.5,chat=2"), {"chat"}).ok());
  const Status status = CheckDecisionTemperatures(*With("1.5,chta=2"), {"chat"});
  EXPECT_EQ(status.reason(), "invalid_value");
  EXPECT_NE(status.message().find("chta"), std::string::npos);
}

}  // namespace
}  // namespace tutti::app
