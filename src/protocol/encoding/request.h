// Encoder routes, inbound: parses JSON bodies to api::EncodeRequest. Pure.
#pragma once

#include "base/status.h"
#include "protocol/encoding/call.h"
#include "protocol/json/json.h"
#include "protocol/schema/checked_object.h"

namespace tutti::protocol {

// --- /v1/embeddings, rerank and score, in the dialects of OpenAI, vLLM and Jina ---

Result<EncodingCall> ParseEmbeddings(const Json& body, const ParseOptions& options);
Result<EncodingCall> ParseRerank(const Json& body, const ParseOptions& options);
Result<EncodingCall> ParseScore(const Json& body, const ParseOptions& options);

// --- the routes of Text Embeddings Inference ---
//
// Fields and defaults as its router has them (router/src/http/types.rs, version 1.9), but one: what
// is too long is refused unless `truncate` is true. `model` is ours.

// `kind` is one of TEI's.
Result<EncodingCall> ParseTei(EncodingKind kind, const Json& body, const ParseOptions& options);

// Kind of a request to "/". `vectors`: the server's encoder embeds. Errors: unsupported_parameter
// for a request of Text Generation Inference, which uses the same path and the field `inputs`.
Result<EncodingKind> KindOfRoot(const Json& body, bool vectors);

// Whether a body has `field`, which distinguishes the two dialects of /rerank and of /tokenize.
bool HasField(const Json& body, std::string_view field);

}  // namespace tutti::protocol
