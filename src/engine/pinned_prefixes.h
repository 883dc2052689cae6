// PinnedPrefixes: prefixes whose blocks stay in the pool until their time has passed or they are
// unpinned, however short blocks are.
//
// Pins take at most half of the pool, and always leave the blocks of the longest context, so that
// any request can still run alone; one tenant has at most half of that. They hold references, as a
// sequence does. With a PrefixStore their records survive a restart: the engine then computes or
// reads them again before it pins them.
//
// Owned by a DecoderInstance. Engine thread, except for List() and Remove(), which any thread calls
// and which take a short lock.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "api/types.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/status.h"
#include "engine/model_runner.h"
#include "engine/request.h"
#include "engine/sequence.h"
#include "kv/block_pool.h"
#include "kv/prefix_store.h"

namespace tutti::engine {

inline constexpr int kMaxPins = 64;  // of one model

// Maximum number of blocks that pins may hold together, given blocks of the pool and of the longest
// context. Pure.
constexpr int MaxPinnedBlocks(int pool_blocks, int context_blocks) {
  const int spare = pool_blocks - context_blocks;
  return spare <= 0 ? 0 : spare < pool_blocks / 2 ? spare : pool_blocks / 2;
}

class PinnedPrefixes {
 public:
  struct Limits {
    int blocks = 0;         // MaxPinnedBlocks()
    int window_blocks = 0;  // of layers with a window, where these have memory of their own
    int states = 0;
    int window = 0;  // RunnerLimits::window
  };
  // `wake` makes the engine thread call Expire() soon; any thread calls it. `store` may be null.
  PinnedPrefixes(kv::KvBlockPool* pool, const Limits& limits, kv::PrefixStore* store,
                 std::function<void()> wake);
  ~PinnedPrefixes();  // releases all, and keeps their records

  // --- engine thread ---
  // Pins the full blocks of a sequence that has computed its prompt. Returns their tokens. Errors:
  // pin_limit; kv_exhausted (no checkpoint could be kept).
  Result<int> Add(const Sequence& s, const Request& request, TimePoint now);
  // Releases pins whose time has passed or that were removed. Returns when to call it again.
  TimePoint Expire(TimePoint now);
  int held_window_blocks() const { return held_window_blocks_; }
  int held_blocks() const { return held_blocks_; }
  // Calls visit(BlockId) for each block of each pin.
  template <typename Visit>
  void ForEachBlock(const Visit& visit) const {
    for (const auto& [id, pin] : pins_) {
      for (const kv::BlockId block : pin.table.ids()) visit(block);
    }
  }
  // What pins reference, for invariant checks.
  void AppendHeld(std::vector<kv::BlockId>& blocks, std::vector<kv::SlotId>& window_blocks,
                  std::vector<kv::SlotId>& states) const;

  // --- any thread ---
  // Whether a prompt of so many tokens could be pinned for the tenant. Errors: pin_limit.
  Status CheckRoom(const std::string& tenant, int prompt_tokens) const;
  std::vector<api::PinnedPrefix> List(const std::string& tenant) const;
  // False if the tenant has no such pin.
  bool Remove(const std::string& tenant, const std::string& id);

 private:
  struct Pin {
    TimePoint expires{};
    kv::BlockTable table;
    std::vector<kv::SlotId> window_blocks;
    kv::SlotId state = kv::kNoSlot;
  };
  struct Shown {
    std::string tenant = {};
    api::PinnedPrefix prefix = {};
  };
  Status CheckRoomLocked(const std::string& tenant, int blocks) const REQUIRES(mutex_);
  void Release(Pin& pin);

  kv::KvBlockPool& pool_;
  const Limits limits_;
  kv::PrefixStore* const store_;
  const std::function<void()> wake_;
  // Engine thread.
  std::map<std::string, Pin> pins_;  // by id
  int held_blocks_ = 0, held_window_blocks_ = 0, held_states_ = 0;

  mutable Mutex mutex_;
  // By id. A pin that is not here was removed, and is released by the next Expire().
  std::map<std::string, Shown> shown_ GUARDED_BY(mutex_);
};

}  // namespace tutti::engine
