#include "server/mqtt/chat/native_control.h"

#include <algorithm>
#include <utility>

#include "protocol/json/json.h"
#include "server/mqtt/chat/native_formatter.h"

namespace tutti::mqtt::chat {
namespace {

bool IsOffline(std::string_view payload) {
  const Result<protocol::JsonDocument> document = protocol::ParseJson(payload);
  if (!document.ok() || !document->root().is_object()) return false;
  const protocol::Json* online = document->root().get_object().if_contains("online");
  return online != nullptr && online->is_bool() && !online->get_bool();
}

}  // namespace

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
            Publish(address, *std::move(event));
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
  if (running == nullptr) return Publish(address, protocol::CancelledEvent(control.id, ""));
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

void NativeControl::Publish(const NativeAddress& address, std::string event) {
  context_.Publish(EventMessage(address, std::move(event)));
}

void NativeControl::Refuse(const NativeAddress& address, const std::string& id,
                           const Status& error) {
  context_.Publish(ErrorMessage(address, error, id));
}

}  // namespace tutti::mqtt::chat
