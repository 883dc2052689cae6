// Options of encoders, from the settings: their batches of texts, and the semantic cache, whose
// lookups an encoder serves.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/config/settings.h"
#include "base/status.h"
#include "engine/options.h"
#include "services/cache/semantic_cache.h"

namespace tutti::app {

// How an encoder, or a decoder that also gives vectors, batches texts.
engine::EncoderOptions EncodeOptionsFrom(const Settings& settings);

// nullopt if the semantic cache is off. Errors: invalid_value.
Result<std::optional<cache::SemanticOptions>> SemanticOptionsFrom(const Settings& settings);

// Checks that the models named in the options are among `served`. Errors: invalid_value.
Status CheckSemanticModels(const Settings& settings, const std::vector<std::string>& served);

}  // namespace tutti::app
