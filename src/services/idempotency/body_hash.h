// Hash of a request body, to compare requests with the same idempotency key; for stored answers and
// for jobs. Any thread.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace tutti::idempotency {

// SHA-256 (32 bytes) of the canonical form of a JSON body, or of the bytes of any other body. Long
// bodies take some tens of milliseconds.
std::string CanonicalBodyHash(std::string_view body);

// Compares the hash of the body that came first with a key and that of another request with this
// key. Errors: idempotency_key_mismatch.
Status CheckSameBody(std::string_view first_hash, std::string_view hash);

}  // namespace tutti::idempotency
