// For tests of keys and users: constants, and a store with their tables.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "base/check.h"
#include "services/auth/account_tables.h"
#include "services/auth/password.h"
#include "store/store.h"

namespace tutti::auth {

namespace testing {

inline constexpr int64_t kNow = 1'700'000'000;  // Unix seconds
// A password's hash in microseconds.
inline constexpr HashParameters kQuick{.memory_kib = 64, .passes = 1, .lanes = 1};

}  // namespace testing

// In memory, or in a folder.
inline std::unique_ptr<store::Store> OpenedStore(const std::string& folder = "") {
  auto store = store::Store::Open({.folder = folder}, {&kAuthTables, 1});
  CHECK(store.ok()) << store.status();
  return *std::move(store);
}

}  // namespace tutti::auth
