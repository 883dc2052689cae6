// Encoder routes of OpenAI, vLLM and Jina, inbound: parses JSON bodies of /v1/embeddings, rerank
// and score to api::EncodeRequest. Pure.
#pragma once

#include "base/status.h"
#include "wire/encoding_call.h"
#include "wire/json.h"
#include "wire/request_placement.h"

namespace tutti::wire {

Result<EncodingCall> ParseEmbeddings(const Json& body, const ParseOptions& options);
Result<EncodingCall> ParseRerank(const Json& body, const ParseOptions& options);
Result<EncodingCall> ParseScore(const Json& body, const ParseOptions& options);

}  // namespace tutti::wire
