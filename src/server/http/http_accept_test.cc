// A connection without memory is closed alone and at once. Regression: it was the last one that the
// server accepted until another closed, or it stayed open forever, and clients waited until they
// timed out.
#ifndef TUTTI_SANITIZED  // which bring their own operators
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <string>

#include "server/http/testing/server_fixture.h"

namespace {

// While armed, the allocation with this number fails, and the following ones until `failures` have
// failed: on every thread except the one that armed it.
std::atomic<bool> armed{false};
std::atomic<int> until{0}, failures{0};
thread_local bool spared = false;

bool Fails() {
  if (!armed.load(std::memory_order_acquire) || spared) return false;
  if (until.fetch_sub(1) > 0) return false;
  return failures.fetch_sub(1) > 0;
}

}  // namespace

[[gnu::noinline]] void* operator new(size_t size) {
  if (Fails()) throw std::bad_alloc();
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new(size_t size, const std::nothrow_t&) noexcept {
  return Fails() ? nullptr : std::malloc(size);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace tutti::http {
namespace {

using namespace testing;  // NOLINT

class AcceptTest : public ServerTest {};

TEST_F(AcceptTest, AConnectionWithoutMemoryIsGivenUpAlone) {
  has_services_ = false;  // whose thread is not the server's to look after
  StartServer();
  spared = true;
  const std::string request = Get("/livez");
  ASSERT_EQ(Ask(request).status, 200);
  for (int fails : {1, 3}) {
    for (int first = 0; first < 60; ++first) {
      until.store(first);
      failures.store(fails);
      armed.store(true, std::memory_order_release);
      RawClient unlucky(port());
      unlucky.Send(request);
      const auto begin = std::chrono::steady_clock::now();
      const RawResponse answer = unlucky.Read();
      armed.store(false, std::memory_order_release);
      EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(3))
          << "the client is left without word after allocation " << first << " failed";
      EXPECT_TRUE(answer.status == 0 || answer.status == 200 || answer.status == 503)
          << answer.status;
      unlucky.Close();
      ASSERT_EQ(Ask(request).status, 200) << "after allocation " << first << " failed";
    }
  }
}

}  // namespace
}  // namespace tutti::http
#endif
