#include "services/sessions/turn_record.h"

#include "services/responses/record_json.h"
#include "services/responses/request_json.h"
#include "services/responses/stored_json.h"

namespace tutti::sessions {

using responses::StoredObject;

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

}  // namespace tutti::sessions
