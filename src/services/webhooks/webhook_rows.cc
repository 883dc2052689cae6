#include "services/webhooks/webhook_rows.h"

#include <algorithm>
#include <array>

namespace tutti::webhooks {

using store::Database;
using store::Statement;

namespace {
constexpr int64_t kPending = 0, kDelivered = 1, kFailed = 2;
}

const store::Migration kWebhookTables = {
    R"(CREATE TABLE webhook(subject TEXT PRIMARY KEY, url TEXT NOT NULL) WITHOUT ROWID;
       CREATE TABLE webhook_event(
         number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, subject TEXT NOT NULL,
         type TEXT NOT NULL, url TEXT NOT NULL, created_ms INTEGER NOT NULL,
         state INTEGER NOT NULL, attempts INTEGER NOT NULL, next_ms INTEGER NOT NULL,
         ended_ms INTEGER NOT NULL, error TEXT NOT NULL);
       CREATE INDEX webhook_event_due ON webhook_event(next_ms, number) WHERE state=0;
       CREATE INDEX webhook_event_ended ON webhook_event(ended_ms) WHERE state>0;
       CREATE INDEX webhook_event_subject ON webhook_event(subject, number))",
    "DROP TABLE webhook; DROP TABLE webhook_event"};

// Due events are found owner by owner.
const store::Migration kWebhookOwners = {
    R"(ALTER TABLE webhook_event ADD COLUMN owner TEXT NOT NULL DEFAULT '';
       DROP INDEX webhook_event_due;
       CREATE INDEX webhook_event_due ON webhook_event(owner, next_ms, number) WHERE state=0)",
    R"(DROP INDEX webhook_event_due;
       CREATE INDEX webhook_event_due ON webhook_event(next_ms, number) WHERE state=0;
       ALTER TABLE webhook_event DROP COLUMN owner)"};

Status AddWish(Database& database, const std::string& subject, const std::string& url) {
  return Run(database, "INSERT OR REPLACE INTO webhook VALUES(?1, ?2)", subject, url);
}

Result<std::optional<std::string>> NextOwner(Database& database,
                                             const std::optional<std::string>& after) {
  ASSIGN_OR_RETURN(
      Statement row,
      database.Prepare(after.has_value() ? "SELECT owner FROM webhook_event WHERE state=0 AND "
                                           "owner>?1 ORDER BY owner LIMIT 1"
                                         : "SELECT owner FROM webhook_event WHERE state=0 AND "
                                           "owner>=?1 ORDER BY owner LIMIT 1"));
  ASSIGN_OR_RETURN(const bool found, row.Bind(after.value_or("")).Step());
  return found ? std::optional(std::string(row.Text(0))) : std::nullopt;
}

Result<std::vector<Event>> DueEvents(Database& database, const std::string& owner, int64_t now_ms,
                                     int64_t most) {
  ASSIGN_OR_RETURN(Statement rows,
                   database.Prepare("SELECT number, owner, id, subject, type, url, created_ms, "
                                    "attempts FROM webhook_event "
                                    "WHERE state=0 AND owner=?1 AND next_ms<=?2 "
                                    "ORDER BY next_ms, number LIMIT ?3"));
  rows.Bind(owner, now_ms, most);
  std::vector<Event> events;
  while (true) {
    ASSIGN_OR_RETURN(const bool more, rows.Step());
    if (!more) return events;
    events.push_back({rows.Int(0), std::string(rows.Text(1)), std::string(rows.Text(2)),
                      std::string(rows.Text(3)), std::string(rows.Text(4)),
                      std::string(rows.Text(5)), rows.Int(6), rows.Int(7)});
  }
}

Status MarkDelivered(Database& database, int64_t number, int64_t now_ms) {
  return Run(database,
             "UPDATE webhook_event SET state=?2, attempts=attempts+1, ended_ms=?3, error='' "
             "WHERE number=?1 AND state=0",
             number, kDelivered, now_ms);
}

Status MarkRetry(Database& database, int64_t number, int64_t next_ms, const std::string& why) {
  return Run(database,
             "UPDATE webhook_event SET attempts=attempts+1, next_ms=?2, error=?3 "
             "WHERE number=?1 AND state=0",
             number, next_ms, why);
}

Status MarkFailed(Database& database, int64_t number, int64_t now_ms, const std::string& why) {
  return Run(database,
             "UPDATE webhook_event SET state=?2, attempts=attempts+1, ended_ms=?3, error=?4 "
             "WHERE number=?1 AND state=0",
             number, kFailed, now_ms, why);
}

Status MarkGone(Database& database, const std::string& url, int64_t now_ms) {
  return Run(database,
             "UPDATE webhook_event SET state=?2, ended_ms=?3, error='the address is gone (410)' "
             "WHERE url=?1 AND state=0",
             url, kFailed, now_ms);
}

Status DropEnded(Database& database, int64_t before_ms, int64_t most) {
  return Run(database,
             "DELETE FROM webhook_event WHERE number IN (SELECT number FROM webhook_event "
             "WHERE state>0 AND ended_ms<?1 ORDER BY ended_ms LIMIT ?2)",
             before_ms, most);
}

Result<std::optional<Delivery>> DeliveryOf(Database& database, const std::string& subject) {
  ASSIGN_OR_RETURN(Statement row,
                   database.Prepare("SELECT e.state, e.attempts, e.error FROM webhook w LEFT JOIN "
                                    "webhook_event e ON e.subject=w.subject WHERE w.subject=?1 "
                                    "ORDER BY e.number DESC LIMIT 1"));
  ASSIGN_OR_RETURN(const bool found, row.Bind(subject).Step());
  if (!found) return std::optional<Delivery>();
  if (row.IsNull(0)) return std::optional(Delivery{"waiting", 0, ""});
  constexpr std::array kWords = {"pending", "delivered", "callback_failed"};
  const auto state = static_cast<size_t>(std::clamp<int64_t>(row.Int(0), kPending, kFailed));
  return std::optional(Delivery{kWords[state], row.Int(1), std::string(row.Text(2))});
}

}  // namespace tutti::webhooks
