// Batches: the lines of a file, run as requests when there is room, and their answers as files.
//
// A batch is a client that lives in the process: its lines go through the same waist as any
// request, as detached work of the batch class, a few at a time of all owners in turn. Each line
// ends exactly once, in the store, before it is counted; a batch whose lines have ended (or that is
// cancelled, or too old) writes them to files, and only then says so. What runs when the process
// dies runs again in the next one. A line of /v1/responses that is `store` is a response of that
// name from the line's end on, in the same transaction.
//
// All of it happens on a strand of its own, where every `done` is called, later. No call here waits
// but GiveBack(). Thread-safe. The inference, store, files and clock must outlive it.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/inference.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/status.h"
#include "services/batches/batch_rows.h"
#include "services/batches/files.h"
#include "services/batches/input_check.h"
#include "services/batches/output_writer.h"
#include "services/batches/response_line.h"
#include "services/calls/whole_call.h"
#include "services/responses/strand.h"
#include "store/store.h"
#include "wire/batch.h"

namespace tutti::batches {

// Rows that one transaction of the store removes, so that others get their turn between.
inline constexpr int64_t kDroppedAtOnce = 2000;
// Wait before what the store or a file could not do is tried again.
inline constexpr Duration kRetry = std::chrono::seconds(1);

struct NewBatch {
  std::string owner = {};  // tenant
  api::CallerRef caller = {};
  wire::BatchCreate create = {};
};

// Since the start, but for the first two.
struct BatchStats {
  int64_t open = 0;     // batches that have not ended
  int64_t running = 0;  // lines
  uint64_t created = 0, completed = 0, failed = 0, expired = 0, cancelled = 0;
  // Ends of lines. put_off: the refusal passes by itself.
  uint64_t lines_completed = 0, lines_failed = 0, lines_retried = 0, lines_put_off = 0;
};

class Batches {
 public:
  struct Options {
    int64_t slots = 16;  // lines that run at once
    int64_t max_attempts = 3;
    Duration window = std::chrono::hours(24);
    Duration keep = std::chrono::hours(24 * 30);  // a batch, after its end
    Duration tick = std::chrono::seconds(1);      // looks for what is late
    // An input that cannot be read is tried again, 250 ms to 8 s apart, before its batch fails.
    Duration input_patience = std::chrono::minutes(1);
    BatchLimits limits;
  };
  // As jobs::Jobs::CallerNow: who has that credential now.
  using CallerNow = std::function<Result<api::CallerRef>(const api::CallerRef& accepted)>;
  Batches(const Options& options, api::Inference& inference, store::Store& store, Files& files,
          const Clock& clock, std::function<int64_t()> unix_ms, CallerNow caller);
  ~Batches();
  Batches(const Batches&) = delete;
  Batches& operator=(const Batches&) = delete;

  using Shown = std::function<void(Result<wire::BatchView>)>;

  // Once it is durable. Errors: not_found (input_file_id), invalid_value (it is no input of a
  // batch), tenant_queue_full, storage_full, storage_error.
  void Create(NewBatch batch, Shown done);
  // Errors: not_found (also another owner's).
  void Get(const std::string& owner, const std::string& id, Shown done);
  // One more than `most` where there are more. `endpoint`: batches of that one alone; empty: all.
  // Errors: not_found (`after`).
  void List(const std::string& owner, const std::string& endpoint, const std::string& after,
            int64_t most, std::function<void(Result<std::vector<wire::BatchView>>)> done);
  // Ends it with what it has, soon. Once more changes nothing. Errors: as Get; already_finished.
  void Cancel(const std::string& owner, const std::string& id, Shown done);
  // A batch that has ended is there no more; its files stay. Errors: as Get; invalid_value (it has
  // not ended).
  void Delete(const std::string& owner, const std::string& id,
              std::function<void(const Status&)> done);

  // Takes up what the process before left, and begins. Once, when the models are loaded.
  void Start();
  // Before a drain: what runs is left to the next process, without spending an attempt; nothing
  // begins any more. Waits for the disk.
  void GiveBack();

  BatchStats stats() const;
  const std::shared_ptr<responses::Strand>& strand() const { return strand_; }

 private:
  struct Active {
    BatchRow row;  // as it is stored, but for its counts
    std::shared_ptr<const DiskReader> input;
    std::unique_ptr<InputCheck> check;  // while it is read
    int64_t checked_bytes = 0;
    int failed_reads = 0;  // in a row, of the check
    TimePoint unreadable_since = TimePoint::min();
    int64_t waiting = 0;  // lines that nobody has claimed
    int64_t held = 0;     // lines that are claimed and whose end is not stored
    TimePoint not_before = TimePoint::min();
    bool early = false;   // it ends with what it has: cancelled, expired
    bool late = false;    // a line was given up for its time: it is about to expire
    bool ending = false;  // its files are being made
  };
  using Key = std::pair<int64_t, int64_t>;  // batch, line
  struct Running {
    ClaimedLine line;
    std::unique_ptr<calls::WholeCall> call;  // null: it is being read
    ResponseLine* response = nullptr;        // the same, of /v1/responses
  };

  template <typename Change>
  void Count(const Change& change) {
    const MutexLock lock(mutex_);
    change(stats_);
  }
  // Of the strand.
  Active* Find(int64_t batch);
  // --- checking the input (batches_check.cc) ---
  void Open(BatchRow row);
  void BeginCheck(int64_t batch);
  void CheckNext(int64_t batch);
  void OnPiece(int64_t batch, const Result<std::string>& piece);
  void OnUnreadable(Active& active, const Status& why);
  void StoreLines(int64_t batch, std::vector<NewLine> lines, bool last);
  void EndCheck(Active& active);
  void Fail(Active& active, std::string errors);
  // --- running its lines ---
  void Turn();
  std::vector<std::pair<int64_t, int64_t>> Shares();  // batch, lines to claim
  void OnTurned(const Status& status, std::vector<LineEnd> ends, std::vector<ClaimedLine> claimed);
  void ReadLines(std::vector<ClaimedLine> claimed);
  void Begin(const ClaimedLine& line, const Result<std::string>& text);
  // What it is begun with, once what it goes on from is known.
  Status Understand(Active& active, Running* running, const std::string& text);
  void ReadChain(const Running& running);
  void BeginNow(const ClaimedLine& line, const Status& ready);
  void Pump();
  void EndOf(const ClaimedLine& line, calls::WholeCall::Answer answer);
  void Keep(const ClaimedLine& line, LineEnd* end);
  void Forget(const ClaimedLine& line);  // its end is told by the batch's
  // --- ending it (batches_end.cc) ---
  void EndIfDone(Active& active);
  void EndEarly(Active& active, BatchState ending);
  void Finish(int64_t batch);
  void OnFiles(int64_t batch, Result<OutputFiles> files);
  void Close(const BatchRow& row);
  void DropNext();
  void TickIn(Duration wait);
  void Tick();

  const Options options_;
  api::Inference& inference_;
  store::Store& store_;
  Files& files_;
  const Clock& clock_;
  const std::function<int64_t()> unix_ms_;
  const CallerNow caller_;
  // Of the strand.
  bool started_ = false, stopped_ = false, turning_ = false, turn_again_ = false, dropping_ = false;
  TimePoint next_tick_ = TimePoint::max(), next_drop_ = TimePoint::min();
  std::map<int64_t, Active> active_;  // by number
  std::string owner_last_;            // whose line was claimed last
  std::map<Key, Running> running_;
  std::vector<LineEnd> ended_;  // not yet on their way to the store
  mutable Mutex mutex_;
  BatchStats stats_ GUARDED_BY(mutex_);
  const std::shared_ptr<responses::Strand> strand_;  // last: its thread ends before what it uses
};

}  // namespace tutti::batches
