#include "store/store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <future>
#include <new>
#include <system_error>
#include <utility>

#include "base/threads.h"

namespace tutti::store {
namespace {

Status Failed(const std::string& what, int error) {
  return Unavailable("store_failed", what + ": " + std::generic_category().message(error));
}

Status MakeFolder(const std::string& folder) {
  std::error_code error;
  const std::filesystem::path path(folder);
  if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path(), error);
  if (!error && mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    error.assign(errno, std::generic_category());
  if (!error && !std::filesystem::is_directory(path, error) && !error)
    error.assign(ENOTDIR, std::generic_category());
  return error ? Failed("cannot make the store's folder " + folder, error.value()) : OkStatus();
}

std::string Holder(int fd) {
  std::array<char, 32> text{};
  const ssize_t count = pread(fd, text.data(), text.size(), 0);
  std::string digits;
  for (ssize_t i = 0;
       i < count && text[static_cast<size_t>(i)] >= '0' && text[static_cast<size_t>(i)] <= '9'; ++i)
    digits += text[static_cast<size_t>(i)];
  return digits.empty() ? "another process" : "process " + digits;
}

Status Guarded(const Store::Work& work, Database& database) {
  try {
    return work(database);
  } catch (const std::bad_alloc&) {
    return OutOfMemory();
  }
}

// Errors that are neither the caller's nor lack of space: the disk can no longer be trusted.
bool IsFatal(const Status& status) {
  return status.reason() == "store_failed" || status.reason() == "store_corrupt";
}

// The file of a path; all zero if there is none.
struct stat Look(const std::string& path) {
  struct stat found {};
  return stat(path.c_str(), &found) == 0 ? found : (struct stat){};
}

// An existing database is never empty. Accepting an emptied one as new would forget every key.
Status CheckNotEmptied(const std::string& path) {
  std::error_code none;
  if (path.empty() || std::filesystem::file_size(path, none) != 0 || none) return OkStatus();
  return Status(StatusCode::kDataLoss, "store_corrupt",
                path +
                    " is empty: something has emptied it, or it was never written; remove it to "
                    "begin with a new one");
}

}  // namespace

Result<FolderLock> FolderLock::Take(const std::string& folder) {
  RETURN_IF_ERROR(MakeFolder(folder));
  const std::string path = folder + "/lock";
  FolderLock lock(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (lock.fd_ < 0) return Failed(path, errno);
  if (flock(lock.fd_, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return Failed(path, errno);
    return Status(StatusCode::kFailedPrecondition, "store_locked",
                  "the store in " + folder + " is in use by " + Holder(lock.fd_));
  }
  const std::string pid = std::to_string(getpid()) + "\n";
  if (ftruncate(lock.fd_, 0) != 0 ||
      pwrite(lock.fd_, pid.data(), pid.size(), 0) != static_cast<ssize_t>(pid.size()))
    return Failed(path, errno);
  return lock;
}

FolderLock::FolderLock(FolderLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

FolderLock::~FolderLock() {
  if (fd_ >= 0) close(fd_);
}

std::string FileIn(const std::string& folder) { return folder + "/tutti.db"; }

Result<std::unique_ptr<Store>> Store::Open(const Options& options,
                                           std::span<const Migration> migrations) {
  std::optional<FolderLock> lock;
  std::string path;
  if (!options.folder.empty()) {
    ASSIGN_OR_RETURN(FolderLock taken, FolderLock::Take(options.folder));
    lock.emplace(std::move(taken));
    path = FileIn(options.folder);
  }
  RETURN_IF_ERROR(CheckNotEmptied(path));
  ASSIGN_OR_RETURN(Database database, Database::Open(path));
  RETURN_IF_ERROR(Migrate(migrations, &database));
  return std::unique_ptr<Store>(new Store(options, std::move(lock), std::move(database)));
}

Store::Store(const Options& options, std::optional<FolderLock> lock, Database database)
    : options_(options),
      lock_(std::move(lock)),
      database_(std::move(database)),
      file_(Look(path()).st_ino) {
  thread_ = std::thread([this] { Main(); });
}

Store::~Store() {
  {
    const MutexLock guard(mutex_);
    stopping_ = true;
    changed_.Notify();
  }
  thread_.join();
}

std::string Store::path() const { return options_.folder.empty() ? "" : FileIn(options_.folder); }

void Store::Write(Work work, Done done, Undo undo) {
  Add({std::move(work), std::move(done), true, undo});
}
void Store::Read(Work work, Done done) { Add({std::move(work), std::move(done), false}); }

void Store::Add(Task task) {
  Status refused;
  {
    const MutexLock guard(mutex_);
    if (!health_.ok()) {
      refused = health_;
    } else if (waiting_.size() >= options_.max_waiting) {
      refused = Unavailable("overloaded", "the store has " + std::to_string(waiting_.size()) +
                                              " writes waiting for the disk");
    } else {
      waiting_.push_back(std::move(task));
      changed_.Notify();
      return;
    }
    Count(refused);
  }
  task.done(refused);
}

Status Store::WriteNow(const Work& work) {
  std::promise<Status> result;
  Write(work, [&](const Status& status) { result.set_value(status); });
  return result.get_future().get();
}

Status Store::ReadNow(const Work& work) {
  std::promise<Status> result;
  Read(work, [&](const Status& status) { result.set_value(status); });
  return result.get_future().get();
}

Status Store::health() const {
  const MutexLock guard(mutex_);
  return health_;
}

Store::Counts Store::counts() const {
  const MutexLock guard(mutex_);
  return counts_;
}

std::vector<Store::Task> Store::Next() {
  const MutexLock guard(mutex_);
  while (waiting_.empty() && !stopping_) changed_.Wait(mutex_);
  std::vector<Task> group;
  while (!waiting_.empty() && group.size() < options_.max_writes &&
         (group.empty() || waiting_.front().writes == group.front().writes)) {
    group.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
  }
  return group;
}

void Store::Main() {
  NameThread("tutti-store");
  while (true) {
    std::vector<Task> group = Next();
    if (group.empty()) return changed_.Leave();
    if (group.front().writes) {
      Commit(std::move(group));
      continue;
    }
    for (Task& task : group) {
      Status status = health();
      if (status.ok()) status = Guarded(task.work, database_);
      Note(status);
      task.done(status);
    }
  }
}

// An error undoes this work only, except errors after which SQLite has undone everything.
Status Store::RunAlone(const Work& work) {
  RETURN_IF_ERROR(Run(database_, "SAVEPOINT work"));
  const Status status = Guarded(work, database_);
  if (status.ok()) return Run(database_, "RELEASE work");
  if (database_.in_transaction())
    RETURN_IF_ERROR(database_.Execute("ROLLBACK TO work; RELEASE work"));
  return status;
}

Status Store::RunInGroup(const Task& task, bool* all) {
  if (task.undo == Undo::kAlone) {
    const Status status = RunAlone(task.work);
    *all = !database_.in_transaction();
    return status;
  }
  const int64_t before = database_.all_changes();
  const Status status = Guarded(task.work, database_);
  *all = !status.ok() && (!database_.in_transaction() || database_.all_changes() != before);
  return status;
}

// Data written to a deleted file is lost with the process, and a truncated file can no longer be
// read. The file never shrinks by itself, because no vacuum runs.
Status Store::CheckFile() {
  if (path().empty()) return OkStatus();
  const struct stat found = Look(path());
  if (found.st_ino != file_)
    return Status(StatusCode::kDataLoss, "store_failed",
                  path() + " was removed or replaced while the server ran");
  if (found.st_size < bytes_)
    return Status(StatusCode::kDataLoss, "store_failed",
                  path() + " was cut short while the server ran");
  bytes_ = found.st_size;
  return OkStatus();
}

void Store::Commit(std::vector<Task> group) {
  std::vector<Status> results(group.size());
  Status whole = health();
  if (whole.ok()) whole = CheckFile();
  if (whole.ok()) whole = Run(database_, "BEGIN IMMEDIATE");
  for (size_t i = 0; i < group.size() && whole.ok(); ++i) {
    bool all = false;
    results[i] = RunInGroup(group[i], &all);
    if (all) whole = results[i];
  }
  if (whole.ok()) whole = Run(database_, "COMMIT");
  if (!whole.ok()) {
    if (database_.in_transaction()) (void)database_.Execute("ROLLBACK");
    Fail(whole);
  }
  bool stored = false, full = false;
  for (Status& result : results) {
    if (!whole.ok() && result.ok()) result = whole;
    Note(result);
    stored = stored || result.ok();
    full = full || result.reason() == "store_full";
  }
  if (stored || full) {
    const MutexLock guard(mutex_);
    counts_.is_full = full;
  }
  for (size_t i = 0; i < group.size(); ++i) group[i].done(results[i]);
}

void Store::Note(const Status& status) {
  if (status.ok()) return;
  Fail(status);
  const MutexLock guard(mutex_);
  Count(status);
}

void Store::Fail(const Status& status) {
  if (!IsFatal(status)) return;
  const MutexLock guard(mutex_);
  if (health_.ok()) health_ = status;
}

void Store::Count(const Status& status) {
  if (status.reason() == "store_full") ++counts_.full;
  if (status.reason() == "store_failed") ++counts_.failed;
  if (status.reason() == "store_corrupt") ++counts_.corrupt;
  if (status.reason() == "overloaded") ++counts_.overloaded;
}

}  // namespace tutti::store
