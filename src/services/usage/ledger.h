// Ledger: writes down what every request has used, beside the answers and not before them.
//
// A place is taken when a request is accepted, and given back with the request's row at its end:
// there is room for the row of all that is running, so that none is ever dropped for want of it.
// Where the disk falls behind, new requests are refused instead (overloaded); where it is full or
// has failed, from the first row on that it did not take (storage_full, storage_error) until it
// takes them again: nobody is served on credit. Rows are handed to the store as soon as it has
// written the last ones, so that under load one commit takes many.
//
// A row is safe when its `done` is told OK. Who must not answer before that waits for it; who does
// not wait loses, if the process is killed, what ended within the last commits. A full disk is
// tried again; what was not written after a failure of the store (store.h), or at the end, is lost,
// counted, told and logged.
//
// Any thread. Outlived by the store, the clock and the log; outlives its places.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/status.h"
#include "services/usage/ledger_rows.h"
#include "store/store.h"

namespace tutti::usage {

inline constexpr size_t kMostNameBytes = 128;  // of each text of a row; what is beyond is cut off
// Of `key_id`: every credential in whole, since after a restart its day's quota is counted by it.
inline constexpr size_t kMostKeyBytes = 512;

class Ledger {
 public:
  struct Options {
    size_t most_rows = 16'384;    // of running requests, and not yet written: about 1 KiB each
    size_t rows_in_write = 1024;  // so that others have their turn with the disk
    Duration retry = std::chrono::seconds(1);  // after a write that failed for want of room
    int retention_days = 0;                    // 0: rows are kept for ever
  };
  // Room for one row. Dropped, it is given back.
  class Place {
   public:
    Place() = default;
    Place(Place&& other) noexcept : ledger_(std::exchange(other.ledger_, nullptr)) {}
    Place& operator=(Place&& other) noexcept {
      Place old(std::exchange(ledger_, std::exchange(other.ledger_, nullptr)));
      return *this;
    }
    ~Place() {
      if (ledger_ != nullptr) ledger_->Close();
    }
    explicit operator bool() const { return ledger_ != nullptr; }

   private:
    friend class Ledger;
    explicit Place(Ledger* ledger) : ledger_(ledger) {}
    Ledger* ledger_ = nullptr;
  };
  using Done = std::function<void(const Status&)>;

  // `log` may be null.
  Ledger(const Options& options, store::Store* store, const Clock* clock, Logger* log = nullptr);
  ~Ledger();  // writes what waits, or logs how many rows could not be written
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  // Errors, all of them the server's: overloaded, storage_full, storage_error.
  Result<Place> Open();
  // Whether the disk takes rows. Errors: storage_full, storage_error.
  Status ready() const;
  // `done` is called once, on the store's thread or on this one: OK when the row is safe.
  void Record(Place place, Row row, Done done = nullptr);

  // About once a second, by whoever has a timer: tries again what failed, and deletes rows that are
  // older than they are to be kept. `unix_ms`: the wall time.
  void Tick(int64_t unix_ms);
  // Waits until all that was recorded is written, or could not be: why.
  Status Flush();

  struct Counts {
    uint64_t recorded = 0, written = 0;
    uint64_t refused = 0;        // places
    uint64_t lost = 0;           // rows: told to their `done`, and to the log
    uint64_t failed_writes = 0;  // tried again, or lost
    uint64_t deleted = 0;        // for their age
    size_t waiting = 0;          // rows that are not written yet
    size_t places = 0;           // of running requests
  };
  Counts counts() const;

 private:
  struct Entry {
    Row row;
    Done done;
  };
  using Batch = std::shared_ptr<std::vector<Entry>>;

  void Close();
  bool full() const REQUIRES(mutex_);
  Batch TakeBatch() REQUIRES(mutex_);  // null: none waits
  void WriteSome(bool at_once = false);
  void Hand(Batch batch);
  void Written(const Batch& batch, const Status& status);
  void TellLost(size_t rows, const Status& why);
  void Sweep(int64_t unix_ms);

  const Options options_;
  store::Store& store_;
  const Clock& clock_;
  Logger* const log_;
  mutable Mutex mutex_;
  CondVar changed_;
  std::deque<Entry> rows_ GUARDED_BY(mutex_);  // oldest first
  size_t handed_ GUARDED_BY(mutex_) = 0;       // rows in the store's hands
  bool writing_ GUARDED_BY(mutex_) = false;    // the store has some, and comes back for more
  bool sweeping_ GUARDED_BY(mutex_) = false;
  TimePoint retry_at_ GUARDED_BY(mutex_) = TimePoint::min();
  int64_t next_sweep_ms_ GUARDED_BY(mutex_) = 0;
  Status last_ GUARDED_BY(mutex_);  // of the last write
  Counts counts_ GUARDED_BY(mutex_);
};

}  // namespace tutti::usage
