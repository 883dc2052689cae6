// The handles of the C interface, and the wall that no exception passes.
#pragma once

#include <new>
#include <string>
#include <utility>

#include "tutti/c_api.h"
#include "tutti/tutti.h"

struct tutti_error {
  tutti::Error error;
};
struct tutti_options {
  tutti::ModelOptions options;
};
struct tutti_model {
  tutti::Model model;
  std::string name;
};
struct tutti_encoder {
  tutti::Encoder encoder;
  tutti::ModelInfo model;
  tutti::EncoderInfo info;
};
struct tutti_request {
  tutti::Request request;
};
struct tutti_completion {
  tutti::Completion completion;
};
struct tutti_job {
  tutti::Job job;
  tutti::Token token;  // what tutti_token::text points into
};
struct tutti_state {
  tutti::Model model;
  tutti::StepState state;
  tutti::Token token;  // what tutti_token::text points into
};

namespace tutti::library {

inline tutti_code CodeOf(const Error& error) { return static_cast<tutti_code>(error.code()); }

inline tutti_code Fail(Error failure, tutti_error** error) noexcept {
  const tutti_code code = CodeOf(failure);
  if (error != nullptr) *error = new (std::nothrow) tutti_error{std::move(failure)};
  return code;
}

inline tutti_code Null(const char* name, tutti_error** error) {
  return Fail(
      Error(ErrorCode::kInvalidArgument, "invalid_value", std::string(name) + " must not be NULL"),
      error);
}

// Whether a caller may have meant the text.
inline bool IsText(const tutti_text& text) { return text.bytes != nullptr || text.size == 0; }

inline std::string TextOf(const tutti_text& text) {
  return text.size == 0 ? std::string() : std::string(text.bytes, text.size);
}

// Runs `body`, which returns a tutti_code; what it throws (no memory) is a code too.
template <typename Body>
tutti_code Guarded(tutti_error** error, Body body) noexcept {
  if (error != nullptr) *error = nullptr;
  try {
    return body();
  } catch (const std::bad_alloc&) {
    // Short enough to need no memory themselves.
    return Fail(Error(ErrorCode::kResourceExhausted, "internal_error", "out of memory"), error);
  } catch (...) {
    return Fail(Error(ErrorCode::kInternal, "internal_error", ""), error);
  }
}

// The same for a body that returns nothing: the code is TUTTI_OK where it ends.
template <typename Body>
tutti_code Guarded(Body body) noexcept {
  return Guarded(nullptr, [&] {
    body();
    return TUTTI_OK;
  });
}

}  // namespace tutti::library
