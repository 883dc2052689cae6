// Migrations: the steps from one version of the store's tables to the next, and back by one.
//
// Each is one transaction with its number (PRAGMA user_version), so that a process that is killed
// at any write finds the version before or the one after. The way back is kept in the store itself:
// a program that knows one version less can undo what it does not know.
#pragma once

#include <span>

#include "base/status.h"
#include "store/database.h"

namespace tutti::store {

struct Migration {
  const char* forward;  // from the version before
  const char* back;     // to it, without loss of what it can hold
};

// Brings the tables to version known.size() (migration i leads to version i + 1). Errors:
// store_too_new (more than one version beyond what is known), and those of the database.
Status Migrate(std::span<const Migration> known, Database* database);

}  // namespace tutti::store
