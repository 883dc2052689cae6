// Database table of the usage ledger: one row per ended request, and sums over the rows; and the
// rows as text for other programs.
//
// All functions with a database run on the store's thread, inside a Store::Work; their errors are
// the database's. Times are milliseconds since 1970; a period is [from, to).
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "base/status.h"
#include "store/database.h"

namespace tutti::usage {

inline constexpr int64_t kDayMs = 86'400'000;

extern const store::Migration kLedgerTable;

// Maximum of each number in a row. Greater values are stored as this maximum, so that no sum over
// the table overflows.
inline constexpr int64_t kMaxInRow = std::numeric_limits<int32_t>::max();

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

// Tokens that a request counts toward limits and quotas: those that were computed.
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
// Returns at most `most` rows after `cursor` and advances it; {from_ms, 0} is the beginning of a
// period. Empty: there are no more.
Result<std::vector<Row>> ReadRows(store::Database& database, int64_t to_ms, int most,
                                  Cursor* cursor);

// Deletes at most `most` older rows, oldest first; returns their number.
Result<int64_t> DeleteBefore(store::Database& database, int64_t before_ms, int most);

// --- text: JSON, a line each, or CSV ---
//
// Both hold the same fields in the same order under the same names, and every number as stored, so
// that sums over either are those of the ledger. Pure.

// {"time":"2026-01-31T12:00:00.123Z","tenant":...}, and a line feed.
void AppendJsonLine(const Row& row, std::string* out);

// The first line of a CSV file; like all its lines it ends with CR LF.
void AppendCsvHeader(std::string* out);
// Texts with a comma, a quote or a line break are quoted (RFC 4180, section 2).
void AppendCsvLine(const Row& row, std::string* out);

}  // namespace tutti::usage
