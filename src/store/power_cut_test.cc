// Row N71: acknowledged rows survive a power cut; failed flushes and a full disk are handled.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "amount.h"
#include "store/store.h"
#include "store/testing/fault_disk.h"
#include "temp_folder.h"

namespace tutti::store {
namespace {

// Each work writes two rows: half of it must never exist.
constexpr Migration kCutTables[] = {
    {"CREATE TABLE item(id INTEGER PRIMARY KEY, text TEXT NOT NULL);"
     "CREATE TABLE total(items INTEGER NOT NULL);"
     "INSERT INTO total VALUES(0)",
     "DROP TABLE item; DROP TABLE total"}};

Store::Work AddItem(int64_t id, size_t bytes) {
  return [id, bytes](Database& database) -> Status {
    RETURN_IF_ERROR(Run(database, "INSERT INTO item VALUES(?1, ?2)", id, std::string(bytes, 'x')));
    return Run(database, "UPDATE total SET items=items+1");
  };
}

class PowerCutTest : public ::testing::Test {
 protected:
  std::unique_ptr<Store> Opened(const std::string& folder) {
    Result<std::unique_ptr<Store>> store = Store::Open({.folder = folder}, kCutTables);
    EXPECT_TRUE(store.ok()) << store.status();
    if (!store.ok()) return nullptr;
    // Forces frequent checkpoints of the log.
    EXPECT_TRUE((*store)
                    ->ReadNow([](Database& database) {
                      return database.Execute("PRAGMA wal_autocheckpoint=30");
                    })
                    .ok());
    return *std::move(store);
  }

  // Checks that all of `acknowledged` exists, each work is whole and the file is intact.
  static void ExpectWhole(Store& store, const std::set<int64_t>& acknowledged) {
    std::set<int64_t> ids;
    int64_t items = 0;
    std::string check;
    const Status read = store.ReadNow([&](Database& database) -> Status {
      ASSIGN_OR_RETURN(Statement all, database.Prepare("SELECT id FROM item"));
      while (true) {
        ASSIGN_OR_RETURN(const bool row, all.Step());
        if (!row) break;
        ids.insert(all.Int(0));
      }
      ASSIGN_OR_RETURN(Statement total, database.Prepare("SELECT items FROM total"));
      RETURN_IF_ERROR(total.Step().status());
      items = total.Int(0);
      ASSIGN_OR_RETURN(Statement whole, database.Prepare("PRAGMA integrity_check"));
      RETURN_IF_ERROR(whole.Step().status());
      check = whole.Text(0);
      return OkStatus();
    });
    ASSERT_TRUE(read.ok()) << read;
    EXPECT_EQ(check, "ok");
    EXPECT_EQ(items, static_cast<int64_t>(ids.size()));
    for (const int64_t id : acknowledged)
      ASSERT_TRUE(ids.contains(id)) << id << " was acknowledged";
  }

  const support::TempFolder folder_;
  testing::FaultDisk disk_;
};

TEST_F(PowerCutTest, WhatWasAcknowledgedIsThereAfterEveryCut) {
  const char* asked = std::getenv("TUTTI_TEST_POWER_CUTS");
  const int cuts = asked != nullptr ? std::atoi(asked) : support::Amount(60, 15);
  Random random(71);
  std::mutex mutex;
  std::set<int64_t> acknowledged;
  std::atomic<int64_t> next{0};
  size_t told = 0;
  for (int cut = 0; cut < cuts; ++cut) {
    const std::string here = folder_.File("power" + std::to_string(cut)),
                      after = folder_.File("power" + std::to_string(cut + 1));
    std::filesystem::create_directories(after);
    const std::unique_ptr<Store> store = Opened(here);
    ASSERT_NE(store, nullptr) << "after " << cut << " cuts";
    ExpectWhole(*store, acknowledged);
    if (HasFatalFailure() || HasNonfatalFailure()) return;
    if (acknowledged.size() > 2000) {  // start over: a small table is faster to check
      acknowledged.clear();
      ASSERT_TRUE(store
                      ->WriteNow([](Database& rows) {
                        return rows.Execute("DELETE FROM item; UPDATE total SET items=0");
                      })
                      .ok());
    }
    std::atomic<bool> over{false};
    std::vector<std::jthread> writers;
    for (int i = 0; i < 4; ++i) {
      writers.emplace_back([&, bytes = static_cast<size_t>(random.Below(6000))] {
        while (!over) {
          const int64_t id = next++;
          if (!store->WriteNow(AddItem(id, bytes)).ok()) continue;
          const std::lock_guard lock(mutex);
          acknowledged.insert(id);
        }
      });
    }
    std::this_thread::sleep_for(std::chrono::microseconds(random.Below(40'000)));
    std::set<int64_t> before;
    {
      const std::lock_guard lock(mutex);
      before = acknowledged;
    }
    disk_.Cut(after, &random);  // later acknowledgements do not count
    over = true;
    writers.clear();
    acknowledged = std::move(before);
    told = std::max(told, acknowledged.size());
    disk_.Forget();
    std::filesystem::remove_all(here);
  }
  EXPECT_GT(told, 0u);
  EXPECT_GT(disk_.flushes(), static_cast<uint64_t>(cuts));
  RecordProperty("cuts", cuts);
  RecordProperty("works", static_cast<int>(next.load()));
}

// Checks the test itself: a store that does not flush loses acknowledged rows.
TEST_F(PowerCutTest, WithoutFlushesACutWouldLoseSomething) {
  Random random(1);
  bool lost = false;
  for (int cut = 0; cut < 50 && !lost; ++cut) {
    const std::string here = folder_.File("lax" + std::to_string(cut)), after = here + "after";
    std::filesystem::create_directories(after);
    std::set<int64_t> acknowledged;
    {
      const std::unique_ptr<Store> store = Opened(here);
      ASSERT_TRUE(
          store->ReadNow([](Database& rows) { return rows.Execute("PRAGMA synchronous=OFF"); })
              .ok());
      for (int64_t id = 0; id < 20; ++id) {
        ASSERT_TRUE(store->WriteNow(AddItem(id, 100)).ok());
        acknowledged.insert(id);
      }
      disk_.Cut(after, &random);
    }
    disk_.Forget();
    Result<std::unique_ptr<Store>> store = Store::Open({.folder = after}, kCutTables);
    if (!store.ok()) {
      lost = true;
      continue;
    }
    int64_t items = 0;
    const Status read = (*store)->ReadNow([&](Database& rows) -> Status {
      ASSIGN_OR_RETURN(Statement count, rows.Prepare("SELECT count(*) FROM item"));
      RETURN_IF_ERROR(count.Step().status());
      items = count.Int(0);
      return OkStatus();
    });
    lost = !read.ok() || items < static_cast<int64_t>(acknowledged.size());
    store->reset();
    disk_.Forget();
  }
  EXPECT_TRUE(lost);
}

TEST_F(PowerCutTest, AfterAFlushThatFailedNothingIsAcknowledgedAnyMore) {
  const std::string here = folder_.File("flush");
  std::set<int64_t> acknowledged;
  {
    const std::unique_ptr<Store> store = Opened(here);
    std::mutex mutex;
    std::atomic<int64_t> next{0};
    std::atomic<int> late{0};
    std::atomic<bool> over{false};
    std::vector<std::jthread> writers;
    for (int i = 0; i < 4; ++i) {
      writers.emplace_back([&] {
        while (!over) {
          const int64_t id = next++;
          const bool failed_before = !store->health().ok();
          const Status status = store->WriteNow(AddItem(id, 100));
          if (!status.ok()) {
            EXPECT_EQ(status.reason(), "store_failed") << status;
            continue;
          }
          if (failed_before) ++late;
          const std::lock_guard lock(mutex);
          acknowledged.insert(id);
        }
      });
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    disk_.fails_flushes = true;
    while (store->health().ok()) std::this_thread::yield();
    disk_.fails_flushes = false;  // the disk works again; lost data stays lost
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    over = true;
    writers.clear();
    EXPECT_EQ(late, 0);
    EXPECT_FALSE(acknowledged.empty());
    EXPECT_EQ(store->WriteNow(AddItem(-1, 1)).reason(), "store_failed");
    EXPECT_EQ(store->ReadNow([](Database&) { return OkStatus(); }).reason(), "store_failed");
  }
  const std::unique_ptr<Store> store = Opened(here);
  ExpectWhole(*store, acknowledged);
  EXPECT_TRUE(store->WriteNow(AddItem(-1, 1)).ok()) << "a start makes it well";
}

TEST_F(PowerCutTest, AFullDiskRefusesWritesReadsGoOnAndRoomIsEnoughToGoOn) {
  const std::unique_ptr<Store> store = Opened(folder_.File("full"));
  std::set<int64_t> acknowledged;
  for (int64_t id = 0; id < 10; ++id) {
    ASSERT_TRUE(store->WriteNow(AddItem(id, 100)).ok());
    acknowledged.insert(id);
  }
  disk_.is_full = true;
  int refused = 0;
  for (int64_t id = 10; id < 200; ++id) {
    const Status status = store->WriteNow(AddItem(id, 5000));
    if (status.ok()) {  // the log had room
      acknowledged.insert(id);
      continue;
    }
    EXPECT_EQ(status.reason(), "store_full") << status;
    ++refused;
  }
  EXPECT_GT(refused, 100);
  EXPECT_TRUE(store->health().ok());
  ExpectWhole(*store, acknowledged);
  disk_.is_full = false;
  EXPECT_TRUE(store->WriteNow(AddItem(1000, 5000)).ok());
  acknowledged.insert(1000);
  ExpectWhole(*store, acknowledged);
}

}  // namespace
}  // namespace tutti::store
