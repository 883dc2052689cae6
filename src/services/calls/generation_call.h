// A body of a generating route, understood: what every caller of the waist makes of it before
// and beside running it. Pure but for what it asks the inference; any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "api/caller.h"
#include "api/inference.h"
#include "base/status.h"
#include "services/calls/call_kind.h"
#include "wire/openai_request.h"
#include "wire/openai_response.h"
#include "wire/request_placement.h"

namespace tutti::calls {

// `kind` generates, here and below. Errors: those of the schema.
Result<wire::GenerationCall> ParseGeneration(CallKind kind, std::string_view body,
                                             const wire::ParseOptions& options);

// What `echo` repeats, for each prompt: as it was sent, or decoded from token ids; nothing without
// `echo`.
using EchoTexts = std::vector<std::string>;
// `done` is called once, as that of Inference::DetokenizeLater(); `inference` outlives that. Reads
// `call` before it returns. Errors: those of Detokenize.
void AskForEcho(const wire::GenerationCall& call, const api::CallerRef& caller,
                api::Inference& inference, std::function<void(Result<EchoTexts>)> done);

// What stands at the head of its answer. `random`: the id's last part.
struct GenerationHead {
  wire::ResponseHead head;
  int context_tokens = 0;  // of its model; 0 = not known
};
GenerationHead HeadOf(CallKind kind, const wire::GenerationCall& call, const std::string& random,
                      const api::Inference& inference, int64_t unix_s);

// What writes its answer. The call must outlive it.
std::unique_ptr<wire::ResponseWriter> MakeWriter(CallKind kind, const wire::GenerationCall& call,
                                                 wire::ResponseHead head, EchoTexts echo);

// Which field of the call is to blame for what the waist said of its request `index`: which of
// several prompts, and what made it longer than the context. `chat`: its prompts are chats;
// `prompt_tokens`: of that prompt, where they were counted.
Status Blame(const wire::GenerationCall& call, Status status, size_t index, bool chat,
             int context_tokens, int prompt_tokens = 0);

}  // namespace tutti::calls
