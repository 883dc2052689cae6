// Encoder routes of OpenAI, vLLM and Jina, inbound: parses JSON bodies of /v1/embeddings, rerank
// and score to api::EncodeRequest. Pure.
#pragma once

#include "base/status.h"
#include "protocol/encoding/call.h"
#include "protocol/json/json.h"
#include "protocol/schema/request_placement.h"

namespace tutti::protocol {

Result<EncodingCall> ParseEmbeddings(const Json& body, const ParseOptions& options);
Result<EncodingCall> ParseRerank(const Json& body, const ParseOptions& options);
Result<EncodingCall> ParseScore(const Json& body, const ParseOptions& options);

}  // namespace tutti::protocol
