// The store of a process, as the settings have it: where it lies, and the tables of all services.
#pragma once

#include <string>
#include <vector>

#include "app/settings.h"
#include "base/status.h"
#include "store/migrations.h"

namespace tutti::app {

// The folder of `--store`, made with those above it, each readable by this user alone; "" where the
// store is kept in memory. Without the option: $XDG_STATE_HOME/tutti, or ~/.local/state/tutti.
// Errors: invalid_value (no home to put it in), store_failed.
Result<std::string> StoreFolder(const Settings& settings);

// In their order, which is for ever: a store's version counts them.
std::vector<store::Migration> StoreTables();

}  // namespace tutti::app
