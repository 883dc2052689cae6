// Ledger: records the usage of every request in the store, without delaying the answers.
//
// A Place is reserved when a request is accepted and returned with the request's row at its end, so
// that there is always room for the rows of all running requests. If the disk falls behind, new
// requests are refused (overloaded). If the disk is full or has failed, new requests are refused
// from the first unwritten row on (storage_full, storage_error) until writes succeed again; no
// request runs unrecorded. A new batch of rows is written when the previous one has been committed,
// so that under load one commit holds many rows.
//
// A row is durable when its `done` gets OK. A server that must not answer before that waits for
// it; without waiting, a killed process loses the rows of the last commits. A full disk is retried.
// Rows that cannot be written after a store failure (store.h) or at shutdown are lost: they are
// counted and logged, and their `done` gets the error.
//
// Any thread. The store, the clock and the log must outlive the ledger, and the ledger its places.
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

inline constexpr size_t kMaxNameBytes = 128;  // of each text of a row; longer ones are cut
// Limit for `key_id`, which holds any whole credential: after a restart the daily quota is counted
// by it.
inline constexpr size_t kMaxKeyBytes = 512;

class Ledger {
 public:
  struct Options {
    size_t max_rows = 16'384;     // of running requests, and not yet written: about 1 KiB each
    size_t rows_in_write = 1024;  // rows per write, so that other writes get their turn
    Duration retry = std::chrono::seconds(1);  // after a write that failed because the disk is full
    int retention_days = 0;                    // 0: rows are kept for ever
  };
  // Reserved room for one row; the destructor returns it.
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

  // Reserves room for the row of a new request. Errors, all of the server: overloaded,
  // storage_full, storage_error.
  Result<Place> Open();
  // Whether the disk takes rows. Errors: storage_full, storage_error.
  Status ready() const;
  // `done` is called once, on the store's thread or on this one: OK when the row is safe.
  void Record(Place place, Row row, Done done = nullptr);

  // Called about once a second by the owner's timer thread: retries failed writes and deletes rows
  // older than Options::retention_days. `unix_ms`: the wall time.
  void Tick(int64_t unix_ms);
  // Blocks until all recorded rows are written; returns the error if that failed.
  Status Flush();

  struct Counts {
    uint64_t recorded = 0, written = 0;
    uint64_t refused = 0;        // places
    uint64_t lost = 0;           // rows: reported to their `done` and logged
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
  void LogLost(size_t rows, const Status& why);
  void Sweep(int64_t unix_ms);

  const Options options_;
  store::Store& store_;
  const Clock& clock_;
  Logger* const log_;
  mutable Mutex mutex_;
  CondVar changed_;
  std::deque<Entry> rows_ GUARDED_BY(mutex_);  // oldest first
  size_t handed_ GUARDED_BY(mutex_) = 0;       // rows passed to the store
  bool writing_ GUARDED_BY(mutex_) = false;    // a write is in progress
  bool sweeping_ GUARDED_BY(mutex_) = false;
  TimePoint retry_at_ GUARDED_BY(mutex_) = TimePoint::min();
  int64_t next_sweep_ms_ GUARDED_BY(mutex_) = 0;
  Status last_ GUARDED_BY(mutex_);  // of the last write
  Counts counts_ GUARDED_BY(mutex_);
};

}  // namespace tutti::usage
