#include "protocol/openai/batch.h"

#include <algorithm>
#include <array>
#include <utility>

#include "protocol/json/field_error.h"
#include "protocol/json/json_writer.h"
#include "protocol/openai/parts.h"
#include "protocol/schema/schema.h"

namespace tutti::protocol {
namespace {

void WriteRaw(const char* name, const std::string& value, JsonWriter* json) {
  json->Key(name).Raw(value.empty() ? "null" : value);
}

void WriteBatch(const BatchView& batch, JsonWriter* json) {
  json->BeginObject().Member("id", batch.id).Member("object", "batch");
  json->Member("endpoint", batch.endpoint);
  json->MemberOrNull("model", batch.model);
  json->Key("errors");
  if (batch.errors.empty()) {
    json->Null();
  } else {
    json->BeginObject().Member("object", "list").Key("data").Raw(batch.errors).EndObject();
  }
  json->Member("input_file_id", batch.input_file).Member("completion_window", "24h");
  json->Member("status", std::string(BatchStateName(batch.state)));
  json->MemberOrNull("output_file_id", batch.output_file);
  json->MemberOrNull("error_file_id", batch.error_file);
  json->Member("created_at", batch.created_ms / 1000);
  WriteMoment("in_progress_at", batch.in_progress_ms, json);
  WriteMoment("expires_at", batch.expires_ms, json);
  WriteMoment("finalizing_at", batch.finalizing_ms, json);
  WriteMoment("completed_at", batch.completed_ms, json);
  WriteMoment("failed_at", batch.failed_ms, json);
  WriteMoment("expired_at", batch.expired_ms, json);
  WriteMoment("cancelling_at", batch.cancelling_ms, json);
  WriteMoment("cancelled_at", batch.cancelled_ms, json);
  json->Key("request_counts").BeginObject().Member("total", batch.total);
  json->Member("completed", batch.completed).Member("failed", batch.failed).EndObject();
  json->Key("usage").BeginObject().Member("input_tokens", batch.input_tokens);
  json->Key("input_tokens_details").BeginObject().Member("cached_tokens", batch.cached_tokens);
  json->EndObject().Member("output_tokens", batch.output_tokens);
  json->Key("output_tokens_details").BeginObject().Member("reasoning_tokens", 0).EndObject();
  json->Member("total_tokens", batch.input_tokens + batch.output_tokens).EndObject();
  WriteRaw("metadata", batch.metadata, json);
  json->EndObject();
}

// Texts, or lists of token ids, each of which becomes a vector.
int64_t CountInputs(const JsonObject& body) {
  const Json* const input = body.if_contains("input");
  if (input == nullptr) return 0;
  const JsonArray* const list = input->if_array();
  if (list == nullptr || list->empty() || list->front().is_number()) return 1;
  return static_cast<int64_t>(list->size());
}

Status BadLine(std::string_view code, std::string param, std::string message) {
  return InvalidArgument(code, std::move(message)).WithParam(std::move(param));
}

}  // namespace

std::string_view BatchStateName(BatchState state) {
  static constexpr std::array<std::string_view, 8> kNames = {
      "validating", "in_progress", "finalizing", "cancelling",
      "completed",  "failed",      "expired",    "cancelled"};
  return kNames[static_cast<size_t>(state)];
}

Result<BatchCreate> ParseBatchCreate(const Json& body, const ParseOptions& options) {
  IgnoredFields ignored;
  ASSIGN_OR_RETURN(const CheckedObject object,
                   CheckedObject::Check(kBatch, body, "", options.strict, &ignored));
  BatchCreate create;
  create.input_file_id = *object.Text("input_file_id");
  create.endpoint = *object.Text("endpoint");
  if (const Json* metadata = object.Find("metadata"); metadata != nullptr) {
    ASSIGN_OR_RETURN(create.metadata, ReadMetadata(*metadata, "metadata"));
  }
  if (const Json* after = object.Find("output_expires_after"); after != nullptr) {
    ASSIGN_OR_RETURN(const CheckedObject expires,
                     CheckedObject::Check(kExpiresAfter, *after, "output_expires_after",
                                          options.strict, &ignored));
    create.output_expires_s = *expires.Int("seconds");
  }
  create.ignored = ignored.names();
  return create;
}

Result<BatchLine> ReadBatchLine(std::string_view text, std::string_view endpoint) {
  const Result<JsonDocument> document = ParseJson(text);
  if (!document.ok()) return BadLine("invalid_json_line", "", document.status().message());
  if (!document->root().is_object())
    return BadLine("invalid_json_line", "", "a line must be a JSON object");
  IgnoredFields ignored;
  ASSIGN_OR_RETURN(const CheckedObject line, CheckedObject::Check(kBatchLine, document->root(), "",
                                                                  /*strict=*/false, &ignored));
  const Json& method = *line.Find("method");
  if (!method.is_string() || TextOf(method) != "POST")
    return BadLine("invalid_method", "method", "method must be POST");
  const Json& url = *line.Find("url");
  if (!url.is_string() || TextOf(url) != endpoint)
    return BadLine("invalid_url", "url", "url must be the batch's, " + std::string(endpoint));
  const JsonObject* const body = line.Find("body")->if_object();
  if (body == nullptr) return MustBe("body", "an object");
  const auto asks = [&](std::string_view name) {
    const Json* const member = body->if_contains(name);
    return member != nullptr && member->is_bool() && member->get_bool();
  };
  if (asks("stream")) {
    return BadLine("unsupported_parameter", "body.stream",
                   "body.stream: an answer that is fetched later does not stream");
  }
  if (endpoint == kResponsesEndpoint) {
    if (asks("background")) {
      return BadLine("unsupported_parameter", "body.background",
                     "body.background: a batch is in the background already");
    }
    if (const Json* named = body->if_contains("conversation");
        named != nullptr && !named->is_null()) {
      return BadLine("unsupported_parameter", "body.conversation",
                     "body.conversation: turns of a conversation run in their order, lines of a "
                     "batch in any; name a previous_response_id");
    }
  }
  BatchLine read;
  read.custom_id = *line.Text("custom_id");
  if (const Json* model = body->if_contains("model"); model != nullptr && model->is_string())
    read.model = TextOf(*model);
  read.inputs = CountInputs(*body);
  read.body = PrintJson(*line.Find("body"));
  return read;
}

std::string BatchErrorsJson(std::span<const BatchError> errors) {
  JsonWriter json;
  json.BeginArray();
  for (const BatchError& error : errors) {
    json.BeginObject().Member("code", error.code).Member("message", error.message);
    json.MemberOrNull("param", error.param);
    error.line == 0 ? json.Member("line", nullptr) : json.Member("line", error.line);
    json.EndObject();
  }
  json.EndArray();
  return json.Take();
}

std::string BatchJson(const BatchView& batch) {
  JsonWriter json;
  WriteBatch(batch, &json);
  return json.Take();
}

std::string BatchListJson(std::span<const BatchView> batches, bool more) {
  return PageJson(batches, more, WriteBatch);
}

std::string BatchAnswerLine(const std::string& id, const std::string& custom_id, int status_code,
                            const std::string& request_id, const std::string& body) {
  JsonWriter json;
  json.BeginObject().Member("id", id).Member("custom_id", custom_id).Key("response");
  json.BeginObject().Member("status_code", status_code).Member("request_id", request_id);
  json.Key("body").Raw(body.empty() ? "null" : body).EndObject().Member("error", nullptr);
  json.EndObject();
  return json.Take() + "\n";
}

std::string BatchErrorLine(const std::string& id, const std::string& custom_id,
                           std::string_view code, std::string_view message) {
  JsonWriter json;
  json.BeginObject().Member("id", id).Member("custom_id", custom_id).Member("response", nullptr);
  json.Key("error").BeginObject().Member("code", code).Member("message", message).EndObject();
  json.EndObject();
  return json.Take() + "\n";
}

}  // namespace tutti::protocol
