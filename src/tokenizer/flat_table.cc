#include "tokenizer/flat_table.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

namespace tutti::tokenizer {
namespace {

// Slots for `count` keys at a load of at most one half.
size_t SlotsFor(size_t count) { return std::bit_ceil(std::max(2 * count, size_t{1})); }

// Folds the 128-bit product: the mixing step of the wyhash family.
uint64_t Fold(uint64_t a, uint64_t b) {
  const unsigned __int128 product = static_cast<unsigned __int128>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

}  // namespace

uint64_t HashBytes(std::string_view bytes) {
  uint64_t hash = 0x2D358DCCAA6C78A5ULL ^ bytes.size();
  const char* p = bytes.data();
  size_t left = bytes.size();
  while (left >= 8) {
    uint64_t word = 0;
    std::memcpy(&word, p, 8);
    hash = Fold(hash ^ word, 0x9E3779B97F4A7C15ULL);
    p += 8;
    left -= 8;
  }
  uint64_t tail = 0;
  if (left > 0) std::memcpy(&tail, p, left);
  hash = Fold(hash ^ tail, 0x8BB84B93962EACC9ULL);
  return Fold(hash ^ 0x4B33A62ED433D4A3ULL, 0xA0761D6478BD642FULL);
}

void StringTable::Reserve(size_t count) {
  slots_.assign(SlotsFor(count), Slot());
  mask_ = slots_.size() - 1;
  longest_ = 0;
}

void PairTable::Reserve(size_t count) {
  slots_.assign(SlotsFor(count), Slot());
  mask_ = slots_.size() - 1;
  count_ = 0;
}

Inserted PairTable::Insert(uint64_t key, Value value) {
  if (2 * (count_ + 1) > slots_.size()) {
    const std::vector<Slot> old = std::exchange(slots_, {});
    Reserve(old.size());
    for (const Slot& slot : old) {
      if (slot.key != kEmpty && Place(slot.key, slot.value) != Inserted::kNew)
        return Inserted::kTooManyProbes;
    }
  }
  return Place(key, value);
}

Inserted PairTable::Place(uint64_t key, Value value) {
  size_t slot = Mix(key) & mask_;
  for (int probe = 0; probe < kMaxProbes; ++probe, slot = (slot + 1) & mask_) {
    if (slots_[slot].key == kEmpty) {
      slots_[slot] = {key, value};
      ++count_;
      return Inserted::kNew;
    }
    if (slots_[slot].key == key) return Inserted::kDuplicate;
  }
  return Inserted::kTooManyProbes;
}

}  // namespace tutti::tokenizer
