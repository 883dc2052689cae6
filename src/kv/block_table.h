// BlockTable: the blocks that hold one sequence's KV, in order of position. Owned by the sequence,
// filled and emptied only by KvBlockPool; engine thread. Each entry holds the generation that its
// block had when it was taken, so that the use of a block that was freed since is detected.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tutti::kv {

using BlockId = int32_t;  // index of a block of kBlockTokens in the device's KV memory, >= 0
inline constexpr BlockId kNoBlock = -1;

class BlockTable {
 public:
  BlockTable() = default;
  BlockTable(BlockTable&&) = default;
  BlockTable& operator=(BlockTable&&) = default;
  BlockTable(const BlockTable&) = delete;
  BlockTable& operator=(const BlockTable&) = delete;

  void ReserveCapacity(int blocks) {
    ids_.reserve(static_cast<size_t>(blocks));
    generations_.reserve(static_cast<size_t>(blocks));
  }
  int size() const { return static_cast<int>(ids_.size()); }
  bool empty() const { return ids_.empty(); }
  BlockId operator[](int i) const { return ids_[static_cast<size_t>(i)]; }
  uint32_t generation(int i) const { return generations_[static_cast<size_t>(i)]; }
  std::span<const BlockId> ids() const { return ids_; }
  // Blocks that the pool has set aside for this table, in addition to those it holds.
  int promised() const { return promised_; }

 private:
  friend class KvBlockPool;
  friend class KvReservation;
  std::vector<BlockId> ids_;
  std::vector<uint32_t> generations_;
  int promised_ = 0;
};

}  // namespace tutti::kv
