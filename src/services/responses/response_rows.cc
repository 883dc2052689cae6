#include "services/responses/response_rows.h"

#include <utility>

#include "services/responses/call_state.h"
#include "services/responses/record_json.h"

namespace tutti::responses {
namespace {

using store::Database;
using store::Statement;

// Whether the owner's ended responses are within the limits.
Result<bool> WithinLimits(Database& database, const std::string& owner,
                          const StoredLimits& limits) {
  ASSIGN_OR_RETURN(Statement row, database.Prepare("SELECT responses, bytes FROM response_total "
                                                   "WHERE owner=?1"));
  ASSIGN_OR_RETURN(const bool found, row.Bind(owner).Step());
  return !found || (row.Int(0) <= limits.responses && row.Int(1) <= limits.bytes);
}

}  // namespace

// The totals are kept by triggers: counting ten thousand rows at each answer's end would make the
// store's thread the slowest part of short answers.
const store::Migration kResponseTables = {
    R"(CREATE TABLE response(
         number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, owner TEXT NOT NULL,
         ended INTEGER NOT NULL, expires_s INTEGER NOT NULL, record TEXT NOT NULL,
         request TEXT NOT NULL);
       CREATE INDEX response_running ON response(number) WHERE ended=0;
       CREATE INDEX response_owner ON response(owner, number) WHERE ended=1;
       CREATE INDEX response_expires ON response(expires_s) WHERE ended=1;
       CREATE TABLE response_total(owner TEXT PRIMARY KEY, responses INTEGER NOT NULL,
         bytes INTEGER NOT NULL) WITHOUT ROWID;
       CREATE TRIGGER response_added AFTER INSERT ON response WHEN new.ended=1 BEGIN
         INSERT INTO response_total VALUES(new.owner, 1, length(CAST(new.record AS BLOB)))
           ON CONFLICT(owner) DO UPDATE SET responses=responses+1, bytes=bytes+excluded.bytes;
       END;
       CREATE TRIGGER response_dropped AFTER DELETE ON response WHEN old.ended=1 BEGIN
         UPDATE response_total
           SET responses=responses-1, bytes=bytes-length(CAST(old.record AS BLOB))
           WHERE owner=old.owner;
         DELETE FROM response_total WHERE owner=old.owner AND responses=0;
       END)",
    "DROP TABLE response; DROP TABLE response_total"};

Status SaveRunning(Database& database, const ResponseRecord& record, const std::string& request) {
  return Run(database,
             "INSERT INTO response(id, owner, ended, expires_s, record, request) "
             "VALUES(?1, ?2, 0, 0, ?3, ?4)",
             record.base.state.id, record.base.owner, EncodeRecord(record), request);
}

Status SaveEnded(Database& database, const ResponseRecord& record, int64_t expires_s,
                 const StoredLimits& limits) {
  const std::string& owner = record.base.owner;
  RETURN_IF_ERROR(Run(database, "DELETE FROM response WHERE id=?1", record.base.state.id));
  RETURN_IF_ERROR(Run(database,
                      "INSERT INTO response(id, owner, ended, expires_s, record, request) "
                      "VALUES(?1, ?2, 1, ?3, ?4, '')",
                      record.base.state.id, owner, expires_s, EncodeRecord(record)));
  while (true) {
    ASSIGN_OR_RETURN(const bool within, WithinLimits(database, owner, limits));
    if (within) return OkStatus();
    RETURN_IF_ERROR(Run(database,
                        "DELETE FROM response WHERE number=(SELECT min(number) FROM response "
                        "WHERE owner=?1 AND ended=1)",
                        owner));
    if (database.changes() == 0) return OkStatus();
  }
}

Result<std::optional<ResponseRecord>> LoadEnded(Database& database, const std::string& owner,
                                                const std::string& id, int64_t now_s) {
  ASSIGN_OR_RETURN(Statement row,
                   database.Prepare("SELECT record FROM response WHERE id=?1 AND owner=?2 AND "
                                    "ended=1 AND expires_s>?3"));
  ASSIGN_OR_RETURN(const bool found, row.Bind(id, owner, now_s).Step());
  if (!found) return std::optional<ResponseRecord>();
  ASSIGN_OR_RETURN(ResponseRecord record, DecodeRecord(row.Text(0)));
  return std::optional(std::move(record));
}

Result<std::vector<api::ChatMessage>> LoadChain(Database& database, const std::string& owner,
                                                const std::string& id, int64_t now_s, int most) {
  std::vector<ResponseRecord> links;  // the newest first
  for (std::string next = id; !next.empty();) {
    if (static_cast<int>(links.size()) >= most) {
      return InvalidArgument("invalid_value", "more than " + std::to_string(most) +
                                                  " responses stand before this one")
          .WithParam("previous_response_id");
    }
    ASSIGN_OR_RETURN(std::optional<ResponseRecord> link, LoadEnded(database, owner, next, now_s));
    if (!link.has_value() || !link->base.state.store) {
      return NotFound("not_found", "there is no such response, or one before it is gone")
          .WithParam("previous_response_id");
    }
    next = link->base.state.previous_response_id;
    links.push_back(*std::move(link));
  }
  std::vector<api::ChatMessage> messages;
  for (auto link = links.rbegin(); link != links.rend(); ++link) {
    messages.insert(messages.end(), link->base.input.begin(), link->base.input.end());
    std::vector<api::ChatMessage> answer = AnswerOf(link->end);
    // A response cancelled before any output counts as an empty answer.
    if (answer.empty()) answer.push_back({api::Role::kAssistant, "", ""});
    messages.insert(messages.end(), answer.begin(), answer.end());
  }
  return messages;
}

Result<std::optional<ResponseRecord>> LoadUnended(Database& database, const std::string& owner,
                                                  const std::string& id) {
  ASSIGN_OR_RETURN(
      Statement row,
      database.Prepare("SELECT record FROM response WHERE id=?1 AND owner=?2 AND ended=0"));
  ASSIGN_OR_RETURN(const bool found, row.Bind(id, owner).Step());
  if (!found) return std::optional<ResponseRecord>();
  Result<ResponseRecord> record = DecodeRecord(row.Text(0));
  return record.ok() ? std::optional(*std::move(record)) : std::nullopt;
}

Result<bool> DeleteResponse(Database& database, const std::string& owner, const std::string& id) {
  RETURN_IF_ERROR(Run(database, "DELETE FROM response WHERE id=?1 AND owner=?2", id, owner));
  return database.changes() > 0;
}

Status DeleteResponses(Database& database, const std::string& owner) {
  return Run(database, "DELETE FROM response WHERE owner=?1", owner);
}

Result<std::pair<std::vector<Unfinished>, int64_t>> LoadRunning(Database& database,
                                                                int64_t after_row, int64_t most) {
  ASSIGN_OR_RETURN(Statement rows,
                   database.Prepare("SELECT number, record, request FROM response WHERE ended=0 "
                                    "AND number>?1 ORDER BY number LIMIT ?2"));
  rows.Bind(after_row, most);
  std::pair<std::vector<Unfinished>, int64_t> found{{}, after_row};
  while (true) {
    ASSIGN_OR_RETURN(const bool row, rows.Step());
    if (!row) return found;
    found.second = rows.Int(0);
    Result<ResponseRecord> record = DecodeRecord(rows.Text(1));
    if (!record.ok()) continue;
    found.first.push_back({*std::move(record), std::string(rows.Text(2))});
  }
}

Result<int64_t> CountRunning(Database& database) {
  ASSIGN_OR_RETURN(Statement count,
                   database.Prepare("SELECT count(*) FROM response WHERE ended=0"));
  RETURN_IF_ERROR(count.Step().status());
  return count.Int(0);
}

Result<int64_t> DropExpired(Database& database, int64_t now_s, int64_t most) {
  RETURN_IF_ERROR(Run(database,
                      "DELETE FROM response WHERE number IN (SELECT number FROM response WHERE "
                      "ended=1 AND expires_s<=?1 LIMIT ?2)",
                      now_s, most));
  return database.changes();
}

}  // namespace tutti::responses
