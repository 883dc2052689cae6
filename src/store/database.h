// Database: the only connection to the store's SQLite file. Statement: a prepared statement.
// Migrate(): brings the tables to the version of this program.
//
// Commits are durable when they return (WAL, synchronous=FULL). The connection locks the file from
// its first access (locking_mode=EXCLUSIVE), which avoids the races between connections that SQLite
// had before 3.51.3. For use by one thread at a time.
//
// Errors of all calls: store_full (disk full), store_failed (I/O error), store_corrupt,
// store_locked (by another process), store_conflict (with another row), invalid_value (longer than
// SQLite accepts), overloaded (out of memory).
// Source: https://sqlite.org/c3ref/intro.html
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"

struct sqlite3;
struct sqlite3_stmt;

namespace tutti::store {

using Blob = std::span<const std::byte>;

// One execution of a prepared statement. It refers to its database, which must not prepare the same
// text again while the Statement exists.
class Statement {
 public:
  explicit Statement(sqlite3_stmt* statement) : statement_(statement) {}
  ~Statement();
  Statement(Statement&& other) noexcept : statement_(std::exchange(other.statement_, nullptr)) {}
  Statement& operator=(Statement&&) = delete;

  // Binds the values of ?1, ?2, ... in order. Text and blobs are copied.
  template <typename... Values>
  Statement& Bind(const Values&... values) {
    int index = 0;
    (BindOne(++index, values), ...);
    return *this;
  }

  // Advances to the next row; false if there is none.
  Result<bool> Step();
  // Runs to the end and ignores rows.
  Status Run();

  // Columns of the current row, counted from 0. Views are valid until the next Step(). NULL reads
  // as 0 or empty.
  bool IsNull(int column) const;
  int64_t Int(int column) const;
  double Real(int column) const;
  std::string_view Text(int column) const;
  Blob Bytes(int column) const;

 private:
  void BindOne(int index, int64_t value);
  void BindOne(int index, int value) { BindOne(index, int64_t{value}); }
  void BindOne(int index, bool value) { BindOne(index, int64_t{value}); }
  void BindOne(int index, double value);
  void BindOne(int index, std::string_view value);
  void BindOne(int index, const std::string& value) { BindOne(index, std::string_view(value)); }
  void BindOne(int index, const char* value) { BindOne(index, std::string_view(value)); }
  void BindOne(int index, Blob value);
  void BindOne(int index, std::nullptr_t);
  template <typename T>
  void BindOne(int index, const std::optional<T>& value) {
    if (value.has_value()) return BindOne(index, *value);
    BindOne(index, nullptr);
  }

  sqlite3_stmt* statement_;
  int bound_ = 0;  // the first code of SQLite that was no success
};

class Database {
 public:
  // Opens the file or creates it with mode 0600; "" is a database in memory.
  static Result<Database> Open(const std::string& path);
  ~Database();
  Database(Database&& other) noexcept;
  Database& operator=(Database&&) = delete;

  // Runs statements without values or rows, separated by semicolons.
  Status Execute(const std::string& sql);
  // Compiles each text once. A syntax error ends the process, because all SQL is part of the
  // program.
  Result<Statement> Prepare(std::string_view sql);

  int64_t changes() const;      // rows that the last statement changed
  int64_t all_changes() const;  // of all statements ever, with those of their triggers
  bool in_transaction() const;  // a failure may have rolled it back

 private:
  explicit Database(sqlite3* connection) : connection_(connection) {}

  sqlite3* connection_;
  std::map<std::string, sqlite3_stmt*, std::less<>> statements_;
};

// Runs one statement with its values to the end.
template <typename... Values>
Status Run(Database& database, std::string_view sql, const Values&... values) {
  ASSIGN_OR_RETURN(Statement statement, database.Prepare(sql));
  return statement.Bind(values...).Run();
}

// The texts of the first column of all rows.
Result<std::vector<std::string>> FirstColumn(Statement* rows);

// A step from one version of the store's tables to the next, and back by one version.
//
// Each step is one transaction that includes its number (PRAGMA user_version), so that a process
// killed at any write leaves either the old or the new version. The SQL of the way back is stored
// in the database itself: a program that is one version older can revert a migration that it does
// not know.
struct Migration {
  const char* forward;  // from the previous version
  const char* back;     // to the previous version, without loss of data that it can hold
};

// Migrates the tables to version known.size() (migration i leads to version i + 1). Errors:
// store_too_new (more than one version newer than known.size()), and those of the database.
Status Migrate(std::span<const Migration> known, Database* database);

}  // namespace tutti::store
