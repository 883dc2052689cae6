#include "server/mqtt/chat/status_topic.h"

#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "api/types.h"
#include "protocol/chat/project_reply.h"
#include "protocol/json/json_writer.h"
#include "protocol/load.h"

namespace tutti::mqtt::chat {
namespace {

// {"online":true,"models":[...],"version":...,"load":{...}}; `load` as GET /load has it.
std::string OnlineJson(std::string_view version, std::span<const api::ModelInfo> models,
                       const api::LoadSnapshot& load) {
  std::string out;
  protocol::JsonWriter json(&out);
  json.BeginObject().Member("online", true).Key("models").BeginArray();
  for (const api::ModelInfo& model : models) json.String(model.id);
  json.EndArray().Member("version", version).Key("load");
  protocol::WriteLoad(load, &json);
  json.EndObject();
  return out;
}

// {"online":false}: published on a clean stop, and as the Will of the connection to a broker.
std::string OfflineJson() { return R"({"online":false})"; }

Message StatusMessage(std::string topic, std::string payload) {
  Message message;
  message.topic = std::move(topic);
  message.payload = std::move(payload);
  message.qos = 1;
  message.retain = true;
  message.payload_is_text = true;
  message.content_type = "application/json";
  return message;
}

}  // namespace

Message StatusTopic::Will(const ProfileOptions& options, const NativeTopics& topics) {
  return StatusMessage(topics.ServerStatus(options.node), OfflineJson());
}

void StatusTopic::Start() {
  PublishOnline();
  context_.tasks.PostAt(context_.Now() + context_.options.heartbeat, [this] { Start(); });
}

void StatusTopic::PublishOnline() {
  const api::Inference& inference = context_.services.inference;
  context_.Publish(
      StatusMessage(context_.topics.ServerStatus(context_.options.node),
                    OnlineJson(context_.options.version, inference.Models(), inference.Load())));
  PublishOfProjects(true);
}

void StatusTopic::PublishOffline() {
  PublishOfProjects(false);
  context_.Publish(Will(context_.options, context_.topics));
}

void StatusTopic::PublishOfProjects(bool online) {
  const int64_t now_s = context_.services.unix_ms() / 1000;
  for (const ProjectSettings& project : context_.options.projects) {
    context_.Publish(
        StatusMessage(project.name + "/status",
                      protocol::ProjectStatusJson(context_.options.service, online, now_s)));
  }
}

}  // namespace tutti::mqtt::chat
