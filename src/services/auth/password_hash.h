// Passwords as Argon2id hashes (RFC 9106), in the text form of its reference implementation:
// "$argon2id$v=19$m=32768,t=3,p=1$<salt>$<hash>". Functions take tens of milliseconds and
// temporarily `memory_kib` of memory; any thread except I/O threads and the store's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace tutti::auth {

// The second recommendation of RFC 9106 (section 4: 3 passes, 64 MiB, 4 lanes) with two changes:
// half of the memory, because four hashes may run at once, and one lane, because more lanes make a
// login use more cores without making an attack more expensive. OWASP's minimum is 19 MiB and 2
// passes.
struct HashParameters {
  uint32_t memory_kib = 32 << 10;
  uint32_t passes = 3;
  uint32_t lanes = 1;
};

inline constexpr size_t kLeastPasswordBytes = 12, kMaxPasswordBytes = 1024;

// Errors: invalid_value (too short or too long; contains a control character).
Status CheckNewPassword(std::string_view password);

// Hashes with a random salt. Errors: overloaded (out of memory), internal_error.
Result<std::string> HashPassword(std::string_view password, const HashParameters& parameters);

// A hash that matches no password; verifying it costs as much as any other.
std::string HashOfNobody(const HashParameters& parameters);

// Whether `hash` is the hash of that password. A hash with more than 1 GiB or 16 passes is refused,
// because this program never makes one. Errors: overloaded, record_corrupt.
Result<bool> VerifyPassword(std::string_view password, const std::string& hash);

// Whether `hash` was made with other parameters than these.
bool NeedsRehash(std::string_view hash, const HashParameters& parameters);

}  // namespace tutti::auth
