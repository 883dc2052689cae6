// Ollama's API, outbound: renders stream events as JSON objects, one a line in a stream
// (application/x-ndjson), with `done: true` in the last. Durations are in nanoseconds. Pure; one
// object per call, as all writers of response_writer.h.
#pragma once

#include <memory>
#include <string>

#include "protocol/openai/request.h"
#include "protocol/response_writer.h"

namespace tutti::protocol::ollama {

enum class AnswerForm { kChat, kGenerate };

// `call` is of ParseChat or ParseGenerate, with a request.
std::unique_ptr<ResponseWriter> MakeWriter(AnswerForm route, const GenerationCall& call,
                                           ResponseHead head);

// The answer to a call that only loads or unloads the model (GenerationCall::load_reason).
std::string LoadBody(AnswerForm route, const GenerationCall& call, int64_t unix_s);

// RFC 3339, in UTC: "2026-01-31T09:00:00Z".
std::string TimeText(int64_t unix_s);

}  // namespace tutti::protocol::ollama
