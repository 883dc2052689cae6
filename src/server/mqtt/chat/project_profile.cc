#include "server/mqtt/chat/project_profile.h"

#include <memory>
#include <utility>

#include "base/random.h"
#include "services/sessions/dialog_quota.h"

namespace tutti::mqtt::chat {
namespace {

// Why a response ended otherwise than well, for a client that gets no response object.
Status ErrorOf(const protocol::ResponseState& end) {
  if (end.status == protocol::ResponseStatus::kCancelled)
    return Status(StatusCode::kCancelled, "cancelled", "the turn was cancelled");
  const std::string code = end.error_code.empty() ? "internal_error" : end.error_code;
  return Status(StatusCode::kInternal, code, end.error_message);
}

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

// The Response Topic of `message`, if it has one, becomes the topic of the answer. An error is
// logged.
Status TakeResponseTopic(Context& context, const ProjectSettings& project, const Message& message,
                         ProjectAddress& address) {
  if (message.response_topic.empty()) return OkStatus();
  Status own = protocol::CheckProjectReplyTopic(project.name, address.reply.session,
                                                message.response_topic, "response_topic");
  if (own.ok()) {
    address.reply.topic = message.response_topic;
  } else {
    context.LogRefusal(message.topic, message.user, own);
  }
  return own;
}

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

Message ProjectJson(const ProjectAddress& address, std::string type, int64_t seq,
                    std::string payload) {
  Message message = JsonMessage(address.reply.topic, std::move(payload));
  message.correlation_data = address.correlation;
  message.user_properties = {{"type", std::move(type)}, {"seq", std::to_string(seq)}};
  if (!address.reply.request_id.empty())
    message.user_properties.emplace_back("requestId", address.reply.request_id);
  return message;
}

Message ProjectError(const ProjectAddress& address, int64_t seq, const Status& error) {
  return ProjectJson(address, "error", seq, protocol::ProjectErrorJson(address.reply, error));
}

std::optional<Message> ProjectFormatter::OfDeltas(const Deltas& deltas, int64_t index) const {
  if (!stream_ || deltas.event.reasoning) return std::nullopt;
  return ProjectJson(address_, "chunk", turn(),
                     protocol::ProjectChunkJson(address_.reply, turn(), index, deltas.event.text));
}

std::optional<Message> ProjectFormatter::OfEvent(const responses::LogEntry& entry,
                                                 int64_t index) const {
  if (!entry.terminal()) return std::nullopt;
  const protocol::ResponseState end = response().State();
  const bool well = end.status == protocol::ResponseStatus::kCompleted ||
                    end.status == protocol::ResponseStatus::kIncomplete;
  return well ? Whole(end, index) : ProjectError(address_, turn(), ErrorOf(end));
}

Message ProjectFormatter::Whole(const protocol::ResponseState& end, int64_t index) const {
  if (!stream_ && format_ == ReplyFormat::kText) {
    Message message = ProjectJson(address_, "reply", turn(), end.text);
    message.content_type = "text/plain; charset=utf-8";
    return message;
  }
  return ProjectJson(address_, "reply", turn(),
                     protocol::ProjectReplyJson(address_.reply, turn(),
                                                stream_ ? std::optional(index) : std::nullopt,
                                                end.text, end.usage.value_or(api::Usage{})));
}

std::optional<Message> ProjectFormatter::OfError(const Status& error) const {
  return ProjectError(address_, turn(), error);
}

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
  const Status own = TakeResponseTopic(context_, project, message, address);
  if (!own.ok()) return refuse(own);
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
  Submit(pending, project, address, *std::move(received.message), expires, SentContext(message));
}

void ProjectMessages::Submit(const PendingPointer& pending, const ProjectSettings& project,
                             const ProjectAddress& address, protocol::ProjectMessage message,
                             TimePoint expires, TraceContext trace_context) {
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
  submitted.request.trace_context = std::move(trace_context);
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
  answering_.Restore(PendingAt(project, address, ""), owed, std::move(place), std::move(again));
}

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
  const Status own = TakeResponseTopic(context_, project, message, address);
  if (!own.ok()) return Publish(address, *op, 0, own);
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
      if (verb.clears) {
        done = context_.tasks.WhileAlive([this, key, done](const Status& set) {
          if (!set.ok()) return done(set);
          context_.services.sessions.Clear(key, done);
        });
      }
      return sessions.SetSystemPrompt(key, verb.system_prompt.value_or(""), std::move(done));
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
      if (verb.clears) {
        done = context_.tasks.WhileAlive(
            [this, tenant = project.tenant, name = project.name, done](const Result<int64_t>& set) {
              if (!set.ok()) return done(set);
              context_.services.sessions.ClearProject(tenant, name, done);
            });
      }
      return sessions.SetProjectPrompt(project.tenant, project.name,
                                       verb.system_prompt.value_or(""), std::move(done));
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
