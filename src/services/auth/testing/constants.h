// Constants shared by tests of keys and users.
#pragma once

#include <cstdint>

#include "services/auth/password_hash.h"

namespace tutti::auth::testing {

inline constexpr int64_t kNow = 1'700'000'000;  // Unix seconds
// A password's hash in microseconds.
inline constexpr HashParameters kQuick{.memory_kib = 64, .passes = 1, .lanes = 1};

}  // namespace tutti::auth::testing
