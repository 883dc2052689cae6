#include "services/batches/batch_rows.h"

#include <algorithm>
#include <utility>

#include "services/responses/response_rows.h"

namespace tutti::batches {
namespace {

using store::Database;
using store::Run;
using store::Statement;

constexpr int64_t kResultsAtOnce = 256;

int64_t Number(BatchState state) { return static_cast<int64_t>(state); }
BatchState StateOf(int64_t number) {
  return static_cast<BatchState>(std::clamp<int64_t>(number, 0, Number(BatchState::kCancelled)));
}

#define BATCH_COLUMNS                                                                              \
  "number, id, owner, caller, kind, endpoint, model, input_file, output_file, error_file, state, " \
  "ending, errors, metadata, created_ms, in_progress_ms, expires_ms, finalizing_ms, "              \
  "completed_ms, failed_ms, expired_ms, cancelling_ms, cancelled_ms, total, completed, failed, "   \
  "input_tokens, cached_tokens, output_tokens, lines, bytes, output_expires_s"

BatchRow BatchOf(const Statement& row) {
  BatchRow batch;
  int at = 0;
  const auto number = [&] { return row.Int(at++); };
  const auto text = [&] { return std::string(row.Text(at++)); };
  protocol::BatchView& view = batch.view;
  batch.number = number();
  view.id = text();
  batch.owner = text();
  batch.caller = text();
  batch.kind = text();
  view.endpoint = text();
  view.model = text();
  view.input_file = text();
  view.output_file = text();
  view.error_file = text();
  view.state = StateOf(number());
  batch.ending = StateOf(number());
  view.errors = text();
  view.metadata = text();
  for (int64_t* const field :
       {&view.created_ms, &view.in_progress_ms, &view.expires_ms, &view.finalizing_ms,
        &view.completed_ms, &view.failed_ms, &view.expired_ms, &view.cancelling_ms,
        &view.cancelled_ms, &view.total, &view.completed, &view.failed, &view.input_tokens,
        &view.cached_tokens, &view.output_tokens, &batch.lines, &batch.bytes,
        &batch.output_expires_s}) {
    *field = number();
  }
  view.input_lines = batch.lines;
  return batch;
}

constexpr int64_t kAnyState = -1;

Result<bool> Save(Database& database, const BatchRow& row, int64_t from) {
  const protocol::BatchView& view = row.view;
  RETURN_IF_ERROR(Run(
      database,
      "UPDATE batch SET model=?3, output_file=?4, error_file=?5, state=?6, ending=?7, "
      "errors=?8, in_progress_ms=?9, finalizing_ms=?10, completed_ms=?11, failed_ms=?12, "
      "expired_ms=?13, cancelling_ms=?14, cancelled_ms=?15, total=?16 "
      "WHERE number=?1 AND (?2=-1 OR state=?2)",
      row.number, from, view.model, view.output_file, view.error_file, Number(view.state),
      Number(row.ending), view.errors, view.in_progress_ms, view.finalizing_ms, view.completed_ms,
      view.failed_ms, view.expired_ms, view.cancelling_ms, view.cancelled_ms, view.total));
  return database.changes() > 0;
}

}  // namespace

// Ends of lines and the first of what waits are found by indexes of those alone: a batch of fifty
// thousand lines is claimed a few at a time.
const store::Migration kBatchTables = {
    R"(CREATE TABLE batch(
         number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, owner TEXT NOT NULL,
         caller TEXT NOT NULL, kind TEXT NOT NULL, endpoint TEXT NOT NULL, model TEXT NOT NULL,
         input_file TEXT NOT NULL, output_file TEXT NOT NULL, error_file TEXT NOT NULL,
         state INTEGER NOT NULL, ending INTEGER NOT NULL, errors TEXT NOT NULL,
         metadata TEXT NOT NULL, created_ms INTEGER NOT NULL, in_progress_ms INTEGER NOT NULL,
         expires_ms INTEGER NOT NULL, finalizing_ms INTEGER NOT NULL,
         completed_ms INTEGER NOT NULL, failed_ms INTEGER NOT NULL, expired_ms INTEGER NOT NULL,
         cancelling_ms INTEGER NOT NULL, cancelled_ms INTEGER NOT NULL, total INTEGER NOT NULL,
         completed INTEGER NOT NULL, failed INTEGER NOT NULL, input_tokens INTEGER NOT NULL,
         cached_tokens INTEGER NOT NULL, output_tokens INTEGER NOT NULL, lines INTEGER NOT NULL,
         bytes INTEGER NOT NULL, output_expires_s INTEGER NOT NULL,
         has_lines INTEGER NOT NULL DEFAULT 1);
       CREATE INDEX batch_owner ON batch(owner, number);
       CREATE INDEX batch_open ON batch(owner) WHERE state<4;
       CREATE INDEX batch_to_drop ON batch(number) WHERE state>=4 AND has_lines=1;
       CREATE TABLE batch_line(
         batch INTEGER NOT NULL, line INTEGER NOT NULL, custom_id TEXT NOT NULL,
         offset INTEGER NOT NULL, bytes INTEGER NOT NULL, state INTEGER NOT NULL,
         attempt INTEGER NOT NULL, status_code INTEGER NOT NULL, body TEXT NOT NULL,
         PRIMARY KEY(batch, line));
       CREATE UNIQUE INDEX batch_line_name ON batch_line(batch, custom_id);
       CREATE INDEX batch_line_waiting ON batch_line(batch, line) WHERE state=0;
       CREATE INDEX batch_line_running ON batch_line(batch, line) WHERE state=1)",
    "DROP TABLE batch; DROP TABLE batch_line"};

Status InsertBatch(Database& database, BatchRow* row, const BatchLimits& limits) {
  if (row->lines > limits.lines || row->bytes > limits.bytes) {  // no waiting mends it
    return ResourceExhausted("request_too_large",
                             "input lines, including empty ones: " + std::to_string(row->lines) +
                                 ", limit " + std::to_string(limits.lines) +
                                 "; bytes: " + std::to_string(row->bytes) + ", limit " +
                                 std::to_string(limits.bytes) + "; split the input")
        .WithParam("input_file_id");
  }
  {
    ASSIGN_OR_RETURN(Statement sum,
                     database.Prepare("SELECT count(*), coalesce(sum(lines), 0), "
                                      "coalesce(sum(bytes), 0) FROM batch WHERE owner=?1 AND "
                                      "state<4"));
    RETURN_IF_ERROR(sum.Bind(row->owner).Step().status());
    const int64_t batches = sum.Int(0), lines = sum.Int(1), bytes = sum.Int(2);
    if (batches >= limits.batches || lines + row->lines > limits.lines ||
        bytes + row->bytes > limits.bytes) {
      const std::string all_lines = std::to_string(lines) + " + " + std::to_string(row->lines);
      const std::string all_bytes = std::to_string(bytes) + " + " + std::to_string(row->bytes);
      return ResourceExhausted("tenant_queue_full",
                               "unfinished batches: " + std::to_string(batches) + ", limit " +
                                   std::to_string(limits.batches) + "; lines: " + all_lines +
                                   ", limit " + std::to_string(limits.lines) + "; bytes: " +
                                   all_bytes + ", limit " + std::to_string(limits.bytes));
    }
  }
  const protocol::BatchView& view = row->view;
  RETURN_IF_ERROR(Run(
      database,
      "INSERT INTO batch(id, owner, caller, kind, endpoint, model, input_file, output_file, "
      "error_file, state, ending, errors, metadata, created_ms, in_progress_ms, expires_ms, "
      "finalizing_ms, completed_ms, failed_ms, expired_ms, cancelling_ms, cancelled_ms, total, "
      "completed, failed, input_tokens, cached_tokens, output_tokens, lines, bytes, "
      "output_expires_s) VALUES(?1, ?2, ?3, ?4, ?5, '', ?6, '', '', 0, ?7, '', ?8, ?9, 0, ?10, 0, "
      "0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, ?11, ?12, ?13)",
      view.id, row->owner, row->caller, row->kind, view.endpoint, view.input_file,
      Number(row->ending), view.metadata, view.created_ms, view.expires_ms, row->lines, row->bytes,
      row->output_expires_s));
  ASSIGN_OR_RETURN(Statement made, database.Prepare("SELECT number FROM batch WHERE id=?1"));
  RETURN_IF_ERROR(made.Bind(view.id).Step().status());
  row->number = made.Int(0);
  return OkStatus();
}

Result<std::optional<BatchRow>> LoadBatch(Database& database, const std::string& owner,
                                          const std::string& id) {
  ASSIGN_OR_RETURN(Statement row, database.Prepare("SELECT " BATCH_COLUMNS
                                                   " FROM batch WHERE id=?1 AND owner=?2"));
  ASSIGN_OR_RETURN(const bool found, row.Bind(id, owner).Step());
  if (!found) return std::optional<BatchRow>();
  return std::optional(BatchOf(row));
}

Result<std::optional<std::string>> OwnerOf(Database& database, const std::string& id) {
  ASSIGN_OR_RETURN(Statement row, database.Prepare("SELECT owner FROM batch WHERE id=?1"));
  ASSIGN_OR_RETURN(const bool found, row.Bind(id).Step());
  return found ? std::optional(std::string(row.Text(0))) : std::nullopt;
}

Result<std::vector<BatchRow>> ListBatches(Database& database, const BatchQuery& query) {
  std::optional<int64_t> before;
  if (!query.after.empty()) {
    ASSIGN_OR_RETURN(Statement place, database.Prepare("SELECT number FROM batch WHERE id=?1 AND "
                                                       "(?2 IS NULL OR owner=?2)"));
    ASSIGN_OR_RETURN(const bool found, place.Bind(query.after, query.owner).Step());
    if (!found) return NotFound("not_found", "there is no such batch").WithParam("after");
    before = place.Int(0);
  }
  // Two texts: each uses the index of its order.
  ASSIGN_OR_RETURN(
      Statement rows,
      database.Prepare(
          query.owner.has_value()
              ? "SELECT " BATCH_COLUMNS " FROM batch WHERE owner=?1 AND (?2 IS NULL OR number<?2) "
                "AND (?4='' OR endpoint=?4) ORDER BY number DESC LIMIT ?3"
              : "SELECT " BATCH_COLUMNS " FROM batch WHERE (?2 IS NULL OR number<?2) AND "
                "(?4='' OR endpoint=?4) ORDER BY number DESC LIMIT ?3"));
  rows.Bind(query.owner, before, query.limit, query.endpoint);
  std::vector<BatchRow> batches;
  while (true) {
    ASSIGN_OR_RETURN(const bool more, rows.Step());
    if (!more) return batches;
    batches.push_back(BatchOf(rows));
  }
}

Result<std::vector<BatchRow>> OpenBatches(Database& database) {
  ASSIGN_OR_RETURN(Statement rows, database.Prepare("SELECT " BATCH_COLUMNS
                                                    " FROM batch WHERE state<4 ORDER BY number"));
  std::vector<BatchRow> open;
  while (true) {
    ASSIGN_OR_RETURN(const bool more, rows.Step());
    if (!more) return open;
    open.push_back(BatchOf(rows));
  }
}

Status SaveBatch(Database& database, const BatchRow& row) {
  return Save(database, row, kAnyState).status();
}

Result<bool> MoveBatch(Database& database, const BatchRow& row, BatchState from) {
  return Save(database, row, Number(from));
}

Result<std::vector<int64_t>> InsertLines(Database& database, int64_t batch,
                                         const std::vector<NewLine>& lines) {
  std::vector<int64_t> twice;
  for (const NewLine& line : lines) {
    RETURN_IF_ERROR(Run(database,
                        "INSERT INTO batch_line(batch, line, custom_id, offset, bytes, state, "
                        "attempt, status_code, body) VALUES(?1, ?2, ?3, ?4, ?5, 0, 0, 0, '') "
                        "ON CONFLICT(batch, custom_id) DO NOTHING",
                        batch, line.line, line.custom_id, line.offset, line.bytes));
    if (database.changes() == 0) twice.push_back(line.line);
  }
  return twice;
}

Result<std::vector<ClaimedLine>> ClaimLines(Database& database, int64_t batch, int64_t most) {
  std::vector<ClaimedLine> claimed;
  {
    ASSIGN_OR_RETURN(Statement rows,
                     database.Prepare("SELECT line, offset, bytes, attempt FROM batch_line "
                                      "WHERE batch=?1 AND state=0 ORDER BY line LIMIT ?2"));
    rows.Bind(batch, most);
    while (true) {
      ASSIGN_OR_RETURN(const bool more, rows.Step());
      if (!more) break;
      claimed.push_back({batch, rows.Int(0), rows.Int(1), rows.Int(2), rows.Int(3) + 1});
    }
  }
  for (const ClaimedLine& line : claimed)
    RETURN_IF_ERROR(Run(database,
                        "UPDATE batch_line SET state=1, attempt=attempt+1 "
                        "WHERE batch=?1 AND line=?2",
                        batch, line.line));
  return claimed;
}

Result<bool> EndLine(Database& database, const LineEnd& end) {
  if (end.again) {
    RETURN_IF_ERROR(Run(database,
                        "UPDATE batch_line SET state=0, attempt=attempt-CASE WHEN ?3 THEN 0 ELSE 1 "
                        "END WHERE batch=?1 AND line=?2 AND state=1",
                        end.batch, end.line, end.counted));
    return database.changes() > 0;
  }
  RETURN_IF_ERROR(Run(database,
                      "UPDATE batch_line SET state=2, status_code=?3, body=?4 "
                      "WHERE batch=?1 AND line=?2 AND state=1",
                      end.batch, end.line, end.status_code, end.body));
  if (database.changes() == 0) return false;
  if (end.kept != nullptr)
    RETURN_IF_ERROR(responses::SaveEnded(database, *end.kept, end.kept_until_s, {}));
  RETURN_IF_ERROR(Run(database,
                      "UPDATE batch SET completed=completed+?2, failed=failed+1-?2, "
                      "input_tokens=input_tokens+?3, cached_tokens=cached_tokens+?4, "
                      "output_tokens=output_tokens+?5 WHERE number=?1",
                      end.batch, end.status_code == 200, end.input_tokens, end.cached_tokens,
                      end.output_tokens));
  return true;
}

Status RecoverLines(Database& database, int64_t max_attempts, const std::string& body) {
  std::vector<LineEnd> dead;
  {
    ASSIGN_OR_RETURN(Statement rows,
                     database.Prepare("SELECT batch, line FROM batch_line WHERE state=1 AND "
                                      "attempt>=?1"));
    rows.Bind(max_attempts);
    while (true) {
      ASSIGN_OR_RETURN(const bool more, rows.Step());
      if (!more) break;
      LineEnd end;
      end.batch = rows.Int(0);
      end.line = rows.Int(1);
      end.status_code = 500;
      end.body = body;
      dead.push_back(std::move(end));
    }
  }
  for (const LineEnd& end : dead) RETURN_IF_ERROR(EndLine(database, end).status());
  return Run(database, "UPDATE batch_line SET state=0 WHERE state=1");
}

Status ReleaseLines(Database& database) {
  return Run(database, "UPDATE batch_line SET state=0, attempt=attempt-1 WHERE state=1");
}

Result<std::vector<LineResult>> ReadResults(Database& database, int64_t batch, int64_t after,
                                            int64_t max_bytes) {
  ASSIGN_OR_RETURN(Statement rows,
                   database.Prepare("SELECT line, custom_id, status_code, body FROM batch_line "
                                    "WHERE batch=?1 AND line>?2 ORDER BY line LIMIT ?3"));
  rows.Bind(batch, after, kResultsAtOnce);
  std::vector<LineResult> results;
  int64_t bytes = 0;
  while (bytes < max_bytes) {
    ASSIGN_OR_RETURN(const bool more, rows.Step());
    if (!more) break;
    results.push_back({rows.Int(0), std::string(rows.Text(1)), static_cast<int>(rows.Int(2)),
                       std::string(rows.Text(3))});
    bytes += std::ssize(results.back().body);
  }
  return results;
}

Result<bool> DropLines(Database& database, int64_t batch, int64_t most) {
  RETURN_IF_ERROR(Run(database,
                      "DELETE FROM batch_line WHERE batch=?1 AND line IN "
                      "(SELECT line FROM batch_line WHERE batch=?1 LIMIT ?2)",
                      batch, most));
  if (database.changes() > 0) return true;
  RETURN_IF_ERROR(
      Run(database, "UPDATE batch SET has_lines=0 WHERE number=?1 AND state>=4", batch));
  return false;
}

Result<int64_t> EndedWithLines(Database& database) {
  ASSIGN_OR_RETURN(Statement row, database.Prepare("SELECT number FROM batch WHERE state>=4 AND "
                                                   "has_lines=1 LIMIT 1"));
  ASSIGN_OR_RETURN(const bool found, row.Step());
  return found ? row.Int(0) : 0;
}

Status DeleteBatch(Database& database, int64_t batch) {
  return Run(database, "DELETE FROM batch WHERE number=?1", batch);
}

Status DropBatches(Database& database, int64_t ended_before_ms, int64_t most) {
  return Run(database,
             "DELETE FROM batch WHERE number IN (SELECT number FROM batch WHERE state>=4 AND "
             "has_lines=0 AND max(completed_ms, failed_ms, expired_ms, cancelled_ms)<?1 LIMIT ?2)",
             ended_before_ms, most);
}

}  // namespace tutti::batches
