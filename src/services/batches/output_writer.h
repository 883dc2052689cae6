// OutputWriter: the two files that a batch leaves, out of the rows of its lines: those that were
// answered well, and all others. Of a message batch it is one file, of all lines. A slice of rows
// at a time is in memory.
//
// Started once; it keeps itself until it has called `done`, on the strand of the files. The store
// and the files must outlive that.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "services/batches/batch_rows.h"
#include "services/batches/disk_file.h"
#include "services/batches/files.h"
#include "store/store.h"

namespace tutti::batches {

// "batch_req_...", of a line of that batch, and what its request is called.
std::string LineId(const std::string& batch, int64_t line);
std::string LineRequestId(const std::string& batch, int64_t line);

struct OutputFiles {
  std::optional<FileRow> output, errors;  // on the disk, without rows yet; absent: it has no lines
};

class OutputWriter : public std::enable_shared_from_this<OutputWriter> {
 public:
  using Done = std::function<void(Result<OutputFiles>)>;

  // Lines that have not ended are told as `row.ending` says: batch_expired or batch_cancelled.
  // Errors: storage_full, storage_error; then nothing is left of them.
  static void Write(const BatchRow& row, store::Store& store, Files& files, int64_t now_s,
                    Done done);

 private:
  OutputWriter(const BatchRow& row, store::Store& store, Files& files, int64_t now_s, Done done)
      : row_(row), store_(store), files_(files), now_s_(now_s), done_(std::move(done)) {}
  void Next();
  Status Add(const LineResult& result);
  Status Append(std::optional<DiskFile>* file, std::optional<FileRow>* made, const char* name,
                const std::string& line);
  Result<OutputFiles> Keep();

  const BatchRow row_;
  store::Store& store_;
  Files& files_;
  const int64_t now_s_;
  const Done done_;
  int64_t after_ = 0;  // the last line that is written
  std::optional<DiskFile> output_, errors_;
  OutputFiles made_;
};

}  // namespace tutti::batches
