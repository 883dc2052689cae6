// The store of a process, as the settings have it: where it lies, and the tables of all services.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "app/settings.h"
#include "base/status.h"
#include "store/migrations.h"
#include "store/store.h"

namespace tutti::app {

// The folder of `--store`, whether it is there or not; "" where the store is kept in memory.
// Without the option: $XDG_STATE_HOME/tutti, or ~/.local/state/tutti. Errors: invalid_value (no
// home to put it in).
Result<std::string> StorePlace(const Settings& settings);

// The same folder, made with those above it, each readable by this user alone.
// Errors: those of StorePlace(), store_failed.
Result<std::string> StoreFolder(const Settings& settings);

// The socket between a front and its workers: as the settings say, or in the store's folder.
// Errors: those of StorePlace(); invalid_value (a store in memory has no folder).
Result<std::string> WorkersSocket(const Settings& settings);

// The database of such a folder, where other users of this machine can read it; else "".
std::string StoreOpenToReaders(const std::string& folder);

// In their order, which is for ever: a store's version counts them.
std::vector<store::Migration> StoreTables();

// The store of such a folder, with these tables; "" is one in memory. A new database is this user's
// alone. Errors: those of Store::Open, of which store_locked and store_corrupt also say what to do;
// store_failed, where other users may write to it.
Result<std::unique_ptr<store::Store>> OpenStore(const std::string& folder);

}  // namespace tutti::app
