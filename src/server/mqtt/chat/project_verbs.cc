#include "server/mqtt/chat/project_verbs.h"

#include <utility>

namespace tutti::mqtt::chat {
namespace {

using protocol::ProjectOp;

std::optional<ProjectOp> OpOf(protocol::ProjectChannel channel) {
  switch (channel) {
    case protocol::ProjectChannel::kTemplate:
      return ProjectOp::kTemplate;
    case protocol::ProjectChannel::kClear:
      return ProjectOp::kClear;
    case protocol::ProjectChannel::kDelete:
      return ProjectOp::kDelete;
    default:
      return std::nullopt;
  }
}

}  // namespace

void ProjectVerbs::Take(const ProjectSettings& project, const Message& message, Receipt receipt) {
  receipt.Accept();  // nothing of it is durable before its acknowledgement
  const std::optional<protocol::ProjectTopic> topic =
      protocol::ParseProjectTopic(project.name, message.topic);
  const std::optional<ProjectOp> op =
      topic.has_value() ? OpOf(topic->channel) : std::optional<ProjectOp>();
  if (!op.has_value()) {
    return context_.LogRefusal(message.topic, message.user,
                               InvalidArgument("invalid_value", "no topic of a verb"));
  }
  protocol::ReceivedVerb received = protocol::ParseProjectVerb(project.name, *op, topic->session,
                                                               message.payload, context_.Parsing());
  ProjectAddress address{std::move(received.reply), message.correlation_data};
  if (!message.response_topic.empty()) {
    const Status status = protocol::CheckProjectReplyTopic(
        project.name, address.reply.session, message.response_topic, "response_topic");
    if (!status.ok()) {
      context_.LogRefusal(message.topic, message.user, status);
      return Publish(address, *op, 0, status);
    }
    address.reply.topic = message.response_topic;
  }
  if (!received.verb.ok()) return Publish(address, *op, 0, received.verb.status());
  const protocol::ProjectVerb& verb = *received.verb;
  if (verb.session.empty()) return OfAll(project, address, verb);
  const sessions::SessionKey key{project.tenant, project.name, verb.session};
  // Reads the last turn of the session at the time of the command.
  context_.services.sessions.History(
      key, {.limit = 1, .ascending = false, .after = {}},
      context_.tasks.WhileAlive([this, key, address, verb](const Result<sessions::ItemList>& last) {
        const bool any = last.ok() && !last->items.empty();
        OfOne(key, address, verb, any ? last->items.front().turn : 0);
      }));
}

void ProjectVerbs::OfOne(const sessions::SessionKey& key, const ProjectAddress& address,
                         const protocol::ProjectVerb& verb, int64_t seq) {
  sessions::Sessions::Callback done =
      context_.tasks.WhileAlive([this, address, op = verb.op, seq](const Status& status) {
        Publish(address, op, seq, status);
      });
  sessions::Sessions& sessions = context_.services.sessions;
  switch (verb.op) {
    case ProjectOp::kTemplate:
      if (!verb.clears)
        return sessions.SetSystemPrompt(key, verb.system_prompt.value_or(""), std::move(done));
      return sessions.SetSystemPrompt(
          key, *verb.system_prompt,
          context_.tasks.WhileAlive([this, key, done = std::move(done)](const Status& set) {
            if (!set.ok()) return done(set);
            context_.services.sessions.Clear(key, done);
          }));
    case ProjectOp::kClear:
      return sessions.Clear(key, std::move(done));
    case ProjectOp::kDelete:
      return sessions.Delete(key, std::nullopt, std::move(done));
  }
}

void ProjectVerbs::OfAll(const ProjectSettings& project, const ProjectAddress& address,
                         const protocol::ProjectVerb& verb) {
  std::function<void(const Result<int64_t>&)> done =
      context_.tasks.WhileAlive([this, address, op = verb.op](const Result<int64_t>& result) {
        Publish(address, op, 0, result.status());
      });
  sessions::Sessions& sessions = context_.services.sessions;
  switch (verb.op) {
    case ProjectOp::kTemplate:
      if (!verb.clears) {
        return sessions.SetProjectPrompt(project.tenant, project.name,
                                         verb.system_prompt.value_or(""), std::move(done));
      }
      return sessions.SetProjectPrompt(
          project.tenant, project.name, *verb.system_prompt,
          context_.tasks.WhileAlive([this, tenant = project.tenant, name = project.name,
                                     done = std::move(done)](const Result<int64_t>& set) {
            if (!set.ok()) return done(set);
            context_.services.sessions.ClearProject(tenant, name, done);
          }));
    case ProjectOp::kClear:
      return sessions.ClearProject(project.tenant, project.name, std::move(done));
    case ProjectOp::kDelete:
      return sessions.DeleteProject(project.tenant, project.name, std::move(done));
  }
}

void ProjectVerbs::Publish(const ProjectAddress& address, ProjectOp op, int64_t seq,
                           const Status& status) {
  context_.Publish(status.ok() ? ProjectJson(address, "ack", seq,
                                             protocol::ProjectAckJson(address.reply, op, seq))
                               : ProjectError(address, seq, status));
}

}  // namespace tutti::mqtt::chat
