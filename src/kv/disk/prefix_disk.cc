#include "kv/disk/prefix_disk.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "base/new_file.h"
#include "base/random.h"
#include "base/threads.h"
#include "files/digest.h"
#include "kv/disk/pin_file.h"

namespace tutti::kv {
namespace {

constexpr std::string_view kSuffix = ".prefix", kPinSuffix = ".pin";
constexpr std::string_view kPartBegin = ".prefix-", kPartEnd = ".part";
// Blocks in the map at most, whatever their size: about 64 MiB of memory.
constexpr size_t kMaxEntries = size_t{1} << 19;
constexpr int kWriterNice = 10;
constexpr uint64_t kDiskPage = 4096;

Status FolderError(const std::string& what) {
  return {StatusCode::kFailedPrecondition, "prefix_folder", what};
}

std::string ErrnoText() { return std::generic_category().message(errno); }

Status DamagedFile(const std::string& what) {
  return InvalidArgument("prefix_file_damaged", "prefix file: " + what);
}

std::span<const uint8_t> Bytes(const void* data, size_t size) {
  return {static_cast<const uint8_t*>(data), size};
}

// A file's share of the cap: what it takes on the disk.
uint64_t OnDisk(uint64_t bytes) { return (bytes + kDiskPage - 1) / kDiskPage * kDiskPage; }

bool ReadAt(int fd, uint64_t offset, std::span<std::byte> out) {
  while (!out.empty()) {
    const ssize_t got = pread(fd, out.data(), out.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    out = out.subspan(static_cast<size_t>(got));
    offset += static_cast<uint64_t>(got);
  }
  return true;
}

Result<PrefixFileHeader> ReadHeader(int fd, uint64_t file_bytes) {
  std::vector<std::byte> bytes(kHeaderFront);
  if (file_bytes < kHeaderFront || !ReadAt(fd, 0, bytes))
    return DamagedFile("it is shorter than a header");
  ASSIGN_OR_RETURN(const size_t size, HeaderBytes(bytes));
  if (size > file_bytes) return DamagedFile("its header is cut off");
  bytes.resize(size);
  if (!ReadAt(fd, kHeaderFront, std::span(bytes).subspan(kHeaderFront)))
    return DamagedFile("its header cannot be read");
  ASSIGN_OR_RETURN(PrefixFileHeader header, DecodeHeader(bytes));
  if (header.file_bytes() != file_bytes)
    return DamagedFile("it has " + std::to_string(file_bytes) + " bytes, not " +
                       std::to_string(header.file_bytes()));
  return header;
}

Status WriteKey(const std::string& path, const Hash128& key) {
  std::optional<NewFile> file =
      NewFile::Create(path + std::string(kPartEnd), NewFile::Meanwhile::kNameless, 0600);
  if (!file || !file->Append(std::as_bytes(std::span(key))) ||
      file->KeepAs(path, /*replace=*/true) == NewFile::Kept::kNot)
    return FolderError(path + " cannot be written: " + ErrnoText());
  return OkStatus();
}

std::string KeyPath(const std::string& folder) { return folder + "/key"; }
std::string LockPath(const std::string& folder) { return folder + "/lock"; }

Result<Hash128> LoadKey(const std::string& folder) {
  const std::string path = KeyPath(folder);
  Hash128 key{};
  const Descriptor known(open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  if (known.ok() && ReadAt(known.get(), 0, std::as_writable_bytes(std::span(key)))) return key;
  // A new key makes all files foreign, which are then removed: not for a passing fault.
  struct stat found {};
  const bool cut = known.ok() && fstat(known.get(), &found) == 0 && S_ISREG(found.st_mode) &&
                   static_cast<size_t>(found.st_size) < sizeof key;
  if (known.ok() ? !cut : errno != ENOENT)
    return FolderError(path + " cannot be read: " + ErrnoText());
  key = {RandomBits(), RandomBits()};
  RETURN_IF_ERROR(WriteKey(path, key));
  return key;
}

Status MakeFolder(const std::string& folder) {
  std::error_code error;
  const std::filesystem::path path(folder);
  if (!std::filesystem::is_directory(path, error)) {
    if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path(), error);
    if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
      return FolderError(folder + " cannot be made: " + ErrnoText());
  }
  struct stat found {};
  if (stat(folder.c_str(), &found) != 0)
    return FolderError(folder + " cannot be read: " + ErrnoText());
  if ((found.st_mode & 077) != 0)
    return FolderError(folder + " is open to other users; chmod 700 " + folder);
  return OkStatus();
}

// The lock of a folder, which one process holds.
Result<Descriptor> TakeLock(const std::string& folder) {
  const std::string path = LockPath(folder);
  Descriptor lock(open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!lock.ok()) return FolderError(path + " cannot be opened: " + ErrnoText());
  if (flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    return FolderError(folder +
                       " is used by another process; give this one another --prefix-folder");
  }
  return lock;
}

bool IsSameFile(const Descriptor& open, const std::string& path) {
  struct stat own {
  }, found{};
  return fstat(open.get(), &own) == 0 && stat(path.c_str(), &found) == 0 &&
         own.st_dev == found.st_dev && own.st_ino == found.st_ino;
}

// The number in a file name of 16 hexadecimal digits and a suffix.
std::optional<uint64_t> IdOf(const std::string& name, std::string_view suffix) {
  if (name.size() != 16 + suffix.size() || !name.ends_with(suffix)) return std::nullopt;
  uint64_t id = 0;
  for (const char c : name.substr(0, 16)) {
    const bool digit = c >= '0' && c <= '9';
    if (!digit && !(c >= 'a' && c <= 'f')) return std::nullopt;
    id = id << 4 | static_cast<uint64_t>(digit ? c - '0' : c - 'a' + 10);
  }
  return id;
}

}  // namespace

// --- names ---

Hash128 BlockNames::Model(std::string_view identity) const {
  return SipHash128(key_, Bytes(identity.data(), identity.size()));
}

Hash128 BlockNames::Root(const Hash128& model, std::string_view root) const {
  std::vector<uint8_t> message(sizeof model + root.size());
  std::memcpy(message.data(), model.data(), sizeof model);
  if (!root.empty()) std::memcpy(message.data() + sizeof model, root.data(), root.size());
  return SipHash128(key_, message);
}

std::vector<Hash128> BlockNames::Blocks(const Hash128& before,
                                        std::span<const TokenId> tokens) const {
  std::vector<Hash128> names;
  names.reserve(BlocksFor(tokens.size()));
  Hash128 name = before;
  uint8_t message[sizeof name + sizeof(TokenId) * kBlockTokens];
  while (!tokens.empty()) {
    std::memcpy(message, name.data(), sizeof name);
    size_t bytes = sizeof name;  // alone: of a partly filled block
    if (tokens.size() >= kBlockTokens) {
      std::memcpy(message + sizeof name, tokens.data(), sizeof(TokenId) * kBlockTokens);
      bytes = sizeof message;
    }
    name = SipHash128(key_, {message, bytes});
    names.push_back(name);
    tokens = tokens.subspan(std::min<size_t>(tokens.size(), kBlockTokens));
  }
  return names;
}

uint64_t BlockNames::Tail(std::span<const TokenId> tokens) const {
  return SipHash128(key_, Bytes(tokens.data(), tokens.size_bytes()))[0];
}

// --- the store of one model ---

class PrefixDisk::ModelStore final : public PrefixStore {
 public:
  ModelStore(std::shared_ptr<PrefixDisk> disk, Model model)
      : disk_(std::move(disk)), model_(std::move(model)) {}
  ~ModelStore() override { OnProgress(nullptr); }

  PrefixShape shape() const override { return model_.shape; }
  std::vector<StoredBlock> Find(std::string_view root, std::span<const TokenId> tokens,
                                int first_block) override {
    return disk_->Find(model_, root, tokens, first_block);
  }
  MissingBlocks Missing(std::string_view root, std::span<const TokenId> tokens,
                        std::span<const BlockParts> parts) override {
    return disk_->Missing(model_, root, tokens, parts);
  }
  bool Write(PrefixWrite&& write) override { return disk_->Write(model_, std::move(write)); }
  void Read(PrefixRead read) override { disk_->Read(model_, std::move(read)); }
  void Take(std::vector<PrefixReadResult>& results) override {
    const MutexLock lock(model_.results->mutex);
    for (PrefixReadResult& result : model_.results->results) results.push_back(std::move(result));
    model_.results->results.clear();
  }
  void KeepPin(PinRecord record) override {
    disk_->ChangePin(record.id, EncodePin(model_.name, record));
  }
  void DropPin(const std::string& id) override { disk_->ChangePin(id, {}); }
  std::vector<PinRecord> Pins() override { return disk_->Pins(model_); }
  bool Idle() const override { return disk_->Idle(); }
  void OnProgress(std::function<void()> notify) override {
    const MutexLock lock(model_.results->mutex);
    model_.results->notify = std::move(notify);
  }

 private:
  const std::shared_ptr<PrefixDisk> disk_;
  const Model model_;
};

void PrefixDisk::Results::Notify() {
  const MutexLock lock(mutex);
  if (notify) notify();
}

std::unique_ptr<PrefixStore> PrefixDisk::ForModel(std::string_view identity,
                                                  const PrefixShape& shape) {
  {
    const MutexLock lock(mutex_);
    while (!scanned_ && !stop_) changed_.Wait(mutex_);
  }
  return std::make_unique<ModelStore>(
      shared_from_this(),
      Model{.name = names_.Model(std::string(identity) + ' ' + std::to_string(shape.block_bytes) +
                                 ' ' + std::to_string(shape.window_block_bytes) + ' ' +
                                 std::to_string(shape.state_bytes)),
            .shape = shape,
            .results = std::make_shared<Results>()});
}

// --- engine threads ---

std::vector<StoredBlock> PrefixDisk::Find(const Model& model, std::string_view root,
                                          std::span<const TokenId> tokens, int first_block) {
  const std::vector<Hash128> names = names_.Blocks(names_.Root(model.name, root), tokens);
  // Where full blocks end, the tail may be shorter than what the prompt has left.
  std::vector<StoredBlock> found;
  std::vector<FileList::iterator> used;
  const MutexLock lock(mutex_);
  size_t i = static_cast<size_t>(first_block);
  for (; (i + 1) * kBlockTokens <= tokens.size(); ++i) {
    const auto entry = entries_.find(names[i]);
    if (entry == entries_.end()) break;
    found.push_back({.file = entry->second.file->id,
                     .place = entry->second.place,
                     .parts = entry->second.parts});
    used.push_back(entry->second.file);
  }
  const std::span<const TokenId> rest = tokens.subspan(std::min(i * kBlockTokens, tokens.size()));
  if (!rest.empty()) {
    const Hash128 before = i == 0 ? names_.Root(model.name, root) : names[i - 1];
    const Hash128 tail = names_.Blocks(before, rest.first(1))[0];
    const auto entry = entries_.find(tail);
    if (entry != entries_.end() && entry->second.tokens <= rest.size() &&
        entry->second.tail == names_.Tail(rest.first(entry->second.tokens))) {
      found.push_back({.file = entry->second.file->id,
                       .place = entry->second.place,
                       .tokens = entry->second.tokens,
                       .parts = entry->second.parts});
      used.push_back(entry->second.file);
    }
  }
  // The beginning of a prefix is used by all that continue it, so it becomes the newest.
  for (auto file = used.rbegin(); file != used.rend(); ++file)
    files_.splice(files_.end(), files_, *file);
  return found;
}

MissingBlocks PrefixDisk::Missing(const Model& model, std::string_view root,
                                  std::span<const TokenId> tokens,
                                  std::span<const BlockParts> parts) {
  MissingBlocks out;
  out.names = names_.Blocks(names_.Root(model.name, root), tokens);
  out.missing.assign(out.names.size(), true);
  const size_t tail_tokens = tokens.size() % kBlockTokens;
  const MutexLock lock(mutex_);
  for (size_t i = 0; i < out.names.size(); ++i) {
    if (writing_.contains(out.names[i])) out.missing[i] = false;
    const auto entry = entries_.find(out.names[i]);
    if (entry == entries_.end()) continue;
    const Entry& e = entry->second;
    const bool tail = tail_tokens != 0 && i + 1 == out.names.size();
    if (tail && (e.tokens != tail_tokens || e.tail != names_.Tail(tokens.last(tail_tokens))))
      continue;
    const bool complete =
        (e.parts.window_block || !parts[i].window_block) && (e.parts.state || !parts[i].state);
    if (complete) out.missing[i] = false;
  }
  return out;
}

bool PrefixDisk::Write(const Model& model, PrefixWrite&& write) {
  CHECK(!write.parts.empty() && write.parts.size() == write.names.size() &&
        write.parts.size() <= kMaxFileBlocks);
  const MutexLock lock(mutex_);
  if (stop_ || (!writes_.empty() && queued_bytes_ + write.memory.size() > options_.queue_bytes))
    return false;
  queued_bytes_ += write.memory.size();
  writing_.insert(write.names.begin(), write.names.end());
  writes_.push_back({model, std::move(write)});
  changed_.NotifyAll();
  return true;
}

void PrefixDisk::Read(const Model& model, PrefixRead read) {
  CHECK(!read.blocks.empty());
  const MutexLock lock(mutex_);
  reads_.push_back({model, std::move(read)});
  changed_.NotifyAll();
}

bool PrefixDisk::Idle() const {
  const MutexLock lock(mutex_);
  return writes_.empty() && pins_.empty() && !busy_writing_;
}

void PrefixDisk::ChangePin(const std::string& id, std::vector<std::byte> bytes) {
  const uint64_t name = names_.Model(id)[0];
  const MutexLock lock(mutex_);
  pins_.emplace_back(PathOf(name, kPinSuffix), std::move(bytes));
  changed_.NotifyAll();
}

std::vector<PinRecord> PrefixDisk::Pins(const Model& model) {
  std::vector<PinRecord> records;
  std::error_code error;
  std::filesystem::directory_iterator entry(options_.folder, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (!IdOf(name, kPinSuffix)) continue;
    const Descriptor fd(
        open(entry->path().c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    struct stat found {};
    if (!fd.ok() || fstat(fd.get(), &found) != 0 || !S_ISREG(found.st_mode)) continue;
    std::vector<std::byte> bytes(
        std::min<size_t>(static_cast<size_t>(found.st_size), kMaxPinFileBytes + 1));
    Result<PinFile> pin =
        ReadAt(fd.get(), 0, bytes) ? DecodePin(bytes) : DamagedFile("it cannot be read");
    if (!pin.ok()) {
      (void)unlink(entry->path().c_str());
      Reject(name, pin.status());
    } else if (pin->record.expires_unix_ms <= UnixMillis()) {
      (void)unlink(entry->path().c_str());  // also of a model that is not served any more
    } else if (pin->model == model.name) {
      records.push_back(std::move(pin->record));
    }
  }
  return records;
}

PrefixDiskStats PrefixDisk::stats() const {
  const MutexLock lock(mutex_);
  PrefixDiskStats stats = stats_;
  stats.files = files_.size();
  stats.blocks = entries_.size();
  return stats;
}

// --- the folder ---

Result<std::shared_ptr<PrefixDisk>> PrefixDisk::Open(const PrefixDiskOptions& options) {
  RETURN_IF_ERROR(MakeFolder(options.folder));
  ASSIGN_OR_RETURN(Descriptor lock, TakeLock(options.folder));
  RemoveAbandoned(options.folder, std::string(kPartBegin), std::string(kPartEnd));
  ASSIGN_OR_RETURN(const Hash128 key, LoadKey(options.folder));
  std::shared_ptr<PrefixDisk> disk(new PrefixDisk(options, key, std::move(lock)));
  PrefixDisk* const self = disk.get();  // joins the threads when it is destroyed
  disk->writer_ = std::thread([self] { self->WriterMain(); });
  disk->reader_ = std::thread([self] { self->ReaderMain(); });
  return disk;
}

PrefixDisk::PrefixDisk(const PrefixDiskOptions& options, const Hash128& key, Descriptor lock)
    : options_(options), names_(key), lock_(std::move(lock)) {}

PrefixDisk::~PrefixDisk() {
  {
    const MutexLock lock(mutex_);
    stop_ = true;
    changed_.NotifyAll();
  }
  if (writer_.joinable()) writer_.join();
  if (reader_.joinable()) reader_.join();
}

std::string PrefixDisk::PathOf(uint64_t id, std::string_view suffix) const {
  char name[17];
  std::snprintf(name, sizeof name, "%016llx", static_cast<unsigned long long>(id));
  return options_.folder + "/" + name + std::string(suffix);
}

std::string PrefixDisk::PathOf(uint64_t id) const { return PathOf(id, kSuffix); }

void PrefixDisk::Unlink(std::span<const uint64_t> ids) const {
  for (const uint64_t id : ids) (void)unlink(PathOf(id).c_str());
}

void PrefixDisk::Reject(const std::string& name, const Status& why) {
  if (options_.log != nullptr)
    options_.log->Warn("prefix.file_removed", {{"file", name}, {"why", why.message()}});
  const MutexLock lock(mutex_);
  ++stats_.rejected_files;
}

void PrefixDisk::Add(const PrefixFileHeader& header, uint64_t id) {
  files_.push_back({.id = id, .bytes = OnDisk(header.file_bytes()), .names = header.names});
  const auto file = std::prev(files_.end());
  stats_.bytes += file->bytes;
  for (int place = 0; place < header.blocks(); ++place) {
    const int begin = (header.first_block + place) * kBlockTokens;
    const int count = std::min(kBlockTokens, static_cast<int>(header.tokens.size()) - begin);
    Entry entry{.file = file,
                .place = static_cast<uint16_t>(place),
                .tokens = static_cast<uint8_t>(count),
                .parts = header.parts[static_cast<size_t>(place)]};
    if (count < kBlockTokens)
      entry.tail = names_.Tail(std::span(header.tokens).last(static_cast<size_t>(count)));
    entries_.insert_or_assign(header.names[static_cast<size_t>(place)], entry);
  }
}

void PrefixDisk::Erase(FileList::iterator file) {
  for (const Hash128& name : file->names) {
    const auto entry = entries_.find(name);
    // A later file may have the same block.
    if (entry != entries_.end() && entry->second.file == file) entries_.erase(entry);
  }
  stats_.bytes -= file->bytes;
  files_.erase(file);
}

std::vector<uint64_t> PrefixDisk::MakeRoom(uint64_t more) {
  std::vector<uint64_t> removed;
  while (!files_.empty() &&
         (stats_.bytes + more > options_.max_bytes || entries_.size() >= kMaxEntries)) {
    removed.push_back(files_.front().id);
    ++stats_.evicted_files;
    Erase(files_.begin());
  }
  return removed;
}

// Reads the headers of all files, the least recently used first.
void PrefixDisk::Scan() {
  struct Found {
    timespec used;
    int64_t size;
    uint64_t id;
    std::string name;
  };
  std::vector<Found> all;
  std::error_code error;
  std::filesystem::directory_iterator entry(options_.folder, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    const std::optional<uint64_t> id = IdOf(name, kSuffix);
    struct stat found {};
    if (!id || lstat(entry->path().c_str(), &found) != 0 || !S_ISREG(found.st_mode)) continue;
    all.push_back({found.st_mtim, found.st_size, *id, name});
  }
  std::sort(all.begin(), all.end(), [](const Found& a, const Found& b) {
    return std::pair(a.used.tv_sec, a.used.tv_nsec) < std::pair(b.used.tv_sec, b.used.tv_nsec);
  });
  for (const Found& found : all) {
    const Status status = ScanFile(found.name, found.id, found.size);
    if (!status.ok()) {
      Unlink({&found.id, 1});
      Reject(found.name, status);
    }
    const MutexLock lock(mutex_);
    if (stop_) break;
  }
  std::vector<uint64_t> removed;
  PrefixDiskStats stats;
  {
    const MutexLock lock(mutex_);
    removed = MakeRoom(0);
    scanned_ = true;
    changed_.NotifyAll();
    stats = stats_;
    stats.files = files_.size();
    stats.blocks = entries_.size();
  }
  Unlink(removed);
  if (options_.log != nullptr) {
    options_.log->Info("prefix.folder_opened", {{"folder", options_.folder},
                                                {"files", stats.files},
                                                {"blocks", stats.blocks},
                                                {"bytes", stats.bytes}});
  }
}

Status PrefixDisk::ScanFile(const std::string& name, uint64_t id, int64_t size) {
  const std::string path = options_.folder + "/" + name;
  const Descriptor fd(open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!fd.ok()) return DamagedFile("it cannot be opened: " + ErrnoText());
  ASSIGN_OR_RETURN(const PrefixFileHeader header,
                   ReadHeader(fd.get(), static_cast<uint64_t>(size)));
  // Names can be made with the key of this folder alone.
  const std::vector<Hash128> names = names_.Blocks(header.root, header.tokens);
  if (!std::equal(header.names.begin(), header.names.end(), names.begin() + header.first_block))
    return DamagedFile("it is of another folder");
  const MutexLock lock(mutex_);
  Add(header, id);
  return OkStatus();
}

// --- writing ---

void PrefixDisk::WriterMain() {
  NameThread("tutti-prefix-wr");
  (void)setpriority(PRIO_PROCESS, 0, kWriterNice);  // of this thread alone, as Linux has it
  Scan();
  for (;;) {
    PendingWrite pending;
    std::pair<std::string, std::vector<std::byte>> pin;
    {
      const MutexLock lock(mutex_);
      busy_writing_ = false;
      while (writes_.empty() && pins_.empty() && !stop_) changed_.Wait(mutex_);
      if (writes_.empty() && pins_.empty()) return;
      busy_writing_ = true;
      if (!pins_.empty()) {
        pin = std::move(pins_.front());
        pins_.pop_front();
      } else {
        pending = std::move(writes_.front());
        writes_.pop_front();
      }
    }
    if (!pin.first.empty()) {
      WritePin(pin.first, pin.second);
      continue;
    }
    WriteFile(pending);
    pending.model.results->Notify();
  }
}

void PrefixDisk::WritePin(const std::string& path, std::span<const std::byte> bytes) {
  if (bytes.empty()) {
    (void)unlink(path.c_str());
    return;
  }
  if (const Status folder = RemakeFolder(); !folder.ok()) {
    if (options_.log != nullptr)
      options_.log->Warn("prefix.pin_not_kept", {{"why", folder.message()}});
    return;
  }
  std::optional<NewFile> file = NewFile::Create(
      options_.folder + "/" + std::string(kPartBegin) + "pin" + std::string(kPartEnd),
      NewFile::Meanwhile::kNameless, 0600);
  if (file && file->Append(bytes) && file->KeepAs(path, /*replace=*/true) != NewFile::Kept::kNot)
    return;
  if (options_.log != nullptr) options_.log->Warn("prefix.pin_not_kept", {{"why", ErrnoText()}});
}

void PrefixDisk::WriteFile(PendingWrite& pending) {
  PrefixFileHeader header;
  const uint64_t id = RandomBits();
  const Status status = TryWriteFile(pending, header, id);
  if (!status.ok() && options_.log != nullptr) {
    if (const auto more = write_log_.Next(SteadyClock().Now()))
      options_.log->Warn("prefix.write_failed", {{"why", status.message()}, {"more", *more}});
  }
  const MutexLock lock(mutex_);
  for (const Hash128& name : pending.write.names) writing_.erase(name);
  queued_bytes_ -= pending.write.memory.size();
  if (status.ok()) {
    Add(header, id);
    stats_.written_blocks += pending.write.parts.size();
  } else {
    ++stats_.failed_writes;
  }
}

Status PrefixDisk::RemakeFolder() {
  if (IsSameFile(lock_, LockPath(options_.folder))) return OkStatus();
  RETURN_IF_ERROR(MakeFolder(options_.folder));
  ASSIGN_OR_RETURN(Descriptor lock, TakeLock(options_.folder));
  // Entries of files that are gone become misses when they are read.
  RETURN_IF_ERROR(WriteKey(KeyPath(options_.folder), names_.key()));
  lock_ = std::move(lock);
  if (options_.log != nullptr)
    options_.log->Warn("prefix.folder_made_again", {{"folder", options_.folder}});
  return OkStatus();
}

Status PrefixDisk::TryWriteFile(const PendingWrite& pending, PrefixFileHeader& header,
                                uint64_t id) {
  RETURN_IF_ERROR(RemakeFolder());
  const PrefixWrite& write = pending.write;
  header.model = pending.model.name;
  header.root = names_.Root(pending.model.name, write.root);
  header.shape = pending.model.shape;
  header.first_block = write.first_block;
  header.tokens = write.tokens;
  header.parts = write.parts;
  header.names = write.names;
  std::span<const std::byte> memory = write.memory;
  for (int place = 0; place < header.blocks(); ++place) {
    std::array<uint64_t, 3>& sums = header.checksums.emplace_back();
    for (const Part part : {Part::kBlock, Part::kWindowBlock, Part::kState}) {
      if (!header.Has(place, part)) continue;
      const size_t bytes = header.BytesOfPart(part);
      sums[static_cast<size_t>(part)] = files::Xxh64(memory.first(bytes));
      memory = memory.subspan(bytes);
    }
  }
  CHECK(memory.empty());
  std::vector<uint64_t> removed;
  {
    const MutexLock lock(mutex_);
    if (OnDisk(header.file_bytes()) > options_.max_bytes)
      return ResourceExhausted("prefix_folder", "one file exceeds --prefix-disk-bytes");
    removed = MakeRoom(OnDisk(header.file_bytes()));
  }
  Unlink(removed);
  const std::string part =
      options_.folder + "/" + std::string(kPartBegin) + std::to_string(id) + std::string(kPartEnd);
  std::optional<NewFile> file = NewFile::Create(part, NewFile::Meanwhile::kNameless, 0600);
  if (!file || !file->Append(EncodeHeader(header)) || !file->Append(write.memory) ||
      file->KeepAs(PathOf(id), /*replace=*/false, NewFile::Flush::kNo) == NewFile::Kept::kNot)
    return Unavailable("prefix_folder", options_.folder + ": " + ErrnoText());
  return OkStatus();
}

// --- reading ---

void PrefixDisk::ReaderMain() {
  NameThread("tutti-prefix-rd");
  for (;;) {
    PendingRead pending;
    {
      const MutexLock lock(mutex_);
      while (reads_.empty() && !stop_) changed_.Wait(mutex_);
      if (stop_) return;
      pending = std::move(reads_.front());
      reads_.pop_front();
    }
    PrefixReadResult result = ReadFile(pending);
    const MutexLock lock(pending.model.results->mutex);
    pending.model.results->results.push_back(std::move(result));
    if (pending.model.results->notify) pending.model.results->notify();
  }
}

PrefixReadResult PrefixDisk::ReadFile(const PendingRead& pending) {
  PrefixReadResult result{.id = pending.read.id};
  Fault fault = Fault::kDamaged;
  const Status status = TryReadFile(pending, result.memory, &fault);
  result.ok = status.ok();
  if (!status.ok() && fault != Fault::kNone) {
    const uint64_t id = pending.read.blocks[0].file;
    {
      const MutexLock lock(mutex_);
      const auto file = std::find_if(files_.begin(), files_.end(),
                                     [id](const File& known) { return known.id == id; });
      if (file != files_.end()) Erase(file);
    }
    if (fault == Fault::kDamaged) {
      Unlink({&id, 1});
      Reject(std::filesystem::path(PathOf(id)).filename().string(), status);
    }
  }
  const MutexLock lock(mutex_);
  if (result.ok) {
    stats_.read_blocks += pending.read.blocks.size();
  } else {
    ++stats_.failed_reads;
    result.memory.clear();
  }
  return result;
}

Status PrefixDisk::TryReadFile(const PendingRead& pending, std::vector<std::byte>& memory,
                               Fault* fault) {
  const PrefixRead& read = pending.read;
  const std::string path = PathOf(read.blocks[0].file);
  const Descriptor fd(open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!fd.ok()) {
    // It was evicted or removed; or the process has too many files open, which says nothing of it.
    *fault = errno == ENOENT ? Fault::kGone : Fault::kNone;
    return DamagedFile("it cannot be opened: " + ErrnoText());
  }
  struct stat found {};
  if (fstat(fd.get(), &found) != 0 || !S_ISREG(found.st_mode))
    return DamagedFile("it is no regular file");
  (void)futimens(fd.get(), nullptr);  // the time of its last use
  ASSIGN_OR_RETURN(const PrefixFileHeader header,
                   ReadHeader(fd.get(), static_cast<uint64_t>(found.st_size)));
  const int first_place = read.blocks[0].place;
  const int end_block = read.first_block + static_cast<int>(read.blocks.size());
  const auto end = static_cast<size_t>((end_block - 1) * kBlockTokens + read.blocks.back().tokens);
  if (header.model != pending.model.name || header.shape != pending.model.shape ||
      header.root != names_.Root(pending.model.name, read.root) ||
      header.first_block + first_place != read.first_block ||
      first_place + static_cast<int>(read.blocks.size()) > header.blocks() ||
      header.tokens.size() < end || read.tokens->size() < end)
    return DamagedFile("it holds other blocks than it did");
  if (!std::equal(header.tokens.begin(), header.tokens.begin() + static_cast<ptrdiff_t>(end),
                  read.tokens->begin())) {
    *fault = Fault::kNone;  // a collision of names, and no damage
    return DamagedFile("it is of another text");
  }
  size_t total = 0;
  for (const StoredBlock& block : read.blocks) total += BytesOf(header.shape, block.parts);
  memory.resize(total);
  std::span<std::byte> out = memory;
  for (size_t i = 0; i < read.blocks.size(); ++i) {
    const int place = first_place + static_cast<int>(i);
    const BlockParts& wanted = read.blocks[i].parts;
    for (const Part part : {Part::kBlock, Part::kWindowBlock, Part::kState}) {
      if (part == Part::kWindowBlock && !wanted.window_block) continue;
      if (part == Part::kState && !wanted.state) continue;
      if (!header.Has(place, part)) return DamagedFile("a part of a block is missing");
      const std::span<std::byte> piece = out.first(header.BytesOfPart(part));
      if (!ReadAt(fd.get(), header.OffsetOf(place, part), piece))
        return DamagedFile("it is cut off");
      const uint64_t sum = header.checksums[static_cast<size_t>(place)][static_cast<size_t>(part)];
      if (files::Xxh64(piece) != sum) return DamagedFile("the checksum of a block is wrong");
      out = out.subspan(piece.size());
    }
  }
  return OkStatus();
}

}  // namespace tutti::kv
