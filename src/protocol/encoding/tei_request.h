// The dialect of Text Embeddings Inference, inbound: JSON bodies of its routes ->
// api::EncodeRequest. Fields and defaults as its router has them (router/src/http/types.rs, version
// 1.9), but one: what is too long is refused unless `truncate` is true. `model` is ours.
//
// Pure.
#pragma once

#include "base/status.h"
#include "protocol/encoding/call.h"
#include "protocol/json/json.h"
#include "protocol/schema/request_placement.h"

namespace tutti::protocol {

// `kind` is one of TEI's.
Result<EncodingCall> ParseTei(EncodingKind kind, const Json& body, const ParseOptions& options);

// Kind of a request to "/". `vectors`: the server's encoder embeds. Errors: unsupported_parameter
// for a request of Text Generation Inference, which uses the same path and the field `inputs`.
Result<EncodingKind> KindOfRoot(const Json& body, bool vectors);

// Whether a body has `field`, which distinguishes the two dialects of /rerank and of /tokenize.
bool HasField(const Json& body, std::string_view field);

}  // namespace tutti::protocol
