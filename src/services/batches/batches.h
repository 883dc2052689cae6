// Batches: runs the lines of uploaded files as requests and writes the answers to result files.
//
// A batch:
//                EndCheck()                 EndIfDone(): all lines have ended
//   validating -------------> in_progress ----------------------> finalizing
//     |  |  |                    |   |                             ^      |
//     |  |  +--------------------+---|-- its window has passed ----+      | OnFiles(): the result
//     |  |                           |                                    v files are written
//     |  |                           |                                completed | expired
//     |  +------ Cancel() -----------+--> cancelling -- OnFiles() --> cancelled
//     +--------- Fail(): invalid input -> failed
//
// A line:
//            ClaimLines()           EndLine(): its answer or its last error is stored
//   waiting -------------> running --------------------------------------------------> ended
//      ^                      |
//      +----------------------+  EndLine(): another attempt follows (background/retry.h)
//                                ReleaseLines(), RecoverLines(): the process stops, or has died
//
// Lines run through api::Inference like other requests, as detached requests of batch priority, a
// few at a time; owners take turns. Each line ends exactly once: its end is stored before it is
// counted. Lines without an end are written to the result files as expired or cancelled. A line of
// /v1/responses with `store` becomes a stored response in the transaction that ends the line.
//
// Long, because each arrow above is a call over the same batches and lines.
//
// All work, and every `done`, runs on a strand of its own. Only ReleaseLeases() blocks.
// Thread-safe. The inference, store, files and clock must outlive it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "api/inference.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/status.h"
#include "protocol/openai/batch.h"
#include "services/background/queue_runner.h"
#include "services/background/retry.h"
#include "services/batches/batch_rows.h"
#include "services/batches/files.h"
#include "services/batches/input_check.h"
#include "services/batches/output_writer.h"
#include "services/batches/response_line.h"
#include "services/calls/buffered_request.h"
#include "store/store.h"

namespace tutti::batches {

// Maximum number of rows that one transaction deletes, so that other work is not delayed for long.
inline constexpr int64_t kDroppedAtOnce = 2000;

struct NewBatch {
  std::string owner = {};  // tenant
  api::CallerRef caller = {};
  protocol::BatchCreate create = {};
};

// Counts since the start of the process; `open` and `running` are current values.
struct BatchStats {
  int64_t open = 0;     // batches that have not ended
  int64_t running = 0;  // lines
  uint64_t created = 0, completed = 0, failed = 0, expired = 0, cancelled = 0;
  // Ends of lines. put_off: the refusal passes by itself.
  uint64_t lines_completed = 0, lines_failed = 0, lines_retried = 0, lines_put_off = 0;
};

class Batches final : public background::QueueRunner {
 public:
  struct Options {
    int64_t slots = 16;  // lines that run at once
    int64_t max_attempts = 3;
    Duration window = std::chrono::hours(24);
    Duration keep = std::chrono::hours(24 * 30);  // of a batch, after its end
    Duration tick = std::chrono::seconds(1);      // interval of checks for expired batches
    // An input that cannot be read is tried again, 250 ms to 8 s apart, before its batch fails.
    Duration input_patience = std::chrono::minutes(1);
    BatchLimits limits;
  };
  // As jobs::Jobs::CallerNow.
  using CallerNow = std::function<Result<api::CallerRef>(const api::CallerRef& accepted)>;
  Batches(const Options& options, api::Inference& inference, store::Store& store, Files& files,
          const Clock& clock, std::function<int64_t()> unix_ms, CallerNow caller);
  ~Batches() override;

  using Callback = std::function<void(Result<protocol::BatchView>)>;

  // Creates a batch; `done` is called when it is durable. Errors: not_found (input_file_id),
  // invalid_value (the file has another purpose), tenant_queue_full, storage_full, storage_error.
  void Create(NewBatch batch, Callback done);
  // Errors: not_found (also another owner's).
  void Get(const std::string& owner, const std::string& id, Callback done);
  // Lists `most` + 1 batches if there are more than `most`. `endpoint` selects the batches of one
  // endpoint; empty: all. Errors: not_found (`after`).
  void List(const std::string& owner, const std::string& endpoint, const std::string& after,
            int64_t most, std::function<void(Result<std::vector<protocol::BatchView>>)> done);
  // Cancels a batch, which soon ends with the results so far. Cancelling again changes nothing.
  // Errors: as Get; already_finished.
  void Cancel(const std::string& owner, const std::string& id, Callback done);
  // Deletes a batch that has ended; its files stay. Errors: as Get; invalid_value (it has not
  // ended).
  void Delete(const std::string& owner, const std::string& id,
              std::function<void(const Status&)> done);

  // Recovers the batches of the previous process and begins to run lines. Called once, when the
  // models are loaded.
  void Start();

  BatchStats stats() const;

 private:
  struct Active {
    BatchRow row;  // as stored, except its counts
    std::shared_ptr<const DiskReader> input;
    std::unique_ptr<InputCheck> check;  // while it is read
    int64_t checked_bytes = 0;
    int failed_reads = 0;  // in a row, of the check
    TimePoint unreadable_since = TimePoint::min();
    int64_t waiting = 0;  // lines that are not claimed
    int64_t held = 0;     // lines that are claimed and whose end is not stored
    TimePoint not_before = TimePoint::min();
    bool early = false;   // cancelled or expired: it ends with the results so far
    bool late = false;    // a line has passed the deadline: it is about to expire
    bool ending = false;  // its files are being written
  };
  using Key = std::pair<int64_t, int64_t>;  // batch, line
  struct Running {
    ClaimedLine line;
    std::unique_ptr<calls::BufferedRequest> call;  // null: it is being read
    ResponseLine* response = nullptr;              // the same, of /v1/responses
  };

  // All functions below run on the strand.
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
  void OnTurned(std::vector<LineEnd> ends, Result<std::vector<ClaimedLine>> claimed);
  void ReadLines(std::vector<ClaimedLine> claimed);
  void Begin(const ClaimedLine& line, const Result<std::string>& text);
  Status ParseLine(Active& active, Running* running, const std::string& text);
  void ReadChain(const Running& running);
  void BeginNow(const ClaimedLine& line, const Status& ready);
  void Pump() override;
  void EndOf(const ClaimedLine& line, calls::BufferedRequest::Answer answer);
  void Keep(const ClaimedLine& line, LineEnd* end);
  void Forget(const ClaimedLine& line);  // it ends with its batch
  // --- ending it (batches_end.cc) ---
  void EndIfDone(Active& active);
  void EndEarly(Active& active, BatchState ending);
  void Finish(int64_t batch);
  void OnFiles(int64_t batch, Result<OutputFiles> files);
  void CloseBatch(const BatchRow& row);
  void DropNext();
  void Tick() override;
  store::Store::Work Release() override;

  const Options options_;
  api::Inference& inference_;
  Files& files_;
  const CallerNow caller_;
  // Used on the strand only.
  background::RetryPolicy retry_;
  bool turning_ = false, turn_again_ = false, dropping_ = false;
  std::map<int64_t, Active> active_;  // by number
  std::string owner_last_;            // whose line was claimed last
  std::map<Key, Running> running_;
  std::vector<LineEnd> ended_;  // not handed to the store yet
  Synchronized<BatchStats> stats_;
};

}  // namespace tutti::batches
