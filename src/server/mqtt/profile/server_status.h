// The server's status on its status topic, as JSON. Pure.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "api/types.h"

namespace tutti::mqtt::profile {

// {"online":true,"models":[...],"version":...,"load":{...}}; `load` as GET /load has it.
std::string OnlineJson(std::string_view version, std::span<const api::ModelInfo> models,
                       const api::LoadSnapshot& load);

// {"online":false}: published on a clean stop, and as the Will of the connection to a broker.
std::string OfflineJson();

}  // namespace tutti::mqtt::profile
