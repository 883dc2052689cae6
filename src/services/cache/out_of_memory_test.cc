// Each allocation of a cache operation fails once, in turn: the process survives, and the tables
// are as before or as after the operation. Under a sanitizer, which brings its own operators, no
// allocation fails and only the operations run.
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <new>
#include <optional>
#include <string>

#include "services/cache/answer_store.h"
#include "services/cache/testing/asking.h"

namespace {
thread_local int fail_in = 0;  // counts down to the failing allocation; 0: none
}

#ifndef TUTTI_SANITIZED
void* operator new(size_t size) {
  if (fail_in > 0 && --fail_in == 0) throw std::bad_alloc();
  void* memory = std::malloc(size == 0 ? 1 : size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
#endif

namespace tutti::cache {
namespace {

using testing::Answer;
using testing::Ask;
using testing::Asked;
using testing::Greedy;
using testing::ReadAll;

constexpr int kMaxAllocations = 200;

// Calls `act` with its n-th allocation failing, for n = 1, 2, ..., until it succeeds; returns the
// number of failures.
template <typename Act>
int FailingEach(const Act& act) {
  for (int n = 1; n < kMaxAllocations; ++n) {
    fail_in = n;
    try {
      act();
    } catch (const std::bad_alloc&) {
    }
    const bool failed = fail_in == 0;
    fail_in = 0;
    if (!failed) return n - 1;
  }
  ADD_FAILURE() << "it never got through";
  return kMaxAllocations;
}

std::shared_ptr<const SharedAnswer> Whole(const std::string& tenant, int number) {
  AnswerKey key;
  key.words = tenant + "/" + std::to_string(number);
  key.hash[0] = static_cast<unsigned char>(number);
  return std::make_shared<SharedAnswer>(key, "", tenant, 0, nullptr, nullptr);
}

TEST(OutOfMemory, AnAnswerThatCannotBeKeptLeavesTheTablesWhole) {
  AnswerStore store({.bytes = 1 << 20, .tenant_bytes = 1 << 19});
  store.Insert(Whole("somebody", 1), TimePoint{});
  const auto answer = Whole("a tenant whose name is not short", 2);
  const int failed = FailingEach([&] {
    store.Insert(answer, TimePoint{});
    store.Flush(std::nullopt);  // of a tenant without entries it would take what is not there
    store.Insert(Whole("somebody", 1), TimePoint{});
  });
#ifndef TUTTI_SANITIZED
  EXPECT_GT(failed, 4);
#else
  EXPECT_EQ(failed, 0);
#endif
  EXPECT_EQ(store.entries(), 1u);
  store.Flush(std::nullopt);
  EXPECT_EQ(store.entries(), 0u);
  EXPECT_EQ(store.bytes(), 0u);
}

// Regression: the engine's thread wakes readers in a noexcept call, so a failing allocation there
// ended the process.
TEST(OutOfMemory, ReadersAreWokenWithoutMemory) {
  ManualClock clock;
  const auto cache = std::make_shared<ExactCache>(AnswerLimits{}, clock);
  Asked first = Ask(*cache, Greedy());
  Asked second = Ask(*cache, Greedy());
  ASSERT_EQ(second.written, nullptr);
  const int before = second.waker->wakes;
  const int failed = FailingEach([&] { first.written->waker()->Wake(); });
  EXPECT_EQ(failed, 0);
  EXPECT_EQ(second.waker->wakes, before + 1);
  EXPECT_GT(first.waker->wakes, 0);
}

// A reader that joined another's computation and runs out of memory is refused like any request,
// and the computation continues.
TEST(OutOfMemory, WhoCannotJoinIsRefusedAlone) {
  ManualClock clock;
  const auto cache = std::make_shared<ExactCache>(AnswerLimits{}, clock);
  Asked first = Ask(*cache, Greedy());
  int refused = 0;
  for (int n = 1; n < kMaxAllocations; ++n) {
    api::GenerateRequest request = Greedy();
    const auto part = cache->Open(&request, std::make_shared<testing::CountingWaker>(),
                                  std::make_shared<testing::CountingControl>());
    api::Generation generation(part->stream(), part, part);
    const std::vector<TokenId> prompt = {1, 2, 3};
    api::ModelInfo model;
    model.id = "m";
    model.digest = "d";
    const api::RenderedRequest rendered = {
        .request = request, .prompt = prompt, .model = model, .model_instance = 1};
    fail_in = n;
    bool thrown = false;
    try {
      EXPECT_EQ(part->Resolve(rendered), nullptr);
    } catch (const std::bad_alloc&) {
      thrown = true;
    }
    fail_in = 0;
    if (!thrown) break;
    ++refused;
    if (n % 2 == 0) {
      part->Withdraw(OutOfMemory());
    } else {
      part->Refuse(OutOfMemory(), {});
      EXPECT_EQ(ReadAll(generation), "!" + std::string(OutOfMemory().reason()));
    }
  }
#ifndef TUTTI_SANITIZED
  EXPECT_GT(refused, 3);
#else
  EXPECT_EQ(refused, 0);
#endif
  EXPECT_FALSE(first.control->cancelled);
  Answer(*first.written, {"a", "b"});
  EXPECT_EQ(ReadAll(first.generation), "ab");
}

// An event that a reader could not copy is still there at its next read.
TEST(OutOfMemory, AnEventThatFoundNoMemoryIsReadLater) {
  ManualClock clock;
  const auto cache = std::make_shared<ExactCache>(AnswerLimits{}, clock);
  std::string expected;
  Asked first = Ask(*cache, Greedy());
  testing::Start(*first.written);
  for (int i = 0; i < 40; ++i) {
    const std::string text =
        "a piece of text that needs memory of its own, number " + std::to_string(i);
    testing::Write(*first.written, text);
    expected += text;
  }
  testing::End(*first.written, 40);
  std::string all;
  const int failed = FailingEach([&] {
    while (const api::StreamEvent* event = first.generation.Next()) {
      const int failing = std::exchange(fail_in, 0);
      all += event->text;
      fail_in = failing;
    }
  });
#ifndef TUTTI_SANITIZED
  EXPECT_GT(failed, 10);
#else
  EXPECT_EQ(failed, 0);
#endif
  EXPECT_TRUE(first.generation.stream().ended());
  EXPECT_EQ(all, expected);
}

}  // namespace
}  // namespace tutti::cache
