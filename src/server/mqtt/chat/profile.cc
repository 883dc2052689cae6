#include "server/mqtt/chat/profile.h"

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <set>
#include <utility>

#include "base/work_inbox.h"
#include "protocol/json/utf8.h"
#include "server/mqtt/chat/context.h"
#include "server/mqtt/chat/native_control.h"
#include "server/mqtt/chat/native_messages.h"
#include "server/mqtt/chat/project_messages.h"
#include "server/mqtt/chat/project_verbs.h"
#include "server/mqtt/chat/status_topic.h"
#include "server/mqtt/chat/topic_rules.h"
#include "server/mqtt/chat/undelivered_replies.h"

namespace tutti::mqtt::chat {
namespace {

Status CheckLevel(std::string_view what, const std::string& name) {
  if (protocol::IsTopicLevel(name) && name.size() <= 128) return OkStatus();
  return InvalidArgument("invalid_value", std::string(what) + " cannot be a level of a topic: " +
                                              protocol::Excerpt(name));
}

Status Check(const ProfileOptions& options) {
  RETURN_IF_ERROR(CheckLevel("the node's name", options.node));
  RETURN_IF_ERROR(CheckLevel("the default project's name", options.default_project));
  std::set<std::string> names;
  for (const ProjectSettings& project : options.projects) {
    RETURN_IF_ERROR(CheckLevel("a project's name", project.name));
    if (!names.insert(project.name).second)
      return InvalidArgument("invalid_value", "the project " + project.name + " is named twice");
  }
  return OkStatus();
}

}  // namespace

struct Profile::Parts {
  Parts(ProfileOptions options, Services services, NativeTopics topics)
      : context(std::move(options), std::move(services), std::move(topics)),
        inbox(std::make_shared<WorkInbox>(
            [strand = context.tasks.strand()](WorkInbox::Work work) {
              return strand->TryPost(std::move(work));
            },
            WorkInbox::Limits{context.options.inbox_messages, context.options.inbox_bytes})) {}

  using Take = std::function<void(const Message& message, Receipt receipt)>;
  Status Subscribe(std::string filter, Take take);
  // The handler of messages to topics of that kind; null: clients do not publish to them.
  // `project`: the project of the topic, or null.
  Take TakerOf(Topic topic, const ProjectSettings* project);
  Status SubscribeAll(std::string_view first, const ProjectSettings* project);
  void LogStatistics();
  void AwaitLastMessages();
  void Stop(bool announced);

  Context context;
  const std::shared_ptr<WorkInbox> inbox;  // clients' messages, for the strand
  NativeMessages native_messages{context};
  NativeControl native_control{context};
  ProjectMessages project_messages{context};
  ProjectVerbs project_verbs{context};
  UndeliveredReplies undelivered_replies{context, native_messages, project_messages};
  StatusTopic presence{context};
};

// Waits until the results of last messages are known; otherwise the next process would send such an
// answer again.
void Profile::Parts::AwaitLastMessages() {
  std::promise<void> promise;
  const std::future<void> settled = promise.get_future();
  const auto reported = std::make_shared<std::promise<void>>(std::move(promise));
  context.tasks.Post(
      [this, reported] { context.publisher.OnceSettled([reported] { reported->set_value(); }); });
  settled.wait_for(std::chrono::seconds(1));
}

Status Profile::Parts::Subscribe(std::string filter, Take take) {
  const size_t most = context.options.payload_bytes;
  Take taken = context.tasks.WhileAlive(std::move(take));
  return context.services.port.Subscribe(
      std::move(filter),
      [inbox = inbox, most, taken, &log = context.services.log](Message message, Receipt receipt) {
        // A retained message is delivered with every subscription: it would be processed at each
        // reconnect.
        if (message.retain) {
          log.Warn("mqtt.retained", {{"topic", message.topic}});
          return receipt.Accept();
        }
        if (message.payload.size() > most) {
          return receipt.Refuse(ResourceExhausted(
              "request_too_large", "a message has at most " + std::to_string(most) + " bytes"));
        }
        const size_t bytes = message.payload.size();
        const auto item =
            std::make_shared<std::pair<Message, Receipt>>(std::move(message), std::move(receipt));
        const Status status = inbox->Offer(
            bytes, [item, taken]() mutable { taken(item->first, std::move(item->second)); });
        if (!status.ok()) item->second.Refuse(status);
      });
}

Profile::Parts::Take Profile::Parts::TakerOf(Topic topic, const ProjectSettings* project) {
  switch (topic) {
    case Topic::kIn:
      return [this](const Message& message, Receipt receipt) {
        native_messages.Take(message, std::move(receipt));
      };
    case Topic::kControl:
      return [this](const Message& message, Receipt receipt) {
        native_control.Take(message, std::move(receipt));
      };
    case Topic::kClientStatus:
      return [this](const Message& message, Receipt receipt) {
        native_control.TakeStatus(message, std::move(receipt));
      };
    case Topic::kUserInput:
      return [this, project](const Message& message, Receipt receipt) {
        project_messages.Take(*project, message, std::move(receipt));
      };
    case Topic::kTemplate:
    case Topic::kClear:
    case Topic::kDelete:
      return [this, project](const Message& message, Receipt receipt) {
        project_verbs.Take(*project, message, std::move(receipt));
      };
    case Topic::kOut:
    case Topic::kOwn:
    case Topic::kServerStatus:
    case Topic::kReply:
    case Topic::kProjectStatus:
      return nullptr;
  }
  return nullptr;
}

Status Profile::Parts::SubscribeAll(std::string_view first, const ProjectSettings* project) {
  for (const TopicRule& rule : TopicRules()) {
    if (rule.of_project() != (project != nullptr) || rule.publishes == Party::kNobody) continue;
    RETURN_IF_ERROR(Subscribe(FilterOf(rule, first), TakerOf(rule.topic, project)));
  }
  return OkStatus();
}

void Profile::Parts::LogStatistics() {
  const Statistics now = context.room.statistics();
  context.services.log.Info("mqtt.statistics", {{"processed", now.processed},
                                                {"errors", now.errors},
                                                {"rejected", now.rejected},
                                                {"queue", now.waiting},
                                                {"average_ms", ToMillis(now.average)}});
  context.tasks.PostAt(context.Now() + context.options.statistics, [this] { LogStatistics(); });
}

void Profile::Parts::Stop(bool announced) {
  inbox->Seal();
  if (announced) AwaitLastMessages();
  context.tasks.Stop([this, announced] {
    if (announced) presence.PublishOffline();
    undelivered_replies.Clear();
    context.publisher.Clear();
    native_messages.Clear();
    native_control.Clear();
    project_messages.Clear();
  });
}

Result<std::unique_ptr<Profile>> Profile::Make(ProfileOptions options, Services services) {
  RETURN_IF_ERROR(Check(options));
  ASSIGN_OR_RETURN(NativeTopics topics, NativeTopics::Make(options.prefix));
  return std::unique_ptr<Profile>(new Profile(
      std::make_unique<Parts>(std::move(options), std::move(services), std::move(topics))));
}

Profile::Profile(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

Profile::~Profile() { Stop(); }

Status Profile::Subscribe() {
  if (parts_->context.options.native) {
    RETURN_IF_ERROR(parts_->SubscribeAll(parts_->context.topics.prefix(), nullptr));
  }
  for (const ProjectSettings& project : parts_->context.options.projects) {
    RETURN_IF_ERROR(parts_->SubscribeAll(project.name, &project));
  }
  return OkStatus();
}

void Profile::Start() {
  started_ = true;
  parts_->context.tasks.Post([parts = parts_.get()] {
    parts->undelivered_replies.Read();
    parts->presence.Start();
    parts->context.tasks.PostAt(parts->context.Now() + parts->context.options.statistics,
                                [parts] { parts->LogStatistics(); });
  });
}

void Profile::Resume() {
  parts_->context.tasks.Post([parts = parts_.get()] { parts->undelivered_replies.Send(); });
}

void Profile::Announce() {
  parts_->context.tasks.Post([parts = parts_.get()] { parts->presence.PublishOnline(); });
}

void Profile::Stop() {
  if (std::exchange(stopped_, true)) return;
  parts_->Stop(started_);
}

Message Profile::Will() const {
  return StatusTopic::Will(parts_->context.options, parts_->context.topics);
}

Statistics Profile::statistics() const { return parts_->context.room.statistics(); }

}  // namespace tutti::mqtt::chat
