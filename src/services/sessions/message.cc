#include "services/sessions/message.h"

#include <bit>
#include <limits>
#include <utility>

#include "api/names.h"
#include "services/responses/call_state.h"
#include "services/responses/request_json.h"
#include "services/responses/response_rows.h"

namespace tutti::sessions {

using responses::StoredObject;
using store::Database;
using store::Statement;

namespace {

// The words of the schema.
BusyPolicy PolicyOf(std::string_view word) {
  if (word == "reject") return BusyPolicy::kReject;
  if (word == "interrupt") return BusyPolicy::kInterrupt;
  if (word == "rollback") return BusyPolicy::kRollback;
  if (word == "steer") return BusyPolicy::kSteer;
  return BusyPolicy::kEnqueue;
}

// FNV-1a, of 64 bits (Fowler, Noll, Vo).
class Fnv {
 public:
  // With its length, so that no two lists of texts are the same bytes.
  void Add(std::string_view text) {
    for (uint64_t left = text.size(), i = 0; i < 8; ++i, left >>= 8) AddByte(left & 0xff);
    for (const char c : text) AddByte(static_cast<unsigned char>(c));
  }
  uint64_t value() const { return value_; }

 private:
  void AddByte(uint64_t byte) { value_ = (value_ ^ byte) * 0x100000001b3; }

  uint64_t value_ = 0xcbf29ce484222325;
};

}  // namespace

Message MessageOf(protocol::ResponsesCall call, protocol::ResponseState skeleton) {
  Message message;
  message.id = std::move(call.message_id);
  message.input = responses::MessagesOf(call.input);
  message.state = std::move(skeleton);
  message.system_prompt = std::move(call.instructions);
  message.policy = PolicyOf(call.policy);
  message.expected_last_item_id = std::move(call.expected_last_item_id);
  if (!call.truncate || call.max_prompt_tokens.has_value())
    message.window = {.limit = call.max_prompt_tokens.value_or(std::numeric_limits<int>::max()),
                      .truncate = call.truncate};
  message.request = std::move(call.request);
  return message;
}

const store::Migration kFingerprintTables = {
    "ALTER TABLE turn ADD COLUMN fingerprint INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE turn DROP COLUMN fingerprint"};

int64_t FingerprintOf(const Message& message) {
  Fnv fnv;
  for (const api::ChatMessage& each : message.input) {
    fnv.Add(api::RoleName(each.role));
    fnv.Add(each.content);
    for (const api::ToolCall& call : each.tool_calls) {
      fnv.Add(call.id);
      fnv.Add(call.name);
      fnv.Add(call.arguments);
    }
    if (!each.tool_call_id.empty()) fnv.Add(each.tool_call_id);
    if (!each.reasoning.empty()) fnv.Add(each.reasoning);
  }
  if (message.system_prompt.has_value()) {
    fnv.Add("system_prompt");
    fnv.Add(*message.system_prompt);
  }
  const auto value = std::bit_cast<int64_t>(fnv.value());
  return value == 0 ? 1 : value;
}

Status CheckSame(int64_t known, const Message& message) {
  if (known == 0 || known == FingerprintOf(message)) return OkStatus();
  return InvalidArgument("idempotency_key_mismatch",
                         "this id was given to a message that said something else")
      .WithParam("id");
}

std::string EncodeTurn(const TurnRecord& record) {
  const Message& message = record.message;
  std::string out;
  protocol::JsonWriter json(&out);
  json.BeginObject().Member("id", message.id).Key("input");
  responses::WriteMessages(message.input, &json);
  json.Key("request").BeginObject();
  responses::WriteRequestFields(message.request, &json);
  json.EndObject().Key("state");
  responses::WriteState(message.state, &json);
  if (message.system_prompt.has_value()) json.Member("system_prompt", *message.system_prompt);
  if (message.parallel) json.Member("parallel", true);
  if (message.window.has_value()) {
    json.Member("limit", message.window->limit).Member("truncate", message.window->truncate);
  }
  json.Member("position", record.position);
  if (record.deadline_s.has_value()) json.Member("deadline_s", *record.deadline_s);
  json.EndObject();
  return out;
}

Result<TurnRecord> DecodeTurn(std::string_view text) {
  Result<protocol::JsonDocument> document = protocol::ParseJson(text);
  if (!document.ok()) return responses::CorruptRecord("a message that is no JSON");
  const StoredObject fields(document->root());
  const protocol::Json* request = fields.Find("request");
  const protocol::Json* state = fields.Find("state");
  if (request == nullptr || state == nullptr)
    return responses::CorruptRecord("a message without its request");
  TurnRecord record;
  Message& message = record.message;
  message.id = fields.Text("id");
  message.input = responses::ReadMessages(fields.List("input"));
  responses::ReadRequestFields(StoredObject(*request), &message.request);
  message.state = responses::ReadState(StoredObject(*state));
  if (fields.Has("system_prompt")) message.system_prompt = fields.Text("system_prompt");
  message.parallel = fields.Flag("parallel");
  if (fields.Has("limit")) {
    message.window = ContextWindow{.limit = static_cast<int>(fields.Int("limit")),
                                   .truncate = fields.Flag("truncate", true)};
  }
  record.position = fields.Int("position");
  if (fields.Has("deadline_s")) record.deadline_s = fields.Int("deadline_s");
  return record;
}

const store::Migration kOwedTables = {
    R"(CREATE TABLE owed(
         dialog INTEGER NOT NULL, turn INTEGER NOT NULL, reply_to TEXT NOT NULL,
         PRIMARY KEY(dialog, turn),
         FOREIGN KEY(dialog, turn) REFERENCES turn(dialog, turn) ON DELETE CASCADE) WITHOUT ROWID)",
    "DROP TABLE owed"};

Status Owe(Database& database, int64_t dialog, int64_t turn, const std::string& reply_to) {
  return Run(database, "INSERT INTO owed VALUES(?1, ?2, ?3)", dialog, turn, reply_to);
}

Result<std::vector<OwedAnswer>> ReadOwed(Database& database, const OwedPlace& after, int64_t most) {
  ASSIGN_OR_RETURN(
      Statement rows,
      database.Prepare("SELECT o.dialog, o.turn, d.tenant, d.project, d.session, t.message_id, "
                       "o.reply_to FROM owed o JOIN dialog d ON d.id=o.dialog "
                       "JOIN turn t ON t.dialog=o.dialog AND t.turn=o.turn "
                       "WHERE (o.dialog, o.turn) > (?1, ?2) ORDER BY o.dialog, o.turn LIMIT ?3"));
  rows.Bind(after.dialog, after.turn, most);
  return Collect(rows, [&] {
    return OwedAnswer{
        .place = {rows.Int(0), rows.Int(1)},
        .key = {std::string(rows.Text(2)), std::string(rows.Text(3)), std::string(rows.Text(4))},
        .message_id = std::string(rows.Text(5)),
        .reply_to = std::string(rows.Text(6))};
  });
}

Status ForgetOwed(Database& database, const SessionKey& key, int64_t turn) {
  return Run(database,
             "DELETE FROM owed WHERE turn=?4 AND dialog=(SELECT id FROM dialog WHERE tenant=?1 "
             "AND project=?2 AND session=?3)",
             key.tenant, key.project, key.session, turn);
}

}  // namespace tutti::sessions
