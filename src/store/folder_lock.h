// FolderLock: ensures that only one process uses a store's folder. It locks the file `lock` with
// flock(), so that the lock ends with the process in any case; the file contains the process id of
// the holder.
#pragma once

#include <string>

#include "base/status.h"

namespace tutti::store {

class FolderLock {
 public:
  // Creates the folder and its parents, readable by this user only, and locks it. Errors:
  // store_locked with the holder's process id, store_failed.
  static Result<FolderLock> Take(const std::string& folder);
  ~FolderLock();
  FolderLock(FolderLock&& other) noexcept;
  FolderLock& operator=(FolderLock&&) = delete;

 private:
  explicit FolderLock(int fd) : fd_(fd) {}

  int fd_;
};

}  // namespace tutti::store
