#include "services/usage/ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <future>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/log.h"
#include "base/random.h"
#include "temp_folder.h"

namespace tutti::usage {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int64_t kDay = 86'400'000;
constexpr int64_t kFirst = 20'000 * kDay;

// Holds the store's thread from its making until Open(): a disk that does not come back.
class Gate {
 public:
  explicit Gate(store::Store& store) {
    store.Write(
        [&](store::Database&) {
          begun_.set_value();
          opened_.get_future().wait();
          return OkStatus();
        },
        [](const Status&) {});
    begun_.get_future().wait();
  }
  void Open() { opened_.set_value(); }

 private:
  std::promise<void> begun_, opened_;
};

class Lines final : public Logger::Sink {
 public:
  void Line(std::string_view line) override { all.emplace_back(line); }
  std::vector<std::string> all;
};

class LedgerTest : public ::testing::Test {
 protected:
  void Start(const Ledger::Options& options = {}, Logger* log = nullptr) {
    ledger_.reset();
    store_.reset();
    auto store = store::Store::Open({.folder = folder_.path() + "/state"}, {&kLedgerTable, 1});
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
    ledger_ = std::make_unique<Ledger>(options, store_.get(), &clock_, log);
  }
  Status Record(const Row& row, Ledger::Done done = nullptr) {
    Result<Ledger::Place> place = ledger_->Open();
    if (!place.ok()) return std::move(place).status();
    ledger_->Record(*std::move(place), row, std::move(done));
    return OkStatus();
  }
  // The sums over the whole table.
  Summary Sum() {
    Summary sum;
    EXPECT_TRUE(store_
                    ->ReadNow([&](store::Database& database) -> Status {
                      ASSIGN_OR_RETURN(const auto sums,
                                       Summaries(database, 0, kFirst * 2, GroupBy::kModel));
                      EXPECT_LE(sums.size(), 1u);
                      if (!sums.empty()) sum = sums.front();
                      return OkStatus();
                    })
                    .ok());
    return sum;
  }
  void SetMostPages(int pages) {
    EXPECT_TRUE(store_
                    ->ReadNow([&](store::Database& database) {
                      return database.Execute("PRAGMA max_page_count=" + std::to_string(pages));
                    })
                    .ok());
  }

  const support::TempFolder folder_;
  ManualClock clock_;
  std::unique_ptr<store::Store> store_;
  std::unique_ptr<Ledger> ledger_;
};

Row Used(int64_t prompt, int64_t cached = 0, int64_t output = 0) {
  return {.time_ms = kFirst,
          .tenant = "t",
          .key_id = "k",
          .user = "",
          .model = "m",
          .route = "chat",
          .outcome = "ok",
          .prompt_tokens = prompt,
          .cached_tokens = cached,
          .output_tokens = output};
}

TEST_F(LedgerTest, ARowIsSafeWhenItsDoneIsTold) {
  Start();
  std::promise<Status> done;
  EXPECT_TRUE(Record(Used(7, 2, 3), [&](const Status& status) { done.set_value(status); }).ok());
  EXPECT_TRUE(done.get_future().get().ok());
  const Summary sum = Sum();
  EXPECT_EQ(sum.requests, 1);
  EXPECT_EQ(sum.prompt_tokens, 7);
  EXPECT_EQ(sum.cached_tokens, 2);
  EXPECT_EQ(sum.output_tokens, 3);
}

// N54: 10,000 requests of eight clients, cancelled ones and cache hits among them.
TEST_F(LedgerTest, TheSumOfTheLedgerIsTheSumOfWhatWasUsed) {
  Start({.max_rows = 2000});
  std::atomic<int64_t> prompt = 0, cached = 0, output = 0, told = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      Random random(static_cast<uint64_t>(t));
      for (int i = 0; i < 1250;) {
        Result<Ledger::Place> place = ledger_->Open();
        if (!place.ok()) {
          EXPECT_EQ(place.status().reason(), "overloaded");
          std::this_thread::yield();
          continue;
        }
        Row row = Used(random.Between(1, 3000));
        if (random.Chance(0.4)) row.cached_tokens = random.Between(0, row.prompt_tokens);
        row.output_tokens = random.Between(0, 500);
        row.outcome = random.Chance(0.2) ? "cancelled" : "ok";
        prompt += row.prompt_tokens;
        cached += row.cached_tokens;
        output += row.output_tokens;
        ledger_->Record(*std::move(place), std::move(row),
                        [&](const Status& status) { told += status.ok(); });
        ++i;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(ledger_->Flush().ok());
  EXPECT_EQ(told, 10'000);
  const Ledger::Counts counts = ledger_->counts();
  EXPECT_EQ(counts.recorded, 10'000u);
  EXPECT_EQ(counts.written, 10'000u);
  EXPECT_EQ(counts.lost, 0u);
  EXPECT_EQ(counts.waiting, 0u);
  EXPECT_EQ(counts.places, 0u);
  Start();  // as another process finds it
  const Summary sum = Sum();
  EXPECT_EQ(sum.requests, 10'000);
  EXPECT_EQ(sum.prompt_tokens, prompt);
  EXPECT_EQ(sum.cached_tokens, cached);
  EXPECT_EQ(sum.output_tokens, output);
}

TEST_F(LedgerTest, RecordDoesNotWaitForTheDiskAndWaitingRowsShareAWrite) {
  Start({.rows_in_write = 1000});
  Gate gate(*store_);
  std::atomic<int> told = 0;
  for (int i = 0; i < 500; ++i)
    ASSERT_TRUE(Record(Used(1), [&](const Status& status) { told += status.ok(); }).ok());
  EXPECT_EQ(told, 0);
  EXPECT_EQ(ledger_->counts().waiting, 500u);
  gate.Open();
  EXPECT_TRUE(ledger_->Flush().ok());
  EXPECT_EQ(told, 500);
}

TEST_F(LedgerTest, ASlowDiskRefusesNewRequestsAndKeepsRowsOfRunningOnes) {
  Start({.max_rows = 10});
  Gate gate(*store_);
  for (int i = 0; i < 6; ++i) EXPECT_TRUE(Record(Used(1)).ok());
  std::vector<Ledger::Place> running;
  for (int i = 0; i < 4; ++i) running.push_back(*ledger_->Open());
  const Status refused = ledger_->Open().status();
  EXPECT_EQ(refused.reason(), "overloaded");
  EXPECT_EQ(refused.code(), StatusCode::kUnavailable);
  running.pop_back();  // never began
  running.push_back(*ledger_->Open());
  EXPECT_EQ(ledger_->Open().status().reason(), "overloaded");
  for (Ledger::Place& place : running) ledger_->Record(std::move(place), Used(1));
  EXPECT_EQ(ledger_->counts().waiting, 10u);
  EXPECT_EQ(ledger_->counts().refused, 2u);
  gate.Open();
  EXPECT_TRUE(ledger_->Flush().ok());
  EXPECT_EQ(Sum().requests, 10);
  EXPECT_TRUE(Record(Used(1)).ok());
}

// Regression: callers were served until 16,384 rows waited, and their usage was never billed.
TEST_F(LedgerTest, AFullDiskRefusesFromTheFirstFailedRowAndIsRetried) {
  Start({.max_rows = 100'000, .rows_in_write = 10'000, .retry = seconds(1)});
  SetMostPages(24);
  int64_t recorded = 0;
  std::atomic<int> told = 0;
  const Ledger::Done tell = [&](const Status& status) { told += status.ok(); };
  Result<Ledger::Place> running = ledger_->Open();
  ASSERT_TRUE(running.ok());
  // Records no faster than rows are written; otherwise a fast machine records all before the disk
  // is full.
  const auto written = [&] {
    const Ledger::Counts counts = ledger_->counts();
    return counts.waiting == 0 || counts.failed_writes > 0;
  };
  while (recorded < 50'000 && ledger_->counts().failed_writes == 0) {
    recorded += Record(Used(1), tell).ok();
    for (int i = 0; recorded % 1000 == 0 && !written() && i < 10'000; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  ASSERT_EQ(ledger_->counts().failed_writes, 1u) << "the disk was never full";
  const Status refused = ledger_->Open().status();
  EXPECT_EQ(refused.reason(), "storage_full");
  EXPECT_EQ(refused.code(), StatusCode::kUnavailable);
  EXPECT_EQ(ledger_->ready().reason(), "storage_full");
  ledger_->Record(*std::move(running), Used(1), tell);  // what runs keeps its row
  ++recorded;
  EXPECT_EQ(ledger_->counts().failed_writes, 1u) << "not again before its time";
  clock_.Advance(seconds(1));
  ledger_->Tick(kFirst);
  EXPECT_EQ(ledger_->Flush().reason(), "store_full");
  EXPECT_GT(ledger_->counts().failed_writes, 1u);
  EXPECT_EQ(ledger_->Open().status().reason(), "storage_full") << "a try is no success";
  EXPECT_EQ(ledger_->counts().lost, 0u);
  SetMostPages(100'000);
  clock_.Advance(seconds(1));
  ledger_->Tick(kFirst);
  EXPECT_TRUE(ledger_->Flush().ok());
  EXPECT_EQ(Sum().requests, recorded);
  EXPECT_EQ(told, recorded);
  EXPECT_TRUE(ledger_->ready().ok());
  EXPECT_TRUE(Record(Used(1)).ok());
}

TEST_F(LedgerTest, AFailedStoreReportsLostRowsAndRefusesNewRequests) {
  Start();
  Result<Ledger::Place> running = ledger_->Open();
  ASSERT_TRUE(running.ok());
  (void)store_->WriteNow([](store::Database&) { return Unavailable("store_failed", "EIO"); });
  EXPECT_EQ(ledger_->Open().status().reason(), "storage_error");
  Status told;
  ledger_->Record(*std::move(running), Used(1), [&](const Status& status) { told = status; });
  EXPECT_FALSE(ledger_->Flush().ok());
  EXPECT_EQ(told.reason(), "store_failed");
  EXPECT_EQ(ledger_->counts().lost, 1u);
  EXPECT_EQ(ledger_->counts().refused, 1u);
  EXPECT_EQ(ledger_->counts().waiting, 0u);
}

TEST_F(LedgerTest, AtItsEndItWritesWhatWaits) {
  Start();
  auto gate = std::make_unique<Gate>(*store_);
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(Record(Used(1)).ok());
  std::thread opens([&] { gate->Open(); });
  ledger_.reset();
  opens.join();
  EXPECT_EQ(Sum().requests, 100);
}

// They went without a word.
TEST_F(LedgerTest, AtItsEndOnAFullDiskItTellsWhatIsLost) {
  const auto lines = std::make_shared<Lines>();
  Logger log(LogLevel::kInfo, lines);
  Start({}, &log);
  SetMostPages(1);  // as many as it has
  std::vector<Ledger::Place> running;
  for (int i = 0; i < 1000; ++i) running.push_back(*ledger_->Open());
  std::atomic<int> lost = 0;
  for (Ledger::Place& place : running) {
    ledger_->Record(std::move(place), Used(1),
                    [&](const Status& status) { lost += status.reason() == "store_full"; });
  }
  ledger_.reset();
  SetMostPages(100'000);
  EXPECT_GT(lost, 0);
  EXPECT_EQ(Sum().requests + lost, 1000);
  log.Flush();
  ASSERT_EQ(lines->all.size(), 1u);
  EXPECT_THAT(lines->all[0], ::testing::EndsWith(" ERROR usage.lost rows=" + std::to_string(lost) +
                                                 " reason=store_full"));
}

TEST_F(LedgerTest, RowsAreKeptForTheirDaysAndThenGo) {
  Start({.retention_days = 30});
  for (int day = 0; day < 40; ++day) {
    Row row = Used(1);
    row.time_ms = kFirst + day * kDay;
    EXPECT_TRUE(Record(row).ok());
  }
  EXPECT_TRUE(ledger_->Flush().ok());
  const int64_t now = kFirst + 39 * kDay + 1;
  ledger_->Tick(now);
  EXPECT_EQ(Sum().requests, 30);
  EXPECT_EQ(ledger_->counts().deleted, 10u);
  ledger_->Tick(now + kDay / 48);
  EXPECT_EQ(Sum().requests, 30) << "once an hour is enough";
  ledger_->Tick(now + kDay);
  EXPECT_EQ(Sum().requests, 29);
}

TEST_F(LedgerTest, WithoutAnAgeRowsAreKeptForEver) {
  Start();
  EXPECT_TRUE(Record(Used(1)).ok());
  EXPECT_TRUE(ledger_->Flush().ok());
  ledger_->Tick(kFirst * 10);
  EXPECT_EQ(Sum().requests, 1);
}

TEST_F(LedgerTest, TextsAreCutAtTheirBoundOrWhereTheyAreNoText) {
  Start();
  Row row = Used(1);
  row.user = std::string(kMaxNameBytes - 1, 'u');
  row.user += "é";
  row.tenant = "ok\xff bad";
  EXPECT_TRUE(Record(row).ok());
  EXPECT_TRUE(ledger_->Flush().ok());
  EXPECT_TRUE(store_
                  ->ReadNow([&](store::Database& database) -> Status {
                    Cursor cursor;
                    ASSIGN_OR_RETURN(const auto rows, ReadRows(database, kFirst * 2, 9, &cursor));
                    EXPECT_EQ(rows.at(0).user, std::string(kMaxNameBytes - 1, 'u'));
                    EXPECT_EQ(rows.at(0).tenant, "ok");
                    return OkStatus();
                  })
                  .ok());
}

// Regression: only 128 bytes of a credential were stored, so its quota began anew after a restart,
// and credentials with the same beginning were counted as one.
TEST_F(LedgerTest, TheLongestCredentialsAreKeptApartInWhole) {
  Start();
  const std::string alike = "token:" + std::string(240, 'i') + "|" + std::string(255, 's');
  for (const char last : {'a', 'b'}) {
    Row row = Used(1);
    row.key_id = alike + last;
    EXPECT_TRUE(Record(row).ok());
  }
  EXPECT_TRUE(ledger_->Flush().ok());
  EXPECT_TRUE(store_
                  ->ReadNow([&](store::Database& database) -> Status {
                    ASSIGN_OR_RETURN(const auto used, DayTokens(database, kFirst / 86'400'000));
                    EXPECT_EQ(used.size(), 2u);
                    EXPECT_EQ(used.at(0).key_id, alike + 'a');
                    return OkStatus();
                  })
                  .ok());
}

// Records forever, and writes to `fd` the number of safe rows; each row has one token more than the
// last.
[[noreturn]] void RecordUntilKilled(const std::string& folder, int64_t next, int fd) {
  auto store = store::Store::Open({.folder = folder}, {&kLedgerTable, 1});
  if (!store.ok()) _exit(1);
  SteadyClock clock;
  Ledger ledger({.max_rows = 500}, store->get(), &clock);
  while (true) {
    Result<Ledger::Place> place = ledger.Open();
    if (!place.ok()) {
      usleep(200);
      continue;
    }
    const int64_t tokens = ++next;
    ledger.Record(*std::move(place), Used(tokens), [tokens, fd](const Status& status) {
      if (status.ok()) (void)!write(fd, &tokens, sizeof tokens);
    });
  }
}

TEST_F(LedgerTest, RowsThatWereToldSafeSurviveSigkillAndNoneIsThereTwice) {
  int64_t next = 0;
  for (int round = 0; round < 12; ++round) {
    int told[2];
    ASSERT_EQ(pipe(told), 0);
    const pid_t pid = fork();
    if (pid == 0) RecordUntilKilled(folder_.path() + "/state", next, told[1]);
    close(told[1]);
    int64_t tokens = 0, safe = next;
    for (int count = 0; count < 100 + 97 * round && read(told[0], &tokens, sizeof tokens) > 0;
         ++count)
      safe = tokens;
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    while (read(told[0], &tokens, sizeof tokens) > 0) safe = tokens;
    close(told[0]);
    Start();
    const Summary sum = Sum();
    ASSERT_GT(safe, next);
    ASSERT_GE(sum.requests, safe);
    // Rows 1..n and nothing else: as many tokens as they have together.
    ASSERT_EQ(sum.prompt_tokens, sum.requests * (sum.requests + 1) / 2);
    next = sum.requests;
    ledger_.reset();
    store_.reset();
  }
}

}  // namespace
}  // namespace tutti::usage
