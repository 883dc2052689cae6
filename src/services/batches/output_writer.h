// OutputWriter: writes the result files of a batch from the rows of its lines: one file of the
// lines that succeeded and one of all others. A message batch has one file of all lines. Only a
// slice of the rows is in memory.
//
// It owns itself until it has called `done`, on the strand of the files. The store and the files
// must outlive that.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/status.h"
#include "services/batches/batch_rows.h"
#include "services/batches/files.h"
#include "store/store.h"

namespace tutti::batches {

// Id of a line ("batch_req_...") and of its request.
std::string LineId(const std::string& batch, int64_t line);
std::string LineRequestId(const std::string& batch, int64_t line);

struct OutputFiles {
  std::optional<FileRow> output, errors;  // on the disk, without rows yet; absent: it has no lines
};

class OutputWriter : public std::enable_shared_from_this<OutputWriter> {
 public:
  using Done = std::function<void(Result<OutputFiles>)>;

  // Lines that have not ended are written as batch_expired or batch_cancelled, by `row.ending`.
  // Errors: storage_full, storage_error; then the files have been deleted.
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
