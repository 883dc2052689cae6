#include "services/usage/ledger_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <string_view>

#include "base/check.h"
#include "protocol/json/json_writer.h"

namespace tutti::usage {
namespace {

using store::Database;
using store::Statement;

int64_t InRange(int64_t number) { return std::clamp<int64_t>(number, 0, kMaxInRow); }

// Sums over all rows of a time range, for each value of `group`. `group` is a constant SQL
// expression, never input.
#define SUMS_BY(group)                                                                     \
  "SELECT " group                                                                          \
  ", count(*), sum(prompt_tokens), sum(cached_tokens), sum(output_tokens), sum(queue_ms)," \
  " sum(compute_ms) FROM usage WHERE time_ms>=?1 AND time_ms<?2 GROUP BY 1 ORDER BY 1"

std::string_view SumsBy(GroupBy group) {
  switch (group) {
    case GroupBy::kTenant:
      return SUMS_BY("tenant");
    case GroupBy::kKey:
      return SUMS_BY("key_id");
    case GroupBy::kUser:
      return SUMS_BY("user");
    case GroupBy::kModel:
      return SUMS_BY("model");
    case GroupBy::kRoute:
      return SUMS_BY("route");
    case GroupBy::kDay:
      return SUMS_BY("strftime('%Y-%m-%d', time_ms/1000, 'unixepoch')");
  }
  CHECK(false) << "an unknown grouping";
  return {};
}
#undef SUMS_BY

// RFC 3339, by UTC.
std::string TimeText(int64_t time_ms) {
  using std::chrono::floor;
  const std::chrono::sys_time<std::chrono::milliseconds> time{std::chrono::milliseconds(time_ms)};
  const auto day = floor<std::chrono::days>(time);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss clock(time - day);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                     clock.hours().count(), clock.minutes().count(), clock.seconds().count(),
                     clock.subseconds().count());
}

// Calls text(name, value) and number(name, value) for each field, in the order of the columns.
template <typename Text, typename Number>
void ForEachField(const Row& row, const Text& text, const Number& number) {
  text("time", TimeText(row.time_ms));
  text("tenant", row.tenant);
  text("key", row.key_id);
  text("user", row.user);
  text("model", row.model);
  text("route", row.route);
  text("outcome", row.outcome);
  number("prompt_tokens", row.prompt_tokens);
  number("cached_tokens", row.cached_tokens);
  number("output_tokens", row.output_tokens);
  number("queue_ms", row.queue_ms);
  number("compute_ms", row.compute_ms);
}

void AppendCsvText(std::string_view text, std::string* out) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) {
    out->append(text);
    return;
  }
  *out += '"';
  for (const char c : text) {
    if (c == '"') *out += '"';
    *out += c;
  }
  *out += '"';
}

}  // namespace

const store::Migration kLedgerTable = {
    R"(CREATE TABLE usage(
         id INTEGER PRIMARY KEY, time_ms INTEGER NOT NULL, tenant TEXT NOT NULL,
         key_id TEXT NOT NULL, user TEXT NOT NULL, model TEXT NOT NULL, route TEXT NOT NULL,
         outcome TEXT NOT NULL, prompt_tokens INTEGER NOT NULL, cached_tokens INTEGER NOT NULL,
         output_tokens INTEGER NOT NULL, queue_ms INTEGER NOT NULL, compute_ms INTEGER NOT NULL);
       CREATE INDEX usage_time ON usage(time_ms))",
    "DROP TABLE usage"};

Status InsertRow(Database& database, const Row& row) {
  ASSIGN_OR_RETURN(
      Statement insert,
      database.Prepare("INSERT INTO usage(time_ms, tenant, key_id, user, model, route, outcome, "
                       "prompt_tokens, cached_tokens, output_tokens, queue_ms, compute_ms) "
                       "VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)"));
  return insert
      .Bind(row.time_ms, row.tenant, row.key_id, row.user, row.model, row.route, row.outcome,
            InRange(row.prompt_tokens), InRange(row.cached_tokens), InRange(row.output_tokens),
            InRange(row.queue_ms), InRange(row.compute_ms))
      .Run();
}

Result<std::vector<Summary>> Summaries(Database& database, int64_t from_ms, int64_t to_ms,
                                       GroupBy group) {
  ASSIGN_OR_RETURN(Statement rows, database.Prepare(SumsBy(group)));
  rows.Bind(from_ms, to_ms);
  std::vector<Summary> summaries;
  while (true) {
    ASSIGN_OR_RETURN(const bool row, rows.Step());
    if (!row) return summaries;
    summaries.push_back({.group = std::string(rows.Text(0)),
                         .requests = rows.Int(1),
                         .prompt_tokens = rows.Int(2),
                         .cached_tokens = rows.Int(3),
                         .output_tokens = rows.Int(4),
                         .queue_ms = rows.Int(5),
                         .compute_ms = rows.Int(6)});
  }
}

Result<std::vector<KeyTokens>> DayTokens(Database& database, int64_t day) {
  ASSIGN_OR_RETURN(
      Statement rows,
      database.Prepare("SELECT tenant, key_id, sum(prompt_tokens-cached_tokens+output_tokens) "
                       "FROM usage WHERE time_ms>=?1 AND time_ms<?2 GROUP BY 1, 2 ORDER BY 1, 2"));
  rows.Bind(day * kDayMs, (day + 1) * kDayMs);
  std::vector<KeyTokens> keys;
  while (true) {
    ASSIGN_OR_RETURN(const bool row, rows.Step());
    if (!row) return keys;
    keys.push_back({std::string(rows.Text(0)), std::string(rows.Text(1)), rows.Int(2)});
  }
}

Result<std::vector<Row>> ReadRows(Database& database, int64_t to_ms, int most, Cursor* cursor) {
  ASSIGN_OR_RETURN(
      Statement found,
      database.Prepare("SELECT id, time_ms, tenant, key_id, user, model, route, outcome, "
                       "prompt_tokens, cached_tokens, output_tokens, queue_ms, compute_ms "
                       "FROM usage WHERE (time_ms, id)>(?1, ?2) AND time_ms<?3 "
                       "ORDER BY time_ms, id LIMIT ?4"));
  found.Bind(cursor->time_ms, cursor->id, to_ms, most);
  std::vector<Row> rows;
  while (true) {
    ASSIGN_OR_RETURN(const bool row, found.Step());
    if (!row) return rows;
    *cursor = {found.Int(1), found.Int(0)};
    rows.push_back({.time_ms = found.Int(1),
                    .tenant = std::string(found.Text(2)),
                    .key_id = std::string(found.Text(3)),
                    .user = std::string(found.Text(4)),
                    .model = std::string(found.Text(5)),
                    .route = std::string(found.Text(6)),
                    .outcome = std::string(found.Text(7)),
                    .prompt_tokens = found.Int(8),
                    .cached_tokens = found.Int(9),
                    .output_tokens = found.Int(10),
                    .queue_ms = found.Int(11),
                    .compute_ms = found.Int(12)});
  }
}

Result<int64_t> DeleteBefore(Database& database, int64_t before_ms, int most) {
  ASSIGN_OR_RETURN(Statement remove,
                   database.Prepare("DELETE FROM usage WHERE id IN (SELECT id FROM usage "
                                    "WHERE time_ms<?1 ORDER BY time_ms LIMIT ?2)"));
  RETURN_IF_ERROR(remove.Bind(before_ms, most).Run());
  return database.changes();
}

void AppendJsonLine(const Row& row, std::string* out) {
  protocol::JsonWriter json(out);
  json.BeginObject();
  ForEachField(
      row, [&](std::string_view name, std::string_view text) { json.Key(name).String(text); },
      [&](std::string_view name, int64_t number) { json.Key(name).Int(number); });
  json.EndObject();
  *out += '\n';
}

void AppendCsvHeader(std::string* out) {
  bool first = true;
  const auto append = [&](std::string_view name, const auto&) {
    if (!first) *out += ',';
    first = false;
    out->append(name);
  };
  ForEachField(Row(), append, append);
  out->append("\r\n");
}

void AppendCsvLine(const Row& row, std::string* out) {
  bool first = true;
  const auto comma = [&] {
    if (!first) *out += ',';
    first = false;
  };
  ForEachField(
      row,
      [&](std::string_view, std::string_view text) {
        comma();
        AppendCsvText(text, out);
      },
      [&](std::string_view, int64_t number) {
        comma();
        out->append(std::to_string(number));
      });
  out->append("\r\n");
}

}  // namespace tutti::usage
