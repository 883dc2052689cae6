// A text with a hole as the tokens of a prompt (fill-in-the-middle). Pure; any thread.
#pragma once

#include <vector>

#include "api/types.h"
#include "base/status.h"
#include "base/types.h"
#include "gateway/served_model.h"

namespace tutti::gateway {

// The tokens of a prompt that has a suffix, in the order that the model's family was trained with:
// begin-of-text where the model asks for it, the files, then the parts, each behind its token. No
// text becomes a special token. Errors: unsupported_parameter of "suffix" (the model has no such
// tokens), invalid_utf8.
Result<std::vector<TokenId>> EncodeInfill(const ServedModel& model, const api::TextPrompt& prompt);

// The tokens that end the answer to `prompt`: those of the model, and for a text with a hole also
// the ones that mark its parts, which stand behind the answer in the texts of training.
std::vector<TokenId> EndTokens(const ServedModel& model, const api::Prompt& prompt);

}  // namespace tutti::gateway
