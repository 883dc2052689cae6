// DiskFile: a new file that is written once under a temporary name and then renamed, complete and
// flushed (base/new_file.h). The destructor deletes a file that was not kept. DiskReader: an
// existing file.
//
// For use by one thread at a time. Errors of all: storage_full (disk full, or less free space than
// LeftForTheStore), storage_error.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/new_file.h"
#include "base/status.h"

namespace tutti::batches {

// Bytes that client files must leave free on a disk of `total_bytes`: a sixteenth, at most 64 MiB.
// The store needs this space for accepted requests, and even to delete rows.
int64_t LeftForTheStore(int64_t total_bytes);

// Status of a failed system call with errno `error`.
Status DiskError(int error);

class DiskFile {
 public:
  // Creates a file; nothing may exist under `path`.
  static Result<DiskFile> Create(const std::string& path);
  Status Append(std::string_view bytes);
  // Fails if less space is free than LeftForTheStore() demands.
  Status CheckRoom() const;
  int64_t bytes() const { return static_cast<int64_t>(file_.bytes()); }
  // Renames the complete file to `path`, in the same folder, and makes it durable. Called once, as
  // the last operation.
  Status KeepAs(const std::string& path);

 private:
  explicit DiskFile(NewFile file) : file_(std::move(file)) {}

  NewFile file_;
};

// An existing file, for reading at any offset. Any thread.
class DiskReader {
 public:
  static Result<std::shared_ptr<const DiskReader>> Open(const std::string& path);
  ~DiskReader();
  DiskReader(const DiskReader&) = delete;
  DiskReader& operator=(const DiskReader&) = delete;

  // Reads up to `most` bytes from `offset`; fewer only at the end of the file.
  Result<std::string> Read(int64_t offset, int64_t most) const;

 private:
  explicit DiskReader(int fd) : fd_(fd) {}
  const int fd_;
};

// As tutti::FlushFolder.
Status FlushFolder(const std::string& folder);

}  // namespace tutti::batches
