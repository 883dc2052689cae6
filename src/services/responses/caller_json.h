// Who asked, as the store keeps it beside work that outlives its client. Pure.
#pragma once

#include <string>

#include "api/caller.h"
#include "base/status.h"
#include "services/responses/stored_json.h"
#include "wire/json_writer.h"

namespace tutti::responses {

// Members of an object that the caller has opened.
void WriteCaller(const api::Caller& caller, wire::JsonWriter* json);
// Null where there is none.
api::CallerRef ReadCaller(const StoredObject& fields);

// The whole object as text, and back. Errors: those of wire::ParseJson().
std::string CallerText(const api::CallerRef& caller);
Result<api::CallerRef> CallerOfText(const std::string& text);

}  // namespace tutti::responses
