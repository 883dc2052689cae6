// What the settings say of the semantic cache.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/settings.h"
#include "base/status.h"
#include "services/cache/semantic_cache.h"

namespace tutti::app {

// Nothing where it is off. Errors: invalid_value.
Result<std::optional<cache::SemanticOptions>> SemanticOptionsFrom(const Settings& settings);

// Whether the models that it names are among `served`, by their names. Errors: invalid_value.
Status CheckSemanticModels(const Settings& settings, const std::vector<std::string>& served);

}  // namespace tutti::app
