// JSON form of stored responses: initial data and final state. Pure.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "protocol/json/json_writer.h"
#include "services/responses/response_writer.h"
#include "services/responses/stored_json.h"

namespace tutti::responses {

std::string EncodeRecord(const ResponseRecord& record);
// Errors: record_corrupt.
Result<ResponseRecord> DecodeRecord(std::string_view text);

// A protocol::ResponseState as one JSON value.
void WriteState(const protocol::ResponseState& state, protocol::JsonWriter* json);
protocol::ResponseState ReadState(const StoredObject& fields);

}  // namespace tutti::responses
