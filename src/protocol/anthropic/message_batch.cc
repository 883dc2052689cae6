#include "protocol/anthropic/message_batch.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <unordered_set>
#include <utility>

#include "protocol/anthropic/request.h"
#include "protocol/error.h"
#include "protocol/job.h"
#include "protocol/json/field_error.h"
#include "protocol/json/json_writer.h"
#include "protocol/schema/schema.h"

namespace tutti::protocol {
namespace {

constexpr int64_t kMaxListed = 1000;
constexpr size_t kMaxCursorBytes = 256;

// RFC 3339, by UTC; null where it is not yet.
void WriteTime(const char* name, int64_t unix_ms, JsonWriter* json) {
  if (unix_ms == 0) {
    json->Member(name, nullptr);
    return;
  }
  using std::chrono::floor;
  const std::chrono::sys_time<std::chrono::milliseconds> time{std::chrono::milliseconds(unix_ms)};
  const auto day = floor<std::chrono::days>(time);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss clock(floor<std::chrono::seconds>(time - day));
  char text[40];
  std::snprintf(text, sizeof text, "%04d-%02u-%02uT%02d:%02d:%02dZ", static_cast<int>(date.year()),
                static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                static_cast<int>(clock.hours().count()), static_cast<int>(clock.minutes().count()),
                static_cast<int>(clock.seconds().count()));
  json->Member(name, text);
}

void WriteCounts(const BatchView& batch, JsonWriter* json) {
  const int64_t left = std::max(batch.input_lines, batch.total) - batch.completed - batch.failed;
  const bool ended = Ended(batch.state);
  // One whose input could not be read has run nothing.
  const bool errored = batch.state == BatchState::kFailed;
  json->BeginObject()
      .Member("processing", ended ? 0 : left)
      .Member("succeeded", batch.completed)
      .Member("errored", batch.failed + (errored ? left : 0))
      .Member("canceled", batch.state == BatchState::kCancelled ? left : 0)
      .Member("expired", batch.state == BatchState::kExpired ? left : 0)
      .EndObject();
}

void WriteMessageBatch(const BatchView& batch, JsonWriter* json) {
  const std::string_view status = Ended(batch.state)                       ? "ended"
                                  : batch.state == BatchState::kCancelling ? "canceling"
                                                                           : "in_progress";
  json->BeginObject().Member("id", batch.id).Member("type", "message_batch");
  json->Member("processing_status", status).Key("request_counts");
  WriteCounts(batch, json);
  WriteTime("ended_at",
            std::max({batch.completed_ms, batch.failed_ms, batch.expired_ms, batch.cancelled_ms}),
            json);
  WriteTime("created_at", batch.created_ms, json);
  WriteTime("expires_at", batch.expires_ms, json);
  json->Member("archived_at", nullptr);
  WriteTime("cancel_initiated_at", batch.cancelling_ms, json);
  // Relative: below which address the server is known to its clients is theirs to say.
  json->MemberOrNull("results_url", batch.output_file.empty()
                                        ? std::string()
                                        : "/v1/messages/batches/" + batch.id + "/results");
  json->EndObject();
}

// A line as ReadBatchLine() reads it.
std::string InputLine(const std::string& custom_id, const Json& params) {
  JsonWriter json;
  json.BeginObject().Member("custom_id", custom_id).Member("method", "POST");
  json.Member("url", kMessagesEndpoint).Key("body").Raw(PrintJson(params)).EndObject();
  return json.Take() + "\n";
}

// Checks one request; its model.
Result<std::string> CheckParams(const Json& params, const std::string& path,
                                const ParseOptions& options, IgnoredFields* ignored) {
  if (!params.is_object()) return MustBe(path, "an object: the body of a message request");
  Result<GenerationCall> call = ParseMessages(params, options);
  if (!call.ok()) {
    const std::string inner = call.status().param();
    return call.status().WithParam(inner.empty() ? path : path + "." + inner);
  }
  if (call->stream) {
    return NotSupported(path + ".stream",
                        path + ".stream: an answer that is fetched later does not stream");
  }
  for (const std::string& name : call->ignored) ignored->Add(path + "." + name);
  return call->model;
}

}  // namespace

Result<MessageBatchCreate> ParseMessageBatch(const Json& body, const ParseOptions& options) {
  IgnoredFields ignored;
  ASSIGN_OR_RETURN(const CheckedObject object,
                   CheckedObject::Check(kMessageBatch, body, "", options.strict, &ignored));
  MessageBatchCreate create;
  std::unordered_set<std::string> names;
  const JsonArray& requests = object.Find("requests")->get_array();
  for (size_t i = 0; i < requests.size(); ++i) {
    const std::string path = ElementPath("requests", i);
    ASSIGN_OR_RETURN(
        const CheckedObject request,
        CheckedObject::Check(kMessageBatchRequest, requests[i], path, options.strict, &ignored));
    const std::string custom_id = *request.Text("custom_id");
    if (!names.insert(custom_id).second)
      return BadValue(path + ".custom_id", path + ".custom_id is another request's already");
    const Json& params = *request.Find("params");
    ASSIGN_OR_RETURN(std::string model, CheckParams(params, path + ".params", options, &ignored));
    if (std::find(create.models.begin(), create.models.end(), model) == create.models.end())
      create.models.push_back(std::move(model));
    const std::string line = InputLine(custom_id, params);
    if (std::ssize(line) > kMaxBatchLineBytes) {
      return BadValue(path, path + " has " + std::to_string(line.size()) + " bytes, limit " +
                                std::to_string(kMaxBatchLineBytes));
    }
    create.input += line;
  }
  create.ignored = ignored.names();
  return create;
}

Result<ListQuery> ParseMessageBatchListQuery(std::span<const QueryParameter> parameters,
                                             const ParseOptions& options, IgnoredFields* ignored) {
  ListQuery query;
  for (const auto& [name, value] : parameters) {
    if (name == "limit") {
      const std::optional<int64_t> number = ReadWholeNumber(value);
      if (!number.has_value() || *number < 1 || *number > kMaxListed)
        return BadValue("limit", "limit must be an integer from 1 to 1000");
      query.limit = static_cast<int>(*number);
    } else if (name == "after_id") {
      if (value.size() > kMaxCursorBytes) return BadValue("after_id", "after_id is no id");
      query.after = value;
    } else if (name == "before_id") {
      return NotSupported("before_id", "before_id is not supported: use after_id");
    } else if (options.strict) {
      return InvalidArgument("unknown_parameter", "unknown parameter " + Excerpt(name))
          .WithParam(Excerpt(name));
    } else {
      ignored->Add(name);
    }
  }
  return query;
}

std::string MessageBatchJson(const BatchView& batch) {
  JsonWriter json;
  WriteMessageBatch(batch, &json);
  return json.Take();
}

std::string MessageBatchListJson(std::span<const BatchView> batches, bool more) {
  JsonWriter json;
  json.BeginObject().Key("data").BeginArray();
  for (const BatchView& batch : batches) WriteMessageBatch(batch, &json);
  json.EndArray().Member("has_more", more);
  json.MemberOrNull("first_id", batches.empty() ? std::string() : batches.front().id);
  json.MemberOrNull("last_id", batches.empty() ? std::string() : batches.back().id).EndObject();
  return json.Take();
}

std::string MessageBatchDeletedJson(const std::string& id) {
  return JsonWriter()
      .BeginObject()
      .Member("id", id)
      .Member("type", "message_batch_deleted")
      .EndObject()
      .Take();
}

std::string MessageBatchResultLine(const std::string& custom_id, int status_code,
                                   const std::string& body, BatchState ending) {
  JsonWriter json;
  json.BeginObject().Member("custom_id", custom_id).Key("result").BeginObject();
  if (status_code == 0) {
    json.Member("type", ending == BatchState::kExpired ? "expired" : "canceled");
  } else if (status_code == 200) {
    json.Member("type", "succeeded").Key("message").Raw(body);
  } else {
    const Result<JsonDocument> document = ParseJson(body);
    const JsonObject* object = document.ok() ? document->root().if_object() : nullptr;
    const Json* error = object == nullptr ? nullptr : object->if_contains("error");
    const Status status = JobErrorOf(error == nullptr ? std::string() : PrintJson(*error));
    json.Member("type", "errored");
    json.Key("error").Raw(ErrorBody(ViewError(status, {.form = ErrorForm::kAnthropic})));
  }
  json.EndObject().EndObject();
  return json.Take() + "\n";
}

}  // namespace tutti::protocol
