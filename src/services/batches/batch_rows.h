// Database rows of batches and of their lines, which wait, run or have ended with an answer. All
// SQL about batches is here.
//
// A line's end and the batch's counts change in one transaction, and a line that has ended is never
// run again. Only one process runs lines, so a line needs no lease: RecoverLines() requeues those
// of the previous process. All functions run on the store's thread, inside a Store::Work; their
// errors are the database's. Times are unix milliseconds.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "protocol/openai/batch.h"
#include "services/batches/file_rows.h"
#include "services/responses/response_writer.h"
#include "store/database.h"

namespace tutti::batches {

extern const store::Migration kBatchTables;

using protocol::BatchState;

struct BatchRow {
  protocol::BatchView view;
  int64_t number = 0;                          // its lines name it so
  std::string owner;                           // tenant
  std::string caller;                          // JSON, as responses::WriteCaller
  std::string kind;                            // of its lines, as calls::NameOf
  int64_t lines = 0, bytes = 0;                // of its uploaded input
  int64_t output_expires_s = 0;                // of its files, after their creation; 0 = never
  BatchState ending = BatchState::kCompleted;  // state after its files have been written
};

// Limits on the unfinished batches of one owner.
struct BatchLimits {
  int64_t batches = 50;
  int64_t lines = 500'000;
  int64_t bytes = int64_t{2} << 30;
};

// Errors: request_too_large, tenant_queue_full.
Status InsertBatch(store::Database& database, BatchRow* row, const BatchLimits& limits);
// nullopt: the owner has no such batch.
Result<std::optional<BatchRow>> LoadBatch(store::Database& database, const std::string& owner,
                                          const std::string& id);
// Owner of a batch; nullopt if there is no such batch.
Result<std::optional<std::string>> OwnerOf(store::Database& database, const std::string& id);

// Filter of ListBatches(): batches of one owner (nullopt: of all) and one endpoint (empty: all),
// behind the batch `after` (empty: from the newest).
struct BatchQuery {
  std::optional<std::string> owner = {};
  std::string endpoint = {};
  std::string after = {};
  int64_t limit = 20;
};
// Newest first. Errors: not_found (`after`).
Result<std::vector<BatchRow>> ListBatches(store::Database& database, const BatchQuery& query);
// Loads the batches that have not ended, oldest first.
Result<std::vector<BatchRow>> OpenBatches(store::Database& database);
// Stores the mutable part of a batch: state, times, line counts, model, errors, files, ending.
Status SaveBatch(store::Database& database, const BatchRow& row);
// Like SaveBatch, but only if the stored state is still `from`; returns whether it was.
Result<bool> MoveBatch(store::Database& database, const BatchRow& row, BatchState from);

// --- lines ---

struct NewLine {
  int64_t line = 0;               // from 1
  int64_t offset = 0, bytes = 0;  // in the input, without its end
  std::string custom_id;
};
// Stores the lines except those whose custom_id exists already; returns the numbers of those.
Result<std::vector<int64_t>> InsertLines(store::Database& database, int64_t batch,
                                         const std::vector<NewLine>& lines);

struct ClaimedLine {
  int64_t batch = 0, line = 0, offset = 0, bytes = 0;
  int64_t attempt = 1;
};
// Claims up to `most` waiting lines, in order.
Result<std::vector<ClaimedLine>> ClaimLines(store::Database& database, int64_t batch, int64_t most);

struct LineEnd {
  int64_t batch = 0, line = 0;
  bool again = false, counted = false;  // the line is requeued; the attempt counts
  int status_code = 0;                  // HTTP status; 200: success
  std::string body;                     // JSON
  int64_t input_tokens = 0, cached_tokens = 0, output_tokens = 0;
  // Response to store until `kept_until_s`; null: none.
  std::shared_ptr<const responses::ResponseRecord> kept = {};
  int64_t kept_until_s = 0;
};
// Ends a line that is running and returns true; changes nothing and returns false otherwise.
Result<bool> EndLine(store::Database& database, const LineEnd& end);
// Requeues lines that the previous process was running. A line without attempts left ends with
// status 500 and `body`.
Status RecoverLines(store::Database& database, int64_t max_attempts, const std::string& body);
// Requeues all running lines without counting an attempt.
Status ReleaseLines(store::Database& database);

struct LineResult {
  int64_t line = 0;
  std::string custom_id;
  int status_code = 0;  // 0: it has not ended
  std::string body;
};
// Results of the lines after number `after`, up to `max_bytes` or a few hundred lines. An empty
// list means that there are no more.
Result<std::vector<LineResult>> ReadResults(store::Database& database, int64_t batch, int64_t after,
                                            int64_t max_bytes);
// Deletes up to `most` lines of a batch; returns whether there were any.
Result<bool> DropLines(store::Database& database, int64_t batch, int64_t most);
// Number of a batch that has ended and still has lines stored; 0 if there is none.
Result<int64_t> EndedWithLines(store::Database& database);
// Deletes a batch whose lines have been dropped.
Status DeleteBatch(store::Database& database, int64_t batch);
// Deletes up to `most` batches that ended before `ended_before_ms`.
Status DropBatches(store::Database& database, int64_t ended_before_ms, int64_t most);

}  // namespace tutti::batches
