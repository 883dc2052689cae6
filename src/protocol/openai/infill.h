// llama.cpp's POST /infill: parses its body to a fill-in-the-middle prompt and renders its answers.
// The fields that other routes also have are parsed by openai/request.h. Pure.
#pragma once

#include <memory>
#include <string>

#include "api/types.h"
#include "base/status.h"
#include "protocol/openai/request.h"
#include "protocol/response_writer.h"
#include "protocol/schema/checked_object.h"

namespace tutti::protocol {

// `object` has been checked against kInfill. The prefix is `input_prefix` followed by `prompt`.
// Errors: empty_prompt (prefix and suffix are empty), and those of an element of `input_extra`.
Result<api::TextPrompt> ReadInfillPrompt(const CheckedObject& object, bool strict,
                                         IgnoredFields* ignored);

// Name in /infill of the field that other routes or api::Inference call `param`.
std::string InfillParam(std::string param);

// One JSON object, or server-sent events: `content` as it comes, and the object without content.
// The call must outlive the writer.
std::unique_ptr<ResponseWriter> MakeInfillWriter(const GenerationCall& call, ResponseHead head);

}  // namespace tutti::protocol
