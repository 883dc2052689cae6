#include "app/config/decision_temperature.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/ascii.h"
#include "base/quote.h"

namespace tutti::app {

Result<DecisionTemperatures> ReadDecisionTemperatures(std::string_view text) {
  DecisionTemperatures read;
  std::optional<double> others;
  if (text.empty()) return read;
  for (const std::string_view one : SplitAt(text, ',')) {
    const std::string_view entry = Trimmed(one);
    const size_t equals = entry.rfind('=');
    const std::string_view number =
        equals == std::string_view::npos ? entry : entry.substr(equals + 1);
    const std::optional<double> value = ParseNumber<double>(number);
    // Written so that NaN fails.
    if (!value.has_value() ||
        !(*value >= kMinDecisionTemperature && *value <= kMaxDecisionTemperature)) {
      return InvalidArgument(
          "invalid_value",
          fmt::format("needs NUMBER or NAME=NUMBER from {} to {}, not {}", kMinDecisionTemperature,
                      kMaxDecisionTemperature, Quote(entry)));
    }
    if (equals == 0 || (equals == std::string_view::npos && others.has_value()) ||
        (equals != std::string_view::npos &&
         !read.by_model.emplace(entry.substr(0, equals), *value).second)) {
      return InvalidArgument("invalid_value",
                             fmt::format("{} has no name or repeats one", Quote(entry)));
    }
    if (equals == std::string_view::npos) others = value;
  }
  read.others = others.value_or(1);
  return read;
}

double DecisionTemperatureFromSettings(const Settings& settings, const std::string& served_name) {
  const Result<DecisionTemperatures> read =
      ReadDecisionTemperatures(settings.Text("decision-temperature"));
  if (!read.ok()) return 1;  // refused when the settings were read
  const auto found = read->by_model.find(served_name);
  return found == read->by_model.end() ? read->others : found->second;
}

Status CheckDecisionTemperatures(const Settings& settings, const std::vector<std::string>& models) {
  ASSIGN_OR_RETURN(const DecisionTemperatures read,
                   ReadDecisionTemperatures(settings.Text("decision-temperature")));
  for (const auto& [name, value] : read.by_model) {
    if (std::find(models.begin(), models.end(), name) != models.end()) continue;
    return InvalidArgument("invalid_value",
                           fmt::format("--decision-temperature: {} is not served; use the name of "
                                       "a model",
                                       Quote(name)));
  }
  return OkStatus();
}

}  // namespace tutti::app
