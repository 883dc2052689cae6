#include "store/migrations.h"

#include <string>

namespace tutti::store {
namespace {

Result<int64_t> VersionOf(Database* database) {
  ASSIGN_OR_RETURN(Statement statement, database->Prepare("PRAGMA user_version"));
  ASSIGN_OR_RETURN(const bool row, statement.Step());
  return row ? statement.Int(0) : 0;
}

// Applies all of `sql` and the version, or nothing.
Status Apply(const std::string& sql, int64_t version, Database* database) {
  const Status status = database->Execute(
      "BEGIN IMMEDIATE;" + sql + ";PRAGMA user_version=" + std::to_string(version) + ";COMMIT;");
  if (!status.ok() && database->in_transaction()) (void)database->Execute("ROLLBACK");
  return status;
}

Status Forward(const Migration& migration, int64_t version, Database* database) {
  RETURN_IF_ERROR(database->Execute("BEGIN IMMEDIATE"));
  const auto steps = [&]() -> Status {
    RETURN_IF_ERROR(database->Execute(migration.forward));
    {
      ASSIGN_OR_RETURN(Statement keep,
                       database->Prepare("INSERT OR REPLACE INTO migration VALUES(?1, ?2)"));
      RETURN_IF_ERROR(keep.Bind(version, migration.back).Run());
    }
    return database->Execute("PRAGMA user_version=" + std::to_string(version) + "; COMMIT");
  };
  const Status status = steps();
  if (!status.ok() && database->in_transaction()) (void)database->Execute("ROLLBACK");
  return status;
}

Status Back(int64_t version, Database* database) {
  std::string back;
  {
    ASSIGN_OR_RETURN(Statement statement,
                     database->Prepare("SELECT back FROM migration WHERE version=?1"));
    ASSIGN_OR_RETURN(const bool row, statement.Bind(version).Step());
    if (!row)
      return Status(StatusCode::kDataLoss, "store_corrupt",
                    "the store lacks the way back from version " + std::to_string(version));
    back = statement.Text(0);
  }
  return Apply(back + ";DELETE FROM migration WHERE version=" + std::to_string(version),
               version - 1, database);
}

}  // namespace

Status Migrate(std::span<const Migration> known, Database* database) {
  RETURN_IF_ERROR(database->Execute(
      "CREATE TABLE IF NOT EXISTS migration(version INTEGER PRIMARY KEY, back TEXT NOT NULL)"));
  ASSIGN_OR_RETURN(int64_t version, VersionOf(database));
  const auto newest = static_cast<int64_t>(known.size());
  if (version > newest + 1)
    return Status(StatusCode::kFailedPrecondition, "store_too_new",
                  "the store has version " + std::to_string(version) + ", this program knows " +
                      std::to_string(newest) + " and can undo one more: use a newer program");
  if (version == newest + 1) return Back(version, database);
  for (; version < newest; ++version)
    RETURN_IF_ERROR(Forward(known[static_cast<size_t>(version)], version + 1, database));
  return OkStatus();
}

}  // namespace tutti::store
