// JSON of a server's load, the same on all servers. Pure.
#pragma once

#include "api/types.h"
#include "protocol/json/json_writer.h"

namespace tutti::protocol {

// An object.
void WriteLoad(const api::LoadSnapshot& load, JsonWriter* json);

}  // namespace tutti::protocol
