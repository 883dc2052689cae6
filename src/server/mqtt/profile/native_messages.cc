#include "server/mqtt/profile/native_messages.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "server/mqtt/profile/native_events.h"
#include "server/mqtt/profile/native_reply.h"
#include "services/sessions/call_message.h"
#include "wire/response_events.h"

namespace tutti::mqtt::profile {
namespace {

class NativeReplyTarget final : public ReplyTarget {
 public:
  // `id`: the message's, or empty.
  NativeReplyTarget(NativeAddress address, std::string id)
      : address_(std::move(address)), id_(std::move(id)) {}

  Message OfError(int64_t, const Status& error) const override {
    return ErrorMessage(address_, error, id_);
  }
  std::optional<Message> OfAcceptance(const sessions::Acceptance& acceptance) const override {
    return EventMessage(
        address_, wire::EventJson(wire::AcceptedEvent{id_, acceptance.response_id, acceptance.turn,
                                                      acceptance.position},
                                  0));
  }
  std::unique_ptr<ReplyForm> FormOf(
      int64_t, const std::shared_ptr<responses::Response>& response) const override {
    return std::make_unique<NativeReply>(address_, id_, response);
  }

 private:
  const NativeAddress address_;
  const std::string id_;
};

AskedPointer AskedAt(const NativeAddress& address, std::string id) {
  const auto asked = std::make_shared<Asked>();
  asked->quota_key = {.user = address.user};
  asked->credential = address.credential;
  asked->reply_topic = address.reply_topic;
  asked->reply_target = std::make_unique<NativeReplyTarget>(address, std::move(id));
  return asked;
}

}  // namespace

void NativeMessages::Take(const Message& message, Receipt receipt) {
  const Result<NativeAddress> address =
      AddressOf(context_.topics, message, context_.options.tenant);
  if (!address.ok()) {  // and nowhere to say so
    context_.LogRefusal(message.topic, message.user, address.status());
    return receipt.Refuse(address.status());
  }
  const auto refuse = [&](const Status& error) {
    const AskedPointer asked = AskedAt(*address, wire::MessageIdOf(message.payload));
    asked->receipt = std::move(receipt);
    answering_.Refuse(asked, error);
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
  Result<wire::MqttMessage> parsed = wire::ParseMqttMessage(message.payload, context_.Parsing());
  if (!parsed.ok()) return refuse(parsed.status());
  const Status known = context_.chat.CheckProject(address->Who(), parsed->project);
  if (!known.ok()) return refuse(known);
  const AskedPointer asked = AskedAt(*address, parsed->call.message_id);
  asked->redelivered = message.redelivered;
  asked->receipt = std::move(receipt);
  Submit(asked, *address, *std::move(parsed), expires);
}

void NativeMessages::Submit(const AskedPointer& asked, const NativeAddress& address,
                            wire::MqttMessage message, TimePoint expires) {
  wire::ResponsesCall& call = message.call;
  asked->key = context_.chat.KeyOf(address.Who(), message.project, address.session);
  call.model = call.request.model = context_.ModelFor(call.model);
  call.request.deadline = std::min(call.request.deadline, expires);
  // Behind a broker, only the topic identifies the user; an authenticated client may name one of
  // its own users.
  if (address.credential.empty() || call.request.user.empty()) call.request.user = address.user;
  call.request.route = "mqtt";
  wire::ResponseState skeleton = responses::SkeletonOf(call, call.model, asked->key.session);
  sessions::Message said = sessions::MessageOf(std::move(call), std::move(skeleton));
  said.parallel = context_.options.parallel;
  said.reply_to = EncodeReplyTo({.server = context_.options.server,
                                 .native = true,
                                 .topic = address.reply_topic,
                                 .correlation = address.correlation,
                                 .client = {},
                                 .request_id = {}});
  answering_.Submit(asked, std::move(said));
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
  const AskedPointer asked = AskedAt(address, owed.message_id);
  asked->key = owed.key;
  asked->again = std::move(again);
  asked->place = std::move(place);
  answering_.Restore(asked, owed.message_id);
}

}  // namespace tutti::mqtt::profile
