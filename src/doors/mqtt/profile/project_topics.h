// The topics of the project profile that its clients' own words decide about (MQTT 5's Response
// Topic); the others are wire/mqtt_project.h's. Pure.
#pragma once

#include <string_view>

#include "base/status.h"

namespace tutti::mqtt::profile {

// Whether answers of `session` may go to `topic`: its own topic, or one below it. Error:
// invalid_value.
Status CheckProjectResponse(std::string_view project, std::string_view session,
                            std::string_view topic);

}  // namespace tutti::mqtt::profile
