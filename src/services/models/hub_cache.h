// HubCache: the folder in which the huggingface_hub package keeps models, in its own layout.
//
//   models--ORG--NAME/blobs/HASH           contents, named by SHA-256 or by git's hash
//   models--ORG--NAME/snapshots/COMMIT/... relative links to blobs, by the names of files
//   models--ORG--NAME/refs/REVISION        the commit that a branch or tag meant last
//   models--ORG--NAME/.no_exist/COMMIT/... empty files: the repository has no file of that name
//   blobs/XX/HASH                          contents that repositories share: newer packages link to
//   them .locks/models--ORG--NAME/HASH.lock     flock() by the process that writes that blob
//   blobs/HASH.incomplete                  the beginning of a blob; never under the name of a blob
//
// A value; any thread, and any process at the same time. The folder of the cache and its folders of
// repositories and blobs may be links of the operator's. A link of a snapshot is followed only to
// the cache, or where the repository and its blobs are: another is an error. Source:
// huggingface_hub 0.36 (file_download.py) and the hub's page on its local cache.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/descriptor.h"
#include "base/status.h"
#include "services/models/file_choice.h"
#include "services/models/hub_name.h"

namespace tutti::models {

struct CachedModel {
  HubName name;      // with the quant of its file
  std::string path;  // to load: a GGUF, or the folder of the snapshot
  std::string commit;
  uint64_t bytes = 0;
  size_t files = 0;
  int64_t time_s = 0;          // of the newest of its files, since 1970
  std::vector<HubFile> parts;  // hash: the name of the blob; empty where a file is no link
};

class HubCache {
 public:
  explicit HubCache(std::string folder) : folder_(std::move(folder)) {}
  const std::string& folder() const { return folder_; }

  std::string RepositoryFolder(const std::string& repository) const;
  std::string BlobPath(const std::string& repository, const std::string& hash) const;

  // A complete model of that name, without a network. Without a revision the one of refs/main comes
  // first, then other snapshots, the newest first. Errors: model_not_pulled, also for one that is
  // there in part; cache_link for a file that leads out of the cache; those of ChooseFiles
  // for what its name means.
  Result<CachedModel> Find(const HubName& name) const;

  // All complete models, by name.
  std::vector<CachedModel> List() const;

  // What pulls that were cut left, of this program and others. `name` and `bytes` are set.
  std::vector<CachedModel> ListUnfinished() const;

  // --- for Pull ---
  // Whether the blob is here. One of its size counts: it got its name when its hash was checked.
  bool HasBlob(const std::string& repository, const std::string& hash, uint64_t size) const;
  // Makes the folders of a repository. Errors: cache_error.
  Status Prepare(const std::string& repository) const;
  // Blocks until no other process writes that blob; `waiting` is called once if one does. Errors:
  // cancelled when `stop` is set meanwhile.
  template <typename Waiting>
  Result<Descriptor> LockBlob(const std::string& repository, const std::string& hash,
                              const std::atomic<bool>& stop, const Waiting& waiting) const {
    ASSIGN_OR_RETURN(std::optional<Descriptor> lock, TryLockBlob(repository, hash));
    if (!lock.has_value()) waiting();
    while (!lock.has_value()) {
      if (stop) return Cancelled();
      PauseForLock();
      ASSIGN_OR_RETURN(lock, TryLockBlob(repository, hash));
    }
    return *std::move(lock);
  }
  static void PauseForLock();  // between two tries
  Result<std::optional<Descriptor>> TryLockBlob(const std::string& repository,
                                                const std::string& hash) const;
  // Gives blobs the names of files: `files` in this order, then the revision. Errors: cache_error.
  Status Publish(const HubName& name, const std::string& commit, const FileChoice& choice) const;

  // Removes a model's files, its blobs that no other file uses, and what a pull left unfinished. A
  // name without a quant and a revision means all of the repository.
  // Returns the bytes. Errors: model_not_pulled; cache_busy while one of its blobs is being
  // written.
  Result<uint64_t> Remove(const HubName& name) const;
  // Removes only what pulls of the repository left unfinished. Returns the bytes. Errors: as
  // Remove().
  Result<uint64_t> RemoveUnfinished(const HubName& name) const;

 private:
  // The locks of all blobs that pulls left unfinished.
  Result<std::vector<Descriptor>> LockUnfinished(const HubName& name) const;
  // Canonical folders that a file of the repository may lie in.
  std::vector<std::filesystem::path> RootsOf(const std::string& repository_folder) const;
  struct Snapshot {
    std::vector<HubFile> files;     // sorted by path
    std::set<std::string> outside;  // paths of those that lead out of the cache
  };
  Snapshot ListSnapshot(const std::string& repository_folder, const std::string& commit) const;
  std::vector<std::string> CommitsFor(const std::string& repository_folder,
                                      const HubName& name) const;
  Result<CachedModel> FindIn(const HubName& name, const std::string& commit) const;

  std::string folder_;
};

// Takes the lock of the file at `path`, which is made if it is not there; nothing if another
// process has it. A process may remove the file of its lock when it is done: a lock counts only
// while its file has the name. Errors: cache_error.
Result<std::optional<Descriptor>> TryLockFile(const std::string& path);

// cache_error, with the path and the reason of `error` (errno); disk_full for a full disk.
Status CacheError(const std::string& path, int error);

}  // namespace tutti::models
