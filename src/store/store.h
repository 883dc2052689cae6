// Store: what must outlast the process, in one SQLite file that one thread writes.
//
// What is handed in while a commit is on its way to the disk shares the next one (group commit): a
// lone write is committed at once, and under load one flush serves up to `most_writes`. `done` is
// called after the commit that makes it true, or with why there is none; what was told OK survives
// the process and the machine. A write that fails leaves no trace and does not touch its
// neighbours (but see Undo).
//
// A work that finds a row of its own unreadable fails alone (record_corrupt); store_failed and
// store_corrupt are the database's own words. After such a failure nothing is acknowledged any more
// (a flush that failed must not be tried again): every call is refused with store_failed until the
// process starts anew. A full disk refuses what did not fit, and goes on.
//
// Any thread may call Write, Read and health; neither blocks.
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
#include "store/folder_lock.h"
#include "store/migrations.h"

namespace tutti::store {

// The store's file in its folder; others lie beside it.
std::string FileIn(const std::string& folder);

class Store {
 public:
  struct Options {
    std::string folder;  // holds its file; "" keeps everything in memory, gone with the process
    size_t most_writes = 256;    // in one commit
    size_t most_waiting = 4096;  // works that were handed in and not begun; then overloaded
  };
  // Runs on the store's thread.
  using Work = std::function<Status(Database&)>;
  // Called there, or, of what is refused at once, by Write or Read themselves.
  using Done = std::function<void(const Status&)>;
  // What an error of a work undoes. To undo it alone, the pages that it changes are copied first,
  // which costs more than most works: one that says no before its first change needs none of it.
  enum class Undo {
    kAlone,      // what this work did
    kWithGroup,  // after a change of this work, all works of the same commit; else nothing
  };

  // Errors: those of FolderLock, Migrate and Database.
  static Result<std::unique_ptr<Store>> Open(const Options& options,
                                             std::span<const Migration> migrations);
  ~Store();  // does what was handed in, then closes
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  // `work` within a transaction; an error of it undoes what it did and is what `done` is told.
  void Write(Work work, Done done, Undo undo = Undo::kAlone);
  // `work` after all that was handed in before is committed or refused. It changes nothing.
  void Read(Work work, Done done);

  // Waits. For starts, tools and tests.
  Status WriteNow(const Work& work);
  Status ReadNow(const Work& work);

  // OK, or why nothing is stored any more.
  Status health() const;

  // What was refused or failed for the store's own sake, by its reason; no mistakes of a work.
  struct Counts {
    uint64_t full = 0, failed = 0, corrupt = 0, overloaded = 0;
    bool is_full = false;  // so ended the last commit
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
  // Some of what waits, in order: writes that share a commit, or reads; empty at the end.
  std::vector<Task> Next();
  void Commit(std::vector<Task> group);
  Status CheckFile();
  std::string path() const;  // "" in memory
  Status RunAlone(const Work& work);
  // Also whether all of the group are to be undone.
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
