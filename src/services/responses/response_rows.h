// The responses of the store: those that run, with the request they can be run again from, and
// those that ended, to be shown.
//
// All functions run on the store's thread, inside a work of it; their errors are the database's and
// record_corrupt.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "services/responses/response_writer.h"
#include "store/database.h"
#include "store/migrations.h"

namespace tutti::responses {

extern const store::Migration kResponseTables;

struct StoredLimits {
  int64_t responses = 10'000;          // ended ones of one owner; the oldest go first
  int64_t bytes = int64_t{256} << 20;  // likewise
};

inline constexpr int64_t kStoredSeconds = 30 * 24 * 3600;  // an ended one that is `store`
inline constexpr int kMostLinks = 100;  // of previous_response_id, that are followed

// A response that runs; `request` as EncodeRequest() gives it.
Status SaveRunning(store::Database& database, const ResponseRecord& record,
                   const std::string& request);
// Whether it ran or not, it has ended; it is kept until `expires_s`, or until the owner's limits
// drop it.
Status SaveEnded(store::Database& database, const ResponseRecord& record, int64_t expires_s,
                 const StoredLimits& limits);

// Of this owner, ended and not expired at `now_s`.
Result<std::optional<ResponseRecord>> LoadEnded(store::Database& database, const std::string& owner,
                                                const std::string& id, int64_t now_s);
// All messages that led to a stored response and its own text, oldest first. Errors: not_found,
// also if a link of the chain is gone; invalid_value (more than `most` links); both of
// previous_response_id.
Result<std::vector<api::ChatMessage>> LoadChain(store::Database& database, const std::string& owner,
                                                const std::string& id, int64_t now_s, int most);
// As it began, if it is there, can be read and has no end.
Result<std::optional<ResponseRecord>> LoadUnended(store::Database& database,
                                                  const std::string& owner, const std::string& id);
// Whether there was one.
Result<bool> DeleteResponse(store::Database& database, const std::string& owner,
                            const std::string& id);
// All of the owner's, but for dialogs' turns under way.
Status DeleteResponses(store::Database& database, const std::string& owner);

struct Unfinished {
  ResponseRecord record;  // as it began
  std::string request;
};
// Of those that run, the oldest behind `after_row`, with the row to go on from; at most `most`. The
// row is `after_row` when there are no more; one that cannot be read is left where it is.
Result<std::pair<std::vector<Unfinished>, int64_t>> LoadRunning(store::Database& database,
                                                                int64_t after_row, int64_t most);

// All of them.
Result<int64_t> CountRunning(store::Database& database);

// Those whose time has passed, at most `most`; how many went.
Result<int64_t> DropExpired(store::Database& database, int64_t now_s, int64_t most);

}  // namespace tutti::responses
