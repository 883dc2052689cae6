// What the settings say about a decoder's scheduling.
#pragma once

#include "app/settings.h"
#include "engine/options.h"

namespace tutti::app {

// All but what is proposed (draft_plan.h).
engine::EngineOptions EngineOptionsFrom(const Settings& settings);

}  // namespace tutti::app
