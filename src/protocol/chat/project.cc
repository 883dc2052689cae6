#include "protocol/chat/project.h"

#include <algorithm>
#include <boost/json/parse.hpp>

#include "api/validate.h"
#include "protocol/chat/topic.h"
#include "protocol/error.h"
#include "protocol/json/field_error.h"
#include "protocol/json/json.h"
#include "protocol/json/json_writer.h"
#include "protocol/openai/parts.h"
#include "protocol/schema/schema.h"

namespace tutti::protocol {
namespace {

// Defaults that older clients expect.
constexpr double kTemperature = 0.6, kTopP = 0.9;
constexpr int kMaxTokens = 512;
constexpr std::string_view kReplies = "/assistant_response/";
constexpr std::string_view kAll = "all";

bool IsControl(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; }

// A level of a topic that can be published to, in the clients' own words.
bool IsId(std::string_view id) {
  return !id.empty() && static_cast<double>(id.size()) <= kIdBytes && IsValidUtf8(id) &&
         std::none_of(id.begin(), id.end(),
                      [](char c) { return c == '/' || c == '+' || c == '#' || IsControl(c); });
}

bool IsBlank(std::string_view text) {
  return text.find_first_not_of(" \t\r\n\v\f") == std::string_view::npos;
}

// The string member `name` of a payload that has not been validated; empty if it is missing or not
// a string.
std::string TextIn(const Json* payload, std::string_view name) {
  return payload == nullptr ? "" : std::string(TextMember(*payload, name));
}

// The string member `name` of the payload if it is a valid id, else empty.
std::string IdIn(const Json* payload, std::string_view name) {
  std::string text = TextIn(payload, name);
  return IsId(text) ? text : "";
}

std::string SessionTopic(std::string_view project, std::string_view session) {
  return std::string(project) + std::string(kReplies) + std::string(session);
}

// The reply address that follows from the ids.
ProjectReply AddressOf(std::string_view project, std::string session, const Json* payload) {
  ProjectReply reply;
  reply.session = std::move(session);
  reply.client = IdIn(payload, "clientId");
  reply.request_id = IdIn(payload, "requestId");
  reply.topic = SessionTopic(project, reply.session);
  if (!reply.client.empty() && !reply.request_id.empty()) {
    const std::string own = reply.topic + "/" + reply.client + "/" + reply.request_id;
    if (own.size() <= kMaxTopicBytes) reply.topic = own;
  }
  return reply;
}

Status CheckIds(const CheckedObject& object, std::initializer_list<const char*> names) {
  for (const char* const name : names) {
    const std::string id = object.Text(name).value_or("");
    if (!id.empty() && !IsId(id))
      return BadValue(name,
                      std::string(name) + " must have no '/', '+', '#' or control characters");
  }
  return OkStatus();
}

api::SamplingParams Defaults() {
  api::SamplingParams sampling;
  // The model's own defaults stand above those of the profile.
  sampling.temperature = api::Parameter<double>::Default(kTemperature);
  sampling.top_p = api::Parameter<double>::Default(kTopP);
  sampling.max_tokens = kMaxTokens;
  return sampling;
}

Result<ProjectMessage> ReadText(std::string_view text) {
  if (IsBlank(text)) return InvalidArgument("empty_message", "the message is empty");
  RETURN_IF_ERROR(api::CheckUtf8(text, "message"));
  ProjectMessage message;
  message.text = text;
  message.sampling = Defaults();
  return message;
}

Result<ProjectMessage> ReadObject(const Json& payload, const ParseOptions& options,
                                  std::string_view project, std::string_view session) {
  IgnoredFields ignored;
  ASSIGN_OR_RETURN(const CheckedObject object,
                   CheckedObject::Check(kProjectMessage, payload, "", options.strict, &ignored));
  RETURN_IF_ERROR(CheckIds(object, {"sessionId", "clientId", "requestId"}));
  if (const std::string topic = object.Text("replyTopic").value_or(""); !topic.empty())
    RETURN_IF_ERROR(CheckProjectReplyTopic(project, session, topic, "replyTopic"));
  ASSIGN_OR_RETURN(ProjectMessage message, ReadText(*object.Text("message")));
  message.system_prompt = object.Text("systemPrompt");
  api::SamplingParams& sampling = message.sampling;
  if (const auto value = object.Number("temperature")) sampling.temperature = *value;
  if (const auto value = object.Number("topP")) sampling.top_p = *value;
  sampling.max_tokens = static_cast<int>(object.Int("maxTokens").value_or(kMaxTokens));
  message.ignored = ignored.names();
  return message;
}

// Text that is JSON for others, but beyond what is read here: no words for a model.
bool IsJsonBeyondLimits(std::string_view text) {
  boost::json::error_code fault;
  const Json value = boost::json::parse(boost::json::string_view(text.data(), text.size()), fault);
  return !fault && (value.is_object() || value.is_array());
}

// The session that a verb is about, from all the places that may say so; "all" and nothing are one.
Result<std::string> SessionOf(const CheckedObject& object, std::string_view topic_session) {
  std::string session(topic_session == kAll ? "" : topic_session);
  bool said = !topic_session.empty();
  for (const char* const name : {"session_id", "sessionId", "target"}) {
    std::string other = object.Text(name).value_or("");
    if (other.empty()) continue;
    if (other == kAll) other.clear();
    if (said && other != session)
      return BadValue(name, std::string(name) + " names another session than topic or payload do");
    session = other;
    said = true;
  }
  return session;
}

// Reads the system prompt under any of its names. `reset` alone restores the default prompt of the
// session; together with a prompt it clears the history, because clients send both in one object.
Status ReadTemplate(const CheckedObject& object, ProjectVerb* verb) {
  for (const char* const name : {"template", "system_prompt", "prompt_template"}) {
    std::optional<std::string> prompt = object.Text(name);
    if (!prompt.has_value()) continue;
    if (verb->op != ProjectOp::kTemplate) {
      return BadValue(
          name, std::string(name) + " has no meaning for " + std::string(ProjectOpName(verb->op)));
    }
    if (verb->system_prompt.has_value() && *verb->system_prompt != *prompt)
      return BadValue(name, std::string(name) + " and another template exclude each other");
    verb->system_prompt = std::move(prompt);
  }
  const bool reset = object.Bool("reset").value_or(false);
  if (reset && verb->op != ProjectOp::kTemplate)
    return BadValue("reset", "reset has no meaning for " + std::string(ProjectOpName(verb->op)));
  verb->clears = reset && verb->system_prompt.has_value();
  if (verb->op == ProjectOp::kTemplate && !reset && !verb->system_prompt.has_value()) {
    return IsMissing("template", "template or reset is needed");
  }
  return OkStatus();
}

Result<ProjectVerb> ReadVerb(ProjectOp op, std::string_view topic_session, const Json& payload,
                             const ParseOptions& options) {
  IgnoredFields ignored;
  ASSIGN_OR_RETURN(const CheckedObject object,
                   CheckedObject::Check(kProjectVerb, payload, "", options.strict, &ignored));
  RETURN_IF_ERROR(CheckIds(object, {"session_id", "sessionId", "target", "clientId", "requestId"}));
  ProjectVerb verb;
  verb.op = op;
  ASSIGN_OR_RETURN(verb.session, SessionOf(object, topic_session));
  RETURN_IF_ERROR(ReadTemplate(object, &verb));
  verb.ignored = ignored.names();
  return verb;
}

// The ids that every reply repeats.
void WriteIds(const ProjectReply& reply, int64_t seq, JsonWriter* json) {
  json->Member("sessionId", reply.session);
  if (!reply.client.empty()) json->Member("clientId", reply.client);
  json->MemberOrNull("requestId", reply.request_id).Member("seq", seq);
}

}  // namespace

std::optional<ProjectTopic> ParseProjectTopic(std::string_view project, std::string_view topic) {
  if (!topic.starts_with(project) || topic.size() <= project.size() ||
      topic[project.size()] != '/' || topic.size() > kMaxTopicBytes) {
    return std::nullopt;
  }
  topic.remove_prefix(project.size() + 1);
  const size_t slash = topic.find('/');
  const std::string_view word = topic.substr(0, slash);
  ProjectTopic parsed;
  if (slash != std::string_view::npos) {
    parsed.session = topic.substr(slash + 1);
    if (!IsId(parsed.session)) return std::nullopt;
  }
  const bool whole = slash == std::string_view::npos;
  if (word == "template") {
    parsed.channel = ProjectChannel::kTemplate;
  } else if (word == "clear") {
    parsed.channel = ProjectChannel::kClear;
  } else if (word == "delete") {
    parsed.channel = ProjectChannel::kDelete;
  } else if (word == "user_input" && whole) {
    parsed.channel = ProjectChannel::kUserInput;
  } else if (word == "state" && whole) {
    parsed.channel = ProjectChannel::kState;
  } else {
    return std::nullopt;
  }
  return parsed;
}

Status CheckProjectReplyTopic(std::string_view project, std::string_view session,
                              std::string_view topic, std::string param) {
  const std::string own = SessionTopic(project, session);
  const bool below =
      topic.starts_with(own) && topic.size() > own.size() + 1 && topic[own.size()] == '/';
  const bool writable =
      topic.size() <= kMaxTopicBytes && IsValidUtf8(topic) &&
      static_cast<size_t>(std::count(topic.begin(), topic.end(), '/')) < kMaxTopicLevels &&
      std::none_of(topic.begin(), topic.end(),
                   [](char c) { return c == '#' || c == '+' || IsControl(c); });
  if (writable && (below || topic == own)) return OkStatus();
  std::string message =
      "the topic for the answer must lie below " + Excerpt(own) + " and hold no wildcards";
  return BadValue(std::move(param), std::move(message));
}

ReceivedMessage ParseProjectMessage(std::string_view project, std::string_view payload,
                                    std::string_view random, const ParseOptions& options) {
  const std::string unnamed = "default-" + std::string(random);
  const Result<JsonDocument> document = ParseJson(payload);
  if (!document.ok()) {
    const Status fault = document.status();
    ProjectReply reply = AddressOf(project, unnamed, nullptr);
    if (fault.reason() == "invalid_json" && !IsJsonBeyondLimits(payload))
      return {std::move(reply), ReadText(payload)};
    return {std::move(reply), fault};
  }
  const Json& root = document->root();
  std::string session = IdIn(&root, "sessionId");
  if (session.empty()) session = unnamed;
  ProjectReply reply = AddressOf(project, session, &root);
  // A person may well say 42, or true.
  if (!root.is_object() && !root.is_array()) return {std::move(reply), ReadText(payload)};
  // Read for errors too, because the client listens there.
  std::string topic = TextIn(&root, "replyTopic");
  if (CheckProjectReplyTopic(project, session, topic, "replyTopic").ok())
    reply.topic = std::move(topic);
  return {std::move(reply), ReadObject(root, options, project, session)};
}

std::string_view ProjectOpName(ProjectOp op) {
  switch (op) {
    case ProjectOp::kTemplate:
      return "template";
    case ProjectOp::kClear:
      return "clear";
    case ProjectOp::kDelete:
      return "delete";
  }
  return "clear";
}

ReceivedVerb ParseProjectVerb(std::string_view project, ProjectOp op,
                              std::string_view topic_session, std::string_view payload,
                              const ParseOptions& options) {
  const Result<JsonDocument> document = ParseJson(IsBlank(payload) ? "{}" : payload);
  std::string session(topic_session);
  const Json* root = document.ok() ? &document->root() : nullptr;
  for (const char* const name : {"session_id", "sessionId", "target"}) {
    if (session.empty()) session = IdIn(root, name);
  }
  if (session.empty()) session = kAll;
  ProjectReply reply = AddressOf(project, std::move(session), root);
  if (root == nullptr) return {std::move(reply), document.status()};
  return {std::move(reply), ReadVerb(op, topic_session, *root, options)};
}

std::string ProjectChunkJson(const ProjectReply& reply, int64_t seq, int64_t index,
                             std::string_view text) {
  JsonWriter json;
  json.BeginObject();
  WriteIds(reply, seq, &json);
  json.Member("index", index).Member("text", text).Member("final", false).EndObject();
  return json.Take();
}

std::string ProjectReplyJson(const ProjectReply& reply, int64_t seq, std::optional<int64_t> index,
                             std::string_view text, const api::Usage& usage) {
  JsonWriter json;
  json.BeginObject();
  WriteIds(reply, seq, &json);
  if (index.has_value()) json.Member("index", *index);
  json.Member("text", text).Key("usage");
  WriteUsage(usage, &json);
  json.Member("final", true).EndObject();
  return json.Take();
}

std::string ProjectErrorJson(const ProjectReply& reply, const Status& error) {
  const ErrorView view = ViewError(error);
  JsonWriter json;
  json.BeginObject().Key("error").BeginObject();
  json.Member("code", view.code).Member("message", view.message);
  if (!view.param.empty()) json.Member("param", view.param);
  if (view.retry_after.has_value())
    json.Member("retry_after_ms", static_cast<int64_t>(view.retry_after->count()));
  if (!reply.request_id.empty()) json.Member("requestId", reply.request_id);
  json.EndObject().EndObject();
  return json.Take();
}

std::string ProjectAckJson(const ProjectReply& reply, ProjectOp op, int64_t seq) {
  JsonWriter json;
  json.BeginObject().Member("type", "ack").Member("op", ProjectOpName(op));
  json.Member("session_id", reply.session).Member("seq", seq);
  if (!reply.request_id.empty()) json.Member("requestId", reply.request_id);
  json.EndObject();
  return json.Take();
}

std::string ProjectStatusJson(std::string_view service, bool online, int64_t now_s) {
  JsonWriter json;
  json.BeginObject().Member("service", service);
  json.Member("status", online ? "online" : "offline").Member("ts", now_s).EndObject();
  return json.Take();
}

}  // namespace tutti::protocol
