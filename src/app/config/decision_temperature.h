// The temperatures of decisions, from the option --decision-temperature. Pure; any thread.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "app/config/settings.h"
#include "base/status.h"

namespace tutti::app {

// Limits of a temperature. At the lower one a label that is 1 % less probable than another one
// already has a third of its probability.
inline constexpr double kMinDecisionTemperature = 0.01;
inline constexpr double kMaxDecisionTemperature = 100;

struct DecisionTemperatures {
  double others = 1;                         // for models without an entry
  std::map<std::string, double> by_model{};  // by served name
};

// NUMBER for all models or NAME=NUMBER for one, separated by commas. Errors: invalid_value, also
// for a name or the number of all models that comes twice.
Result<DecisionTemperatures> ReadDecisionTemperatures(std::string_view text);

// The temperature of the model with that served name.
double DecisionTemperatureFromSettings(const Settings& settings, const std::string& served_name);

// Errors: invalid_value if the option names a model that is not among `models`.
Status CheckDecisionTemperatures(const Settings& settings, const std::vector<std::string>& models);

}  // namespace tutti::app
