// Configuration of aliases ([[alias]]): the table of its keys, and the values. Plain values; any
// thread.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "app/config/tables.h"
#include "base/status.h"
#include "services/aliases/aliases.h"

namespace tutti::app {

std::span<const TableKey> AliasKeys();

// Reads the aliases of all tables, in order. Whether their models are served is checked later
// (aliases::CheckAliases). Errors: invalid_value, unknown_parameter; the message names the table
// and the key.
Result<std::vector<aliases::Alias>> MakeAliases(const std::vector<TableFields>& tables);

}  // namespace tutti::app
