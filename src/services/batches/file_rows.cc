#include "services/batches/file_rows.h"

namespace tutti::batches {
namespace {

using store::Database;
using store::Run;
using store::Statement;

#define FILE_COLUMNS "id, owner, purpose, filename, bytes, lines, created_s, expires_s"
#define FILE_IS_THERE "(expires_s=0 OR expires_s>"

FileRow RowOf(const Statement& row) {
  FileRow file;
  file.view.id = row.Text(0);
  file.owner = row.Text(1);
  file.view.purpose = row.Text(2);
  file.view.filename = row.Text(3);
  file.view.bytes = row.Int(4);
  file.lines = row.Int(5);
  file.view.created_s = row.Int(6);
  file.view.expires_s = row.Int(7);
  return file;
}

}  // namespace

const store::Migration kFileTables = {
    R"(CREATE TABLE file(
         number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, owner TEXT NOT NULL,
         purpose TEXT NOT NULL, filename TEXT NOT NULL, bytes INTEGER NOT NULL,
         lines INTEGER NOT NULL, created_s INTEGER NOT NULL, expires_s INTEGER NOT NULL);
       CREATE INDEX file_owner ON file(owner, number);
       CREATE INDEX file_expires ON file(expires_s) WHERE expires_s>0)",
    "DROP TABLE file"};

Status InsertFile(Database& database, const FileRow& row, const FileLimits& limits) {
  ASSIGN_OR_RETURN(
      Statement kept,
      database.Prepare("SELECT count(*), coalesce(sum(bytes), 0) FROM file WHERE owner=?1"));
  RETURN_IF_ERROR(kept.Bind(row.owner).Step().status());
  const int64_t files = kept.Int(0), bytes = kept.Int(1);
  if (files >= limits.owner_files || bytes + row.view.bytes > limits.owner_bytes) {
    return ResourceExhausted(
        "insufficient_quota",
        "stored files: " + std::to_string(files) + ", limit " + std::to_string(limits.owner_files) +
            "; bytes: " + std::to_string(bytes) + " + " + std::to_string(row.view.bytes) +
            ", limit " + std::to_string(limits.owner_bytes) + "; delete files first");
  }
  return Run(database, "INSERT INTO file(" FILE_COLUMNS ") VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
             row.view.id, row.owner, row.view.purpose, row.view.filename, row.view.bytes, row.lines,
             row.view.created_s, row.view.expires_s);
}

Result<std::optional<FileRow>> LoadFile(Database& database, const std::string& owner,
                                        const std::string& id, int64_t now_s) {
  ASSIGN_OR_RETURN(Statement row,
                   database.Prepare("SELECT " FILE_COLUMNS " FROM file WHERE id=?1 AND owner=?2 "
                                    "AND " FILE_IS_THERE "?3)"));
  ASSIGN_OR_RETURN(const bool found, row.Bind(id, owner, now_s).Step());
  if (!found) return std::optional<FileRow>();
  return std::optional(RowOf(row));
}

Result<std::vector<protocol::FileView>> ListFiles(Database& database, const std::string& owner,
                                                  const protocol::FileListQuery& query,
                                                  int64_t now_s) {
  std::optional<int64_t> after;
  if (!query.page.after.empty()) {
    ASSIGN_OR_RETURN(Statement place,
                     database.Prepare("SELECT number FROM file WHERE id=?1 AND owner=?2"));
    ASSIGN_OR_RETURN(const bool found, place.Bind(query.page.after, owner).Step());
    if (!found) return NotFound("not_found", "there is no such file").WithParam("after");
    after = place.Int(0);
  }
  ASSIGN_OR_RETURN(
      Statement rows,
      database.Prepare(query.page.ascending
                           ? "SELECT " FILE_COLUMNS " FROM file WHERE owner=?1 AND (?2 IS NULL OR "
                             "number>?2) AND (?3='' OR purpose=?3) AND " FILE_IS_THERE "?4) "
                             "ORDER BY number LIMIT ?5"
                           : "SELECT " FILE_COLUMNS " FROM file WHERE owner=?1 AND (?2 IS NULL OR "
                             "number<?2) AND (?3='' OR purpose=?3) AND " FILE_IS_THERE "?4) "
                             "ORDER BY number DESC LIMIT ?5"));
  rows.Bind(owner, after, query.purpose, now_s, query.page.limit);
  std::vector<protocol::FileView> files;
  while (true) {
    ASSIGN_OR_RETURN(const bool more, rows.Step());
    if (!more) return files;
    files.push_back(RowOf(rows).view);
  }
}

Result<bool> DeleteFile(Database& database, const std::string& owner, const std::string& id,
                        int64_t now_s) {
  RETURN_IF_ERROR(Run(database,
                      "DELETE FROM file WHERE id=?1 AND owner=?2 AND " FILE_IS_THERE "?3)", id,
                      owner, now_s));
  return database.changes() > 0;
}

Result<std::vector<std::string>> ExpireFiles(Database& database, int64_t now_s, int64_t most) {
  std::vector<std::string> ids;
  {
    ASSIGN_OR_RETURN(Statement rows,
                     database.Prepare("SELECT id FROM file WHERE expires_s>0 AND expires_s<=?1 "
                                      "ORDER BY expires_s LIMIT ?2"));
    ASSIGN_OR_RETURN(ids, store::FirstColumn(&rows.Bind(now_s, most)));
  }
  for (const std::string& id : ids)
    RETURN_IF_ERROR(Run(database, "DELETE FROM file WHERE id=?1", id));
  return ids;
}

Result<std::vector<std::string>> FileIds(Database& database) {
  ASSIGN_OR_RETURN(Statement rows, database.Prepare("SELECT id FROM file"));
  return store::FirstColumn(&rows);
}

}  // namespace tutti::batches
