// PrefixDisk: prefixes in files of a folder, up to a number of bytes, over restarts. Shared by all
// models of a process; each uses it through a PrefixStore of its own (ForModel).
//
//   FOLDER/key            16 random bytes: names of blocks cannot be made without them
//   FOLDER/lock           locked by the process that uses the folder
//   FOLDER/HEX.prefix     consecutive blocks of one prefix (prefix_file.h)
//   FOLDER/HEX.pin        a prefix that is to be pinned again after a restart (pin_file.h)
//
// Two threads of its own do all file operations: one reads, since requests wait for it, and one
// writes, at low priority. A map in memory knows which file has which block. Files that have not
// been used for the longest time are removed first; the order survives a restart as their time of
// modification. A file that is damaged, of another folder or of another kind is removed, with a
// line in the log. Files are written under a temporary name and are not flushed: what a crash of
// the machine leaves of them is found by its checksum.
//
// The files contain the tokens of prompts and answers. The folder has mode 0700, its files 0600.
//
// Any thread. Owned by the models that use it, and by the code that opened it.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/descriptor.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/status.h"
#include "kv/disk/prefix_file.h"
#include "kv/prefix_index.h"
#include "kv/prefix_store.h"

namespace tutti::kv {

struct PrefixDiskOptions {
  std::string folder = {};
  uint64_t max_bytes = 0;  // of all files
  // Memory of blocks that wait to be written. More is refused, so that a slow disk costs no memory.
  uint64_t queue_bytes = uint64_t{32} << 20;
  Logger* log = nullptr;  // may be null; outlives it
};

struct PrefixDiskStats {
  uint64_t bytes = 0, files = 0, blocks = 0;  // kept
  uint64_t written_blocks = 0, read_blocks = 0;
  uint64_t failed_writes = 0, failed_reads = 0;  // of runs of blocks
  uint64_t rejected_files = 0, evicted_files = 0;
};

// Names of blocks: keyed hashes, chained over the blocks before. Pure.
class BlockNames {
 public:
  explicit BlockNames(const Hash128& key) : key_(key) {}
  Hash128 Model(std::string_view identity) const;
  Hash128 Root(const Hash128& model, std::string_view root) const;
  // The names of the blocks of `tokens` after `before`, which is the name of a root or of a full
  // block. The name of a partly filled block does not depend on its tokens, so that it is found
  // without them.
  std::vector<Hash128> Blocks(const Hash128& before, std::span<const TokenId> tokens) const;
  // Identifies the tokens of a partly filled block.
  uint64_t Tail(std::span<const TokenId> tokens) const;
  const Hash128& key() const { return key_; }

 private:
  Hash128 key_;
};

class PrefixDisk : public std::enable_shared_from_this<PrefixDisk> {
 public:
  // Makes the folder and starts the threads. Errors: prefix_folder (it cannot be made or written,
  // is open to others, or is used by another process).
  static Result<std::shared_ptr<PrefixDisk>> Open(const PrefixDiskOptions& options);
  ~PrefixDisk();  // after what waits has been written

  // The store of one model. `identity` describes all that decides the bits of its blocks. Waits
  // until the files of the folder are known. The store keeps this object alive.
  std::unique_ptr<PrefixStore> ForModel(std::string_view identity, const PrefixShape& shape);

  PrefixDiskStats stats() const;

 private:
  class ModelStore;
  // Results of one model's reads.
  struct Results {
    Mutex mutex;
    std::vector<PrefixReadResult> results GUARDED_BY(mutex);
    std::function<void()> notify GUARDED_BY(mutex);
    void Notify();
  };
  struct Model {  // what the operations of one model have in common
    Hash128 name{};
    PrefixShape shape;
    std::shared_ptr<Results> results;
  };
  struct File {
    uint64_t id = 0;
    uint64_t bytes = 0;  // on the disk
    std::vector<Hash128> names = {};
  };
  using FileList = std::list<File>;
  struct Entry {
    FileList::iterator file;
    uint16_t place = 0;
    uint8_t tokens = 0;
    BlockParts parts = {};
    uint64_t tail = 0;  // BlockNames::Tail() of a partly filled block
  };
  struct HashOfName {
    size_t operator()(const Hash128& name) const { return static_cast<size_t>(name[0]); }
  };
  struct PendingWrite {
    Model model;
    PrefixWrite write;
  };
  struct PendingRead {
    Model model;
    PrefixRead read;
  };

  PrefixDisk(const PrefixDiskOptions& options, const Hash128& key, Descriptor lock);

  // --- for ModelStore ---
  std::vector<StoredBlock> Find(const Model& model, std::string_view root,
                                std::span<const TokenId> tokens, int first_block);
  MissingBlocks Missing(const Model& model, std::string_view root, std::span<const TokenId> tokens,
                        std::span<const BlockParts> parts);
  bool Write(const Model& model, PrefixWrite&& write);
  void Read(const Model& model, PrefixRead read);
  bool Idle() const;
  // Writes the file of a pin, or removes it if `bytes` is empty.
  void ChangePin(const std::string& id, std::vector<std::byte> bytes);
  std::vector<PinRecord> Pins(const Model& model);

  // --- the threads ---
  void WritePin(const std::string& path, std::span<const std::byte> bytes);
  // Makes the folder again if it was removed or moved away while the process runs. Errors:
  // prefix_folder, also if another process has taken its place.
  Status RemakeFolder();
  void WriterMain();
  void ReaderMain();
  void Scan();
  Status ScanFile(const std::string& name, uint64_t id, int64_t size);
  void WriteFile(PendingWrite& pending);
  Status TryWriteFile(const PendingWrite& pending, PrefixFileHeader& header, uint64_t id);
  PrefixReadResult ReadFile(const PendingRead& pending);
  // What a failed read means for the file.
  enum class Fault { kDamaged, kGone, kNone };
  // Fills in the wanted memory. `fault` is set where it fails.
  Status TryReadFile(const PendingRead& pending, std::vector<std::byte>& memory, Fault* fault);
  void Add(const PrefixFileHeader& header, uint64_t id) REQUIRES(mutex_);
  void Erase(FileList::iterator file) REQUIRES(mutex_);
  // Removes the least recently used files until `more` bytes fit. Returns the ids of the files,
  // which the caller unlinks.
  std::vector<uint64_t> MakeRoom(uint64_t more) REQUIRES(mutex_);
  void Unlink(std::span<const uint64_t> ids) const;
  void Reject(const std::string& name, const Status& why);
  std::string PathOf(uint64_t id, std::string_view suffix) const;
  std::string PathOf(uint64_t id) const;

  const PrefixDiskOptions options_;
  const BlockNames names_;
  Descriptor lock_;  // FOLDER/lock; changed by the writer alone

  mutable Mutex mutex_;
  CondVar changed_;
  FileList files_ GUARDED_BY(mutex_);  // the least recently used first
  std::unordered_map<Hash128, Entry, HashOfName> entries_ GUARDED_BY(mutex_);
  std::unordered_set<Hash128, HashOfName> writing_ GUARDED_BY(mutex_);  // names
  std::deque<PendingWrite> writes_ GUARDED_BY(mutex_);
  // Changed files of pins: path, contents. They go before other writes.
  std::deque<std::pair<std::string, std::vector<std::byte>>> pins_ GUARDED_BY(mutex_);
  std::deque<PendingRead> reads_ GUARDED_BY(mutex_);
  uint64_t queued_bytes_ GUARDED_BY(mutex_) = 0;
  bool busy_writing_ GUARDED_BY(mutex_) = false;
  bool scanned_ GUARDED_BY(mutex_) = false;
  bool stop_ GUARDED_BY(mutex_) = false;
  PrefixDiskStats stats_ GUARDED_BY(mutex_);
  LogPace write_log_;
  std::thread writer_, reader_;
};

}  // namespace tutti::kv
