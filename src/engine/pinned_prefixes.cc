#include "engine/pinned_prefixes.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "engine/policy/window.h"

namespace tutti::engine {

PinnedPrefixes::PinnedPrefixes(kv::KvBlockPool* pool, const Limits& limits, kv::PrefixStore* store,
                               std::function<void()> wake)
    : pool_(*pool), limits_(limits), store_(store), wake_(std::move(wake)) {}

PinnedPrefixes::~PinnedPrefixes() {
  for (auto& [id, pin] : pins_) Release(pin);
}

Status PinnedPrefixes::CheckRoom(const std::string& tenant, int prompt_tokens) const {
  const MutexLock lock(mutex_);
  return CheckRoomLocked(tenant, (prompt_tokens - 1) / kBlockTokens);
}

Status PinnedPrefixes::CheckRoomLocked(const std::string& tenant, int blocks) const {
  int held = 0, of_tenant = 0;
  for (const auto& [id, shown] : shown_) {
    const int tokens = shown.prefix.tokens;
    held += tokens / kBlockTokens;
    if (shown.tenant == tenant) of_tenant += tokens / kBlockTokens;
  }
  const int left = std::min(limits_.blocks - held, limits_.blocks / 2 - of_tenant);
  if (blocks > left) {
    return ResourceExhausted(
        "pin_limit", "the prefix has " + std::to_string(blocks * kBlockTokens) + " tokens, and " +
                         std::to_string(std::max(left, 0) * kBlockTokens) +
                         " more may be pinned; unpin others, raise --kv-cache-bytes or lower "
                         "--context");
  }
  if (shown_.size() >= kMaxPins) {
    return ResourceExhausted("pin_limit", std::to_string(kMaxPins) +
                                              " prefixes are pinned, the most for a model; unpin "
                                              "others");
  }
  return OkStatus();
}

Result<int> PinnedPrefixes::Add(const Sequence& s, const Request& request, TimePoint now) {
  CHECK(request.pin.has_value());
  kv::SlotPool& states = pool_.states();
  kv::SlotPool& windows = pool_.window_blocks();
  int blocks = s.indexed;
  // A model with states continues at a checkpoint alone.
  while (states.total() > 0 && blocks > 0 && states.Of(s.blocks[blocks - 1]) == kv::kNoSlot)
    --blocks;
  if (blocks == 0) {
    return Unavailable("kv_exhausted", "no checkpoint could be kept for the prefix; retry later");
  }
  const int first_seen =
      windows.total() > 0 ? FirstWindowBlock(blocks * kBlockTokens, limits_.window) : blocks;
  if ((states.total() > 0 && held_states_ >= limits_.states) ||
      (windows.total() > 0 && held_window_blocks_ + blocks - first_seen > limits_.window_blocks)) {
    return ResourceExhausted("pin_limit",
                             "pinned prefixes have all memory of states and windows that they may; "
                             "unpin others or raise --kv-cache-bytes");
  }
  const MutexLock lock(mutex_);
  RETURN_IF_ERROR(CheckRoomLocked(request.tenant, blocks));
  if (pins_.contains(request.pin->id))
    return Status(StatusCode::kAlreadyExists, "invalid_value", "a prefix of this id is pinned");
  Pin pin;
  pin.expires = now + request.pin->ttl;
  for (int i = first_seen; i < blocks; ++i) {
    const kv::SlotId slot = windows.Of(s.blocks[i]);
    if (slot == kv::kNoSlot) {
      for (const kv::SlotId taken : pin.window_blocks) windows.Drop(taken);
      return Unavailable("kv_exhausted", "the window of the prefix was evicted; retry later");
    }
    windows.Reference(slot);
    pin.window_blocks.push_back(slot);
  }
  if (states.total() > 0) {
    pin.state = states.Of(s.blocks[blocks - 1]);
    states.Reference(pin.state);
    ++held_states_;
  }
  pool_.Share(pin.table, s.blocks.ids().first(static_cast<size_t>(blocks)));
  held_blocks_ += blocks;
  held_window_blocks_ += static_cast<int>(pin.window_blocks.size());
  const int tokens = blocks * kBlockTokens;
  shown_.emplace(request.pin->id, Shown{request.tenant,
                                        {.id = request.pin->id,
                                         .model = request.pin->model,
                                         .tokens = tokens,
                                         .expires_unix_ms = request.pin->expires_unix_ms}});
  pins_.emplace(request.pin->id, std::move(pin));
  if (store_ != nullptr) {
    store_->KeepPin({.id = request.pin->id,
                     .tenant = request.tenant,
                     .salt = request.cache_salt,
                     .adapter = request.adapter == nullptr ? "" : request.adapter->digest(),
                     .tokens = request.prompt,
                     .expires_unix_ms = request.pin->expires_unix_ms});
  }
  return tokens;
}

void PinnedPrefixes::Release(Pin& pin) {
  held_blocks_ -= pin.table.size();
  held_window_blocks_ -= static_cast<int>(pin.window_blocks.size());
  for (const kv::SlotId slot : pin.window_blocks) pool_.window_blocks().Drop(slot);
  if (pin.state != kv::kNoSlot) {
    pool_.states().Drop(pin.state);
    --held_states_;
  }
  pool_.Release(pin.table);
}

TimePoint PinnedPrefixes::Expire(TimePoint now) {
  if (pins_.empty()) return TimePoint::max();
  TimePoint next = TimePoint::max();
  const MutexLock lock(mutex_);
  for (auto pin = pins_.begin(); pin != pins_.end();) {
    if (pin->second.expires > now && shown_.contains(pin->first)) {
      next = std::min(next, pin->second.expires);
      ++pin;
      continue;
    }
    Release(pin->second);
    shown_.erase(pin->first);
    if (store_ != nullptr) store_->DropPin(pin->first);
    pin = pins_.erase(pin);
  }
  return next;
}

void PinnedPrefixes::AppendHeld(std::vector<kv::BlockId>& blocks,
                                std::vector<kv::SlotId>& window_blocks,
                                std::vector<kv::SlotId>& states) const {
  for (const auto& [id, pin] : pins_) {
    const auto ids = pin.table.ids();
    blocks.insert(blocks.end(), ids.begin(), ids.end());
    window_blocks.insert(window_blocks.end(), pin.window_blocks.begin(), pin.window_blocks.end());
    if (pin.state != kv::kNoSlot) states.push_back(pin.state);
  }
}

std::vector<api::PinnedPrefix> PinnedPrefixes::List(const std::string& tenant) const {
  std::vector<api::PinnedPrefix> out;
  const MutexLock lock(mutex_);
  for (const auto& [id, shown] : shown_) {
    if (shown.tenant == tenant) out.push_back(shown.prefix);
  }
  return out;
}

bool PinnedPrefixes::Remove(const std::string& tenant, const std::string& id) {
  {
    const MutexLock lock(mutex_);
    const auto found = shown_.find(id);
    if (found == shown_.end() || found->second.tenant != tenant) return false;
    shown_.erase(found);
  }
  wake_();
  return true;
}

}  // namespace tutti::engine
