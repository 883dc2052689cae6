#include "services/auth/tables.h"

namespace tutti::auth {

// `scopes` and `limits` are JSON (grant.h): a new kind of limit needs no migration.
const store::Migration kAuthTables = {
    R"(CREATE TABLE api_key(
         id TEXT PRIMARY KEY, name TEXT NOT NULL, digest BLOB NOT NULL, tenant TEXT NOT NULL,
         scopes TEXT NOT NULL, limits TEXT NOT NULL, created_s INTEGER NOT NULL,
         expires_s INTEGER, revoked_s INTEGER, used_s INTEGER);
       CREATE INDEX api_key_name ON api_key(name);
       CREATE TABLE account(
         name TEXT PRIMARY KEY, password TEXT NOT NULL, tenant TEXT NOT NULL, scopes TEXT NOT NULL,
         limits TEXT NOT NULL, enabled INTEGER NOT NULL DEFAULT 1, created_s INTEGER NOT NULL)
         WITHOUT ROWID)",
    "DROP TABLE account; DROP TABLE api_key"};

}  // namespace tutti::auth
