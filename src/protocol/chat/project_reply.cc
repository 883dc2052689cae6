#include "protocol/chat/project_reply.h"

#include "protocol/error.h"
#include "protocol/json/json_writer.h"
#include "protocol/openai/parts.h"

namespace tutti::protocol {
namespace {

// The ids that every reply repeats.
void WriteIds(const ProjectReply& reply, int64_t seq, JsonWriter* json) {
  json->Member("sessionId", reply.session);
  if (!reply.client.empty()) json->Member("clientId", reply.client);
  if (reply.request_id.empty()) {
    json->Member("requestId", nullptr);
  } else {
    json->Member("requestId", reply.request_id);
  }
  json->Member("seq", seq);
}

}  // namespace

std::string ProjectChunkJson(const ProjectReply& reply, int64_t seq, int64_t index,
                             std::string_view text) {
  std::string out;
  JsonWriter json(&out);
  json.BeginObject();
  WriteIds(reply, seq, &json);
  json.Member("index", index).Member("text", text).Member("final", false).EndObject();
  return out;
}

std::string ProjectReplyJson(const ProjectReply& reply, int64_t seq, std::optional<int64_t> index,
                             std::string_view text, const api::Usage& usage) {
  std::string out;
  JsonWriter json(&out);
  json.BeginObject();
  WriteIds(reply, seq, &json);
  if (index.has_value()) json.Member("index", *index);
  json.Member("text", text).Key("usage");
  WriteUsage(usage, &json);
  json.Member("final", true).EndObject();
  return out;
}

std::string ProjectErrorJson(const ProjectReply& reply, const Status& error) {
  const ErrorView view = ViewError(error);
  std::string out;
  JsonWriter json(&out);
  json.BeginObject().Key("error").BeginObject();
  json.Member("code", view.code).Member("message", view.message);
  if (!view.param.empty()) json.Member("param", view.param);
  if (view.retry_after.has_value())
    json.Member("retry_after_ms", static_cast<int64_t>(view.retry_after->count()));
  if (!reply.request_id.empty()) json.Member("requestId", reply.request_id);
  json.EndObject().EndObject();
  return out;
}

std::string ProjectAckJson(const ProjectReply& reply, ProjectOp op, int64_t seq) {
  std::string out;
  JsonWriter json(&out);
  json.BeginObject().Member("type", "ack").Member("op", ProjectOpName(op));
  json.Member("session_id", reply.session).Member("seq", seq);
  if (!reply.request_id.empty()) json.Member("requestId", reply.request_id);
  json.EndObject();
  return out;
}

std::string ProjectStatusJson(std::string_view service, bool online, int64_t now_s) {
  std::string out;
  JsonWriter json(&out);
  json.BeginObject().Member("service", service);
  json.Member("status", online ? "online" : "offline").Member("ts", now_s).EndObject();
  return out;
}

}  // namespace tutti::protocol
