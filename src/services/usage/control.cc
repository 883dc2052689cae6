#include "services/usage/control.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "base/quote.h"
#include "protocol/control.h"
#include "protocol/json/json.h"
#include "protocol/json/json_writer.h"
#include "services/usage/ledger_rows.h"

namespace tutti::usage {
namespace {

using protocol::BadControl;
using protocol::Json;
using protocol::JsonObject;
using protocol::JsonWriter;

constexpr size_t kMaxRequestBytes = 4096, kMaxValues = 64;
constexpr int kRowsOfPage = 500;  // about 150 KiB, and some milliseconds of the store's thread

constexpr auto kGroups = std::to_array<std::pair<std::string_view, GroupBy>>({
    {"tenant", GroupBy::kTenant},
    {"key", GroupBy::kKey},
    {"user", GroupBy::kUser},
    {"model", GroupBy::kModel},
    {"route", GroupBy::kRoute},
    {"day", GroupBy::kDay},
});

Result<int64_t> NumberOf(const JsonObject& request, std::string_view name, int64_t otherwise) {
  const Json* const value = request.if_contains(name);
  if (value == nullptr) return otherwise;
  return protocol::ControlNumber(*value, name, 0, std::numeric_limits<int64_t>::max(),
                                 "a whole number from 0");
}

struct Stretch {
  int64_t from_ms = 0, to_ms = 0;
};

Result<Stretch> StretchOf(const JsonObject& request) {
  Stretch stretch;
  ASSIGN_OR_RETURN(stretch.from_ms, NumberOf(request, "from_ms", 0));
  ASSIGN_OR_RETURN(stretch.to_ms, NumberOf(request, "to_ms", std::numeric_limits<int64_t>::max()));
  return stretch;
}

Status Sums(store::Store& store, const KeyNames& names, const JsonObject& request,
            JsonWriter* json) {
  const std::string by = protocol::MemberText(request, "by");
  const auto group = std::find_if(kGroups.begin(), kGroups.end(),
                                  [&](const auto& each) { return each.first == by; });
  if (group == kGroups.end())
    return BadControl(
        "by", "usage is summed by tenant, key, user, model, route or day, not " + Quote(by));
  ASSIGN_OR_RETURN(const Stretch stretch, StretchOf(request));
  std::vector<Summary> sums;
  RETURN_IF_ERROR(store.ReadNow([&](store::Database& rows) -> Status {
    ASSIGN_OR_RETURN(sums, Summaries(rows, stretch.from_ms, stretch.to_ms, group->second));
    return OkStatus();
  }));
  std::map<std::string, std::string> called;
  if (group->second == GroupBy::kKey) {
    ASSIGN_OR_RETURN(called, names());
  }
  json->Key("sums").BeginArray();
  for (const Summary& each : sums) {
    json->BeginObject().Member("group", each.group);
    if (const auto name = called.find(each.group); name != called.end())
      json->Member("name", name->second);
    json->Member("requests", each.requests)
        .Member("prompt_tokens", each.prompt_tokens)
        .Member("cached_tokens", each.cached_tokens)
        .Member("output_tokens", each.output_tokens)
        .Member("queue_ms", each.queue_ms)
        .Member("compute_ms", each.compute_ms)
        .EndObject();
  }
  json->EndArray();
  return OkStatus();
}

Status Rows(store::Store& store, const JsonObject& request, JsonWriter* json) {
  const std::string form = protocol::MemberText(request, "form");
  if (form != "csv" && form != "json")
    return BadControl("form", "rows are written as csv or json, not " + Quote(form));
  ASSIGN_OR_RETURN(const Stretch stretch, StretchOf(request));
  Cursor cursor;
  ASSIGN_OR_RETURN(cursor.time_ms, NumberOf(request, "after_ms", stretch.from_ms));
  ASSIGN_OR_RETURN(cursor.id, NumberOf(request, "after_id", 0));
  cursor.time_ms = std::max(cursor.time_ms, stretch.from_ms);
  std::vector<Row> page;
  RETURN_IF_ERROR(store.ReadNow([&](store::Database& rows) -> Status {
    ASSIGN_OR_RETURN(page, ReadRows(rows, stretch.to_ms, kRowsOfPage, &cursor));
    return OkStatus();
  }));
  std::string lines;
  for (const Row& row : page)
    form == "csv" ? AppendCsvLine(row, &lines) : AppendJsonLine(row, &lines);
  json->Member("lines", lines).Member("rows", static_cast<int64_t>(page.size()));
  json->Member("after_ms", cursor.time_ms).Member("after_id", cursor.id);
  return OkStatus();
}

}  // namespace

bool IsUsageRequest(std::string_view request) {
  if (request.size() > kMaxRequestBytes) return false;
  const Result<protocol::JsonDocument> document = protocol::ParseJson(request, kMaxValues);
  return document.ok() && document->root().is_object() &&
         protocol::ControlOperation(document->root().get_object()).starts_with("usage.");
}

Result<std::string> HandleControl(store::Store& store, const KeyNames& names,
                                  std::string_view request) {
  return protocol::AnswerControl(request, kMaxRequestBytes, kMaxValues,
                                 [&](const JsonObject& object, JsonWriter* json) -> Status {
                                   const std::string_view op = protocol::ControlOperation(object);
                                   if (op == "usage.sums") return Sums(store, names, object, json);
                                   if (op == "usage.rows") return Rows(store, object, json);
                                   return BadControl("op", "there is no operation " + Quote(op));
                                 });
}

}  // namespace tutti::usage
