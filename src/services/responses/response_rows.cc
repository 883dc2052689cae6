#include "services/responses/response_rows.h"

#include <algorithm>
#include <utility>

#include "base/utf8.h"
#include "protocol/responses/events.h"
#include "services/responses/call_state.h"

namespace tutti::responses {
namespace {

using protocol::Json;
using protocol::JsonWriter;
using protocol::ResponseState;
using protocol::ResponseStatus;
using store::Database;
using store::Statement;

// Whether the owner's ended responses are within the limits.
Result<bool> WithinLimits(Database& database, const std::string& owner,
                          const StoredLimits& limits) {
  ASSIGN_OR_RETURN(Statement row, database.Prepare("SELECT responses, bytes FROM response_total "
                                                   "WHERE owner=?1"));
  ASSIGN_OR_RETURN(const bool found, row.Bind(owner).Step());
  return !found || (row.Int(0) <= limits.responses && row.Int(1) <= limits.bytes);
}

ResponseStatus StatusOf(std::string_view name) {
  for (const ResponseStatus status :
       {ResponseStatus::kQueued, ResponseStatus::kInProgress, ResponseStatus::kCompleted,
        ResponseStatus::kIncomplete, ResponseStatus::kCancelled}) {
    if (protocol::ResponseStatusName(status) == name) return status;
  }
  return ResponseStatus::kFailed;
}

void WriteUsage(const api::Usage& usage, JsonWriter* json) {
  json->Key("usage").BeginArray().Int(usage.prompt_tokens).Int(usage.cached_tokens);
  json->Int(usage.completion_tokens).EndArray();
}

std::optional<api::Usage> ReadUsage(const protocol::JsonArray& list) {
  if (list.size() != 3) return std::nullopt;
  const auto at = [&](size_t i) {
    return list[i].is_int64() ? static_cast<int>(list[i].get_int64()) : 0;
  };
  return api::Usage{at(0), at(1), at(2)};
}

// Usage has three numbers; those that were not there from the first have members of their own.
void WriteReasoning(const ResponseState& state, JsonWriter* json) {
  if (state.usage.has_value() && state.usage->reasoning_tokens > 0)
    json->Member("reasoning_tokens", state.usage->reasoning_tokens);
  if (state.reasoning.empty()) return;
  json->Key("reasoning").BeginArray();
  for (const protocol::OutputReasoning& each : state.reasoning) {
    json->BeginObject().Member("text", each.text);
    json->Member("text_before", static_cast<int64_t>(each.text_before));
    json->Member("calls_before", static_cast<int64_t>(each.calls_before)).EndObject();
  }
  json->EndArray();
}

// A candidate is three values: its id, its log-probability and its bytes, which are a list of
// numbers if they are no UTF-8.
void WriteCandidate(const api::Logprob& candidate, JsonWriter* json) {
  json->Int(candidate.token).Float(candidate.logprob);
  if (IsValidUtf8(candidate.bytes)) {
    json->String(candidate.bytes);
    return;
  }
  json->BeginArray();
  for (const char c : candidate.bytes) json->Int(static_cast<unsigned char>(c));
  json->EndArray();
}

api::Logprob ReadCandidate(const protocol::JsonArray& list, size_t at) {
  api::Logprob candidate;
  if (list[at].is_int64()) candidate.token = static_cast<TokenId>(list[at].get_int64());
  if (list[at + 1].is_number()) candidate.logprob = list[at + 1].to_number<float>();
  if (list[at + 2].is_string()) candidate.bytes = protocol::TextOf(list[at + 2]);
  if (list[at + 2].is_array()) {
    for (const Json& byte : list[at + 2].get_array())
      if (byte.is_int64()) candidate.bytes += static_cast<char>(byte.get_int64());
  }
  return candidate;
}

// A token is a list: the text before it, then its candidates, the chosen one first.
void WriteTokens(const std::vector<protocol::OutputToken>& tokens, JsonWriter* json) {
  if (tokens.empty()) return;
  json->Key("tokens").BeginArray();
  for (const protocol::OutputToken& token : tokens) {
    json->BeginArray().Int(static_cast<int64_t>(token.text_before));
    WriteCandidate(token.logprobs.chosen, json);
    for (const api::Logprob& other : token.logprobs.top) WriteCandidate(other, json);
    json->EndArray();
  }
  json->EndArray();
}

void ReadTokens(const protocol::JsonArray& list, std::vector<protocol::OutputToken>* tokens) {
  for (const Json& each : list) {
    if (!each.is_array() || each.get_array().size() < 4) continue;
    const protocol::JsonArray& values = each.get_array();
    protocol::OutputToken token{.logprobs = {ReadCandidate(values, 1), {}}};
    if (values[0].is_int64())
      token.text_before = static_cast<size_t>(std::max<int64_t>(values[0].get_int64(), 0));
    for (size_t at = 4; at + 2 < values.size(); at += 3)
      token.logprobs.top.push_back(ReadCandidate(values, at));
    tokens->push_back(std::move(token));
  }
}

size_t SizeIn(const StoredObject& fields, std::string_view name) {
  return static_cast<size_t>(std::max<int64_t>(fields.Int(name), 0));
}

// Writes the members that differ between beginning and end of a response.
void WriteEnd(const ResponseState& state, JsonWriter* json) {
  json->Member("status", protocol::ResponseStatusName(state.status)).Member("text", state.text);
  if (state.completed_s.has_value()) json->Member("completed_s", *state.completed_s);
  json->Member("incomplete_reason", state.incomplete_reason);
  json->Member("error_code", state.error_code).Member("error_message", state.error_message);
  if (!state.error_param.empty()) json->Member("error_param", state.error_param);
  if (!state.calls.empty()) {
    json->Key("calls").BeginArray();
    for (const protocol::OutputCall& each : state.calls) {
      json->BeginObject().Member("id", each.call.id).Member("name", each.call.name);
      json->Member("arguments", each.call.arguments);
      json->Member("text_before", static_cast<int64_t>(each.text_before)).EndObject();
    }
    json->EndArray();
  }
  if (state.usage.has_value()) WriteUsage(*state.usage, json);
  WriteReasoning(state, json);
  WriteTokens(state.tokens, json);
}

void ReadEnd(const StoredObject& fields, ResponseState* state) {
  state->status = StatusOf(fields.Text("status"));
  state->text = fields.Text("text");
  if (fields.Has("completed_s")) state->completed_s = fields.Int("completed_s");
  state->incomplete_reason = fields.Text("incomplete_reason");
  state->error_code = fields.Text("error_code");
  state->error_message = fields.Text("error_message");
  state->error_param = fields.Text("error_param");
  for (const Json& each : fields.List("calls")) {
    const StoredObject call(each);
    state->calls.push_back({{call.Text("id"), call.Text("name"), call.Text("arguments")},
                            SizeIn(call, "text_before")});
  }
  for (const Json& each : fields.List("reasoning")) {
    const StoredObject thought(each);
    state->reasoning.push_back(
        {thought.Text("text"), SizeIn(thought, "text_before"), SizeIn(thought, "calls_before")});
  }
  ReadTokens(fields.List("tokens"), &state->tokens);
  state->usage = ReadUsage(fields.List("usage"));
  if (state->usage.has_value())
    state->usage->reasoning_tokens = static_cast<int>(fields.Int("reasoning_tokens"));
}

}  // namespace

// The totals are kept by triggers: counting ten thousand rows at each answer's end would make the
// store's thread the slowest part of short answers.
const store::Migration kResponseTables = {
    R"(CREATE TABLE response(
         number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, owner TEXT NOT NULL,
         ended INTEGER NOT NULL, expires_s INTEGER NOT NULL, record TEXT NOT NULL,
         request TEXT NOT NULL);
       CREATE INDEX response_running ON response(number) WHERE ended=0;
       CREATE INDEX response_owner ON response(owner, number) WHERE ended=1;
       CREATE INDEX response_expires ON response(expires_s) WHERE ended=1;
       CREATE TABLE response_total(owner TEXT PRIMARY KEY, responses INTEGER NOT NULL,
         bytes INTEGER NOT NULL) WITHOUT ROWID;
       CREATE TRIGGER response_added AFTER INSERT ON response WHEN new.ended=1 BEGIN
         INSERT INTO response_total VALUES(new.owner, 1, length(CAST(new.record AS BLOB)))
           ON CONFLICT(owner) DO UPDATE SET responses=responses+1, bytes=bytes+excluded.bytes;
       END;
       CREATE TRIGGER response_dropped AFTER DELETE ON response WHEN old.ended=1 BEGIN
         UPDATE response_total
           SET responses=responses-1, bytes=bytes-length(CAST(old.record AS BLOB))
           WHERE owner=old.owner;
         DELETE FROM response_total WHERE owner=old.owner AND responses=0;
       END)",
    "DROP TABLE response; DROP TABLE response_total"};

Status SaveRunning(Database& database, const ResponseRecord& record, const std::string& request) {
  return Run(database,
             "INSERT INTO response(id, owner, ended, expires_s, record, request) "
             "VALUES(?1, ?2, 0, 0, ?3, ?4)",
             record.base.state.id, record.base.owner, EncodeRecord(record), request);
}

Status SaveEnded(Database& database, const ResponseRecord& record, int64_t expires_s,
                 const StoredLimits& limits) {
  const std::string& owner = record.base.owner;
  RETURN_IF_ERROR(Run(database, "DELETE FROM response WHERE id=?1", record.base.state.id));
  RETURN_IF_ERROR(Run(database,
                      "INSERT INTO response(id, owner, ended, expires_s, record, request) "
                      "VALUES(?1, ?2, 1, ?3, ?4, '')",
                      record.base.state.id, owner, expires_s, EncodeRecord(record)));
  while (true) {
    ASSIGN_OR_RETURN(const bool within, WithinLimits(database, owner, limits));
    if (within) return OkStatus();
    RETURN_IF_ERROR(Run(database,
                        "DELETE FROM response WHERE number=(SELECT min(number) FROM response "
                        "WHERE owner=?1 AND ended=1)",
                        owner));
    if (database.changes() == 0) return OkStatus();
  }
}

Result<std::optional<ResponseRecord>> LoadEnded(Database& database, const std::string& owner,
                                                const std::string& id, int64_t now_s) {
  ASSIGN_OR_RETURN(Statement row,
                   database.Prepare("SELECT record FROM response WHERE id=?1 AND owner=?2 AND "
                                    "ended=1 AND expires_s>?3"));
  ASSIGN_OR_RETURN(const bool found, row.Bind(id, owner, now_s).Step());
  if (!found) return std::optional<ResponseRecord>();
  ASSIGN_OR_RETURN(ResponseRecord record, DecodeRecord(row.Text(0)));
  return std::optional(std::move(record));
}

Result<std::vector<api::ChatMessage>> LoadChain(Database& database, const std::string& owner,
                                                const std::string& id, int64_t now_s, int most) {
  std::vector<ResponseRecord> links;  // the newest first
  for (std::string next = id; !next.empty();) {
    if (static_cast<int>(links.size()) >= most) {
      return InvalidArgument("invalid_value", "more than " + std::to_string(most) +
                                                  " responses stand before this one")
          .WithParam("previous_response_id");
    }
    ASSIGN_OR_RETURN(std::optional<ResponseRecord> link, LoadEnded(database, owner, next, now_s));
    if (!link.has_value() || !link->base.state.store) {
      return NotFound("not_found", "there is no such response, or one before it is gone")
          .WithParam("previous_response_id");
    }
    next = link->base.state.previous_response_id;
    links.push_back(*std::move(link));
  }
  std::vector<api::ChatMessage> messages;
  for (auto link = links.rbegin(); link != links.rend(); ++link) {
    messages.insert(messages.end(), link->base.input.begin(), link->base.input.end());
    std::vector<api::ChatMessage> answer = AnswerOf(link->end);
    // A response cancelled before any output counts as an empty answer.
    if (answer.empty()) answer.push_back({api::Role::kAssistant, "", ""});
    messages.insert(messages.end(), answer.begin(), answer.end());
  }
  return messages;
}

Result<std::optional<ResponseRecord>> LoadUnended(Database& database, const std::string& owner,
                                                  const std::string& id) {
  ASSIGN_OR_RETURN(
      Statement row,
      database.Prepare("SELECT record FROM response WHERE id=?1 AND owner=?2 AND ended=0"));
  ASSIGN_OR_RETURN(const bool found, row.Bind(id, owner).Step());
  if (!found) return std::optional<ResponseRecord>();
  Result<ResponseRecord> record = DecodeRecord(row.Text(0));
  return record.ok() ? std::optional(*std::move(record)) : std::nullopt;
}

Result<bool> DeleteResponse(Database& database, const std::string& owner, const std::string& id) {
  RETURN_IF_ERROR(Run(database, "DELETE FROM response WHERE id=?1 AND owner=?2", id, owner));
  return database.changes() > 0;
}

Status DeleteResponses(Database& database, const std::string& owner) {
  return Run(database, "DELETE FROM response WHERE owner=?1", owner);
}

Result<std::pair<std::vector<Unfinished>, int64_t>> LoadRunning(Database& database,
                                                                int64_t after_row, int64_t most) {
  ASSIGN_OR_RETURN(Statement rows,
                   database.Prepare("SELECT number, record, request FROM response WHERE ended=0 "
                                    "AND number>?1 ORDER BY number LIMIT ?2"));
  rows.Bind(after_row, most);
  std::pair<std::vector<Unfinished>, int64_t> found{{}, after_row};
  while (true) {
    ASSIGN_OR_RETURN(const bool row, rows.Step());
    if (!row) return found;
    found.second = rows.Int(0);
    Result<ResponseRecord> record = DecodeRecord(rows.Text(1));
    if (!record.ok()) continue;
    found.first.push_back({*std::move(record), std::string(rows.Text(2))});
  }
}

Result<int64_t> CountRunning(Database& database) {
  ASSIGN_OR_RETURN(Statement count,
                   database.Prepare("SELECT count(*) FROM response WHERE ended=0"));
  RETURN_IF_ERROR(count.Step().status());
  return count.Int(0);
}

Result<int64_t> DropExpired(Database& database, int64_t now_s, int64_t most) {
  RETURN_IF_ERROR(Run(database,
                      "DELETE FROM response WHERE number IN (SELECT number FROM response WHERE "
                      "ended=1 AND expires_s<=?1 LIMIT ?2)",
                      now_s, most));
  return database.changes();
}

void WriteState(const ResponseState& state, JsonWriter* json) {
  json->BeginObject().Member("id", state.id).Member("item_id", state.item_id);
  json->Member("created_s", state.created_s).Member("background", state.background);
  json->Member("store", state.store).Member("model", state.model);
  if (state.instructions.has_value()) json->Member("instructions", *state.instructions);
  if (state.max_output_tokens.has_value())
    json->Member("max_output_tokens", *state.max_output_tokens);
  json->Member("temperature", state.temperature).Member("top_p", state.top_p);
  if (state.logprobs >= 0) json->Member("logprobs", state.logprobs);
  json->Member("service_tier", state.service_tier).Member("truncation", state.truncation);
  json->Key("metadata").BeginArray();
  for (const auto& [key, value] : state.metadata) json->String(key).String(value);
  json->EndArray().Member("previous", state.previous_response_id);
  json->Member("conversation", state.conversation);
  WriteTools(state.tools, state.tool_choice, state.parallel_tool_calls, json);
  WriteEnd(state, json);
  json->EndObject();
}

ResponseState ReadState(const StoredObject& fields) {
  ResponseState state;
  state.id = fields.Text("id");
  state.item_id = fields.Text("item_id");
  state.created_s = fields.Int("created_s");
  state.background = fields.Flag("background");
  state.store = fields.Flag("store");
  state.model = fields.Text("model");
  if (fields.Has("instructions")) state.instructions = fields.Text("instructions");
  if (fields.Has("max_output_tokens"))
    state.max_output_tokens = static_cast<int>(fields.Int("max_output_tokens"));
  state.temperature = fields.Real("temperature", 1);
  state.top_p = fields.Real("top_p", 1);
  state.logprobs = static_cast<int>(fields.Int("logprobs", -1));
  state.service_tier = fields.Text("service_tier");
  state.truncation = fields.Text("truncation");
  const protocol::JsonArray& metadata = fields.List("metadata");
  const auto text = [](const Json& value) {
    return value.is_string() ? std::string(protocol::TextOf(value)) : std::string();
  };
  for (size_t i = 0; i + 1 < metadata.size(); i += 2)
    state.metadata.emplace_back(text(metadata[i]), text(metadata[i + 1]));
  state.previous_response_id = fields.Text("previous");
  state.conversation = fields.Text("conversation");
  ReadTools(fields, &state.tools, &state.tool_choice, &state.parallel_tool_calls);
  ReadEnd(fields, &state);
  return state;
}

std::string EncodeRecord(const ResponseRecord& record) {
  std::string out;
  JsonWriter json(&out);
  json.BeginObject().Member("owner", record.base.owner).Key("first");
  WriteState(record.base.state, &json);
  json.Key("input");
  WriteMessages(record.base.input, &json);
  if (record.base.turn.has_value()) {
    json.Member("message_id", record.base.turn->message_id).Member("turn", record.base.turn->turn);
    json.Member("position", record.base.turn->position);
  }
  json.Key("end").BeginObject();
  WriteEnd(record.end, &json);
  json.EndObject().Member("begun", record.begun).Member("dropped_turns", record.dropped.turns);
  json.Member("dropped_items", record.dropped.items);
  json.Key("pieces").BeginArray();
  for (const uint32_t bytes : record.pieces) json.Int(bytes);
  json.EndArray().EndObject();
  return out;
}

Result<ResponseRecord> DecodeRecord(std::string_view text) {
  Result<protocol::JsonDocument> document = protocol::ParseJson(text);
  if (!document.ok()) return CorruptRecord("a response that is no JSON");
  const StoredObject fields(document->root());
  const Json* first = fields.Find("first");
  const Json* end = fields.Find("end");
  if (first == nullptr || end == nullptr) return CorruptRecord("a response without its state");
  ResponseRecord record;
  record.base.owner = fields.Text("owner");
  record.base.state = ReadState(StoredObject(*first));
  record.base.input = ReadMessages(fields.List("input"));
  if (fields.Has("turn")) {
    record.base.turn = TurnNote{.message_id = fields.Text("message_id"),
                                .turn = fields.Int("turn"),
                                .position = fields.Int("position")};
  }
  record.end = record.base.state;
  ReadEnd(StoredObject(*end), &record.end);
  record.begun = fields.Flag("begun");
  record.dropped = {.turns = fields.Int("dropped_turns"), .items = fields.Int("dropped_items")};
  for (const Json& bytes : fields.List("pieces")) {
    if (bytes.is_int64()) record.pieces.push_back(static_cast<uint32_t>(bytes.get_int64()));
  }
  return record;
}

}  // namespace tutti::responses
