#include "protocol/chat/chat_frame.h"

#include <algorithm>
#include <array>

#include "protocol/chat/topic.h"
#include "protocol/json/field_error.h"
#include "protocol/json/json.h"
#include "protocol/schema/schema.h"

namespace tutti::protocol {
namespace {

using FrameVerb = ChatFrame::Verb;

Status MissingMember(const std::string& type, const char* name) {
  return IsMissing(name, type + " needs " + name);
}

constexpr std::array<std::string_view, 9> kTypes = {
    "message", "cancel", "resume", "history", "fork", "clear", "ping", "subscribe", "auth"};

std::string TypesText() {
  std::string text;
  for (const std::string_view type : kTypes) text.append(text.empty() ? "" : ", ").append(type);
  return text;
}

// A text member of an object; empty if it is missing or unusable.
std::string Peek(const Json& root, std::string_view name, double most) {
  const std::string_view text = TextMember(root, name);
  return static_cast<double>(text.size()) <= most ? std::string(text) : "";
}
std::string Peek(const Json& root, std::string_view name) {
  return Peek(root, name, FindField(kChatControl, name)->high);
}

// Each field of the others would be dropped in silence otherwise.
Status CheckBelongs(const CheckedObject& object, const std::string& type) {
  const auto only = [&](const char* name, bool here) {
    if (here || !object.Has(name)) return OkStatus();
    return BadValue(name, std::string(name) + " has no meaning for " + type);
  };
  const bool is_auth = type == "auth", subscribes = type == "subscribe";
  RETURN_IF_ERROR(only("token", is_auth));
  RETURN_IF_ERROR(only("job_id", subscribes));
  RETURN_IF_ERROR(only("conversation", type == "cancel"));
  for (const char* name : {"session", "project", "id", "stream_id"})
    RETURN_IF_ERROR(only(name, !is_auth));
  if (!is_auth && !subscribes) return OkStatus();
  for (const char* name : {"limit", "into", "version"}) RETURN_IF_ERROR(only(name, false));
  for (const char* name : {"response_id", "starting_after"})
    RETURN_IF_ERROR(only(name, subscribes));
  return OkStatus();
}

// One dialog: a session of the user's, or a conversation.
Status CheckDialog(const std::string& type, const std::string& session,
                   const std::string& conversation, bool needed) {
  if (!session.empty() && !conversation.empty())
    return BadValue("conversation", "session and conversation exclude each other");
  RETURN_IF_ERROR(CheckLevel(session, "session"));
  return needed && session.empty() && conversation.empty() ? MissingMember(type, "session")
                                                           : OkStatus();
}

Result<ChatFrame> ReadMessageFrame(const Json& root, const ParseOptions& options) {
  ChatFrame frame;
  frame.verb = FrameVerb::kMessage;
  ASSIGN_OR_RETURN(frame.message, ReadMqttMessage(root, options, kChatMessage));
  std::string& conversation = frame.message.call.conversation;
  frame.session = Peek(root, "session");
  conversation = Peek(root, "conversation");
  RETURN_IF_ERROR(CheckDialog("message", frame.session, conversation, true));
  if (!conversation.empty() && !frame.message.project.empty())
    return BadValue("project", "a conversation is of no project");
  return frame;
}

Result<ChatFrame> ReadSubscription(const CheckedObject& object) {
  ChatFrame frame;
  frame.job_id = object.Text("job_id").value_or("");
  if (!frame.job_id.empty()) {
    if (object.Has("response_id"))
      return BadValue("job_id", "job_id and response_id exclude each other");
    frame.verb = FrameVerb::kJob;
    frame.starting_after = object.Int("starting_after").value_or(-1);
    return frame;
  }
  frame.control.verb = MqttControl::Verb::kResume;
  frame.control.id = object.Text("id").value_or("");
  frame.control.response_id = object.Text("response_id").value_or("");
  frame.control.starting_after = object.Int("starting_after");
  if (frame.control.response_id.empty()) return MissingMember("subscribe", "response_id");
  return frame;
}

Result<ChatFrame> ReadControlFrame(const CheckedObject& object) {
  const std::string type = *object.Text("type");
  RETURN_IF_ERROR(CheckBelongs(object, type));
  ChatFrame frame;
  if (type == "auth") {
    frame.verb = FrameVerb::kAuth;
    frame.token = object.Text("token").value_or("");
    if (frame.token.empty()) return MissingMember(type, "token");
    return frame;
  }
  if (type == "subscribe") return ReadSubscription(object);
  using Control = MqttControl::Verb;
  ASSIGN_OR_RETURN(frame.control, ReadMqttControl(object));
  frame.session = object.Text("session").value_or("");
  frame.conversation = object.Text("conversation").value_or("");
  const Control verb = frame.control.verb;
  const bool needed = verb == Control::kHistory || verb == Control::kFork ||
                      verb == Control::kClear ||
                      (verb == Control::kCancel && frame.control.response_id.empty());
  RETURN_IF_ERROR(CheckDialog(type, frame.session, frame.conversation, needed));
  return frame;
}

}  // namespace

Result<ChatFrame> ParseChatFrame(std::string_view text, const ParseOptions& options,
                                 FrameTag* tag) {
  ASSIGN_OR_RETURN(const JsonDocument document, ParseJson(text));
  const Json& root = document.root();
  std::string type;
  if (root.is_object()) {
    type = Peek(root, "type", kIdBytes);
    tag->id = Peek(root, "id");
    std::string stream_id = Peek(root, "stream_id");
    if (IsTopicLevel(stream_id)) tag->stream_id = std::move(stream_id);
  }
  if (!type.empty() && std::find(kTypes.begin(), kTypes.end(), type) == kTypes.end())
    return BadValue("type", "type must be one of " + TypesText());
  if (type == "message") {
    ASSIGN_OR_RETURN(ChatFrame frame, ReadMessageFrame(root, options));
    RETURN_IF_ERROR(CheckLevel(Peek(root, "stream_id"), "stream_id"));
    return frame;
  }
  IgnoredFields ignored;
  ASSIGN_OR_RETURN(const CheckedObject object,
                   CheckedObject::Check(kChatControl, root, "", options.strict, &ignored));
  RETURN_IF_ERROR(CheckLevel(object.Text("stream_id").value_or(""), "stream_id"));
  return ReadControlFrame(object);
}

bool IsNoFrame(const Status& refusal) {
  constexpr std::array<std::string_view, 4> kNoJson = {"invalid_json", "invalid_utf8", "json_depth",
                                                       "duplicate_key"};
  return refusal.param() == "type" ||
         std::find(kNoJson.begin(), kNoJson.end(), refusal.reason()) != kNoJson.end();
}

}  // namespace tutti::protocol
