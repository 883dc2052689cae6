// JSON form of an api::GenerateRequest, stored so that the request can be run again after a crash:
// everything that determines the text (prompt, model, parameters, seed), the caller and the
// priority. The deadline is not stored, because it is a time of this process's clock. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "api/types.h"
#include "base/status.h"
#include "protocol/json/json_writer.h"
#include "services/responses/stored_json.h"

namespace tutti::responses {

std::string EncodeRequest(const api::GenerateRequest& request);
// Errors: record_corrupt.
Result<api::GenerateRequest> DecodeRequest(std::string_view text);

// Parts of the request: all members except the prompt, in an open object; and messages as a list.
void WriteRequestFields(const api::GenerateRequest& request, protocol::JsonWriter* json);
void ReadRequestFields(const StoredObject& fields, api::GenerateRequest* request);
// Tools and tool choice, as members of an open object; default values are omitted.
void WriteTools(const std::vector<api::Tool>& tools, const api::ToolChoice& choice, bool parallel,
                protocol::JsonWriter* json);
void ReadTools(const StoredObject& fields, std::vector<api::Tool>* tools, api::ToolChoice* choice,
               bool* parallel);
void WriteMessages(const std::vector<api::ChatMessage>& messages, protocol::JsonWriter* json);
std::vector<api::ChatMessage> ReadMessages(const protocol::JsonArray& list);

// Error for a stored record that cannot be read.
Status CorruptRecord(std::string_view what);

}  // namespace tutti::responses
