// Published: a plain struct of figures that one thread stores and any thread loads, without a lock.
//
// Each figure is exact, since none lies in two words; figures of one Load() may be of two Store()s.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace tutti::engine {

template <typename T>
class Published {
 public:
  Published() { Store(T()); }

  void Store(const T& figures) {
    std::array<uint64_t, kWords> words;
    std::memcpy(words.data(), &figures, sizeof(T));
    for (size_t i = 0; i < kWords; ++i) words_[i].store(words[i], std::memory_order_relaxed);
  }
  T Load() const {
    std::array<uint64_t, kWords> words;
    for (size_t i = 0; i < kWords; ++i) words[i] = words_[i].load(std::memory_order_relaxed);
    T figures;
    std::memcpy(static_cast<void*>(&figures), words.data(), sizeof(T));
    return figures;
  }

 private:
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) % sizeof(uint64_t) == 0);
  static constexpr size_t kWords = sizeof(T) / sizeof(uint64_t);

  std::array<std::atomic<uint64_t>, kWords> words_;
};

}  // namespace tutti::engine
