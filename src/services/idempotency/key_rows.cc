#include "services/idempotency/key_rows.h"

#include <span>

namespace tutti::idempotency {
namespace {

using store::Blob;
using store::Database;
using store::Statement;

Blob BlobOf(const std::string& bytes) { return std::as_bytes(std::span(bytes)); }

std::string TextOf(Blob bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Result<bool> HasTooMuch(Database& database, const std::string& tenant, const KeyLimits& limits) {
  ASSIGN_OR_RETURN(Statement total,
                   database.Prepare("SELECT answers, bytes FROM repeat_total WHERE tenant=?1"));
  ASSIGN_OR_RETURN(const bool found, total.Bind(tenant).Step());
  return found && (total.Int(0) > limits.rows || total.Int(1) > limits.bytes);
}

}  // namespace

// Totals are kept by triggers, as those of jobs.
const store::Migration kKeyTables = {
    R"(CREATE TABLE repeat(
         number INTEGER PRIMARY KEY, id BLOB NOT NULL UNIQUE, tenant TEXT NOT NULL,
         print BLOB NOT NULL, created_ms INTEGER NOT NULL, status INTEGER NOT NULL,
         head TEXT NOT NULL, body BLOB NOT NULL);
       CREATE INDEX repeat_tenant ON repeat(tenant, number);
       CREATE INDEX repeat_created ON repeat(created_ms);
       CREATE TABLE repeat_total(tenant TEXT PRIMARY KEY, answers INTEGER NOT NULL,
         bytes INTEGER NOT NULL) WITHOUT ROWID;
       CREATE TRIGGER repeat_added AFTER INSERT ON repeat BEGIN
         INSERT INTO repeat_total VALUES(new.tenant, 1,
             length(CAST(new.head AS BLOB))+length(new.body))
           ON CONFLICT(tenant) DO UPDATE SET answers=answers+1, bytes=bytes+excluded.bytes;
       END;
       CREATE TRIGGER repeat_dropped AFTER DELETE ON repeat BEGIN
         UPDATE repeat_total SET answers=answers-1,
           bytes=bytes-length(CAST(old.head AS BLOB))-length(old.body) WHERE tenant=old.tenant;
         DELETE FROM repeat_total WHERE tenant=old.tenant AND answers=0;
       END)",
    "DROP TABLE repeat; DROP TABLE repeat_total"};

Result<std::optional<KeyRow>> LoadAnswer(Database& database, const std::string& id, int64_t now_ms,
                                         const KeyLimits& limits) {
  ASSIGN_OR_RETURN(Statement found,
                   database.Prepare("SELECT tenant, print, status, head, body FROM repeat "
                                    "WHERE id=?1 AND created_ms>?2"));
  ASSIGN_OR_RETURN(const bool any, found.Bind(BlobOf(id), now_ms - limits.ttl_ms).Step());
  if (!any) return std::optional<KeyRow>();
  KeyRow row;
  row.id = id;
  row.tenant = found.Text(0);
  row.body_hash = TextOf(found.Bytes(1));
  row.answer = {static_cast<int>(found.Int(2)), std::string(found.Text(3)), TextOf(found.Bytes(4))};
  return std::optional(std::move(row));
}

Status SaveAnswer(Database& database, const KeyRow& row, int64_t now_ms, const KeyLimits& limits) {
  // Not REPLACE, because its deletions fire no triggers.
  RETURN_IF_ERROR(Run(database, "DELETE FROM repeat WHERE id=?1", BlobOf(row.id)));
  RETURN_IF_ERROR(Run(database,
                      "INSERT INTO repeat(id, tenant, print, created_ms, status, head, body) "
                      "VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                      BlobOf(row.id), row.tenant, BlobOf(row.body_hash), now_ms,
                      int64_t{row.answer.status}, row.answer.head, BlobOf(row.answer.body)));
  while (true) {
    ASSIGN_OR_RETURN(const bool too_much, HasTooMuch(database, row.tenant, limits));
    if (!too_much) return OkStatus();
    RETURN_IF_ERROR(Run(database,
                        "DELETE FROM repeat WHERE number=(SELECT number FROM repeat "
                        "WHERE tenant=?1 ORDER BY number LIMIT 1)",
                        row.tenant));
  }
}

Result<int64_t> ExpireAnswers(Database& database, int64_t now_ms, int64_t most,
                              const KeyLimits& limits) {
  RETURN_IF_ERROR(Run(database,
                      "DELETE FROM repeat WHERE number IN (SELECT number FROM repeat "
                      "WHERE created_ms<=?1 ORDER BY created_ms LIMIT ?2)",
                      now_ms - limits.ttl_ms, most));
  return database.changes();
}

}  // namespace tutti::idempotency
