// What the server says of itself on its status topic, as JSON. Pure.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "api/types.h"

namespace tutti::mqtt::profile {

// {"online":true,"models":[...],"version":...,"load":{...}}; `load` as GET /load has it.
std::string OnlineJson(std::string_view version, std::span<const api::ModelInfo> models,
                       const api::LoadSnapshot& load);

// {"online":false}: on a clean stop, and the Will of whoever connects for this server.
std::string OfflineJson();

}  // namespace tutti::mqtt::profile
