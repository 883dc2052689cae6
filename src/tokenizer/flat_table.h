// Two read-mostly hash tables in flat arrays, for vocabularies: strings to ids and pairs of ids to
// merges.
//
// Built once, then read by any number of threads. Insertion reports failure instead of probing far,
// so that a file made to collide is refused rather than slow.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/types.h"

namespace tutti::tokenizer {

// Longest run of occupied slots an insertion walks. At a load of one half a good hash stays far
// below.
inline constexpr int kMaxProbes = 512;

enum class Inserted : uint8_t { kNew, kDuplicate, kTooManyProbes };

uint64_t HashBytes(std::string_view bytes);

// Keys stay with the caller, who hands the same lookup from value to key on every call:
// `key_of(id)` must give the string under which `id` was inserted.
class StringTable {
 public:
  // Makes room for exactly `count` keys; drops the old contents.
  void Reserve(size_t count);

  template <typename KeyOf>
  Inserted Insert(std::string_view key, TokenId id, const KeyOf& key_of) {
    const uint64_t hash = HashBytes(key);
    size_t slot = hash & mask_;
    for (int probe = 0; probe < kMaxProbes; ++probe, slot = (slot + 1) & mask_) {
      Slot& s = slots_[slot];
      if (s.id == kNoToken) {
        s = {static_cast<uint32_t>(hash >> 32), id};
        longest_ = std::max(longest_, key.size());
        return Inserted::kNew;
      }
      if (s.tag == static_cast<uint32_t>(hash >> 32) && key_of(s.id) == key)
        return Inserted::kDuplicate;
    }
    return Inserted::kTooManyProbes;
  }

  template <typename KeyOf>
  TokenId Find(std::string_view key, const KeyOf& key_of) const {
    if (key.size() > longest_) return kNoToken;
    const uint64_t hash = HashBytes(key);
    for (size_t slot = hash & mask_;; slot = (slot + 1) & mask_) {
      const Slot& s = slots_[slot];
      if (s.id == kNoToken) return kNoToken;
      if (s.tag == static_cast<uint32_t>(hash >> 32) && key_of(s.id) == key) return s.id;
    }
  }

 private:
  struct Slot {
    uint32_t tag = 0;  // upper half of the hash
    TokenId id = kNoToken;
  };
  std::vector<Slot> slots_ = std::vector<Slot>(1);  // never full, so that Find ends
  size_t mask_ = 0;
  size_t longest_ = 0;  // bytes of the longest key
};

// A 64-bit key to two 32-bit values.
class PairTable {
 public:
  struct Value {
    int32_t first = 0;
    int32_t second = 0;
  };

  static uint64_t Key(int32_t left, int32_t right) {
    return (static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32) |
           static_cast<uint32_t>(right);
  }

  // Makes room for `count` keys; drops the old contents. The table grows if there are more.
  void Reserve(size_t count);
  Inserted Insert(uint64_t key, Value value);

  // nullptr when absent.
  const Value* Find(uint64_t key) const {
    for (size_t slot = Mix(key) & mask_;; slot = (slot + 1) & mask_) {
      const Slot& s = slots_[slot];
      if (s.key == key) return &s.value;
      if (s.key == kEmpty) return nullptr;
    }
  }

 private:
  static constexpr uint64_t kEmpty = ~uint64_t{0};  // no pair of ids: ids are not negative
  static uint64_t Mix(uint64_t key) {
    key *= 0x9E3779B97F4A7C15ULL;
    return key ^ (key >> 32);
  }
  struct Slot {
    uint64_t key = kEmpty;
    Value value;
  };
  Inserted Place(uint64_t key, Value value);

  size_t count_ = 0;
  std::vector<Slot> slots_ = std::vector<Slot>(1);  // never full, so that Find ends
  size_t mask_ = 0;
};

}  // namespace tutti::tokenizer
