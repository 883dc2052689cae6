// What the store knows of webhooks: who wants to be told of what, and what is still to be told. The
// one place with SQL of theirs.
//
// An event is written in the transaction that makes it true (an outbox), by a trigger of whose it
// is (jobs::kJobNews), so that nothing ends untold. All functions run on the store's thread, inside
// a work of it; their errors are the database's. Times are unix milliseconds.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "store/database.h"
#include "store/migrations.h"

namespace tutti::webhooks {

extern const store::Migration kWebhookTables;
// Whose an event is; who writes events says so, or a trigger beside (jobs::kJobEventOwners).
extern const store::Migration kWebhookOwners;

struct Event {
  int64_t number = 0;
  std::string owner;    // tenant; empty: not known any more
  std::string id;       // "evt_...", the same at every attempt
  std::string subject;  // "job_..."
  std::string type;     // "job.completed"
  std::string url;
  int64_t created_ms = 0;
  int64_t attempts = 0;  // that were made
};

// Its end is told to `url`. Once for each subject.
Status AddWish(store::Database& database, const std::string& subject, const std::string& url);

// The first behind `after` of the owners that have events to be told now or later, in the order of
// their names; of all where `after` is nothing. Nothing: there is none.
Result<std::optional<std::string>> NextOwner(store::Database& database,
                                             const std::optional<std::string>& after);
// Events of that owner that are to be told now, the longest due first.
Result<std::vector<Event>> DueEvents(store::Database& database, const std::string& owner,
                                     int64_t now_ms, int64_t most);
Status MarkDelivered(store::Database& database, int64_t number, int64_t now_ms);
Status MarkRetry(store::Database& database, int64_t number, int64_t next_ms,
                 const std::string& why);
// It is tried no more: callback_failed.
Status MarkFailed(store::Database& database, int64_t number, int64_t now_ms,
                  const std::string& why);
// Nothing that waits for that URL is tried any more: it has said that it is gone.
Status MarkGone(store::Database& database, const std::string& url, int64_t now_ms);
// Events that ended before then, at most `most`.
Status DropEnded(store::Database& database, int64_t before_ms, int64_t most);

// How far a subject's webhook is: "waiting" (for the end), "pending", "delivered",
// "callback_failed". Nothing: none was asked for.
struct Delivery {
  std::string status;
  int64_t attempts = 0;
  std::string error;  // of the last attempt that failed
};
Result<std::optional<Delivery>> DeliveryOf(store::Database& database, const std::string& subject);

}  // namespace tutti::webhooks
