#include "store/database.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <unistd.h>

#include "base/check.h"

namespace tutti::store {
namespace {

Status FromSqlite(int code, sqlite3* connection) {
  const std::string why =
      std::string("the store: ") +
      (connection == nullptr ? sqlite3_errstr(code) : sqlite3_errmsg(connection));
  switch (code & 0xff) {
    case SQLITE_NOMEM:
      return OutOfMemory();
    case SQLITE_FULL:
      return Unavailable("store_full", why);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return Status(StatusCode::kFailedPrecondition, "store_locked", why);
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return Status(StatusCode::kDataLoss, "store_corrupt", why);
    case SQLITE_TOOBIG:  // one value, not the disk
      return InvalidArgument("invalid_value", why);
    case SQLITE_CONSTRAINT:
      return Status(StatusCode::kAlreadyExists, "store_conflict", why);
    default:
      return Unavailable("store_failed", why);
  }
}

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

Statement::~Statement() {
  if (statement_ == nullptr) return;
  sqlite3_reset(statement_);
  sqlite3_clear_bindings(statement_);
}

Result<bool> Statement::Step() {
  if (bound_ != SQLITE_OK) return FromSqlite(bound_, nullptr);
  const int code = sqlite3_step(statement_);
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  return FromSqlite(code, sqlite3_db_handle(statement_));
}

Status Statement::Run() {
  while (true) {
    ASSIGN_OR_RETURN(const bool row, Step());
    if (!row) return OkStatus();
  }
}

bool Statement::IsNull(int column) const {
  return sqlite3_column_type(statement_, column) == SQLITE_NULL;
}
int64_t Statement::Int(int column) const { return sqlite3_column_int64(statement_, column); }
double Statement::Real(int column) const { return sqlite3_column_double(statement_, column); }

std::string_view Statement::Text(int column) const {
  const unsigned char* text = sqlite3_column_text(statement_, column);
  if (text == nullptr) return {};
  return {reinterpret_cast<const char*>(text),
          static_cast<size_t>(sqlite3_column_bytes(statement_, column))};
}

Blob Statement::Bytes(int column) const {
  const void* bytes = sqlite3_column_blob(statement_, column);
  if (bytes == nullptr) return {};
  return {static_cast<const std::byte*>(bytes),
          static_cast<size_t>(sqlite3_column_bytes(statement_, column))};
}

void Statement::BindOne(int index, int64_t value) {
  if (const int code = sqlite3_bind_int64(statement_, index, value)) bound_ = code;
}
void Statement::BindOne(int index, double value) {
  if (const int code = sqlite3_bind_double(statement_, index, value)) bound_ = code;
}
void Statement::BindOne(int index, std::string_view value) {
  // A null pointer would be NULL.
  const char* text = value.data() == nullptr ? "" : value.data();
  if (const int code =
          sqlite3_bind_text64(statement_, index, text, value.size(), SQLITE_TRANSIENT, SQLITE_UTF8))
    bound_ = code;
}
void Statement::BindOne(int index, Blob value) {
  const int code = value.empty() ? sqlite3_bind_zeroblob(statement_, index, 0)
                                 : sqlite3_bind_blob64(statement_, index, value.data(),
                                                       value.size(), SQLITE_TRANSIENT);
  if (code != SQLITE_OK) bound_ = code;
}
void Statement::BindOne(int index, std::nullptr_t) {
  if (const int code = sqlite3_bind_null(statement_, index)) bound_ = code;
}

Result<std::vector<std::string>> FirstColumn(Statement* rows) {
  std::vector<std::string> texts;
  while (true) {
    ASSIGN_OR_RETURN(const bool more, rows->Step());
    if (!more) return texts;
    texts.emplace_back(rows->Text(0));
  }
}

Result<Database> Database::Open(const std::string& path) {
  if (!path.empty()) {
    // SQLite would create the file with the permissions that the umask leaves. The write-ahead log
    // and the journal get the permissions of the file.
    const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd >= 0) close(fd);
  }
  sqlite3* connection = nullptr;
  const int flags =
      SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
  const int code =
      sqlite3_open_v2(path.empty() ? ":memory:" : path.c_str(), &connection, flags, nullptr);
  if (connection == nullptr) return OutOfMemory();
  Database database(connection);
  if (code != SQLITE_OK) return FromSqlite(code, connection);
  // page_size takes effect in a new file only: a row of two kilobytes would leave half of a 4 KiB
  // page empty. locking_mode must be set before the first access to the write-ahead log.
  RETURN_IF_ERROR(
      database.Execute("PRAGMA page_size=16384;"
                       "PRAGMA locking_mode=EXCLUSIVE; PRAGMA journal_mode=WAL;"
                       "PRAGMA synchronous=FULL; PRAGMA foreign_keys=ON; PRAGMA mmap_size=0;"
                       "PRAGMA journal_size_limit=67108864; PRAGMA trusted_schema=OFF;"
                       "BEGIN IMMEDIATE; COMMIT;"));
  return database;
}

Database::Database(Database&& other) noexcept
    : connection_(std::exchange(other.connection_, nullptr)),
      statements_(std::move(other.statements_)) {
  other.statements_.clear();
}

Database::~Database() {
  for (const auto& [sql, statement] : statements_) sqlite3_finalize(statement);
  sqlite3_close(connection_);
}

Status Database::Execute(const std::string& sql) {
  const int code = sqlite3_exec(connection_, sql.c_str(), nullptr, nullptr, nullptr);
  return code == SQLITE_OK ? OkStatus() : FromSqlite(code, connection_);
}

Result<Statement> Database::Prepare(std::string_view sql) {
  auto found = statements_.find(sql);
  if (found == statements_.end()) {
    sqlite3_stmt* statement = nullptr;
    const int code = sqlite3_prepare_v3(connection_, sql.data(), static_cast<int>(sql.size()),
                                        SQLITE_PREPARE_PERSISTENT, &statement, nullptr);
    CHECK(code != SQLITE_ERROR) << sql << ": " << sqlite3_errmsg(connection_);
    if (code != SQLITE_OK) return FromSqlite(code, connection_);
    found = statements_.emplace(sql, statement).first;
  }
  return Statement(found->second);
}

int64_t Database::all_changes() const { return sqlite3_total_changes64(connection_); }
int64_t Database::changes() const { return sqlite3_changes64(connection_); }
bool Database::in_transaction() const { return sqlite3_get_autocommit(connection_) == 0; }

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
