// Database rows of uploaded files: owner, name, purpose, expiry. All SQL about files is here. The
// bytes are in files next to the store, named by id (files.h).
//
// All functions run on the store's thread, inside a Store::Work; their errors are the database's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "protocol/openai/file.h"
#include "store/database.h"

namespace tutti::batches {

extern const store::Migration kFileTables;

struct FileRow {
  protocol::FileView view;
  std::string owner;  // tenant
  int64_t lines = 0;
};

// Limits on the files of one owner.
struct FileLimits {
  int64_t file_bytes = int64_t{200} << 20;
  int64_t owner_bytes = int64_t{10} << 30;
  int64_t owner_files = 10'000;
};

// Errors: insufficient_quota.
Status InsertFile(store::Database& database, const FileRow& row, const FileLimits& limits);
// nullopt: the owner has no such file, or it has expired at `now_s`.
Result<std::optional<FileRow>> LoadFile(store::Database& database, const std::string& owner,
                                        const std::string& id, int64_t now_s);
// Lists at most `query.limit` files of an owner, after file `query.after`. Errors: not_found
// (`after`).
Result<std::vector<protocol::FileView>> ListFiles(store::Database& database,
                                                  const std::string& owner,
                                                  const protocol::FileListQuery& query,
                                                  int64_t now_s);
// Returns false if there was no such file.
Result<bool> DeleteFile(store::Database& database, const std::string& owner, const std::string& id,
                        int64_t now_s);
// Deletes at most `most` files that have expired at `now_s`; returns their ids.
Result<std::vector<std::string>> ExpireFiles(store::Database& database, int64_t now_s,
                                             int64_t most);
// Ids of the files of all owners.
Result<std::vector<std::string>> FileIds(store::Database& database);

}  // namespace tutti::batches
