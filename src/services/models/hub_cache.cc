#include "services/models/hub_cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <set>
#include <system_error>
#include <thread>
#include <utility>

#include "base/ascii.h"
#include "base/new_file.h"
#include "base/quote.h"
#include "base/text_file.h"
#include "protocol/json/json.h"

namespace tutti::models {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxSnapshotFiles = 20'000;
constexpr int kMaxDepth = 8;
constexpr uint64_t kMaxIndexBytes = uint64_t{64} << 20;
constexpr std::string_view kFolderPrefix = "models--";
// The package's own temporary files of a repository begin in the same way.
constexpr std::string_view kTemporaryBegin = "tmp_", kTemporaryEnd = ".tutti";
constexpr std::string_view kIncomplete = ".incomplete";
constexpr const char* kIndexName = "model.safetensors.index.json";

// Whether `path` lies in `folder`; both are canonical.
bool LiesIn(const fs::path& path, const fs::path& folder) {
  const auto [end, ignored] = std::mismatch(folder.begin(), folder.end(), path.begin(), path.end());
  return end == folder.end();
}

bool LiesInAny(const fs::path& path, const std::vector<fs::path>& folders) {
  return std::any_of(folders.begin(), folders.end(),
                     [&](const fs::path& folder) { return LiesIn(path, folder); });
}

// `others`: the quants of the same repository that are in the cache.
Status NotPulled(const HubName& name, const std::string& others = "") {
  return NotFound("model_not_pulled",
                  name.ToString() + " is not in the cache" +
                      (others.empty() ? "" : ", which has " + others + " of it") +
                      "; run: tutti pull " + name.ToString());
}

std::vector<std::string> NamesIn(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (names.size() == kMaxSnapshotFiles) break;
    names.push_back(at->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

int64_t ModifiedAt(const std::string& path) {
  struct stat found {};
  return stat(path.c_str(), &found) == 0 ? static_cast<int64_t>(found.st_mtime) : 0;
}

// The repository of a folder of the cache.
std::optional<HubName> NameOfFolder(const std::string& folder) {
  if (!folder.starts_with(kFolderPrefix)) return std::nullopt;
  std::string repository = folder.substr(kFolderPrefix.size());
  const size_t dashes = repository.find("--");
  if (dashes == std::string::npos) return std::nullopt;
  repository.replace(dashes, 2, "/");
  Result<HubName> name = ParseHubName(repository);
  if (!name.ok()) return std::nullopt;
  return *std::move(name);
}

// Bytes of a regular file; 0 for anything else, also for a link.
uint64_t SizeOfFile(const std::string& path) {
  struct stat found {};
  return lstat(path.c_str(), &found) == 0 && S_ISREG(found.st_mode)
             ? static_cast<uint64_t>(found.st_size)
             : 0;
}

// The commit in a file of refs/; "" if it holds none.
std::string ReadRef(const std::string& path) {
  const Result<std::string> text = ReadTextFile(path, 200, "io_error");
  if (!text.ok()) return "";
  std::string commit = *text;
  while (commit.ends_with('\n') || commit.ends_with(' ')) commit.pop_back();
  return IsCommitHash(commit) ? commit : "";
}

// A part of a name that no other call and no other process uses.
std::string Unique() {
  static std::atomic<uint64_t> calls{0};
  return std::to_string(getpid()) + "-" + std::to_string(++calls);
}

// Creates the folder above `path` and checks that it lies in `root`.
Status MakeFolderOf(const std::string& path, const std::string& root) {
  const std::string folder = FolderOf(path);
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return CacheError(folder, error.value());
  const fs::path real = fs::canonical(folder, error);
  if (error) return CacheError(folder, error.value());
  const fs::path real_root = fs::canonical(root, error);
  if (error) return CacheError(root, error.value());
  if (LiesIn(real, real_root)) return OkStatus();
  return Status(StatusCode::kFailedPrecondition, "cache_link",
                Quote(folder, 200) + " leads out of the cache; remove this link and pull again");
}

// Makes `path` a link to `target`. A kill between the two calls leaves no name, never a wrong one.
Status PutLink(const std::string& target, const std::string& path) {
  std::error_code error;
  const auto is_right = [&] { return fs::read_symlink(path, error) == target && !error; };
  if (is_right()) return OkStatus();
  if (unlink(path.c_str()) != 0 && errno != ENOENT) return CacheError(path, errno);
  if (symlink(target.c_str(), path.c_str()) == 0) return OkStatus();
  const int reason = errno;
  return reason == EEXIST && is_right() ? OkStatus() : CacheError(path, reason);  // another pull
}

// `folder`: holds the file until it has its name, on the same file system.
Status PutText(const std::string& text, const std::string& path, const std::string& folder) {
  auto file = NewFile::Create(
      folder + "/" + std::string(kTemporaryBegin) + Unique() + std::string(kTemporaryEnd),
      NewFile::Meanwhile::kNameless, 0666);
  if (!file.has_value() || !file->Append(std::as_bytes(std::span(text))) ||
      file->KeepAs(path, true) == NewFile::Kept::kNot)
    return CacheError(path, errno);
  return OkStatus();
}

// Names of files that an index of safetensors places tensors in. Empty if it cannot be read: the
// load of the model says why.
std::set<std::string> ShardsOf(const std::string& path) {
  std::set<std::string> shards;
  const Result<std::string> text = ReadTextFile(path, kMaxIndexBytes, "io_error");
  if (!text.ok()) return shards;
  const Result<protocol::JsonDocument> json = protocol::ParseJson(*text);
  if (!json.ok() || !json->root().is_object()) return shards;
  const protocol::Json* const map = json->root().get_object().if_contains("weight_map");
  if (map == nullptr || !map->is_object()) return shards;
  for (const auto& [tensor, file] : map->get_object()) {
    if (file.is_string()) shards.emplace(protocol::TextOf(file));
  }
  return shards;
}

bool IsHere(const std::vector<HubFile>& files, const std::string& path) {
  return std::any_of(files.begin(), files.end(),
                     [&](const HubFile& file) { return file.path == path; });
}

}  // namespace

Status CacheError(const std::string& path, int error) {
  if (error == ENOSPC || error == EDQUOT || error == EFBIG) {
    return ResourceExhausted("disk_full", Quote(path, 300) + ": " + std::strerror(error) +
                                              "; free space and pull again");
  }
  return Status(
      StatusCode::kFailedPrecondition, "cache_error",
      Quote(path, 300) + ": " + std::strerror(error) + "; HF_HUB_CACHE names another folder");
}

Result<std::optional<Descriptor>> TryLockFile(const std::string& path) {
  while (true) {
    Descriptor lock(
        open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666));
    if (!lock.ok()) return CacheError(path, errno);
    if (flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno == EINTR) continue;
      if (errno == EWOULDBLOCK) return std::optional<Descriptor>();
      return CacheError(path, errno);
    }
    struct stat held {
    }, named{};
    if (fstat(lock.get(), &held) == 0 && stat(path.c_str(), &named) == 0 &&
        held.st_ino == named.st_ino)
      return std::optional<Descriptor>(std::move(lock));
  }
}

std::string HubCache::RepositoryFolder(const std::string& repository) const {
  std::string name = repository;
  if (const size_t slash = name.find('/'); slash != std::string::npos) name.replace(slash, 1, "--");
  return folder_ + "/" + std::string(kFolderPrefix) + name;
}

std::vector<fs::path> HubCache::RootsOf(const std::string& repository_folder) const {
  std::vector<fs::path> roots;
  for (const std::string& path : {repository_folder, repository_folder + "/blobs", folder_}) {
    std::error_code error;
    fs::path real = fs::canonical(path, error);
    if (!error) roots.push_back(std::move(real));
  }
  return roots;
}

bool HubCache::HasBlob(const std::string& repository, const std::string& hash,
                       uint64_t size) const {
  const std::string path = BlobPath(repository, hash);
  struct stat found {};
  if (stat(path.c_str(), &found) != 0 || !S_ISREG(found.st_mode) ||
      static_cast<uint64_t>(found.st_size) != size)
    return false;
  std::error_code error;
  const fs::path real = fs::canonical(path, error);
  return !error && LiesInAny(real, RootsOf(RepositoryFolder(repository)));
}

std::string HubCache::BlobPath(const std::string& repository, const std::string& hash) const {
  return RepositoryFolder(repository) + "/blobs/" + hash;
}

HubCache::Snapshot HubCache::ListSnapshot(const std::string& repository_folder,
                                          const std::string& commit) const {
  const std::string folder = repository_folder + "/snapshots/" + commit;
  Snapshot snapshot;
  std::vector<HubFile>& files = snapshot.files;
  std::error_code error;
  const std::vector<fs::path> roots = RootsOf(repository_folder);
  fs::recursive_directory_iterator at(folder, error), end;
  for (; !error && at != end; at.increment(error)) {
    if (at.depth() >= kMaxDepth) at.disable_recursion_pending();
    std::error_code ignored;
    if (!at->is_regular_file(ignored)) continue;  // of a link: what it leads to
    const std::string path = at->path().lexically_relative(folder).string();
    const fs::path real = fs::canonical(at->path(), ignored);
    if (ignored) continue;
    HubFile file;
    file.path = path;
    file.size = fs::file_size(real, ignored);
    if (ignored) continue;
    if (at->is_symlink(ignored)) file.hash = fs::read_symlink(at->path(), ignored).filename();
    if (!LiesInAny(real, roots)) snapshot.outside.insert(path);
    files.push_back(std::move(file));
    if (files.size() == kMaxSnapshotFiles) break;
  }
  std::sort(files.begin(), files.end(),
            [](const HubFile& a, const HubFile& b) { return a.path < b.path; });
  return snapshot;
}

std::vector<std::string> HubCache::CommitsFor(const std::string& repository_folder,
                                              const HubName& name) const {
  const std::string ref =
      ReadRef(repository_folder + "/refs/" + std::string(name.revision_or_main()));
  std::vector<std::string> commits;
  if (!ref.empty()) commits.push_back(ref);
  if (IsCommitHash(name.revision) && ref.empty()) commits.push_back(name.revision);
  if (!name.revision.empty()) return commits;
  std::vector<std::pair<int64_t, std::string>> others;
  for (const std::string& commit : NamesIn(repository_folder + "/snapshots")) {
    if (IsCommitHash(commit) && commit != ref)
      others.emplace_back(-ModifiedAt(repository_folder + "/snapshots/" + commit), commit);
  }
  std::sort(others.begin(), others.end());
  for (auto& [time, commit] : others) commits.push_back(std::move(commit));
  return commits;
}

Result<CachedModel> HubCache::FindIn(const HubName& name, const std::string& commit) const {
  const std::string repository_folder = RepositoryFolder(name.repository);
  const Snapshot listed = ListSnapshot(repository_folder, commit);
  const std::vector<HubFile>& files = listed.files;
  if (files.empty()) return NotPulled(name);
  ASSIGN_OR_RETURN(const FileChoice choice, ChooseFiles(files, name.quant, name.repository));
  const std::string snapshot = repository_folder + "/snapshots/" + commit;
  if (choice.entry.empty() && IsHere(choice.files, kIndexName)) {
    for (const std::string& shard : ShardsOf(snapshot + "/" + kIndexName)) {
      if (!IsHere(files, shard)) return NotPulled(name);
    }
  }
  CachedModel model;
  model.name = name;
  model.commit = commit;
  model.path = choice.entry.empty() ? snapshot : snapshot + "/" + choice.entry;
  model.files = choice.files.size();
  for (const HubFile& file : choice.files) {
    if (listed.outside.contains(file.path)) {
      return Status(StatusCode::kFailedPrecondition, "cache_link",
                    Quote(snapshot + "/" + file.path, 250) +
                        " leads out of the cache; remove it and pull again, or give its path");
    }
    model.bytes += file.size;
    model.time_s = std::max(model.time_s, ModifiedAt(snapshot + "/" + file.path));
  }
  model.parts = choice.files;
  return model;
}

Result<CachedModel> HubCache::Find(const HubName& name) const {
  const std::string folder = RepositoryFolder(name.repository);
  std::set<std::string> others;
  for (const std::string& commit : CommitsFor(folder, name)) {
    Result<CachedModel> model = FindIn(name, commit);
    if (model.ok()) return model;
    // What is not in one snapshot may be in the next; a name with two meanings and a link that
    // leads out are the user's to decide.
    const std::string reason = model.status().reason();
    if (reason == "model_ambiguous" || reason == "cache_link") return model;
    for (std::string& quant : QuantsOf(ListSnapshot(folder, commit).files)) {
      if (!quant.empty()) others.insert(std::move(quant));
    }
  }
  std::string list;
  for (const std::string& quant : others) {
    if (list.size() < 100) list += (list.empty() ? "" : ", ") + Printable(quant);
  }
  return NotPulled(name, list);
}

std::vector<CachedModel> HubCache::ListUnfinished() const {
  std::vector<CachedModel> found;
  for (const std::string& folder : NamesIn(folder_)) {
    const std::optional<HubName> name = NameOfFolder(folder);
    if (!name.has_value()) continue;
    CachedModel model;
    model.name = *name;
    const std::string blobs = folder_ + "/" + folder + "/blobs/";
    for (const std::string& blob : NamesIn(blobs)) {
      if (!blob.ends_with(kIncomplete)) continue;
      model.bytes += SizeOfFile(blobs + blob);
      ++model.files;
    }
    if (model.files > 0) found.push_back(std::move(model));
  }
  return found;
}

std::vector<CachedModel> HubCache::List() const {
  std::vector<CachedModel> models;
  for (const std::string& folder : NamesIn(folder_)) {
    const std::optional<HubName> name = NameOfFolder(folder);
    if (!name.has_value()) continue;
    std::set<std::string> seen;  // quants: of several snapshots the first that Find would choose
    for (const std::string& commit : CommitsFor(folder_ + "/" + folder, *name)) {
      const Snapshot listed = ListSnapshot(folder_ + "/" + folder, commit);
      for (const std::string& quant : QuantsOf(listed.files)) {
        if (!seen.insert(quant).second) continue;
        HubName one = *name;
        one.quant = quant;
        Result<CachedModel> model = FindIn(one, commit);
        if (model.ok()) models.push_back(*std::move(model));
      }
    }
  }
  return models;
}

Status HubCache::Prepare(const std::string& repository) const {
  const std::string folder = RepositoryFolder(repository);
  std::error_code error;
  for (const std::string& part : {folder + "/blobs", folder + "/snapshots", folder + "/refs",
                                  folder_ + "/.locks/" + fs::path(folder).filename().string()}) {
    fs::create_directories(part, error);
    if (error) return CacheError(part, error.value());
  }
  RemoveAbandoned(folder, std::string(kTemporaryBegin), std::string(kTemporaryEnd));
  return OkStatus();
}

void HubCache::PauseForLock() { std::this_thread::sleep_for(std::chrono::milliseconds(100)); }

Result<std::optional<Descriptor>> HubCache::TryLockBlob(const std::string& repository,
                                                        const std::string& hash) const {
  const std::string path = folder_ + "/.locks/" +
                           fs::path(RepositoryFolder(repository)).filename().string() + "/" + hash +
                           ".lock";
  return TryLockFile(path);
}

Status HubCache::Publish(const HubName& name, const std::string& commit,
                         const FileChoice& choice) const {
  const std::string folder = RepositoryFolder(name.repository);
  const std::string snapshot = folder + "/snapshots/" + commit;
  // The file that makes a model findable comes last, so that a kill in between leaves none.
  const std::string last = choice.entry.empty() ? "config.json" : choice.entry;
  const auto put = [&](const HubFile& file) {
    const std::string path = snapshot + "/" + file.path;
    RETURN_IF_ERROR(MakeFolderOf(path, folder));
    std::string target = "../../";
    for (const char c : file.path) target += c == '/' ? "../" : "";
    return PutLink(target + "blobs/" + file.hash, path);
  };
  for (const HubFile& file : choice.files) {
    if (file.path != last) RETURN_IF_ERROR(put(file));
  }
  for (const HubFile& file : choice.files) {
    // Another process may have removed the model since its last file came.
    if (std::error_code ignored; !fs::exists(BlobPath(name.repository, file.hash), ignored)) {
      return Unavailable("cache_busy",
                         name.ToString() + " was removed while it was pulled; pull it again");
    }
  }
  for (const HubFile& file : choice.files) {
    if (file.path == last) RETURN_IF_ERROR(put(file));
  }
  for (const std::string& absent : choice.absent) {
    const std::string path = folder + "/.no_exist/" + commit + "/" + absent;
    std::error_code ignored;
    if (fs::exists(path, ignored)) continue;  // the folder may be read-only
    RETURN_IF_ERROR(MakeFolderOf(path, folder));
    const Descriptor made(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666));
    if (!made.ok()) return CacheError(path, errno);
  }
  FlushFolder(snapshot);
  if (name.revision_or_main() == commit) return OkStatus();
  const std::string ref = folder + "/refs/" + std::string(name.revision_or_main());
  if (ReadRef(ref) == commit) return OkStatus();  // the folder may be read-only
  RETURN_IF_ERROR(MakeFolderOf(ref, folder));
  return PutText(commit, ref, folder);
}

Result<std::vector<Descriptor>> HubCache::LockUnfinished(const HubName& name) const {
  const std::string folder = RepositoryFolder(name.repository);
  std::error_code error;
  if (!fs::is_directory(folder, error)) return NotPulled(name);
  RETURN_IF_ERROR(Prepare(name.repository));
  std::set<std::string> unfinished;  // hashes: newer packages write HASH.RANDOM.incomplete
  for (const std::string& blob : NamesIn(folder + "/blobs")) {
    if (blob.ends_with(kIncomplete)) unfinished.insert(blob.substr(0, blob.find('.')));
  }
  std::vector<Descriptor> locks;
  for (const std::string& hash : unfinished) {
    ASSIGN_OR_RETURN(std::optional<Descriptor> one, TryLockBlob(name.repository, hash));
    if (!one.has_value()) {
      return Unavailable("cache_busy",
                         name.ToString() + " is being pulled; remove it when that has ended");
    }
    locks.push_back(*std::move(one));
  }
  return locks;
}

Result<uint64_t> HubCache::RemoveUnfinished(const HubName& name) const {
  ASSIGN_OR_RETURN(const std::vector<Descriptor> locks, LockUnfinished(name));
  const std::string blobs = RepositoryFolder(name.repository) + "/blobs/";
  uint64_t bytes = 0;
  for (const std::string& blob : NamesIn(blobs)) {
    if (!blob.ends_with(kIncomplete)) continue;
    const uint64_t size = SizeOfFile(blobs + blob);
    if (unlink((blobs + blob).c_str()) != 0) return CacheError(blobs + blob, errno);
    bytes += size;
  }
  return bytes;
}

Result<uint64_t> HubCache::Remove(const HubName& name) const {
  ASSIGN_OR_RETURN(const std::vector<Descriptor> locks, LockUnfinished(name));
  const std::string folder = RepositoryFolder(name.repository);
  std::error_code error;
  uint64_t bytes = 0;
  if (name.quant.empty() && name.revision.empty()) {              // all of the repository
    for (const std::string& blob : NamesIn(folder + "/blobs")) {  // which may be another disk's
      const std::string path = folder + "/blobs/" + blob;
      bytes += SizeOfFile(path);
      unlink(path.c_str());
    }
    fs::remove_all(folder, error);
    if (error) return CacheError(folder, error.value());
    fs::remove_all(folder_ + "/.locks/" + fs::path(folder).filename().string(), error);
    return bytes;
  }
  ASSIGN_OR_RETURN(const CachedModel model, Find(name));
  const std::string snapshots = folder + "/snapshots/";
  for (const HubFile& file : model.parts) {
    const std::string path = snapshots + model.commit + "/" + file.path;
    if (file.hash.empty()) bytes += SizeOfFile(path);
    if (unlink(path.c_str()) != 0) return CacheError(path, errno);
  }
  std::set<std::string> used;
  for (const std::string& commit : NamesIn(snapshots)) {
    const Snapshot listed = ListSnapshot(folder, commit);
    for (const HubFile& file : listed.files) used.insert(file.hash);
  }
  for (const std::string& blob : NamesIn(folder + "/blobs")) {
    const std::string path = folder + "/blobs/" + blob;
    const bool ours = std::any_of(model.parts.begin(), model.parts.end(),
                                  [&](const HubFile& file) { return file.hash == blob; });
    if (used.contains(blob) || !(ours || blob.ends_with(kIncomplete))) continue;
    const uint64_t size = SizeOfFile(path);
    if (unlink(path.c_str()) != 0) return CacheError(path, errno);
    bytes += size;
  }
  // The last model of the repository leaves nothing.
  if (used.empty() && NamesIn(folder + "/blobs").empty()) {
    fs::remove_all(folder, error);
    fs::remove_all(folder_ + "/.locks/" + fs::path(folder).filename().string(), error);
  }
  return bytes;
}

}  // namespace tutti::models
