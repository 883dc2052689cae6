#include "server/mqtt/chat/profile.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/types.h"
#include "base/work_inbox.h"
#include "protocol/chat/project.h"
#include "protocol/json/field_error.h"
#include "protocol/json/json_writer.h"
#include "protocol/load.h"
#include "server/mqtt/chat/answering.h"
#include "server/mqtt/chat/context.h"
#include "server/mqtt/chat/native_profile.h"
#include "server/mqtt/chat/project_profile.h"
#include "server/mqtt/chat/topics.h"
#include "services/sessions/message.h"

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

constexpr int64_t kPage = 1000;  // undelivered replies of a read
constexpr size_t kOwedAtOnce = 64;
constexpr Duration kBetween = std::chrono::milliseconds(20);
constexpr Duration kLater = std::chrono::seconds(1);

// UndeliveredReplies: answers that an earlier process has accepted but not sent. They are read from
// the store at the start, and sent to their topics once models are loaded, a few at a time, so that
// they do not crowd out new messages. Later turns of their dialogs end after them (ReplyOrder).
// Runs on the strand.
class UndeliveredReplies {
 public:
  UndeliveredReplies(Context& context, NativeMessages& native, ProjectMessages& projects)
      : context_(context), native_(native), projects_(projects) {}

  void Read();  // reads the store; only the first call
  void Send();  // starts sending; called when models are loaded
  void Clear() { waiting_.clear(); }

 private:
  struct Waiting {
    sessions::OwedAnswer owed;
    ReplyTo reply_to;
    ReplyOrder::Place place;
  };
  void ReadBehind(const sessions::OwedPlace& place);
  void Add(sessions::OwedAnswer owed);
  void SendSome();
  void SendOne(Waiting waiting);
  void SendAt(TimePoint when);

  Context& context_;
  NativeMessages& native_;
  ProjectMessages& projects_;
  std::deque<Waiting> waiting_;
  bool read_ = false;
  bool sends_ = false;  // Send() was called
  bool armed_ = false;  // a timer will send some
};

void UndeliveredReplies::Read() {
  if (!std::exchange(read_, true)) ReadBehind({});
}

void UndeliveredReplies::ReadBehind(const sessions::OwedPlace& place) {
  context_.services.sessions.Owed(
      place, kPage,
      context_.tasks.WhileAlive(
          [this, place](const Result<std::vector<sessions::OwedAnswer>>& page) {
            if (!page.ok()) {
              return context_.tasks.PostAt(context_.Now() + kLater,
                                           [this, place] { ReadBehind(place); });
            }
            for (const sessions::OwedAnswer& each : *page) Add(each);
            if (!page->empty()) return ReadBehind(page->back().place);
            if (sends_) SendAt(context_.Now());
          }));
}

// Replies of other protocols, and of projects that are no longer served, stay in the store.
void UndeliveredReplies::Add(sessions::OwedAnswer owed) {
  std::optional<ReplyTo> reply_to = DecodeReplyTo(owed.reply_to);
  if (!reply_to.has_value() || reply_to->server != context_.options.server) return;
  ReplyOrder::Place place =
      context_.publisher.Reserve(reply_to->topic, DialogOf(owed.key), owed.place.turn);
  waiting_.push_back({std::move(owed), *std::move(reply_to), std::move(place)});
}

void UndeliveredReplies::Send() {
  sends_ = true;
  Read();
  SendSome();
}

void UndeliveredReplies::SendAt(TimePoint when) {
  if (std::exchange(armed_, true)) return;
  context_.tasks.PostAt(when, [this] {
    armed_ = false;
    SendSome();
  });
}

void UndeliveredReplies::SendSome() {
  // Half of the capacity is reserved for current answers.
  if (context_.publisher.size() > context_.options.streams.all / 2)
    return SendAt(context_.Now() + kLater);
  // A reply without room goes to the end of the queue.
  for (size_t left = std::min(kOwedAtOnce, waiting_.size()); left > 0; --left) {
    Waiting next = std::move(waiting_.front());
    waiting_.pop_front();
    SendOne(std::move(next));
  }
  if (!waiting_.empty()) SendAt(context_.Now() + kBetween);
}

void UndeliveredReplies::SendOne(Waiting waiting) {
  const auto& [owed, reply_to, place] = waiting;
  auto again = [this, waiting] {  // there is no room for it now
    waiting_.push_back(waiting);
    SendAt(context_.Now() + kLater);
  };
  if (reply_to.native) {
    if (context_.options.native) native_.Restore(owed, reply_to, place, std::move(again));
    return;
  }
  if (const ProjectSettings* project = context_.FindProject(owed.key.tenant, owed.key.project))
    projects_.Restore(*project, owed, reply_to, place, std::move(again));
}

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

Message StatusMessage(std::string topic, std::string payload) {
  Message message = JsonMessage(std::move(topic), std::move(payload));
  message.retain = true;
  return message;
}

struct ProfileParts final : public Profile {
  ProfileParts(ProfileOptions options, Services services, NativeTopics topics)
      : context(std::move(options), std::move(services), std::move(topics)),
        inbox(std::make_shared<WorkInbox>(
            [strand = context.tasks.strand()](WorkInbox::Work work) {
              return strand->TryPost(std::move(work));
            },
            WorkInbox::Limits{context.options.inbox_messages, context.options.inbox_bytes})) {}
  ~ProfileParts() override { Stop(); }

  Status Subscribe() override;
  void Start() override;
  void Resume() override {
    context.tasks.Post([this] { undelivered_replies.Send(); });
  }
  void Announce() override {
    context.tasks.Post([this] { presence.PublishOnline(); });
  }
  void Stop() override;
  Message Will() const override { return StatusTopic::Will(context.options, context.topics); }
  Statistics statistics() const override { return context.room.statistics(); }

  using Take = std::function<void(const Message& message, Receipt receipt)>;
  Status SubscribeTo(std::string filter, Take take);
  // The handler of messages to topics of that kind; null: clients do not publish to them.
  // `project`: the project of the topic, or null.
  Take TakerOf(Topic topic, const ProjectSettings* project);
  Status SubscribeAll(std::string_view first, const ProjectSettings* project);
  void LogStatistics();
  void AwaitLastMessages();

  Context context;
  const std::shared_ptr<WorkInbox> inbox;  // clients' messages, for the strand
  NativeMessages native_messages{context};
  NativeControl native_control{context};
  ProjectMessages project_messages{context};
  ProjectVerbs project_verbs{context};
  UndeliveredReplies undelivered_replies{context, native_messages, project_messages};
  StatusTopic presence{context};
  bool started = false, stopped = false;
};

// Waits until the results of last messages are known; otherwise the next process would send such an
// answer again.
void ProfileParts::AwaitLastMessages() {
  std::promise<void> promise;
  const std::future<void> settled = promise.get_future();
  const auto reported = std::make_shared<std::promise<void>>(std::move(promise));
  context.tasks.Post(
      [this, reported] { context.publisher.OnceSettled([reported] { reported->set_value(); }); });
  settled.wait_for(std::chrono::seconds(1));
}

Status ProfileParts::SubscribeTo(std::string filter, Take take) {
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

ProfileParts::Take ProfileParts::TakerOf(Topic topic, const ProjectSettings* project) {
  switch (topic) {
    case Topic::kIn:
      return std::bind_front(&NativeMessages::Take, &native_messages);
    case Topic::kControl:
      return std::bind_front(&NativeControl::Take, &native_control);
    case Topic::kClientStatus:
      return std::bind_front(&NativeControl::TakeStatus, &native_control);
    case Topic::kUserInput:
      return std::bind_front(&ProjectMessages::Take, &project_messages, std::cref(*project));
    case Topic::kTemplate:
    case Topic::kClear:
    case Topic::kDelete:
      return std::bind_front(&ProjectVerbs::Take, &project_verbs, std::cref(*project));
    case Topic::kOut:
    case Topic::kOwn:
    case Topic::kServerStatus:
    case Topic::kReply:
    case Topic::kProjectStatus:
      return nullptr;
  }
  return nullptr;
}

Status ProfileParts::SubscribeAll(std::string_view first, const ProjectSettings* project) {
  for (const TopicRule& rule : TopicRules()) {
    if (rule.of_project() != (project != nullptr) || rule.publishes == Party::kNobody) continue;
    RETURN_IF_ERROR(SubscribeTo(FilterOf(rule, first), TakerOf(rule.topic, project)));
  }
  return OkStatus();
}

void ProfileParts::LogStatistics() {
  const Statistics now = context.room.statistics();
  context.services.log.Info("mqtt.statistics", {{"processed", now.processed},
                                                {"errors", now.errors},
                                                {"rejected", now.rejected},
                                                {"queue", now.waiting},
                                                {"average_ms", ToMillis(now.average)}});
  context.tasks.PostAt(context.Now() + context.options.statistics, [this] { LogStatistics(); });
}

void ProfileParts::Stop() {
  if (std::exchange(stopped, true)) return;
  inbox->Seal();
  if (started) AwaitLastMessages();
  context.tasks.Stop([this, announced = started] {
    if (announced) presence.PublishOffline();
    undelivered_replies.Clear();
    context.publisher.Clear();
    native_messages.Clear();
    native_control.Clear();
    project_messages.Clear();
  });
}

Status ProfileParts::Subscribe() {
  if (context.options.native) {
    RETURN_IF_ERROR(SubscribeAll(context.topics.prefix(), nullptr));
  }
  for (const ProjectSettings& project : context.options.projects) {
    RETURN_IF_ERROR(SubscribeAll(project.name, &project));
  }
  return OkStatus();
}

void ProfileParts::Start() {
  started = true;
  context.tasks.Post([this] {
    undelivered_replies.Read();
    presence.Start();
    context.tasks.PostAt(context.Now() + context.options.statistics, [this] { LogStatistics(); });
  });
}

}  // namespace

Result<std::unique_ptr<Profile>> Profile::Make(ProfileOptions options, Services services) {
  RETURN_IF_ERROR(Check(options));
  ASSIGN_OR_RETURN(NativeTopics topics, NativeTopics::Make(options.prefix));
  return std::unique_ptr<Profile>(
      std::make_unique<ProfileParts>(std::move(options), std::move(services), std::move(topics)));
}

// Also published on a clean stop.
Message StatusTopic::Will(const ProfileOptions& options, const NativeTopics& topics) {
  return StatusMessage(topics.ServerStatus(options.node), R"({"online":false})");
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
