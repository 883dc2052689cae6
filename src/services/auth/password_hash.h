// Passwords as Argon2id hashes (RFC 9106), in the text form of its reference implementation:
// "$argon2id$v=19$m=32768,t=3,p=1$<salt>$<hash>". Functions take tens of milliseconds and
// `memory_kib` of memory, which they give back; any thread, but for io threads and the store's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace tutti::auth {

// The second recommendation of RFC 9106 (section 4: 3 passes, 64 MiB, 4 lanes) with half of its
// memory, since four hashes may run at once, and with one lane: more lanes give one login more of
// our cores and make no guess dearer. OWASP's least is 19 MiB and 2 passes.
struct HashParameters {
  uint32_t memory_kib = 32 << 10;
  uint32_t passes = 3;
  uint32_t lanes = 1;
};

inline constexpr size_t kLeastPasswordBytes = 12, kMostPasswordBytes = 1024;

// Errors: invalid_value (too short or long; a control character, which no terminal sends again).
Status CheckNewPassword(std::string_view password);

// With a salt of its own. Errors: overloaded (no memory), internal_error.
Result<std::string> HashPassword(std::string_view password, const HashParameters& parameters);

// One that is of no password, and costs as much to find out.
std::string HashOfNobody(const HashParameters& parameters);

// Whether `hash` is of that password. A hash that asks for more than 1 GiB or 16 passes is not
// computed: it did not come from here. Errors: overloaded, record_corrupt.
Result<bool> VerifyPassword(std::string_view password, const std::string& hash);

// Whether `hash` was made with other parameters than these.
bool NeedsRehash(std::string_view hash, const HashParameters& parameters);

}  // namespace tutti::auth
