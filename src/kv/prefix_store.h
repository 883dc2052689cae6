// PrefixStore: the interface through which the engine keeps the memory of prefixes outside of the
// pool, so that they outlive eviction and the process. The engine links no implementation: that of
// files is kv/disk/prefix_disk.h, tests have one in memory.
//
// A prefix is the tokens of a text from its beginning, under a root (PrefixIndex::NameOf). It is
// kept in blocks of kBlockTokens, the last of which may be partly filled. What a store returns was
// compared with all tokens of the prefix, and its bytes are those that were written.
//
// Find, Missing, Write, Read and Take are called on the engine thread. They take a short lock and
// never wait for a disk.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.h"
#include "kv/prefix_index.h"

namespace tutti::kv {

// Bytes that a model needs for one block of tokens. All 0: prefixes cannot be kept.
struct PrefixShape {
  size_t block_bytes = 0;         // in layers that keep all tokens; 0 if all have windows
  size_t window_block_bytes = 0;  // in layers with a window, where these have memory of their own
  size_t state_bytes = 0;         // of a recurrent state

  bool operator==(const PrefixShape&) const = default;
};

// What is kept of a block in addition to its keys and values in layers that keep all tokens.
struct BlockParts {
  bool window_block = false;
  bool state = false;

  bool operator==(const BlockParts&) const = default;
};

// Bytes of a block with these parts: block, window block, state, one after the other.
inline size_t BytesOf(const PrefixShape& shape, const BlockParts& parts) {
  return shape.block_bytes + (parts.window_block ? shape.window_block_bytes : 0) +
         (parts.state ? shape.state_bytes : 0);
}

// A block that a store has.
struct StoredBlock {
  uint64_t file = 0;  // blocks of one file at consecutive places are read at once
  int place = 0;
  int tokens = kBlockTokens;  // fewer for the last block of a prefix
  BlockParts parts = {};
};

// What a store has of the blocks of one prefix.
struct MissingBlocks {
  std::vector<Hash128> names = {};  // of all blocks, for PrefixWrite
  std::vector<bool> missing = {};   // of each
};

// Consecutive blocks of a prefix, to be kept.
struct PrefixWrite {
  std::string root = {};
  std::vector<TokenId> tokens =
      {};  // of the prefix, from its beginning to the end of the last block
  int first_block = 0;
  std::vector<Hash128> names = {};     // of each block: MissingBlocks::names
  std::vector<BlockParts> parts = {};  // of each block
  std::vector<std::byte> memory = {};  // of each block: BytesOf() its parts
};

// Consecutive blocks of a prefix, to be read.
struct PrefixRead {
  uint64_t id = 0;  // the caller's
  std::string root = {};
  std::shared_ptr<const std::vector<TokenId>> tokens = {};  // to the end of the last block
  int first_block = 0;
  // As Find() returned them: all of one file, at consecutive places. Parts that are not wanted may
  // be cleared.
  std::vector<StoredBlock> blocks = {};
};

struct PrefixReadResult {
  uint64_t id = 0;
  bool ok = false;                     // false: unreadable, damaged, or of other tokens
  std::vector<std::byte> memory = {};  // of each block: BytesOf() its parts
};

// A prefix that is to be pinned again after a restart.
struct PinRecord {
  std::string id = {}, tenant = {}, salt = {};
  std::string adapter = {};  // digest; empty: none
  std::vector<TokenId> tokens = {};
  int64_t expires_unix_ms = 0;
};

class PrefixStore {
 public:
  virtual ~PrefixStore() = default;

  virtual PrefixShape shape() const = 0;

  // The blocks of `tokens` from `first_block` on that can be read, up to the first that cannot. A
  // partly filled block may follow the full ones; whether its tokens are those of the prefix is
  // only known when it is read. Counts as a use of all of them.
  virtual std::vector<StoredBlock> Find(std::string_view root, std::span<const TokenId> tokens,
                                        int first_block) = 0;
  // Which blocks of `tokens` with these parts are neither kept nor being written.
  virtual MissingBlocks Missing(std::string_view root, std::span<const TokenId> tokens,
                                std::span<const BlockParts> parts) = 0;
  // Starts a write. False if too much waits to be written: `write` is then unchanged.
  virtual bool Write(PrefixWrite&& write) = 0;
  // Starts a read. Its result comes from Take().
  virtual void Read(PrefixRead read) = 0;
  // Appends the results of reads that have ended.
  virtual void Take(std::vector<PrefixReadResult>& results) = 0;
  // Keeps the record of a pin until DropPin(). Both return before it is on the disk.
  virtual void KeepPin(PinRecord record) = 0;
  virtual void DropPin(const std::string& id) = 0;
  // The records of this model. Reads files: before the first request.
  virtual std::vector<PinRecord> Pins() = 0;
  // Whether nothing that was given to Write() or KeepPin() waits.
  virtual bool Idle() const = 0;
  // `notify` is called, on another thread, when a read has ended or there is room for a write; null
  // turns this off.
  virtual void OnProgress(std::function<void()> notify) = 0;
};

}  // namespace tutti::kv
