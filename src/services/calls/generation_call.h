// The kinds of calls, and helpers for those of generating routes, shared by the servers, jobs and
// batches: parse the body, resolve `echo`, make the response head and writer, and attribute errors
// to fields. Pure except for AskForEcho() and HeadOf(), which query the inference; any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/caller.h"
#include "api/inference.h"
#include "base/status.h"
#include "protocol/openai/request.h"
#include "protocol/response_writer.h"
#include "protocol/schema/checked_object.h"

namespace tutti::calls {

// The generating or embedding route that a call belongs to.
enum class CallKind : uint8_t {
  kChat,
  kText,
  kGenerate,
  kMessages,
  kInfill,
  kOllamaChat,
  kOllamaGenerate,
  kDecisions,
  kSystemOne,
  kPrefix,
  // Calls of encoders.
  kEmbeddings,
  kRerank,
  kScore,
};
constexpr bool Generates(CallKind kind) { return kind < CallKind::kEmbeddings; }
// Whether a call may run later, as a job. Ollama's API has no form for that, and the time of a pin
// begins now.
constexpr bool Deferrable(CallKind kind) {
  return kind != CallKind::kOllamaChat && kind != CallKind::kOllamaGenerate &&
         kind != CallKind::kPrefix;
}

// Name of the route in the usage ledger and in stored jobs, such as "chat.completions".
std::string_view NameOf(CallKind kind);
std::optional<CallKind> KindNamed(std::string_view name);

// `kind` generates, here and below. Errors: those of the schema.
Result<protocol::GenerationCall> ParseGeneration(CallKind kind, std::string_view body,
                                                 const protocol::ParseOptions& options);

// Prompt texts that `echo` repeats, one per prompt: as sent, or decoded from token ids. Empty
// without `echo`.
using EchoTexts = std::vector<std::string>;
// `done` is called once, as that of Inference::DetokenizeLater(); `inference` outlives that. Reads
// `call` before it returns. Errors: those of Detokenize.
void AskForEcho(const protocol::GenerationCall& call, const api::CallerRef& caller,
                api::Inference& inference, std::function<void(Result<EchoTexts>)> done);

// Head of the response: id, time, model. `random` is the last part of the id.
struct GenerationHead {
  protocol::ResponseHead head;
  int context_tokens = 0;  // of its model; 0 = not known
};
GenerationHead HeadOf(CallKind kind, const protocol::GenerationCall& call,
                      const std::string& random, const api::Inference& inference, int64_t unix_s);

// The answer to a call without requests (GenerationCall::load_reason).
std::string LoadBody(CallKind kind, const protocol::GenerationCall& call, int64_t unix_s);

// Writer of the response body. The call must outlive it.
std::unique_ptr<protocol::ResponseWriter> MakeWriter(CallKind kind,
                                                     const protocol::GenerationCall& call,
                                                     protocol::ResponseHead head, EchoTexts echo);

// Adds to an error of request `index` the field that caused it: which of several prompts, or which
// part made it longer than the context. `chat`: the prompts are chats; `prompt_tokens`: tokens of
// that prompt, if known.
Status Blame(const protocol::GenerationCall& call, Status status, size_t index, bool chat,
             int context_tokens, int prompt_tokens = 0);

}  // namespace tutti::calls
