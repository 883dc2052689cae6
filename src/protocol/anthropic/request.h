// Anthropic Messages API, inbound: parses bodies of /v1/messages and /v1/messages/count_tokens to
// types of api/. Pure.
//
// A dialog is converted to the equivalent chat completion: `system` becomes a first message of role
// system; consecutive messages of one role are joined; each tool_result block becomes a message of
// role tool, before the rest of its message; a final message of role assistant is continued.
#pragma once

#include <string>
#include <vector>

#include "api/inference.h"
#include "base/status.h"
#include "protocol/json/json.h"
#include "protocol/openai/request.h"
#include "protocol/schema/checked_object.h"

namespace tutti::protocol {

// Parses one request with one choice and a chat prompt. Errors: those of the schema;
// unsupported_parameter, with the path, for unsupported kinds of blocks and tools.
Result<GenerationCall> ParseMessages(const Json& body, const ParseOptions& options);

struct CountTokensCall {
  api::TokenizeRequest request;
  std::vector<std::string> ignored;  // unknown fields, for x-tutti-ignored
};
// Errors: as ParseMessages.
Result<CountTokensCall> ParseCountTokens(const Json& body, const ParseOptions& options);
std::string CountTokensBody(const api::TokenizeResult& result);  // {"input_tokens": n}

}  // namespace tutti::protocol
