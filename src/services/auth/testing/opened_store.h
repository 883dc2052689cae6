// A store with the tables of keys and users, for tests: in memory, or in a folder.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "base/check.h"
#include "services/auth/tables.h"
#include "store/store.h"

namespace tutti::auth {

inline std::unique_ptr<store::Store> OpenedStore(const std::string& folder = "") {
  auto store = store::Store::Open({.folder = folder}, {&kAuthTables, 1});
  CHECK(store.ok()) << store.status();
  return *std::move(store);
}

}  // namespace tutti::auth
