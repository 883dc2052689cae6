// The tables of keys and users, for the store's list of migrations.
#pragma once

#include "store/migrations.h"

namespace tutti::auth {

extern const store::Migration kAuthTables;

}  // namespace tutti::auth
