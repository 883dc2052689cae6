// Options of the semantic cache, from the settings.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/config/settings.h"
#include "base/status.h"
#include "services/cache/semantic_cache.h"

namespace tutti::app {

// nullopt if the semantic cache is off. Errors: invalid_value.
Result<std::optional<cache::SemanticOptions>> SemanticOptionsFrom(const Settings& settings);

// Checks that the models named in the options are among `served`. Errors: invalid_value.
Status CheckSemanticModels(const Settings& settings, const std::vector<std::string>& served);

}  // namespace tutti::app
