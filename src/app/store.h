// The store of a process, from the settings: its location, and the migrations of all services.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "app/config/settings.h"
#include "base/status.h"
#include "store/migrations.h"
#include "store/store.h"

namespace tutti::app {

// Folder of `--store`, existing or not; "" for a store in memory. Default: $XDG_STATE_HOME/tutti,
// or
// ~/.local/state/tutti. Errors: invalid_value (there is no home directory).
Result<std::string> StorePlace(const Settings& settings);

// The same folder, made with those above it, each readable by this user alone.
// Errors: those of StorePlace(), store_failed.
Result<std::string> StoreFolder(const Settings& settings);

// The socket between a frontend and its workers: as the settings say, or in the store's folder.
// Errors: those of StorePlace(); invalid_value (a store in memory has no folder).
Result<std::string> WorkersSocket(const Settings& settings);

// Path of the database in that folder if other users of this machine can read it; else "".
std::string StoreOpenToReaders(const std::string& folder);

// All migrations. The order must never change, because the version of a store is their number.
std::vector<store::Migration> StoreTables();

// Opens the store in that folder with all tables; "": in memory. A new database is readable by this
// user only. Errors: those of Store::Open, where store_locked and store_corrupt add advice;
// store_failed if other users may write to it.
Result<std::unique_ptr<store::Store>> OpenStore(const std::string& folder);

}  // namespace tutti::app
