// The shared payloads behind Value, and the meter that bounds how much of them a render keeps
// alive.
//
// Payloads are immutable once a Value holds them. One render, one meter, one thread; payloads made
// outside a render (input, literals of the program) have no meter and may be shared between
// threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tokenizer/jinja/text.h"
#include "tokenizer/jinja/value.h"

namespace tutti::tokenizer::jinja {

class MemoryMeter {
 public:
  explicit MemoryMeter(size_t limit) : limit_(limit) {}
  bool Reserve(size_t bytes) {
    if (bytes > limit_ - live_) return false;
    live_ += bytes;
    return true;
  }
  void Release(size_t bytes) { live_ -= bytes; }
  size_t live() const { return live_; }

 private:
  size_t limit_;
  size_t live_ = 0;
};

// Gives its bytes back to the meter at the end of its life. The meter outlives every payload it
// counts.
class Metered {
 public:
  Metered() = default;
  Metered(const Metered&) = delete;
  Metered& operator=(const Metered&) = delete;
  ~Metered() {
    if (meter_ != nullptr) meter_->Release(bytes_);
  }
  // `bytes` are already reserved.
  void Charge(MemoryMeter* meter, size_t bytes) {
    meter_ = meter;
    bytes_ = bytes;
  }

 private:
  MemoryMeter* meter_ = nullptr;
  size_t bytes_ = 0;
};

struct StringRep : Metered {
  Text text;
};

struct ListRep : Metered {
  std::vector<Value> items;
  bool tuple = false;
  int depth = 1;
};

struct DictRep : Metered {
  using Item = std::pair<Value, Value>;
  std::vector<Item> items;      // in insertion order, keys unique and hashable
  std::vector<uint32_t> order;  // indexes of `items` by key; empty while a linear search is as good
  int depth = 1;

  // Sorts out equal keys and builds `order` and `depth`.
  void Index();
  const Value* Find(const Value& key) const;
  const Value* Find(std::string_view key) const;
};

// True for types that may be a key: None, bool, numbers and strings.
bool Hashable(const Value& value);
// A total order of hashable values in which equal keys (1, 1.0, True) are equal. <0, 0, >0.
int CompareKeys(const Value& a, const Value& b);

}  // namespace tutti::tokenizer::jinja
