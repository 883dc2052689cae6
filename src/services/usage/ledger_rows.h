// The ledger's table: a row for each request that has ended, in any way, and sums over them.
//
// All functions run on the store's thread, inside a work of it; their errors are the database's.
// Times are milliseconds since 1970; a stretch of them is [from, to).
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "base/status.h"
#include "store/database.h"
#include "store/migrations.h"

namespace tutti::usage {

extern const store::Migration kLedgerTable;

// Of each number in a row; more is stored as this, so that no sum over the table leaves its range.
inline constexpr int64_t kMostInRow = std::numeric_limits<int32_t>::max();

struct Row {
  int64_t time_ms = 0;  // when the request was accepted: the day to which its quota counts
  std::string tenant = {}, key_id = {};
  // The person: the user or subject that authenticated itself, the user of an MQTT topic, or whom
  // a key's client names as its user; "project:NAME" of an MQTT project; may be empty.
  std::string user = {};
  std::string model = {};  // as served, not as asked for
  std::string route = {};  // "chat.completions", "responses", "mqtt", ...
  std::string outcome =
      {};  // "ok", or the code of the error: "cancelled", "deadline_exceeded", ...
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;  // of prompt_tokens
  int64_t output_tokens = 0;
  int64_t queue_ms = 0;    // accepted until its first turn
  int64_t compute_ms = 0;  // from there to its end
  friend bool operator==(const Row&, const Row&) = default;
};

// What a request counts towards limits and quotas: what had to be computed for it.
inline int64_t ChargedTokens(const Row& row) {
  return row.prompt_tokens - row.cached_tokens + row.output_tokens;
}

Status InsertRow(store::Database& database, const Row& row);

enum class GroupBy { kTenant, kKey, kUser, kModel, kRoute, kDay };

struct Summary {
  std::string group;  // the tenant, key, ...; a day as "2026-01-31", by UTC
  int64_t requests = 0;
  int64_t prompt_tokens = 0, cached_tokens = 0, output_tokens = 0;
  int64_t queue_ms = 0, compute_ms = 0;
  friend bool operator==(const Summary&, const Summary&) = default;
};

// In the order of their groups' names.
Result<std::vector<Summary>> Summaries(store::Database& database, int64_t from_ms, int64_t to_ms,
                                       GroupBy group);

// For quotas, when a server starts.
struct KeyTokens {
  std::string tenant, key_id;
  int64_t tokens = 0;  // ChargedTokens of all its rows
};
// `day` counts from 1970, by UTC.
Result<std::vector<KeyTokens>> DayTokens(store::Database& database, int64_t day);

// For exports: a page after another, in the order of time.
struct Cursor {
  int64_t time_ms = 0, id = 0;  // of the last row that was read
};
// The next at most `most` rows of a stretch, after `cursor`, which moves with them; from its
// beginning with {from_ms, 0}. Empty: that was all.
Result<std::vector<Row>> ReadRows(store::Database& database, int64_t to_ms, int most,
                                  Cursor* cursor);

// At most `most` rows that are older, the oldest first; how many went.
Result<int64_t> DeleteBefore(store::Database& database, int64_t before_ms, int most);

}  // namespace tutti::usage
