// FolderLock: one process in a store's folder. The file `lock` holds the process id of who has it;
// the lock itself is the system's (flock), so that it ends with the process, however that ends.
#pragma once

#include <string>

#include "base/status.h"

namespace tutti::store {

class FolderLock {
 public:
  // Makes the folder, readable by this user alone, with those above it. Errors: store_locked with
  // the holder's process id, store_failed.
  static Result<FolderLock> Take(const std::string& folder);
  ~FolderLock();
  FolderLock(FolderLock&& other) noexcept;
  FolderLock& operator=(FolderLock&&) = delete;

 private:
  explicit FolderLock(int fd) : fd_(fd) {}

  int fd_;
};

}  // namespace tutti::store
