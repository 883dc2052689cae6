// Control requests about the batches of all owners (protocol/control.h), from the routes below
// /admin.
//
// {"op":"batches.list","tenant":"home","limit":20,"after":"batch_..."}
//     -> {"batches":[{"batch":{...},"tenant":"home"}],"more":false}
// {"op":"batches.show","id":"batch_..."} -> {"batch":{...},"tenant":...}
//     batches.cancel has the same members and answer
//
// A batch has the form of /v1/batches. `op` and the id are required; other members are optional.
// Errors: those of Batches.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "store/store.h"

namespace tutti::batches {

class Batches;

bool IsBatchesRequest(std::string_view request);
// Waits for the disk. Any thread but the strand of the batches.
Result<std::string> HandleControl(store::Store& store, Batches& batches, std::string_view request);

}  // namespace tutti::batches
