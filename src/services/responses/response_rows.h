// Database rows of responses: running ones with the request to run them again, and ended ones; and
// their records as JSON.
//
// All functions with a database run on the store's thread, inside a Store::Work; their errors are
// the database's and record_corrupt.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "protocol/json/json_writer.h"
#include "services/responses/request_json.h"
#include "services/responses/response_writer.h"
#include "store/database.h"

namespace tutti::responses {

extern const store::Migration kResponseTables;

struct StoredLimits {
  int64_t responses = 10'000;          // ended ones of one owner; the oldest go first
  int64_t bytes = int64_t{256} << 20;  // of ended ones of one owner; the oldest go first
};

inline constexpr int64_t kStoredSeconds = 30 * 24 * 3600;  // an ended one that is `store`
inline constexpr int kMaxLinks = 100;  // of previous_response_id, that are followed

// Stores a running response; `request` comes from EncodeRequest().
Status SaveRunning(store::Database& database, const ResponseRecord& record,
                   const std::string& request);
// Stores an ended response, whether or not it was stored as running. It is kept until `expires_s`,
// or until the owner's limits drop it.
Status SaveEnded(store::Database& database, const ResponseRecord& record, int64_t expires_s,
                 const StoredLimits& limits);

// Loads a response of this owner that has ended and has not expired at `now_s`; else nullopt.
Result<std::optional<ResponseRecord>> LoadEnded(store::Database& database, const std::string& owner,
                                                const std::string& id, int64_t now_s);
// All messages that led to a stored response and its own text, oldest first. Errors: not_found,
// also if a link of the chain is gone; invalid_value (more than `most` links); both of
// previous_response_id.
Result<std::vector<api::ChatMessage>> LoadChain(store::Database& database, const std::string& owner,
                                                const std::string& id, int64_t now_s, int most);
// Loads the initial record of a response that is stored, readable and has not ended; else nullopt.
Result<std::optional<ResponseRecord>> LoadUnended(store::Database& database,
                                                  const std::string& owner, const std::string& id);
// Whether there was one.
Result<bool> DeleteResponse(store::Database& database, const std::string& owner,
                            const std::string& id);
// Deletes all responses of an owner, except those of running turns.
Status DeleteResponses(store::Database& database, const std::string& owner);

struct Unfinished {
  ResponseRecord record;  // as it began
  std::string request;
};
// Loads at most `most` running responses after row `after_row`, oldest first, and returns them with
// the row to continue from, which is `after_row` if there are no more. Unreadable records are
// skipped and stay in the store.
Result<std::pair<std::vector<Unfinished>, int64_t>> LoadRunning(store::Database& database,
                                                                int64_t after_row, int64_t most);

// Number of all running responses.
Result<int64_t> CountRunning(store::Database& database);

// Deletes at most `most` expired responses; returns their number.
Result<int64_t> DropExpired(store::Database& database, int64_t now_s, int64_t most);

// --- JSON of a record: initial data and final state; pure ---

std::string EncodeRecord(const ResponseRecord& record);
// Errors: record_corrupt.
Result<ResponseRecord> DecodeRecord(std::string_view text);

// A protocol::ResponseState as one JSON value.
void WriteState(const protocol::ResponseState& state, protocol::JsonWriter* json);
protocol::ResponseState ReadState(const StoredObject& fields);

}  // namespace tutti::responses
