// Options of encoder batching from the settings.
#pragma once

#include "app/config/settings.h"
#include "engine/options.h"

namespace tutti::app {

engine::EncoderOptions EncodeOptionsFrom(const Settings& settings);

}  // namespace tutti::app
