#include "server/mqtt/chat/native_messages.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "server/mqtt/chat/native_formatter.h"
#include "services/sessions/call_message.h"

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

}  // namespace

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
                                      .correlation = address.correlation,
                                      .client = {},
                                      .request_id = {}});
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
  const PendingPointer pending = PendingAt(address, owed.message_id);
  pending->key = owed.key;
  pending->again = std::move(again);
  pending->place = std::move(place);
  answering_.Restore(pending, owed.message_id);
}

}  // namespace tutti::mqtt::chat
