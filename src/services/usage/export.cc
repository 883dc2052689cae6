#include "services/usage/export.h"

#include <fmt/format.h>

#include <chrono>
#include <string_view>

#include "protocol/json/json_writer.h"

namespace tutti::usage {
namespace {

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
