// JSON of a server's load, the same on all servers. Pure.
#pragma once

#include "api/types.h"
#include "wire/json_writer.h"

namespace tutti::wire {

// An object.
void WriteLoad(const api::LoadSnapshot& load, JsonWriter* json);

}  // namespace tutti::wire
