// Texts, token ids and pairs of a request's JSON, as the waist takes them. Pure.
//
// Errors: invalid_value, empty_prompt, token_out_of_range, request_too_large; each names the
// element at fault ("input[3]").
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "wire/checked_object.h"
#include "wire/encoding_call.h"
#include "wire/json.h"
#include "wire/request_placement.h"

namespace tutti::wire {

// A call with what every kind has: model, when and where. `input_name` is the field of its inputs.
Result<EncodingCall> BeginCall(EncodingKind kind, std::string input_name,
                               const CheckedObject& object, const ParseOptions& options);

// string | [string] | [int] | [[int]] into the call's inputs, under the call's name for them.
// `mixed`: strings and lists of ids may stand in one list.
Status ReadInputs(const Json& value, bool mixed, EncodingCall* call);

// 1 to kMaxEncodeInputs strings, none empty.
Result<std::vector<std::string>> ReadTexts(const Json& value, const std::string& name);

// One input more. `param` names it where it is empty.
Status AddText(std::string text, const std::string& param, EncodingCall* call);
void AddPair(std::string first, std::string second, EncodingCall* call);

// The query with each text, at most api::kMaxPairBytes in all. `texts` stay what they are.
Status AddPairs(const std::string& query, const std::vector<std::string>& texts,
                EncodingCall* call);

Status EmptyInput(const std::string& param);     // empty_prompt
Status TooManyInputs(const std::string& param);  // invalid_value

}  // namespace tutti::wire
