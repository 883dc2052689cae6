// llama.cpp's POST /infill: its body -> a text with a hole, events -> its answers. What the body
// has in common with other routes is openai_request's. Pure.
#pragma once

#include <memory>
#include <string>

#include "api/types.h"
#include "base/status.h"
#include "wire/checked_object.h"
#include "wire/openai_request.h"
#include "wire/openai_response.h"

namespace tutti::wire {

// `object` has been checked against kInfill. The text before the hole is `input_prefix` and, behind
// it, `prompt`. Errors: empty_prompt (nothing stands around the hole), and those of an element of
// `input_extra`.
Result<api::TextPrompt> ReadInfillPrompt(const CheckedObject& object, bool strict,
                                         IgnoredFields* ignored);

// The field of /infill that holds what another route, or the inference API, calls `param`.
std::string InfillParam(std::string param);

// One JSON object, or server-sent events: `content` as it comes, and the object without content.
// The call must outlive the writer.
std::unique_ptr<ResponseWriter> MakeInfillWriter(const GenerationCall& call, ResponseHead head);

}  // namespace tutti::wire
