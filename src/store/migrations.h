// Migrations: steps from one version of the store's tables to the next, and back by one version.
//
// Each step is one transaction that includes its number (PRAGMA user_version), so that a process
// killed at any write leaves either the old or the new version. The SQL of the way back is stored
// in the database itself: a program that is one version older can revert a migration that it does
// not know.
#pragma once

#include <span>

#include "base/status.h"
#include "store/database.h"

namespace tutti::store {

struct Migration {
  const char* forward;  // from the previous version
  const char* back;     // to the previous version, without loss of data that it can hold
};

// Migrates the tables to version known.size() (migration i leads to version i + 1). Errors:
// store_too_new (more than one version newer than known.size()), and those of the database.
Status Migrate(std::span<const Migration> known, Database* database);

}  // namespace tutti::store
