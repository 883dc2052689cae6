// What the settings say about batches of texts.
#pragma once

#include "app/settings.h"
#include "base/status.h"
#include "engine/options.h"

namespace tutti::app {

// Errors: invalid_value (encode.share).
Result<engine::EncoderOptions> EncodeOptionsFrom(const Settings& settings);

}  // namespace tutti::app
