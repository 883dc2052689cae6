// The batches of the store and their lines: what a batch is, how far it has come, which of its
// lines wait, run or have ended and with which answer. The one place with SQL of theirs.
//
// A line's end and the batch's counts change in one transaction, and a line that has ended is never
// run again. Lines run under one process: those that run are its own, and a start takes back what
// the process before had. All functions run on the store's thread, inside a work of it; their
// errors are the database's. Times are unix milliseconds.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "services/batches/file_rows.h"
#include "services/responses/response_writer.h"
#include "store/database.h"
#include "store/migrations.h"
#include "wire/batch.h"

namespace tutti::batches {

extern const store::Migration kBatchTables;

using wire::BatchState;

struct BatchRow {
  wire::BatchView view;
  int64_t number = 0;                          // its lines name it so
  std::string owner;                           // tenant
  std::string caller;                          // JSON, as responses::WriteCaller
  std::string kind;                            // of its lines, as calls::NameOf
  int64_t lines = 0, bytes = 0;                // of its input, as it was uploaded
  int64_t output_expires_s = 0;                // of its files, after their creation; 0 = never
  BatchState ending = BatchState::kCompleted;  // what it becomes once its files are made
};

// What one owner may have that has not ended.
struct BatchLimits {
  int64_t batches = 50;
  int64_t lines = 500'000;
  int64_t bytes = int64_t{2} << 30;
};

// Errors: tenant_queue_full, which tells all numbers.
Status InsertBatch(store::Database& database, BatchRow* row, const BatchLimits& limits);
// Nothing: there is no such batch of this owner.
Result<std::optional<BatchRow>> LoadBatch(store::Database& database, const std::string& owner,
                                          const std::string& id);
// Newest first, behind the batch `after` (empty: from the newest). Errors: not_found (`after`).
// `endpoint`: those of that one alone; empty: all.
Result<std::vector<wire::BatchView>> ListBatches(store::Database& database,
                                                 const std::string& owner,
                                                 const std::string& endpoint,
                                                 const std::string& after, int64_t most);
// All that have not ended, oldest first.
Result<std::vector<BatchRow>> OpenBatches(store::Database& database);
// What of a batch changes: its state, times, counts of all lines, model, errors, files, ending.
Status SaveBatch(store::Database& database, const BatchRow& row);
// Likewise, but only if it is in that state still. Whether it was.
Result<bool> MoveBatch(store::Database& database, const BatchRow& row, BatchState from);

// --- lines ---

struct NewLine {
  int64_t line = 0;               // from 1
  int64_t offset = 0, bytes = 0;  // in the input, without its end
  std::string custom_id;
};
// Those whose custom_id is another line's already are left out; their numbers.
Result<std::vector<int64_t>> InsertLines(store::Database& database, int64_t batch,
                                         const std::vector<NewLine>& lines);

struct ClaimedLine {
  int64_t batch = 0, line = 0, offset = 0, bytes = 0;
  int64_t attempt = 1;
};
// Up to `most` that wait, in their order, run from now on.
Result<std::vector<ClaimedLine>> ClaimLines(store::Database& database, int64_t batch, int64_t most);

struct LineEnd {
  int64_t batch = 0, line = 0;
  bool again = false, spent = false;  // it waits again; the attempt counts
  int status_code = 0;                // as its route answers; 200: well
  std::string body;                   // JSON
  int64_t input_tokens = 0, cached_tokens = 0, output_tokens = 0;
  // A response that is there from its end on, until that time; null: none.
  std::shared_ptr<const responses::ResponseRecord> kept = {};
  int64_t kept_until_s = 0;
};
// Of one that runs; else it changes nothing. Whether it did.
Result<bool> EndLine(store::Database& database, const LineEnd& end);
// What the process before ran waits again, or ends with `body` and 500 where that was its last
// attempt.
Status TakeBackLines(store::Database& database, int64_t max_attempts, const std::string& body);
// Those that run wait again, and no attempt is spent.
Status ReleaseLines(store::Database& database);

struct LineResult {
  int64_t line = 0;
  std::string custom_id;
  int status_code = 0;  // 0: it has not ended
  std::string body;
};
// Behind the line `after`, until they have `most_bytes` or are a few hundred; none: that is all.
Result<std::vector<LineResult>> ReadResults(store::Database& database, int64_t batch, int64_t after,
                                            int64_t most_bytes);
// Up to `most` of them go; whether there were any.
Result<bool> DropLines(store::Database& database, int64_t batch, int64_t most);
// Of batches that have ended: one that has lines left; 0: none.
Result<int64_t> EndedWithLines(store::Database& database);
// One whose lines are dropped goes.
Status DeleteBatch(store::Database& database, int64_t batch);
// Batches that ended before that time go, at most `most`.
Status DropBatches(store::Database& database, int64_t ended_before_ms, int64_t most);

}  // namespace tutti::batches
