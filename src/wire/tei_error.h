// Errors of Text Embeddings Inference: six error types, each with its status. Pure.
//
// Source: its router (router/src/lib.rs, router/src/http/server.rs of version 1.9). Errors for
// which it has no type (unknown path, body too large) keep the status of the error table.
#pragma once

#include <string_view>

#include "wire/error.h"

namespace tutti::wire {

struct TeiError {
  int http;
  std::string_view type;  // Validation, Tokenizer, Empty, Overloaded, Backend, Unhealthy
};

// TEI status and error type for an error that is given in OpenAI's terms.
TeiError TeiErrorOf(const ErrorView& view);

}  // namespace tutti::wire
