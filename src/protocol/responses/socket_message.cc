#include "protocol/responses/socket_message.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"
#include "protocol/chat/topic.h"
#include "protocol/json/field_error.h"
#include "protocol/json/json.h"
#include "protocol/json/json_writer.h"
#include "protocol/schema/schema.h"

namespace tutti::protocol {
namespace {

using SocketVerb = SocketMessage::Verb;
constexpr std::string_view kCreateType = "response.create";
constexpr auto kSocketVerbs = std::to_array<std::pair<std::string_view, SocketVerb>>({
    {"response.cancel", SocketVerb::kCancel},
    {"subscribe", SocketVerb::kSubscribe},
    {"ping", SocketVerb::kPing},
    {"auth", SocketVerb::kAuth},
});

// The schema lets nothing else through.
SocketVerb SocketVerbOf(std::string_view word) {
  const auto found = std::find_if(kSocketVerbs.begin(), kSocketVerbs.end(),
                                  [word](const auto& each) { return each.first == word; });
  CHECK(found != kSocketVerbs.end()) << word;
  return found->second;
}

Result<ResponsesCall> ReadCreate(const Json& body, const CheckedObject& object,
                                 const ParseOptions& options) {
  if (object.Has("stream") && !*object.Bool("stream"))
    return BadValue("stream", "answers are streams here: leave stream out");
  if (object.Bool("background").value_or(false)) {
    return NotSupported("background",
                        "background is for HTTP: over WebSocket subscribe to the response again");
  }
  ASSIGN_OR_RETURN(ResponsesCall call, ParseResponses(body, options, kSocketCreate));
  call.stream = true;
  return call;
}

// Each field of the others would be dropped in silence otherwise.
Status CheckBelongs(const CheckedObject& object, SocketVerb verb) {
  const auto only = [&](const char* name, bool here, bool needed) {
    if (here == object.Has(name) || (here && !needed)) return OkStatus();
    const std::string type = *object.Text("type");
    if (!here) return BadValue(name, std::string(name) + " has no meaning for " + type);
    return IsMissing(name, type + " needs " + std::string(name));
  };
  const bool subscribes = verb == SocketVerb::kSubscribe;
  RETURN_IF_ERROR(only("job_id", subscribes, false));
  if (object.Has("job_id") && object.Has("response_id"))
    return BadValue("job_id", "job_id and response_id exclude each other");
  const bool needed = verb == SocketVerb::kCancel || !object.Has("job_id");
  RETURN_IF_ERROR(only("response_id", subscribes || verb == SocketVerb::kCancel, needed));
  RETURN_IF_ERROR(only("starting_after", subscribes, false));
  RETURN_IF_ERROR(only("stream_id", subscribes, false));
  RETURN_IF_ERROR(only("id", verb == SocketVerb::kPing, false));
  return only("token", verb == SocketVerb::kAuth, true);
}

Status CheckType(std::string_view type) {
  std::string known(kCreateType);
  for (const auto& [word, verb] : kSocketVerbs) {
    if (word == type) return OkStatus();
    known.append(", ").append(word);
  }
  return BadValue("type", "type must be one of " + known);
}

}  // namespace

Result<SocketMessage> ParseSocketMessage(std::string_view text, const ParseOptions& options,
                                         std::string* stream_id) {
  ASSIGN_OR_RETURN(const JsonDocument document, ParseJson(text));
  // Set first, so that an error of any kind names its channel to a client that uses several.
  const std::string_view channel = TextMember(document.root(), "stream_id");
  if (CheckLevel(std::string(channel), "stream_id").ok()) *stream_id = channel;
  const std::string_view type = TextMember(document.root(), "type");
  const bool creates = type == kCreateType;
  if (!creates && !type.empty()) RETURN_IF_ERROR(CheckType(type));
  IgnoredFields ignored;
  ASSIGN_OR_RETURN(const CheckedObject object,
                   CheckedObject::CheckPart(creates ? kSocketCreate : kSocketControl,
                                            document.root(), "", options.strict, &ignored));
  SocketMessage message;
  message.stream_id = object.Text("stream_id").value_or("");
  RETURN_IF_ERROR(CheckLevel(message.stream_id, "stream_id"));
  *stream_id = message.stream_id;
  if (creates) {
    message.verb = SocketVerb::kCreate;
    ASSIGN_OR_RETURN(message.call, ReadCreate(document.root(), object, options));
    return message;
  }
  if (!object.Has("type")) return IsMissing("type");
  message.verb = SocketVerbOf(*object.Text("type"));
  RETURN_IF_ERROR(CheckBelongs(object, message.verb));
  message.response_id = object.Text("response_id").value_or("");
  message.job_id = object.Text("job_id").value_or("");
  message.starting_after = object.Int("starting_after").value_or(-1);
  message.id = object.Text("id").value_or("");
  message.token = object.Text("token").value_or("");
  return message;
}

std::string WithStreamId(std::string object, std::string_view stream_id) {
  if (stream_id.empty()) return object;
  CHECK(object.ends_with('}')) << "no object";
  object.pop_back();
  object += ",\"stream_id\":\"";
  object += stream_id;  // of characters that stand for themselves
  object += "\"}";
  return object;
}

std::string SocketError(const ErrorView& error, std::string_view stream_id,
                        std::optional<ContextNumbers> context) {
  CHECK(error.form == ErrorForm::kOpenAi);
  std::string out = "{\"type\":\"error\",\"status\":" + std::to_string(error.http) + ",";
  out += ErrorBody(error, context).substr(1);
  return WithStreamId(std::move(out), stream_id);
}

std::string SocketPong(std::string_view id) {
  JsonWriter json;
  json.BeginObject().Member("type", "pong");
  if (!id.empty()) json.Member("id", id);
  json.EndObject();
  return json.Take();
}

}  // namespace tutti::protocol
