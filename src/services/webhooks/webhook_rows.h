// Database rows of webhooks: subscriptions, and the outbox of events that are not delivered. All
// SQL about webhooks is here.
//
// A trigger (jobs::kJobNews) writes an event in the transaction that ends the job, so that no event
// is lost. All functions run on the store's thread, inside a Store::Work; their errors are the
// database's. Times are unix milliseconds.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "store/database.h"

namespace tutti::webhooks {

extern const store::Migration kWebhookTables;
// Adds the owner column of events. The writer of an event sets it, or a trigger of the writer's
// tables does (jobs::kLeanJobs).
extern const store::Migration kWebhookOwners;

struct Event {
  int64_t number = 0;
  std::string owner;    // tenant; empty: not known any more
  std::string id;       // "evt_...", the same at every attempt
  std::string subject;  // "job_..."
  std::string type;     // "job.completed"
  std::string url;
  int64_t created_ms = 0;
  int64_t attempts = 0;  // that have failed
};

// Subscribes `url` to the end of a subject; at most once per subject.
Status AddWish(store::Database& database, const std::string& subject, const std::string& url);

// The next owner after `after`, in order of names, that has undelivered events; nullopt as `after`
// begins with the first. Returns nullopt if there is none.
Result<std::optional<std::string>> NextOwner(store::Database& database,
                                             const std::optional<std::string>& after);
// Events of that owner that are due, oldest first.
Result<std::vector<Event>> DueEvents(store::Database& database, const std::string& owner,
                                     int64_t now_ms, int64_t most);
Status MarkDelivered(store::Database& database, int64_t number, int64_t now_ms);
Status MarkRetry(store::Database& database, int64_t number, int64_t next_ms,
                 const std::string& why);
// Gives up on an event: callback_failed.
Status MarkFailed(store::Database& database, int64_t number, int64_t now_ms,
                  const std::string& why);
// Gives up on all waiting events for a URL that has answered 410 Gone.
Status MarkGone(store::Database& database, const std::string& url, int64_t now_ms);
// Deletes at most `most` events that ended before that time.
Status DropEnded(store::Database& database, int64_t before_ms, int64_t most);

// Delivery state of a subject's webhook: "waiting" (for the end), "pending", "delivered",
// "callback_failed". nullopt: the subject has no webhook.
struct Delivery {
  std::string status;
  int64_t attempts = 0;
  std::string error;  // of the last attempt that failed
};
Result<std::optional<Delivery>> DeliveryOf(store::Database& database, const std::string& subject);

}  // namespace tutti::webhooks
