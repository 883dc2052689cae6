// Anthropic's Messages API, inbound: bodies of /v1/messages and /v1/messages/count_tokens -> the
// types of api. Pure.
//
// A dialog means the same as the chat completion that says it: `system` becomes a first message of
// role system; messages of one role in a row are joined; each tool_result block becomes a message
// of role tool, before the rest of its message; a last message of role assistant is continued.
#pragma once

#include <string>
#include <vector>

#include "api/inference.h"
#include "base/status.h"
#include "wire/json.h"
#include "wire/openai_request.h"
#include "wire/request_placement.h"

namespace tutti::wire {

// One request of one choice, whose prompt is a chat. Errors: those of the schema;
// unsupported_parameter, naming the path, for blocks and tools that no model here can use.
Result<GenerationCall> ParseMessages(const Json& body, const ParseOptions& options);

struct CountTokensCall {
  api::TokenizeRequest request;
  std::vector<std::string> ignored;  // unknown fields, for x-tutti-ignored
};
// Errors: as ParseMessages.
Result<CountTokensCall> ParseCountTokens(const Json& body, const ParseOptions& options);
std::string CountTokensBody(const api::TokenizeResult& result);  // {"input_tokens": n}

}  // namespace tutti::wire
