// DiskFile: a client's file or one for a client, written once and then kept under another name,
// whole and flushed, or not at all (base/new_file.h); what was not kept is gone with the object.
//
// One thread at a time. Errors of all: storage_full (no room, or no more than a quota leaves),
// storage_error.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/new_file.h"
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
  Status Append(std::string_view bytes);
  // Whether as much is left for the store as is to be.
  Status CheckRoom() const;
  int64_t bytes() const { return static_cast<int64_t>(file_.bytes()); }
  // It outlives the machine under `path`, in the same folder. Once, at its end.
  Status KeepAs(const std::string& path);

 private:
  explicit DiskFile(NewFile file) : file_(std::move(file)) {}

  NewFile file_;
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

// As tutti::FlushFolder.
Status FlushFolder(const std::string& folder);

}  // namespace tutti::batches
