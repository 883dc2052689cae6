// Who asked, as the store keeps it beside work that outlives its client. Pure.
#pragma once

#include "api/caller.h"
#include "services/responses/stored_json.h"
#include "wire/json_writer.h"

namespace tutti::responses {

// Members of an object that the caller has opened.
void WriteCaller(const api::Caller& caller, wire::JsonWriter* json);
// Null where there is none.
api::CallerRef ReadCaller(const StoredObject& fields);

}  // namespace tutti::responses
