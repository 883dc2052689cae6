// JSON form of stored responses: initial data and final state. Pure.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "services/responses/response_writer.h"
#include "services/responses/stored_json.h"
#include "wire/json_writer.h"

namespace tutti::responses {

std::string EncodeRecord(const ResponseRecord& record);
// Errors: record_corrupt.
Result<ResponseRecord> DecodeRecord(std::string_view text);

// A wire::ResponseState as one JSON value.
void WriteState(const wire::ResponseState& state, wire::JsonWriter* json);
wire::ResponseState ReadState(const StoredObject& fields);

}  // namespace tutti::responses
