// Memory and allocations of the library: making a generator (U80), and a long batch (U79). This
// file replaces operator new for the whole test program.
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <new>
#include <string>
#include <vector>

#include "library/testing/heap.h"
#include "library/testing/models.h"

namespace {

std::atomic<int64_t> held{0}, peak{0};

#ifndef TUTTI_SANITIZED
void* Counted(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  const int64_t now = held.fetch_add(static_cast<int64_t>(malloc_usable_size(memory))) +
                      static_cast<int64_t>(malloc_usable_size(memory));
  for (int64_t most = peak.load(); now > most && !peak.compare_exchange_weak(most, now);) {
  }
  return memory;
}

void Release(void* memory) noexcept {
  held.fetch_sub(static_cast<int64_t>(malloc_usable_size(memory)));
  std::free(memory);
}
#endif

}  // namespace

#ifndef TUTTI_SANITIZED
void* operator new(size_t size) { return Counted(std::malloc(size)); }
void* operator new[](size_t size) { return Counted(std::malloc(size)); }
void* operator new(size_t size, std::align_val_t align) {
  return Counted(std::aligned_alloc(static_cast<size_t>(align), size));
}
void operator delete(void* memory) noexcept { Release(memory); }
void operator delete[](void* memory) noexcept { Release(memory); }
void operator delete(void* memory, size_t) noexcept { Release(memory); }
void operator delete[](void* memory, size_t) noexcept { Release(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { Release(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { Release(memory); }
#endif

namespace tutti {

namespace library::testing {
int64_t HeapBytes() { return held.load(); }
int64_t HeapPeak() { return peak.load(); }
void ResetHeapPeak() { peak.store(held.load()); }
}  // namespace library::testing

namespace {

using library::testing::Amount;
using library::testing::HeapBytes;
using library::testing::HeapPeak;
using library::testing::kHeapCounted;
using library::testing::RealModel;
using library::testing::ResetHeapPeak;
using library::testing::TinyModel;
using library::testing::TinyOptions;

TEST(FootprintTest, AGeneratorIsMadeInLessThan100MicrosecondsAnd64KiB) {
  const Model& model = RealModel();
  std::vector<Generator> made;
  made.reserve(1000);
  std::vector<double> micros;
  const int64_t before = HeapBytes();
  for (int i = 0; i < 1000; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    made.emplace_back(model);
    micros.push_back(
        std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin)
            .count());
  }
  const int64_t each = (HeapBytes() - before) / 1000;
  std::nth_element(micros.begin(), micros.begin() + 990, micros.end());
  EXPECT_LT(micros[990], 100) << "99th percentile";
  if (kHeapCounted) {
    EXPECT_GT(each, 0);
    EXPECT_LT(each, 64 << 10);
  }
  RecordProperty("bytes", static_cast<int>(each));
}

TEST(FootprintTest, AStateTakesItsTokensAndLittleElse) {
  const Model model = TinyModel(TinyOptions());
  std::vector<StepState> states;
  states.reserve(100);
  const int64_t before = HeapBytes();
  for (int i = 0; i < 100; ++i) states.push_back(model.CreateState(Text{"hello"}, 100).value());
  EXPECT_LT((HeapBytes() - before) / 100, 64 << 10);  // 0 where the sanitizer has the heap
}

// Peak heap bytes of a batch of `count` prompts, without the prompts and the results.
int64_t BatchScratch(const Model& model, int count) {
  const std::vector<Prompt> prompts(static_cast<size_t>(count), Text{"hello"});
  ResetHeapPeak();
  const auto results =
      GenerateBatch(model, prompts,
                    {.sampling = {.seed = 1, .max_tokens = 3, .ignore_eos = true}, .degree = 8})
          .value();
  EXPECT_EQ(results.size(), prompts.size());
  for (const auto& result : results) EXPECT_EQ(result->tokens().size(), 3u);
  return HeapPeak() - HeapBytes();
}

TEST(FootprintTest, ScratchMemoryDoesNotGrowWithTheNumberOfPrompts) {
  const Model model = TinyModel(TinyOptions());
  BatchScratch(model, Amount(200, 50));  // everything that grows once has grown
  const int64_t small = BatchScratch(model, Amount(1'000, 100));
  const int64_t large = BatchScratch(model, Amount(10'000, 300));
  RecordProperty("bytes_1000", static_cast<int>(small));
  RecordProperty("bytes_10000", static_cast<int>(large));
  if (kHeapCounted) {
    EXPECT_GT(small, 0);
    EXPECT_LT(large, small + (64 << 10));
  }
}

}  // namespace
}  // namespace tutti
