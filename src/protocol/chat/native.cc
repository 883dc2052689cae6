#include "protocol/chat/native.h"

#include <algorithm>
#include <array>

#include "api/names.h"
#include "base/check.h"
#include "protocol/chat/topic.h"
#include "protocol/json/field_error.h"
#include "protocol/json/json.h"
#include "protocol/json/json_writer.h"
#include "protocol/schema/schema.h"

namespace tutti::protocol {
namespace {

constexpr auto kVerbs = std::to_array<MqttVerb>({
    {MqttControl::Verb::kCancel, "cancel"},
    {MqttControl::Verb::kResume, "resume"},
    {MqttControl::Verb::kHistory, "history"},
    {MqttControl::Verb::kFork, "fork"},
    {MqttControl::Verb::kClear, "clear"},
    {MqttControl::Verb::kSubscribe, "subscribe"},
    {MqttControl::Verb::kPing, "ping"},
});

// The schema lets nothing else through.
MqttControl::Verb VerbOf(std::string_view word) {
  const auto found = std::find_if(kVerbs.begin(), kVerbs.end(),
                                  [word](const MqttVerb& each) { return each.name == word; });
  CHECK(found != kVerbs.end()) << word;
  return found->verb;
}

// Each field of the others would be dropped in silence otherwise.
Status CheckBelongs(const CheckedObject& object, MqttControl::Verb verb) {
  using Verb = MqttControl::Verb;
  const auto only = [&](const char* name, bool here) {
    if (here || !object.Has(name)) return OkStatus();
    return BadValue(name, std::string(name) + " has no meaning for " + *object.Text("type"));
  };
  RETURN_IF_ERROR(only("response_id", verb == Verb::kCancel || verb == Verb::kResume));
  RETURN_IF_ERROR(only("job_id", verb == Verb::kSubscribe));
  RETURN_IF_ERROR(only("starting_after", verb == Verb::kResume || verb == Verb::kSubscribe));
  RETURN_IF_ERROR(only("limit", verb == Verb::kHistory));
  RETURN_IF_ERROR(only("into", verb == Verb::kFork));
  return only("version", verb == Verb::kFork);
}

Status Missing(const char* name, const char* verb) {
  return IsMissing(name, std::string(verb) + " needs " + std::string(name));
}

JsonWriter Open(std::string_view type, std::string_view id) {
  JsonWriter json;
  json.BeginObject().Member("type", type);
  if (!id.empty()) json.Member("id", id);
  return json;
}

}  // namespace

std::span<const MqttVerb> MqttVerbs() { return kVerbs; }

Result<MqttMessage> ParseMqttMessage(std::string_view payload, const ParseOptions& options) {
  ASSIGN_OR_RETURN(const JsonDocument document, ParseJson(payload));
  return ReadMqttMessage(document.root(), options);
}

Result<MqttMessage> ReadMqttMessage(const Json& root, const ParseOptions& options, Scope scope) {
  IgnoredFields ignored;
  ASSIGN_OR_RETURN(const CheckedObject object,
                   CheckedObject::Check(scope, root, "", options.strict, &ignored));
  MqttMessage message;
  message.project = object.Text("project").value_or("");
  RETURN_IF_ERROR(CheckLevel(message.project, "project"));
  RETURN_IF_ERROR(ReadTurn(object, options, &ignored, &message.call));
  message.call.stream = message.call.background = true;
  message.call.truncate = object.Text("truncation") != "disabled";
  message.call.ignored = ignored.names();
  return message;
}

Result<MqttControl> ParseMqttControl(std::string_view payload, const ParseOptions& options) {
  ASSIGN_OR_RETURN(const JsonDocument document, ParseJson(payload));
  IgnoredFields ignored;
  ASSIGN_OR_RETURN(const CheckedObject object, CheckedObject::Check(kMqttControl, document.root(),
                                                                    "", options.strict, &ignored));
  return ReadMqttControl(object);
}

Result<MqttControl> ReadMqttControl(const CheckedObject& object) {
  MqttControl control;
  control.verb = VerbOf(*object.Text("type"));
  RETURN_IF_ERROR(CheckBelongs(object, control.verb));
  control.id = object.Text("id").value_or("");
  control.project = object.Text("project").value_or("");
  RETURN_IF_ERROR(CheckLevel(control.project, "project"));
  control.response_id = object.Text("response_id").value_or("");
  control.job_id = object.Text("job_id").value_or("");
  control.starting_after = object.Int("starting_after");
  control.limit = static_cast<int>(object.Int("limit").value_or(control.limit));
  control.into = object.Text("into").value_or("");
  RETURN_IF_ERROR(CheckLevel(control.into, "into"));
  control.version = object.Int("version");
  if (control.verb == MqttControl::Verb::kResume && control.response_id.empty())
    return Missing("response_id", "resume");
  if (control.verb == MqttControl::Verb::kSubscribe && control.job_id.empty())
    return Missing("job_id", "subscribe");
  if (control.verb == MqttControl::Verb::kFork && control.into.empty())
    return Missing("into", "fork");
  return control;
}

std::string MessageIdOf(std::string_view payload) {
  const Result<JsonDocument> document = ParseJson(payload);
  if (!document.ok()) return "";
  const std::string_view id = TextMember(document->root(), "id");
  return static_cast<double>(id.size()) <= kIdBytes ? std::string(id) : "";
}

std::string PongEvent(std::string_view id, int64_t now_ms) {
  return Open("pong", id).Member("time_ms", now_ms).EndObject().Take();
}

std::string HistoryEvent(std::string_view id, std::string_view session, int64_t version,
                         std::span<const HistoryItem> items) {
  JsonWriter json = Open("history", id);
  json.Member("session", session).Member("version", version).Key("items").BeginArray();
  for (const HistoryItem& item : items) {
    json.BeginObject().Member("role", api::RoleName(item.role)).Member("content", item.content);
    json.Member("turn", item.turn).EndObject();
  }
  json.EndArray().EndObject();
  return json.Take();
}

std::string ForkedEvent(std::string_view id, std::string_view session, std::string_view into,
                        int64_t version) {
  return Open("forked", id)
      .Member("session", session)
      .Member("into", into)
      .Member("version", version)
      .EndObject()
      .Take();
}

std::string ClearedEvent(std::string_view id, std::string_view session) {
  return Open("cleared", id).Member("session", session).EndObject().Take();
}

std::string CancelledEvent(std::string_view id, std::string_view response_id) {
  return Open("cancelled", id).MemberOrNull("response_id", response_id).EndObject().Take();
}

}  // namespace tutti::protocol
