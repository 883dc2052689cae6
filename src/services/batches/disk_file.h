// DiskFile: a file that is written once, from its beginning to its end, and then kept under another
// name, whole and flushed, or not at all.
//
// One thread at a time. Errors of all: storage_full (no room, or no more than a quota leaves),
// storage_error.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"

namespace tutti::batches {

// Of a disk of `total_bytes` what clients' files leave free: the store writes there what was
// accepted, and needs room to give room back. A sixteenth, 64 MiB at most.
int64_t LeftForTheStore(int64_t total_bytes);

// Of a call that failed and left `error` in errno.
Status DiskError(int error);

class DiskFile {
 public:
  // Under a name that nothing has.
  static Result<DiskFile> Create(const std::string& path);
  ~DiskFile();  // what was not kept is removed
  DiskFile(DiskFile&& other) noexcept;
  DiskFile& operator=(DiskFile&&) = delete;

  Status Append(std::string_view bytes);
  // Whether as much is left for the store as is to be.
  Status CheckRoom() const;
  int64_t bytes() const { return bytes_; }
  // It outlives the machine under `path`, in the same folder. Once, at its end.
  Status KeepAs(const std::string& path);

 private:
  DiskFile(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}

  int fd_;
  std::string path_;  // empty once it is kept
  int64_t bytes_ = 0;
};

// One that is there, for reading at any place. Any thread.
class DiskReader {
 public:
  static Result<std::shared_ptr<const DiskReader>> Open(const std::string& path);
  ~DiskReader();
  DiskReader(const DiskReader&) = delete;
  DiskReader& operator=(const DiskReader&) = delete;

  // From `offset`, up to `most` bytes: fewer only at its end.
  Result<std::string> Read(int64_t offset, int64_t most) const;

 private:
  explicit DiskReader(int fd) : fd_(fd) {}
  const int fd_;
};

// What stands in `folder` by name now stands there after a loss of power too.
Status FlushFolder(const std::string& folder);

}  // namespace tutti::batches
