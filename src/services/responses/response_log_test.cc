#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "services/responses/response.h"

namespace tutti::responses {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class CountingWaker final : public Waker {
 public:
  void Wake() noexcept override { ++wakes; }
  std::atomic<int> wakes{0};
};

protocol::ResponseEvent Delta(std::string text) {
  return protocol::TextDeltaEvent{0, "msg_1", std::move(text)};
}

protocol::ResponseEvent End(std::string text = "") {
  protocol::ResponseState state;
  state.status = protocol::ResponseStatus::kCompleted;
  state.text = std::move(text);
  return protocol::LifecycleEvent{
      false, std::make_shared<const protocol::ResponseState>(std::move(state))};
}

std::vector<int64_t> Numbers(const ResponseLog& log, int64_t after, size_t most = 100) {
  const auto entries = log.Read(after, most);
  EXPECT_TRUE(entries.ok()) << entries.status();
  std::vector<int64_t> numbers;
  if (!entries.ok()) return numbers;
  for (const auto& entry : *entries) numbers.push_back(entry->sequence);
  return numbers;
}

TEST(ResponseLogTest, EventsAreNumberedFromZeroAndReadBehindAnyOfThem) {
  ResponseLog log(1 << 20);
  for (int i = 0; i < 4; ++i) log.Append(i == 3 ? End() : Delta(std::to_string(i)));
  EXPECT_THAT(Numbers(log, -1), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(Numbers(log, 1), ElementsAre(2, 3));
  EXPECT_THAT(Numbers(log, -1, 2), ElementsAre(0, 1));
  EXPECT_THAT(Numbers(log, 3), IsEmpty());
  EXPECT_THAT(Numbers(log, 1000), IsEmpty()) << "beyond the end waits";
  EXPECT_TRUE(log.ended());
  EXPECT_EQ(std::get<protocol::TextDeltaEvent>((*log.Read(1, 1))[0]->event).text, "2");
}

TEST(ResponseLogTest, ALogThatIsTooLongLosesItsOldestAndSaysSo) {
  ResponseLog log(4000);
  for (int i = 0; i < 100; ++i) log.Append(Delta(std::string(100, 'x')));
  EXPECT_LE(log.bytes(), 4000u);
  EXPECT_EQ(log.Read(-1, 10).status().reason(), "expired");
  EXPECT_EQ(log.Read(log.first() - 2, 10).status().reason(), "expired");
  EXPECT_EQ(Numbers(log, log.first() - 1, 1), std::vector<int64_t>{log.first()});
  log.Append(End(std::string(100'000, 'x')));
  EXPECT_THAT(Numbers(log, 99), ElementsAre(100)) << "the terminal event stays, however long";
}

TEST(ResponseLogTest, WakesASharedWatcherOncePerAnnouncement) {
  ResponseLog log(1 << 20);
  const auto waker = std::make_shared<CountingWaker>();
  EXPECT_TRUE(log.Watch(waker));
  EXPECT_TRUE(log.Watch(waker));
  log.Append(Delta("a"));
  log.Append(Delta("b"));
  EXPECT_EQ(waker->wakes, 0);
  log.Announce();
  EXPECT_EQ(waker->wakes, 1);
  log.Unwatch(waker);
  log.Announce();
  EXPECT_EQ(waker->wakes, 2) << "one of its readers is left";
  log.Unwatch(waker);
  log.Announce();
  EXPECT_EQ(waker->wakes, 2);
}

TEST(ResponseLogTest, InterruptWakesWatchersUnlessTheLogHasEnded) {
  ResponseLog log(1 << 20);
  const auto waker = std::make_shared<CountingWaker>();
  ASSERT_TRUE(log.Watch(waker));
  log.Append(Delta("a"));
  EXPECT_FALSE(log.interrupted());
  log.Interrupt();
  EXPECT_EQ(waker->wakes, 1);
  EXPECT_TRUE(log.interrupted());
  EXPECT_FALSE(log.ended());
  EXPECT_EQ(log.Read(-1, 10)->size(), 1u) << "what was said is still read";
  ResponseLog over(1 << 20);
  over.Append(End());
  over.Interrupt();
  EXPECT_FALSE(over.interrupted());
}

TEST(ResponseLogTest, WatchersAreBounded) {
  ResponseLog log(1 << 20);
  std::vector<std::shared_ptr<CountingWaker>> wakers;
  for (int i = 0; i < 64; ++i) {
    wakers.push_back(std::make_shared<CountingWaker>());
    EXPECT_TRUE(log.Watch(wakers.back()));
  }
  EXPECT_FALSE(log.Watch(std::make_shared<CountingWaker>()));
  EXPECT_TRUE(log.Watch(wakers[0]));
}

TEST(ResponseLogTest, ReattachingReadersSeeEachEntryOnceDuringWrites) {
  auto response = std::make_shared<Response>(ResponseBase{}, 1 << 20);
  std::thread writer([&] {
    for (int i = 0; i < 20'000; ++i) {
      response->log().Append(i == 19'999 ? End() : Delta(std::to_string(i)));
      response->log().Announce();
    }
  });
  std::vector<std::thread> readers;
  for (int r = 0; r < 3; ++r) {
    readers.emplace_back([&response, r] {
      int64_t seen = -1;
      bool ended = false;
      while (!ended) {  // attaches again where it was interrupted
        Result<ResponseReader> reader = ResponseReader::Attach(response, seen, nullptr);
        ASSERT_TRUE(reader.ok());
        const auto entries = reader->Next(static_cast<size_t>(r * 7 + 1));
        if (!entries.ok()) {  // trimmed: then it goes on from what there is
          ASSERT_EQ(entries.status().reason(), "expired");
          seen = response->log().first() - 1;
          continue;
        }
        for (const auto& entry : *entries) {
          ASSERT_EQ(entry->sequence, seen + 1);
          seen = entry->sequence;
        }
        ended = reader->ended();
      }
      EXPECT_EQ(seen, 19'999);
    });
  }
  writer.join();
  for (std::thread& reader : readers) reader.join();
}

}  // namespace
}  // namespace tutti::responses
