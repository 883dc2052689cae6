#include "server/mqtt/chat/native_profile.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "protocol/json/json.h"
#include "protocol/responses/events.h"
#include "services/responses/call_state.h"
#include "services/sessions/message.h"

namespace tutti::mqtt::chat {
namespace {

// `id`: the message's, or empty.
PendingPointer PendingAt(const NativeAddress& address, std::string id) {
  const auto pending = std::make_shared<PendingMessage>();
  pending->quota_key = {.user = address.user};
  pending->credential = address.credential;
  pending->reply_topic = address.reply_topic;
  pending->formatter = std::make_shared<NativeFormatter>(address, std::move(id));
  return pending;
}

bool IsOffline(std::string_view payload) {
  const Result<protocol::JsonDocument> document = protocol::ParseJson(payload);
  if (!document.ok() || !document->root().is_object()) return false;
  const protocol::Json* online = document->root().get_object().if_contains("online");
  return online != nullptr && online->is_bool() && !online->get_bool();
}

}  // namespace

Message EventMessage(const NativeAddress& address, std::string payload) {
  Message message = JsonMessage(address.reply_topic, std::move(payload));
  message.correlation_data = address.correlation;
  return message;
}

Message ErrorMessage(const NativeAddress& address, const Status& error, std::string_view id) {
  return EventMessage(address, protocol::ErrorEvent(std::nullopt, error, id));
}

Message NativeFormatter::LogMessage(int64_t sequence, bool last, std::string payload) const {
  const protocol::ResponseState& state = response().base().state;
  Message message = EventMessage(address_, std::move(payload));
  message.user_properties = {{"resp", state.id},
                             {"seq", std::to_string(sequence)},
                             {"last", last ? "true" : "false"},
                             {"model", state.model}};
  return message;
}

std::optional<Message> NativeFormatter::OfAcceptance(const sessions::Acceptance& acceptance) const {
  const protocol::AcceptedEvent accepted{id_, acceptance.response_id, acceptance.turn,
                                         acceptance.position};
  return EventMessage(address_, protocol::EventJson(accepted, 0));
}

std::optional<Message> NativeFormatter::OfDeltas(const Deltas& deltas, int64_t) const {
  protocol::EventExtras extras;
  if (deltas.first != deltas.last) extras.first_sequence = deltas.first;
  Message message = LogMessage(deltas.last, /*last=*/false,
                               protocol::EventJson(deltas.event, deltas.last, extras));
  message.qos = 0;
  return message;
}

std::optional<Message> NativeFormatter::OfEvent(const responses::LogEntry& entry, int64_t) const {
  return LogMessage(entry.sequence, entry.terminal(),
                    protocol::EventJson(entry.event, entry.sequence));
}

std::optional<Message> NativeFormatter::OfError(const Status& error) const {
  return ErrorMessage(address_, error, id_);
}

void NativeMessages::Take(const Message& message, Receipt receipt) {
  const Result<NativeAddress> address =
      AddressOf(context_.topics, message, context_.options.tenant);
  if (!address.ok()) {  // and nowhere to say so
    context_.LogRefusal(message.topic, message.user, address.status());
    return receipt.Refuse(address.status());
  }
  const auto refuse = [&](const Status& error) {
    const PendingPointer pending = PendingAt(*address, protocol::MessageIdOf(message.payload));
    pending->receipt = std::move(receipt);
    answering_.Refuse(pending, error);
  };
  if (!address->refused.ok()) {
    context_.LogRefusal(message.topic, address->user, address->refused);
    return refuse(address->refused);
  }
  const TimePoint expires = message.expires.value_or(TimePoint::max());
  if (expires <= context_.Now()) {
    return refuse(Status(StatusCode::kDeadlineExceeded, "deadline_exceeded",
                         "the message had expired when it came"));
  }
  Result<protocol::MqttMessage> parsed =
      protocol::ParseMqttMessage(message.payload, context_.Parsing());
  if (!parsed.ok()) return refuse(parsed.status());
  const Status known = context_.chat.CheckProject(address->Who(), parsed->project);
  if (!known.ok()) return refuse(known);
  const PendingPointer pending = PendingAt(*address, parsed->call.message_id);
  pending->redelivered = message.redelivered;
  pending->receipt = std::move(receipt);
  parsed->call.request.trace_context = SentContext(message);
  Submit(pending, *address, *std::move(parsed), expires);
}

void NativeMessages::Submit(const PendingPointer& pending, const NativeAddress& address,
                            protocol::MqttMessage message, TimePoint expires) {
  protocol::ResponsesCall& call = message.call;
  pending->key = context_.chat.KeyOf(address.Who(), message.project, address.session);
  call.model = call.request.model = context_.ModelFor(call.model);
  call.request.deadline = std::min(call.request.deadline, expires);
  // Behind a broker, only the topic identifies the user; an authenticated client may name one of
  // its own users.
  if (address.credential.empty() || call.request.user.empty()) call.request.user = address.user;
  call.request.route = "mqtt";
  protocol::ResponseState skeleton = responses::SkeletonOf(call, call.model, pending->key.session);
  sessions::Message submitted = sessions::MessageOf(std::move(call), std::move(skeleton));
  submitted.parallel = context_.options.parallel;
  submitted.reply_to = EncodeReplyTo({.server = context_.options.server,
                                      .native = true,
                                      .topic = address.reply_topic,
                                      .correlation = address.correlation});
  answering_.Submit(pending, std::move(submitted));
}

void NativeMessages::Restore(const sessions::OwedAnswer& owed, const ReplyTo& reply_to,
                             ReplyOrder::Place place, std::function<void()> again) {
  const size_t slash = owed.key.session.find('/');
  if (slash == std::string::npos) return;
  NativeAddress address;
  address.tenant = owed.key.tenant;
  address.user = owed.key.session.substr(0, slash);
  address.session = owed.key.session.substr(slash + 1);
  address.reply_topic = reply_to.topic;
  address.correlation = reply_to.correlation;
  const NativeTopics& topics = context_.topics;
  if (address.reply_topic != topics.Out(address.user, address.session)) {
    const Status own = topics.CheckResponse(address.user, address.reply_topic);
    if (!own.ok()) return context_.LogRefusal(address.reply_topic, address.user, own);
  }
  answering_.Restore(PendingAt(address, owed.message_id), owed, std::move(place), std::move(again));
}

JobFollows::JobFollows(Context& context)
    : context_(context), quota_counts_({context.options.follows.per_user, 0}) {}

void JobFollows::Follow(const NativeAddress& address, const protocol::MqttControl& control) {
  const auto admit = [&]() -> Status {
    if (context_.services.watch_job == nullptr)
      return Status(StatusCode::kUnimplemented, "not_implemented", "this server keeps no jobs");
    return context_.services.caller_of(address.credential, address.tenant).status();
  };
  if (const Status status = admit(); !status.ok()) return Refuse(address, control.id, status);
  const Key key{address.reply_topic, control.job_id, address.tenant};
  Entry entry{.address = address, .id = control.id, .seen = control.starting_after.value_or(-1)};
  if (const auto older = follows_.find(key); older != follows_.end()) {
    entry.serial = older->second.serial;  // a wait for news goes on
    older->second = std::move(entry);
    return Watch(key, older->second, Wait::kNot);
  }
  const QuotaKey quota_key{.user = address.user};
  const auto room = [&]() -> Status {
    if (follows_.size() >= context_.options.follows.all)
      return Unavailable("overloaded", "too many jobs are followed");
    return quota_counts_.RoomFor(quota_key, "subscriptions");
  };
  if (const Status status = room(); !status.ok()) return Refuse(address, control.id, status);
  quota_counts_.Add(quota_key);
  entry.serial = ++serial_;
  Watch(key, follows_.emplace(key, std::move(entry)).first->second, Wait::kForNews);
}

void JobFollows::DetachBelow(std::string_view topics) {
  for (auto& [key, entry] : follows_) {
    if (key.topic.starts_with(topics)) entry.detached = true;
  }
}

void JobFollows::Clear() {
  while (!follows_.empty()) Close(follows_.begin());
}

// The callback may run after this object is destroyed: it keeps the strand alive, and WhileAlive()
// skips the call.
void JobFollows::Watch(const Key& key, const Entry& entry, Wait wait) {
  auto seen = context_.tasks.WhileAlive(
      [this, key, serial = entry.serial, asked = entry.seen,
       wait](const Result<protocol::JobView>& job) { OnJob(key, serial, asked, wait, job); });
  const Duration most =
      std::chrono::seconds(wait == Wait::kForNews ? protocol::kMaxWaitSeconds : 0);
  context_.services.watch_job(
      key.tenant, key.job, entry.seen, context_.Now() + most,
      [strand = context_.tasks.strand(), seen](Result<protocol::JobView> job) {
        strand->Post([seen, job = std::move(job)]() mutable { seen(job); });
      });
}

void JobFollows::OnJob(const Key& key, uint64_t serial, int64_t asked, Wait wait,
                       const Result<protocol::JobView>& job) {
  const Place place = follows_.find(key);
  if (place == follows_.end() || place->second.serial != serial) return;  // it has ended
  Entry& entry = place->second;
  const auto refuse = [&](const Status& why) {
    Refuse(entry.address, entry.id, why);
    Close(place);
  };
  if (!job.ok()) return refuse(job.status());
  // Another watch has sent more, or the client has asked for another number: no version in between
  // may be left out.
  if (asked != entry.seen) return wait == Wait::kForNews ? Watch(key, entry, wait) : void();
  const bool last = protocol::Ended(job->state) && !job->past;
  if (last && job->version < entry.seen) {
    return refuse(InvalidArgument("invalid_value", "the job has ended, and its last event is " +
                                                       std::to_string(job->version))
                      .WithParam("starting_after"));
  }
  if (job->version > entry.seen) {
    entry.seen = job->version;
    std::string event = protocol::JobEvent(*job);
    if (event.size() > kMaxEventBytes) {
      return refuse(ResourceExhausted("request_too_large",
                                      "the job has " + std::to_string(event.size()) +
                                          " bytes, more than a message may: GET /v1/jobs/" +
                                          job->id + " has it")
                        .WithParam("job_id"));
    }
    if (last || !entry.detached) Publish(entry, *job, std::move(event));
  }
  if (last) return Close(place);
  // Past versions are sent one by one, even if another watch already waits for news.
  if (wait == Wait::kForNews || job->past) Watch(key, entry, wait);
}

void JobFollows::Publish(const Entry& entry, const protocol::JobView& job, std::string event) {
  Message message = EventMessage(entry.address, std::move(event));
  message.user_properties = {{"job", job.id},
                             {"seq", std::to_string(job.version)},
                             {"last", protocol::Ended(job.state) && !job.past ? "true" : "false"}};
  context_.Publish(std::move(message));
}

void JobFollows::Refuse(const NativeAddress& address, const std::string& id, const Status& why) {
  context_.Publish(ErrorMessage(address, why, id));
}

void JobFollows::Close(Place place) {
  quota_counts_.Remove({.user = place->second.address.user});
  follows_.erase(place);
}

void NativeControl::Take(const Message& message, Receipt receipt) {
  const Result<NativeAddress> address =
      AddressOf(context_.topics, message, context_.options.tenant);
  if (!address.ok()) {
    context_.LogRefusal(message.topic, message.user, address.status());
    return receipt.Refuse(address.status());
  }
  receipt.Accept();  // not durable: a client without an answer repeats it
  const std::string id = protocol::MessageIdOf(message.payload);
  if (!address->refused.ok()) {
    context_.LogRefusal(message.topic, address->user, address->refused);
    return Refuse(*address, id, address->refused);
  }
  const Result<protocol::MqttControl> control =
      protocol::ParseMqttControl(message.payload, context_.Parsing());
  if (!control.ok()) return Refuse(*address, id, control.status());
  Carry(*address, *control);
}

void NativeControl::TakeStatus(const Message& message, Receipt receipt) {
  receipt.Accept();
  const std::optional<std::string> user = context_.topics.ClientOf(message.topic);
  if (!user.has_value()) return;
  if (!message.user.empty() && message.user != *user) return;
  if (!IsOffline(message.payload)) return;
  context_.publisher.DetachBelow(context_.topics.Of(*user));
  jobs_.DetachBelow(context_.topics.Of(*user));
}

void NativeControl::Carry(const NativeAddress& address, const protocol::MqttControl& control) {
  using Verb = protocol::MqttControl::Verb;
  switch (control.verb) {
    case Verb::kCancel:
      return Cancel(address, control);
    case Verb::kResume:
      return Resume(address, control);
    case Verb::kSubscribe:
      return jobs_.Follow(address, control);
    case Verb::kHistory:
    case Verb::kFork:
    case Verb::kClear:
    case Verb::kPing:
      return context_.chat.Carry(
          address.Who(), address.session, control,
          context_.tasks.WhileAlive([this, address, id = control.id](Result<std::string> event) {
            if (!event.ok()) return Refuse(address, id, event.status());
            context_.Publish(EventMessage(address, *std::move(event)));
          }));
  }
}

void NativeControl::Cancel(const NativeAddress& address, const protocol::MqttControl& control) {
  if (!control.response_id.empty()) {
    return Find(
        address, control,
        [this, address, id = control.id](const std::shared_ptr<responses::Response>& response) {
          CancelOf(address, id, response);
        });
  }
  const std::shared_ptr<responses::Response> running = context_.publisher.RunningOf(
      DialogOf(context_.chat.KeyOf(address.Who(), control.project, address.session)));
  if (running == nullptr)
    return context_.Publish(EventMessage(address, protocol::CancelledEvent(control.id, "")));
  CancelOf(address, control.id, running);
}

void NativeControl::CancelOf(const NativeAddress& address, const std::string& id,
                             const std::shared_ptr<responses::Response>& response) {
  ReplyPublisher::Setup setup;
  setup.topic = address.reply_topic;
  setup.quota_key = {.user = address.user};
  setup.purpose = ReplyPublisher::Purpose::kEndNotice;
  setup.response = response;
  // Starts before the next entry; for an ended response, at its terminal entry.
  setup.starting_after = response->log().next() - 2;
  setup.formatter = std::make_shared<EndNotice>(
      EventMessage(address, protocol::CancelledEvent(id, response->id())));
  if (const Status status = context_.publisher.Open(std::move(setup)); !status.ok())
    return Refuse(address, id, status);
  context_.services.responses.Cancel(response->owner(), response->id(), [](const auto&) {});
}

void NativeControl::Resume(const NativeAddress& address, const protocol::MqttControl& control) {
  Find(address, control,
       [this, address, control](const std::shared_ptr<responses::Response>& response) {
         const int64_t starting_after = control.starting_after.value_or(-1);
         if (const Status place = responses::CheckPlace(*response, starting_after); !place.ok())
           return Refuse(address, control.id, place);
         ReplyPublisher::Setup setup;
         setup.topic = address.reply_topic;
         setup.quota_key = {.user = address.user};
         setup.dialog =
             DialogOf(context_.chat.KeyOf(address.Who(), control.project, address.session));
         setup.response = response;
         setup.starting_after = starting_after;
         setup.formatter = std::make_shared<NativeFormatter>(address, control.id);
         if (const Status status = context_.publisher.Open(std::move(setup)); !status.ok())
           Refuse(address, control.id, status);
       });
}

void NativeControl::Find(const NativeAddress& address, const protocol::MqttControl& control,
                         std::function<void(std::shared_ptr<responses::Response>)> then) {
  context_.services.responses.Find(
      address.tenant, control.response_id,
      context_.tasks.WhileAlive([this, address, id = control.id,
                                 then](const Result<std::shared_ptr<responses::Response>>& found) {
        if (!found.ok()) return Refuse(address, id, found.status());
        if (sessions::MayRead(address.Who(), (*found)->base().state.conversation))
          return then(*found);
        context_.LogRefusal("", address.user, NotFound("not_found", "another's response"));
        Refuse(address, id, NotFound("not_found", "there is no such response"));
      }));
}

void NativeControl::Refuse(const NativeAddress& address, const std::string& id,
                           const Status& error) {
  context_.Publish(ErrorMessage(address, error, id));
}

}  // namespace tutti::mqtt::chat
