// Database: the one connection to the store's SQLite file, and statements over it.
//
// Commits are durable before they return (WAL, synchronous=FULL); the file is locked to this
// connection from its first access (locking_mode=EXCLUSIVE), so that the races of SQLite before
// 3.51.3 between connections cannot be met. Belongs to one thread at a time.
//
// Errors of all calls: store_full (no room on the disk), store_failed (it cannot be read or
// written), store_corrupt, store_locked (another process has it), store_conflict (with another
// row), invalid_value (longer than SQLite takes), overloaded (no memory).
// Source: https://sqlite.org/c3ref/intro.html
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/status.h"

struct sqlite3;
struct sqlite3_stmt;

namespace tutti::store {

using Blob = std::span<const std::byte>;

// One use of a prepared statement: values in, rows out. Refers to its database, which must not
// prepare the same text again meanwhile.
class Statement {
 public:
  explicit Statement(sqlite3_stmt* statement) : statement_(statement) {}
  ~Statement();
  Statement(Statement&& other) noexcept : statement_(std::exchange(other.statement_, nullptr)) {}
  Statement& operator=(Statement&&) = delete;

  // Values of ?1, ?2, ... in their order. Text and blobs are copied.
  template <typename... Values>
  Statement& Bind(const Values&... values) {
    int index = 0;
    (BindOne(++index, values), ...);
    return *this;
  }

  // Whether there is another row.
  Result<bool> Step();
  // To its end, past any rows.
  Status Run();

  // Of the row, columns from 0; views hold until the next step. NULL is 0 and empty.
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
  // Creates the file where there is none, readable by this user alone; "" is a database in memory.
  static Result<Database> Open(const std::string& path);
  ~Database();
  Database(Database&& other) noexcept;
  Database& operator=(Database&&) = delete;

  // Statements without values or rows; several are parted by semicolons.
  Status Execute(const std::string& sql);
  // Compiled once for each text, which is ours: a fault in it ends the process.
  Result<Statement> Prepare(std::string_view sql);

  int64_t changes() const;      // rows that the last statement changed
  int64_t all_changes() const;  // of all statements ever, with those of their triggers
  bool in_transaction() const;  // a failure may have rolled it back

 private:
  explicit Database(sqlite3* connection) : connection_(connection) {}

  sqlite3* connection_;
  std::map<std::string, sqlite3_stmt*, std::less<>> statements_;
};

// One statement with its values, to its end.
template <typename... Values>
Status Run(Database& database, std::string_view sql, const Values&... values) {
  ASSIGN_OR_RETURN(Statement statement, database.Prepare(sql));
  return statement.Bind(values...).Run();
}

}  // namespace tutti::store
