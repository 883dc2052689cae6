// Ollama's API, inbound: parses bodies of /api/chat, /api/generate, /api/embed, /api/embeddings,
// /api/show, /api/pull, /api/copy and /api/delete. Field names and rules are those of Ollama's
// api/types.go and docs/api.md. Pure.
//
// A body is converted to the equivalent body of another route, whose parser then reads it, so that
// sampling, tools, constraints and limits have one implementation:
//   /api/chat, /api/generate     /v1/chat/completions
//   /api/generate with `raw`     /generate
//   /api/generate with `suffix`  /infill
//   /api/embed, /api/embeddings  /v1/embeddings
//
// Errors of all parsers: invalid_value, missing_required_parameter, unsupported_parameter, and in
// strict mode unknown_parameter, each with the client's name of the field ("options.top_k").
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "protocol/encoding/call.h"
#include "protocol/json/json.h"
#include "protocol/json/json_writer.h"
#include "protocol/openai/request.h"
#include "protocol/schema/checked_object.h"

namespace tutti::protocol::ollama {

// The name without the tag ":latest", which Ollama's clients append to names without a tag.
std::string_view UntaggedName(std::string_view name);

// The result has one request with one choice, or none, if the body asks only to load or unload the
// model: no messages, or an empty prompt (GenerationCall::load_reason).
Result<GenerationCall> ParseChat(const Json& body, const ParseOptions& options);
Result<GenerationCall> ParseGenerate(const Json& body, const ParseOptions& options);

// The client's name of a field that an error names as another route has it: "options.num_predict"
// for "max_tokens".
std::string FieldName(const GenerationCall& call, std::string param);

// `kind` is kOllamaEmbed or kOllamaEmbeddings. The result has no inputs if the body asks only to
// load the model.
Result<EncodingCall> ParseEmbed(EncodingKind kind, const Json& body, const ParseOptions& options);

struct ShowCall {
  std::string model;                 // without ":latest"
  std::vector<std::string> ignored;  // unknown fields, for x-tutti-ignored
};
Result<ShowCall> ParseShow(const Json& body, const ParseOptions& options);

// The call of /api/pull, /api/copy or /api/delete. Names are without ":latest".
struct LibraryCall {
  std::string model;                 // for /api/copy the source
  std::string destination;           // /api/copy
  bool stream = true;                // /api/pull
  std::vector<std::string> ignored;  // unknown fields, for x-tutti-ignored
};
Result<LibraryCall> ParsePull(const Json& body, const ParseOptions& options);
Result<LibraryCall> ParseCopy(const Json& body, const ParseOptions& options);
Result<LibraryCall> ParseDelete(const Json& body, const ParseOptions& options);

// Writes a member for each kind of body, "OllamaChatRequest", with its JSON Schema
// (protocol/schema/json_schema.h).
void WriteSchemas(JsonWriter* json);

}  // namespace tutti::protocol::ollama
