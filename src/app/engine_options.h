// Scheduling options of decoders from the settings.
#pragma once

#include "app/settings.h"
#include "engine/options.h"

namespace tutti::app {

// All options except those of speculative decoding (draft_plan.h).
engine::EngineOptions EngineOptionsFrom(const Settings& settings);

}  // namespace tutti::app
