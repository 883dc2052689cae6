// Parses texts, token ids and pairs of encode requests to api::EncodeInput. Pure.
//
// Errors: invalid_value, empty_prompt, token_out_of_range, request_too_large; each names the
// invalid element ("input[3]").
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "protocol/encoding/call.h"
#include "protocol/json/json.h"
#include "protocol/schema/checked_object.h"
#include "protocol/schema/request_placement.h"

namespace tutti::protocol {

// Makes a call with the fields common to all kinds: model, priority, deadline. `input_name`: name
// of the inputs' field.
Result<EncodingCall> BeginCall(EncodingKind kind, std::string input_name,
                               const CheckedObject& object, const ParseOptions& options);

// Parses string | [string] | [int] | [[int]] to the inputs of the call. `mixed`: a list may contain
// both strings and lists of ids.
Status ReadInputs(const Json& value, bool mixed, EncodingCall* call);

// 1 to kMaxEncodeInputs strings, none empty.
Result<std::vector<std::string>> ReadTexts(const Json& value, const std::string& name);

// Adds an input; `param` is its name in the error for an empty one.
Status AddText(std::string text, const std::string& param, EncodingCall* call);
void AddPair(std::string first, std::string second, EncodingCall* call);

// Pairs the query with each text, at most api::kMaxPairBytes in total. `texts` are not changed.
Status AddPairs(const std::string& query, const std::vector<std::string>& texts,
                EncodingCall* call);

Status EmptyInput(const std::string& param);     // empty_prompt
Status TooManyInputs(const std::string& param);  // invalid_value

}  // namespace tutti::protocol
