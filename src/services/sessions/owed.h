// Undelivered replies: answers for senders without a connection (MQTT), kept in the store until the
// server knows that the reply was delivered, so that the next process can deliver them after a
// crash.
//
// All functions run on the store's thread, inside a Store::Work; their errors are the database's.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "services/sessions/history.h"
#include "store/database.h"
#include "store/migrations.h"

namespace tutti::sessions {

extern const store::Migration kOwedTables;  // behind kHistoryTables

// Position in the list of undelivered replies, which is ordered by dialog and turn.
struct OwedPlace {
  int64_t dialog = 0, turn = 0;
};

struct OwedAnswer {
  OwedPlace place;
  SessionKey key;
  std::string message_id;
  std::string reply_to;  // the server's own words (Message::reply_to)
};

// Stores an undelivered reply. It is deleted with its turn: when the dialog is deleted, or when so
// many later turns were accepted that the message id is forgotten.
Status Owe(store::Database& database, int64_t dialog, int64_t turn, const std::string& reply_to);
// At most `most` replies after `after`.
Result<std::vector<OwedAnswer>> ReadOwed(store::Database& database, const OwedPlace& after,
                                         int64_t most);
// Marks a reply as delivered; does nothing if it is not in the list.
Status ForgetOwed(store::Database& database, const SessionKey& key, int64_t turn);

}  // namespace tutti::sessions
