#include "gateway/waiting_requests.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

namespace tutti::gateway {
namespace {

using std::chrono::seconds;

class FakeControl final : public api::Cancellable {
 public:
  void Cancel() noexcept override { ++cancels; }
  int cancels = 0;
};

WaitingRequests::Entry For(const std::string& model, TimePoint since = {}) {
  return {.model = model, .since = since, .resume = [](const WaitingRequests::Found&) {}};
}

TEST(WaitingRequests, LeaveWithTheirModelInOrder) {
  WaitingRequests waiting;
  for (size_t bytes : {1, 2, 3}) {
    WaitingRequests::Entry entry = For(bytes == 2 ? "b" : "a");
    entry.bytes = bytes;
    ASSERT_TRUE(waiting.Add(std::move(entry)).ok());
  }
  const std::vector<WaitingRequests::Entry> taken = waiting.Take("a");
  ASSERT_EQ(taken.size(), 2U);
  EXPECT_EQ(taken[0].bytes, 1U);
  EXPECT_EQ(taken[1].bytes, 3U);
  EXPECT_EQ(waiting.size(), 1U);
  EXPECT_TRUE(waiting.Take("a").empty());
}

TEST(WaitingRequests, RefusesBeyondItsLimits) {
  WaitingRequests waiting;
  waiting.SetLimits({.requests = 2, .bytes = 10, .time = seconds(1)});
  WaitingRequests::Entry large = For("a");
  large.bytes = 11;
  EXPECT_EQ(waiting.Add(std::move(large)).reason(), "queue_full");
  EXPECT_TRUE(waiting.Add(For("a")).ok());
  EXPECT_TRUE(waiting.Add(For("b")).ok());
  EXPECT_EQ(waiting.Add(For("b")).reason(), "queue_full");
  EXPECT_EQ(waiting.Take("a").size(), 1U);
  EXPECT_TRUE(waiting.Add(For("b")).ok()) << "a place is free again";
}

TEST(WaitingRequests, EndWhenCancelledExpiredOrTooOld) {
  WaitingRequests waiting;
  waiting.SetLimits({.requests = 10, .bytes = 10, .time = seconds(5)});
  const TimePoint begin{seconds(100)};
  WaitingRequests::Entry cancelled = For("a", begin), late = For("a", begin);
  cancelled.control = std::make_shared<WaitControl>();
  cancelled.control->Cancel();
  late.deadline = begin + seconds(1);
  ASSERT_TRUE(waiting.Add(std::move(cancelled)).ok());
  ASSERT_TRUE(waiting.Add(std::move(late)).ok());
  ASSERT_TRUE(waiting.Add(For("a", begin)).ok());
  std::vector<WaitingRequests::Ended> ended = waiting.TakeEnded(begin);
  ASSERT_EQ(ended.size(), 1U);
  EXPECT_EQ(ended[0].second.reason(), "cancelled");
  ended = waiting.TakeEnded(begin + seconds(1));
  ASSERT_EQ(ended.size(), 1U);
  EXPECT_EQ(ended[0].second.reason(), "deadline_exceeded");
  EXPECT_TRUE(waiting.TakeEnded(begin + seconds(4)).empty());
  ended = waiting.TakeEnded(begin + seconds(5));
  ASSERT_EQ(ended.size(), 1U);
  EXPECT_EQ(ended[0].second.reason(), "model_loading");
  EXPECT_EQ(waiting.size(), 0U);
}

TEST(WaitControl, PassesEarlyAndLateCancelsOn) {
  const auto first = std::make_shared<FakeControl>(), second = std::make_shared<FakeControl>();
  WaitControl early, late;
  early.Cancel();
  EXPECT_TRUE(early.cancelled());
  early.Attach(first);
  EXPECT_EQ(first->cancels, 1);
  late.Attach(second);
  EXPECT_EQ(second->cancels, 0);
  late.Cancel();
  EXPECT_EQ(second->cancels, 1);
}

}  // namespace
}  // namespace tutti::gateway
