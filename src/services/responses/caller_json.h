// JSON form of api::Caller, stored with jobs, batches and responses that outlive their client's
// connection. Pure.
#pragma once

#include <string>

#include "api/caller.h"
#include "base/status.h"
#include "protocol/json/json_writer.h"
#include "services/responses/stored_json.h"

namespace tutti::responses {

// Writes the members into an object that is already open.
void WriteCaller(const api::Caller& caller, protocol::JsonWriter* json);
// Returns null if the object has no caller.
api::CallerRef ReadCaller(const StoredObject& fields);

// The whole object as text, and back. Errors: those of protocol::ParseJson().
std::string CallerText(const api::CallerRef& caller);
Result<api::CallerRef> CallerOfText(const std::string& text);

}  // namespace tutti::responses
