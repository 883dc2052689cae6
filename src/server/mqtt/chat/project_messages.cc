#include "server/mqtt/chat/project_messages.h"

#include <memory>
#include <utility>

#include "base/random_id.h"
#include "services/sessions/dialog_quota.h"

namespace tutti::mqtt::chat {
namespace {

constexpr size_t kMaxIdBytes = 128;  // of a session's message

// Clients that share a session count their requests each for itself.
std::string MessageIdOf(const protocol::ProjectReply& reply) {
  if (reply.request_id.empty() || reply.client.empty()) return reply.request_id;
  std::string both = reply.client + "/" + reply.request_id;
  return both.size() <= kMaxIdBytes ? both : reply.request_id;
}

sessions::Message MessageOf(protocol::ProjectMessage received, const ProjectSettings& project,
                            const protocol::ProjectReply& reply) {
  sessions::Message message;
  message.id = MessageIdOf(reply);
  message.input.push_back({api::Role::kUser, std::move(received.text), ""});
  message.request.sampling = std::move(received.sampling);
  message.system_prompt = std::move(received.system_prompt);
  message.parallel = project.parallel;
  protocol::ResponseState& state = message.state;
  state.store = false;  // kept for as long as a turn is, not for weeks
  state.instructions = message.system_prompt;
  state.max_output_tokens = message.request.sampling.max_tokens;
  state.temperature = message.request.sampling.temperature;
  state.top_p = message.request.sampling.top_p;
  state.truncation = "auto";
  return message;
}

// `user`: the publisher; empty behind a broker that does not identify it.
PendingPointer PendingAt(const ProjectSettings& project, const ProjectAddress& address,
                         const std::string& user) {
  const auto pending = std::make_shared<PendingMessage>();
  pending->quota_key = user.empty() ? QuotaKey{.project = project.name} : QuotaKey{.user = user};
  pending->reply_topic = address.reply.topic;
  pending->once_there = true;  // each chunk of it once
  pending->formatter = std::make_shared<ProjectFormatter>(project, address);
  return pending;
}

}  // namespace

void ProjectMessages::Take(const ProjectSettings& project, const Message& message,
                           Receipt receipt) {
  const std::string random = NewId("").substr(0, 8);
  protocol::ReceivedMessage received =
      protocol::ParseProjectMessage(project.name, message.payload, random, context_.Parsing());
  ProjectAddress address{std::move(received.reply), message.correlation_data};
  const auto refuse = [&](const Status& error) {
    const PendingPointer pending = PendingAt(project, address, message.user);
    pending->receipt = std::move(receipt);
    answering_.Refuse(pending, error);
  };
  if (!message.response_topic.empty()) {
    const Status status = protocol::CheckProjectReplyTopic(
        project.name, address.reply.session, message.response_topic, "response_topic");
    if (!status.ok()) {
      context_.LogRefusal(message.topic, message.user, status);
      return refuse(status);
    }
    address.reply.topic = message.response_topic;
  }
  if (!received.message.ok()) {
    const Status status = received.message.status();
    if (status.param() == "replyTopic") context_.LogRefusal(message.topic, message.user, status);
    return refuse(status);
  }
  const TimePoint expires = message.expires.value_or(TimePoint::max());
  if (expires <= context_.Now()) {
    return refuse(Status(StatusCode::kDeadlineExceeded, "deadline_exceeded",
                         "the message had expired when it came"));
  }
  const PendingPointer pending = PendingAt(project, address, message.user);
  pending->credential = message.credential;
  pending->redelivered = message.redelivered;
  pending->receipt = std::move(receipt);
  Submit(pending, project, address, *std::move(received.message), expires);
}

void ProjectMessages::Submit(const PendingPointer& pending, const ProjectSettings& project,
                             const ProjectAddress& address, protocol::ProjectMessage message,
                             TimePoint expires) {
  const protocol::ProjectReply& reply = address.reply;
  pending->key = {project.tenant, project.name, reply.session};
  sessions::Message submitted = MessageOf(std::move(message), project, reply);
  // A client-chosen id gets no quota, because each new id would have a fresh one.
  if (const std::string& user = pending->quota_key.user; !user.empty())
    submitted.owner = sessions::OwnerOf(pending->key) + "/" + user;
  submitted.state.model = submitted.request.model = context_.ModelFor(project.model);
  submitted.request.deadline = expires;
  submitted.request.user =
      pending->quota_key.user.empty() ? "project:" + project.name : pending->quota_key.user;
  submitted.request.route = "mqtt.project";
  submitted.reply_to = EncodeReplyTo({.server = context_.options.server,
                                      .native = false,
                                      .topic = reply.topic,
                                      .correlation = address.correlation,
                                      .client = reply.client,
                                      .request_id = reply.request_id});
  answering_.Submit(pending, std::move(submitted));
}

void ProjectMessages::Restore(const ProjectSettings& project, const sessions::OwedAnswer& owed,
                              const ReplyTo& reply_to, ReplyOrder::Place place,
                              std::function<void()> again) {
  const ProjectAddress address{{.topic = reply_to.topic,
                                .session = owed.key.session,
                                .client = reply_to.client,
                                .request_id = reply_to.request_id},
                               reply_to.correlation};
  const Status own =
      protocol::CheckProjectReplyTopic(project.name, owed.key.session, reply_to.topic, "reply_to");
  if (!own.ok()) return context_.LogRefusal(reply_to.topic, "", own);
  const PendingPointer pending = PendingAt(project, address, "");
  pending->key = owed.key;
  pending->again = std::move(again);
  pending->place = std::move(place);
  answering_.Restore(pending, owed.message_id);
}

}  // namespace tutti::mqtt::chat
