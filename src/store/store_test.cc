#include "store/store.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <string>
#include <vector>

#include "amount.h"
#include "temp_folder.h"

namespace tutti::store {
namespace {

using ::testing::HasSubstr;

constexpr Migration kTables[] = {
    {"CREATE TABLE item(id INTEGER PRIMARY KEY, text TEXT NOT NULL)", "DROP TABLE item"}};

Store::Work Insert(int64_t id, std::string text = "x") {
  return [id, text = std::move(text)](Database& database) -> Status {
    ASSIGN_OR_RETURN(Statement insert, database.Prepare("INSERT INTO item VALUES(?1, ?2)"));
    return insert.Bind(id, text).Run();
  };
}

std::vector<int64_t> Ids(Store& store) {
  std::vector<int64_t> ids;
  EXPECT_TRUE(store
                  .ReadNow([&](Database& database) -> Status {
                    ASSIGN_OR_RETURN(Statement all,
                                     database.Prepare("SELECT id FROM item ORDER BY id"));
                    while (true) {
                      ASSIGN_OR_RETURN(const bool row, all.Step());
                      if (!row) return OkStatus();
                      ids.push_back(all.Int(0));
                    }
                  })
                  .ok());
  return ids;
}

// Blocks the store's thread until Open(), so that later writes queue up.
class Gate {
 public:
  explicit Gate(Store& store) {
    store.Write(
        [&](Database&) {
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

class StoreTest : public ::testing::Test {
 protected:
  Result<std::unique_ptr<Store>> Open(size_t max_waiting = 4096) {
    return Store::Open({.folder = folder_.path() + "/state/tutti", .max_waiting = max_waiting},
                       kTables);
  }
  std::unique_ptr<Store> Opened() {
    auto store = Open();
    EXPECT_TRUE(store.ok()) << store.status();
    return store.ok() ? *std::move(store) : nullptr;
  }
  const support::TempFolder folder_;
};

TEST_F(StoreTest, WhatWasAcknowledgedIsThereAfterReopening) {
  {
    const auto store = Opened();
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(store->WriteNow(Insert(i)).ok());
  }
  EXPECT_EQ(Ids(*Opened()), (std::vector<int64_t>{0, 1, 2}));
}

TEST_F(StoreTest, NobodyElseReadsItsFiles) {
  const auto store = Opened();
  EXPECT_TRUE(store->WriteNow(Insert(1)).ok());
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path() + "/state/tutti")) {
    struct stat info {};
    ASSERT_EQ(stat(entry.path().c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0600u) << entry.path();
  }
}

TEST_F(StoreTest, InMemoryItKeepsNothing) {
  for (int i = 0; i < 2; ++i) {
    auto store = Store::Open({}, kTables);
    ASSERT_TRUE(store.ok()) << store.status();
    EXPECT_TRUE((*store)->WriteNow(Insert(1)).ok());
    EXPECT_EQ(Ids(**store), std::vector<int64_t>{1});
  }
}

TEST_F(StoreTest, AWriteThatFailsIsUndoneAndItsNeighboursAreNot) {
  const auto store = Opened();
  std::vector<std::future<Status>> results;
  const auto write = [&](Store::Work work) {
    auto promise = std::make_shared<std::promise<Status>>();
    results.push_back(promise->get_future());
    store->Write(std::move(work), [promise](const Status& status) { promise->set_value(status); });
  };
  Gate gate(*store);  // the queued writes share a commit
  write(Insert(1));
  write([](Database& database) -> Status {
    RETURN_IF_ERROR(Insert(2)(database));
    return InvalidArgument("invalid_value", "no");
  });
  write(Insert(1));  // exists already
  write([](Database& database) -> Status {
    RETURN_IF_ERROR(Insert(3)(database));
    throw std::bad_alloc();
  });
  write(Insert(4));
  gate.Open();
  EXPECT_TRUE(results[0].get().ok());
  EXPECT_EQ(results[1].get().reason(), "invalid_value");
  EXPECT_EQ(results[2].get().reason(), "store_conflict");
  EXPECT_EQ(results[3].get().reason(), "overloaded");
  EXPECT_TRUE(results[4].get().ok());
  EXPECT_EQ(Ids(*store), (std::vector<int64_t>{1, 4}));
  EXPECT_TRUE(store->health().ok());
}

// A work's savepoint copies changed pages, so that the work can be undone alone; this was a third
// of the cost of an accepted job. A work that fails before its first change needs no savepoint.
TEST_F(StoreTest, AWorkWithItsGroupIsUndoneWithItOnlyAfterAChange) {
  const auto store = Opened();
  ASSERT_TRUE(store->WriteNow(Insert(1)).ok());
  const auto group = [&](Store::Work second) {
    std::vector<std::future<Status>> results;
    const auto write = [&](Store::Work work) {
      auto promise = std::make_shared<std::promise<Status>>();
      results.push_back(promise->get_future());
      store->Write(
          std::move(work), [promise](const Status& status) { promise->set_value(status); },
          Store::Undo::kWithGroup);
    };
    Gate gate(*store);
    write(Insert(2));
    write(std::move(second));
    write(Insert(3));
    gate.Open();
    std::string told;
    for (auto& result : results) {
      const Status status = result.get();
      told += (status.ok() ? "ok" : status.reason()) + " ";
    }
    return told;
  };
  EXPECT_EQ(group([](Database& database) {
              EXPECT_TRUE(Insert(4)(database).ok());
              return Unavailable("store_full", "no room");
            }),
            "store_full store_full store_full ");
  EXPECT_EQ(Ids(*store), std::vector<int64_t>{1});
  EXPECT_EQ(group([](Database&) { return InvalidArgument("invalid_value", "no"); }),
            "ok invalid_value ok ");
  EXPECT_EQ(Ids(*store), (std::vector<int64_t>{1, 2, 3}));
}

TEST_F(StoreTest, WritesThatComeMeanwhileShareACommit) {
  const auto store = Opened();
  std::atomic<int> done = 0;
  Gate gate(*store);
  // Each write of a group is acknowledged after the whole group ran.
  std::atomic<int> ran = 0;
  std::promise<std::vector<int>> seen;
  auto told = std::make_shared<std::vector<int>>();
  for (int i = 0; i < 256; ++i) {
    store->Write(
        [&, i](Database& database) -> Status {
          ++ran;
          return Insert(i)(database);
        },
        [&, told](const Status& status) {
          EXPECT_TRUE(status.ok());
          told->push_back(ran.load());
          if (++done == 256) seen.set_value(*told);
        });
  }
  gate.Open();
  EXPECT_EQ(seen.get_future().get(), std::vector<int>(256, 256));
}

TEST_F(StoreTest, AReadSeesWhatWasHandedInBefore) {
  const auto store = Opened();
  for (int i = 0; i < 100; ++i) {
    store->Write(Insert(i), [](const Status& status) { EXPECT_TRUE(status.ok()); });
    if (i % 10 == 9) {
      EXPECT_EQ(Ids(*store).size(), static_cast<size_t>(i + 1));
    }
  }
}

TEST_F(StoreTest, BeyondItsLineWritesAreRefusedAtOnce) {
  auto store = Open(2);
  ASSERT_TRUE(store.ok()) << store.status();
  Gate gate(**store);
  std::atomic<int> accepted = 0;
  for (int i = 0; i < 2; ++i)
    (*store)->Write(Insert(i), [&](const Status& status) { accepted += status.ok(); });
  EXPECT_EQ((*store)->WriteNow(Insert(2)).reason(), "overloaded");
  gate.Open();
  store->reset();
  EXPECT_EQ(accepted, 2);
}

TEST_F(StoreTest, AFullDiskRefusesWhatDoesNotFitAndGoesOn) {
  const auto store = Opened();
  ASSERT_TRUE(
      store
          ->ReadNow([](Database& database) { return database.Execute("PRAGMA max_page_count=32"); })
          .ok());
  EXPECT_TRUE(store->WriteNow(Insert(1)).ok());
  const Status full = store->WriteNow(Insert(2, std::string(1 << 20, 'x')));
  EXPECT_EQ(full.reason(), "store_full");
  EXPECT_EQ(full.code(), StatusCode::kUnavailable);
  EXPECT_TRUE(store->counts().is_full);
  EXPECT_TRUE(store->WriteNow(Insert(3)).ok());
  EXPECT_FALSE(store->counts().is_full);
  EXPECT_EQ(store->counts().full, 1u);
  EXPECT_EQ(store->counts().failed + store->counts().corrupt + store->counts().overloaded, 0u);
  EXPECT_EQ(Ids(*store), (std::vector<int64_t>{1, 3}));
}

TEST_F(StoreTest, AValueTooLongIsItsCallersMistakeAndNotTheDisks) {
  const auto store = Opened();
  const Status status = store->WriteNow([](Database& database) -> Status {
    ASSIGN_OR_RETURN(Statement insert,
                     database.Prepare("INSERT INTO item VALUES(1, zeroblob(1000000001))"));
    return insert.Run();
  });
  EXPECT_EQ(status.reason(), "invalid_value") << status.message();
  EXPECT_TRUE(store->health().ok());
  EXPECT_TRUE(store->WriteNow(Insert(2)).ok());
  EXPECT_EQ(Ids(*store), std::vector<int64_t>{2});
}

TEST_F(StoreTest, AFolderThatCannotBeWrittenIsAnError) {
  std::string file = folder_.path() + "/file";
  close(open(file.c_str(), O_CREAT | O_WRONLY, 0600));
  const auto store = Store::Open({.folder = file + "/store"}, kTables);
  EXPECT_EQ(store.status().reason(), "store_failed");
  EXPECT_THAT(store.status().message(), HasSubstr(file));
}

TEST_F(StoreTest, AFileThatIsNoStoreIsAnErrorAndStays) {
  std::filesystem::create_directories(folder_.path() + "/state/tutti");
  const std::string path = folder_.path() + "/state/tutti/tutti.db";
  const std::string text(5000, 'x');
  FILE* file = fopen(path.c_str(), "w");
  ASSERT_NE(file, nullptr);
  fwrite(text.data(), 1, text.size(), file);
  fclose(file);
  EXPECT_EQ(Open().status().reason(), "store_corrupt");
  EXPECT_EQ(std::filesystem::file_size(path), text.size());
}

// Runs `child`, which must not return, in a new process.
pid_t Fork(const std::function<void()>& child) {
  const pid_t pid = fork();
  if (pid == 0) {
    child();
    _exit(0);
  }
  return pid;
}

// Regression: with an emptied file, and so without keys, the server accepted every caller.
TEST_F(StoreTest, AnEmptiedFileIsNotTakenForANewOne) {
  ASSERT_TRUE(Open().ok());
  const std::string file = folder_.path() + "/state/tutti/tutti.db";
  std::ofstream(file, std::ios::trunc);
  EXPECT_EQ(Open().status().reason(), "store_corrupt");
  std::filesystem::remove(file);
  EXPECT_TRUE(Open().ok());
}

TEST_F(StoreTest, NothingIsAcknowledgedOnceItsFileIsRemoved) {
  const auto store = *Open();
  const auto nothing = [](Database&) { return OkStatus(); };
  ASSERT_TRUE(store->WriteNow(nothing).ok());
  std::filesystem::remove_all(folder_.path() + "/state");
  EXPECT_EQ(store->WriteNow(nothing).reason(), "store_failed");
  EXPECT_EQ(store->health().reason(), "store_failed");
  EXPECT_EQ(store->counts().failed, 1u);
  EXPECT_EQ(store->WriteNow(nothing).reason(), "store_failed");
  EXPECT_EQ(store->counts().failed, 2u);
}

// Regression: an answer was reported as `completed` and stored nowhere.
TEST_F(StoreTest, NothingIsAcknowledgedOnceItsFileIsCutShort) {
  const auto store = *Open();
  ASSERT_TRUE(store->WriteNow(Insert(1)).ok());
  const std::string file = folder_.path() + "/state/tutti/tutti.db";
  const auto bytes = std::filesystem::file_size(file);
  ASSERT_GT(bytes, 0u);
  std::filesystem::resize_file(file, bytes / 2);
  EXPECT_EQ(store->WriteNow(Insert(2)).reason(), "store_failed");
  EXPECT_EQ(store->health().reason(), "store_failed");
}

TEST_F(StoreTest, ASecondProcessIsRefusedWithTheFirstOnesNumber) {
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t pid = Fork([&] {
    const auto store = Open();
    (void)!write(ready[1], store.ok() ? "y" : "n", 1);
    pause();
  });
  char answer = 0;
  ASSERT_EQ(read(ready[0], &answer, 1), 1);
  ASSERT_EQ(answer, 'y');
  const Status refused = Open().status();
  EXPECT_EQ(refused.reason(), "store_locked");
  EXPECT_THAT(refused.message(), HasSubstr("process " + std::to_string(pid)));
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
  EXPECT_TRUE(Open().ok()) << "the lock ends with its process";
  close(ready[0]);
  close(ready[1]);
}

TEST_F(StoreTest, WhatWasAcknowledgedSurvivesSigkill) {
  const char* asked = std::getenv("TUTTI_TEST_STORE_KILLS");
  const int kills = asked != nullptr ? std::atoi(asked) : support::Amount(20, 5);
  constexpr int kRounds = 20;  // per file: a new one is faster to check
  int64_t next = 0, acknowledged = 0;
  for (int kill_number = 0; kill_number < kills; ++kill_number) {
    const int round = kill_number % kRounds;
    if (round == 0) {
      std::filesystem::remove_all(folder_.path() + "/state");
      next = acknowledged = 0;
    }
    int told[2];
    ASSERT_EQ(pipe(told), 0);
    const pid_t pid = Fork([&] {
      auto store = Open();
      if (!store.ok()) _exit(1);
      for (int64_t id = next;; ++id) {
        (*store)->Write(Insert(id, std::string(500, 'a')), [id, &told](const Status& status) {
          if (status.ok()) (void)!write(told[1], &id, sizeof id);
        });
        if (id % 64 == 0) usleep(500);
      }
    });
    close(told[1]);
    int64_t id = 0;
    for (int count = 0; count < 200 + 37 * round && read(told[0], &id, sizeof id) == sizeof id;
         ++count)
      acknowledged = id + 1;
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    while (read(told[0], &id, sizeof id) == sizeof id) acknowledged = id + 1;
    close(told[0]);
    const std::vector<int64_t> ids = Ids(*Opened());
    ASSERT_GE(static_cast<int64_t>(ids.size()), acknowledged);
    for (size_t i = 0; i < ids.size(); ++i) ASSERT_EQ(ids[i], static_cast<int64_t>(i));
    ASSERT_GT(acknowledged, next);
    next = static_cast<int64_t>(ids.size());
  }
}

}  // namespace
}  // namespace tutti::store
