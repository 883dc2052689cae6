// Errors as Text Embeddings Inference shows them: six words, each with its status. Pure.
//
// Read off its router (router/src/lib.rs, router/src/http/server.rs of version 1.9). Where it has
// no word of its own, a wrong path or a body too large, the status stays as the error table has it.
#pragma once

#include <string_view>

#include "wire/error.h"

namespace tutti::wire {

struct TeiError {
  int http;
  std::string_view type;  // Validation, Tokenizer, Empty, Overloaded, Backend, Unhealthy
};

// Of a view in OpenAI's terms.
TeiError TeiErrorOf(const ErrorView& view);

}  // namespace tutti::wire
