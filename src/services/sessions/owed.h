// Answers that are owed: of messages whose senders keep no connection to be answered by, where the
// door is to say what became of them, until it knows that this has arrived. So an answer that was
// given, or is still to be, when the process ended is told by the next one.
//
// Functions run on the store's thread, inside a work of it; their errors are the database's.
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

// Where one stands among all that are owed; their order is that of dialogs and turns.
struct OwedPlace {
  int64_t dialog = 0, turn = 0;
};

struct OwedAnswer {
  OwedPlace place;
  SessionKey key;
  std::string message_id;
  std::string reply_to;  // the door's own words (Message::reply_to)
};

// The turn goes with its dialog, or when so many later ones were accepted that its id is forgotten;
// what is owed goes with it.
Status Owe(store::Database& database, int64_t dialog, int64_t turn, const std::string& reply_to);
// Those behind `after`, at most `most`.
Result<std::vector<OwedAnswer>> ReadOwed(store::Database& database, const OwedPlace& after,
                                         int64_t most);
// It has arrived. One that is not owed is none.
Status ForgetOwed(store::Database& database, const SessionKey& key, int64_t turn);

}  // namespace tutti::sessions
