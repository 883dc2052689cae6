// Store: the durable state of the process, in one SQLite file; one thread owned by the Store
// executes all reads and writes.
//
// Group commit: a single write is committed at once; writes that arrive during a commit share the
// next one, up to `max_writes`. `done` is called after the commit, or with the error. Writes that
// were reported as OK survive a crash of the process or the machine. A failed write leaves no trace
// and does not affect other writes of its group (but see Undo).
//
// Failures: work that finds one of its rows unreadable fails alone (record_corrupt). After
// store_failed or store_corrupt, which come from the database, no call succeeds any more until the
// process restarts, because a failed flush must not be retried. A full disk fails only the writes
// that do not fit.
//
// Any thread may call Write, Read and health; none of them blocks.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/core_wanted.h"
#include "base/mutex.h"
#include "base/status.h"
#include "store/database.h"

namespace tutti::store {

// Ensures that only one process uses a store's folder. It locks the file `lock` with flock(), so
// that the lock ends with the process in any case; the file contains the process id of the holder.
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

// Path of the database file in the store's folder, which also holds SQLite's log and the lock file.
std::string FileIn(const std::string& folder);

class Store {
 public:
  struct Options {
    std::string folder;         // of the file; "": a store in memory, lost with the process
    size_t max_writes = 256;    // in one commit
    size_t max_waiting = 4096;  // work that is queued and not begun; more gets overloaded
  };
  // Runs on the store's thread.
  using Work = std::function<Status(Database&)>;
  // Called on the store's thread, or by Write or Read themselves if they refuse the work.
  using Done = std::function<void(const Status&)>;
  // Scope of the rollback after an error of a Work. kAlone needs a savepoint, which copies the
  // pages that the work changes and costs more than most works. Work that returns all its errors
  // before its first change does not need one.
  enum class Undo {
    kAlone,      // rolls back this work only
    kWithGroup,  // rolls back the whole commit if this work has changed anything
  };

  // Errors: those of FolderLock, Migrate and Database.
  static Result<std::unique_ptr<Store>> Open(const Options& options,
                                             std::span<const Migration> migrations);
  ~Store();  // executes all queued work, then closes
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  // Runs `work` within a transaction. If it returns an error, its changes are rolled back and
  // `done` gets the error.
  void Write(Work work, Done done, Undo undo = Undo::kAlone);
  // Runs `work`, which must not change anything, after all earlier writes are committed or failed.
  void Read(Work work, Done done);

  // Blocking variants, for startup, tools and tests.
  Status WriteNow(const Work& work);
  Status ReadNow(const Work& work);

  // OK, or the error after which the store refuses all calls.
  Status health() const;

  // Errors of the store itself by reason; errors that a Work returns are not counted.
  struct Counts {
    uint64_t full = 0, failed = 0, corrupt = 0, overloaded = 0;
    bool is_full = false;  // the last commit failed because the disk was full
  };
  Counts counts() const;

 private:
  struct Task {
    Work work;
    Done done;
    bool writes = false;
    Undo undo = Undo::kAlone;
  };
  Store(const Options& options, std::optional<FolderLock> lock, Database database);
  void Main();
  void Add(Task task);
  // The next queued tasks, in order: writes that share a commit, or reads; empty at the end.
  std::vector<Task> Next();
  void Commit(std::vector<Task> group);
  Status CheckFile();
  std::string path() const;  // "" in memory
  Status RunAlone(const Work& work);
  // `all`: set if the whole group must be undone.
  Status RunInGroup(const Task& task, bool* all);
  void Note(const Status& status);
  void Fail(const Status& status);
  void Count(const Status& status) REQUIRES(mutex_);

  const Options options_;
  const std::optional<FolderLock> lock_;
  Database database_;  // of the thread
  const ino_t file_;   // that it was opened as
  int64_t bytes_ = 0;  // of the file, the most it had; of the thread
  mutable Mutex mutex_;
  UrgentCondVar changed_;
  std::deque<Task> waiting_ GUARDED_BY(mutex_);
  Status health_ GUARDED_BY(mutex_);
  Counts counts_ GUARDED_BY(mutex_);
  bool stopping_ GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace tutti::store
