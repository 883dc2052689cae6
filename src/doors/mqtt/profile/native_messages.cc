#include "doors/mqtt/profile/native_messages.h"

#include <algorithm>
#include <utility>

#include "doors/mqtt/profile/ends_only.h"
#include "doors/mqtt/profile/native_events.h"
#include "doors/mqtt/profile/native_reply.h"
#include "services/sessions/call_message.h"
#include "wire/response_events.h"

namespace tutti::mqtt::profile {
struct NativeMessages::Asked {
  NativeAddress address;
  std::string topic;  // that it came by
  std::string id;
  sessions::SessionKey key;
  bool redelivered = false;
  Receipt receipt;
  WaitingRoom::Ticket ticket;
  int64_t turn = 0;  // once it is accepted
  bool parallel = false;
  // Of an answer that an earlier process owed; else empty.
  std::function<void()> again;
  ReplyOrder::Place place;  // until it is on its way
};

void NativeMessages::Take(const Message& message, Receipt receipt) {
  Result<NativeAddress> address = AddressOf(context_.topics, message, context_.options.tenant);
  if (!address.ok()) {  // and nowhere to say so
    context_.LogRefusal(message.topic, message.user, address.status());
    return receipt.Refuse(address.status());
  }
  const auto asked = std::make_shared<Asked>();
  asked->address = *std::move(address);
  asked->topic = message.topic;
  asked->redelivered = message.redelivered;
  asked->receipt = std::move(receipt);
  const auto refuse = [&](const Status& error) {
    asked->id = wire::MessageIdOf(message.payload);
    Refuse(asked, error);
  };
  if (!asked->address.refused.ok()) return refuse(asked->address.refused);
  const TimePoint expires = message.expires.value_or(TimePoint::max());
  if (expires <= context_.Now()) {
    return refuse(Status(StatusCode::kDeadlineExceeded, "deadline_exceeded",
                         "the message had expired when it came"));
  }
  Result<wire::MqttMessage> parsed = wire::ParseMqttMessage(message.payload, context_.Parsing());
  if (!parsed.ok()) return refuse(parsed.status());
  asked->id = parsed->call.message_id;
  Submit(asked, *std::move(parsed), expires);
}

void NativeMessages::Submit(const AskedPointer& asked, wire::MqttMessage message,
                            TimePoint expires) {
  wire::ResponsesCall& call = message.call;
  asked->key = KeyOf(asked->address,
                     message.project.empty() ? context_.options.default_project : message.project,
                     asked->address.session);
  call.model = call.request.model = context_.ModelFor(call.model);
  call.request.deadline = std::min(call.request.deadline, expires);
  Result<api::CallerRef> caller =
      context_.services.caller_of(asked->address.credential, asked->address.tenant);
  if (!caller.ok()) return Refuse(asked, caller.status());
  Result<WaitingRoom::Ticket> ticket = context_.Enter(asked->address.user);
  if (!ticket.ok()) return Refuse(asked, ticket.status());
  asked->ticket = *std::move(ticket);
  wire::ResponseState skeleton = sessions::SkeletonOf(call, call.model, asked->key.session);
  sessions::Message said = sessions::MessageOf(std::move(call), std::move(skeleton));
  said.request.caller = *std::move(caller);
  said.parallel = context_.options.parallel;
  said.admit = context_.AdmissionOf(asked->key);
  asked->parallel = said.parallel;
  said.reply_to = EncodeReplyTo({.door = context_.options.door,
                                 .native = true,
                                 .topic = asked->address.reply_topic,
                                 .correlation = asked->address.correlation,
                                 .client = {},
                                 .request_id = {}});
  open_.insert(asked);
  context_.services.sessions.Submit(
      asked->key, std::move(said),
      context_.tasks.WhileAlive(
          [this, told = std::weak_ptr(asked)](const Result<sessions::Acceptance>& acceptance) {
            if (const AskedPointer held = told.lock()) Accepted(held, acceptance);
          }));
}

void NativeMessages::Restore(const sessions::OwedAnswer& owed, const ReplyTo& reply_to,
                             ReplyOrder::Place place, std::function<void()> again) {
  const size_t slash = owed.key.session.find('/');
  if (slash == std::string::npos) return;
  const auto asked = std::make_shared<Asked>();
  NativeAddress& address = asked->address;
  address.tenant = owed.key.tenant;
  address.user = owed.key.session.substr(0, slash);
  address.session = owed.key.session.substr(slash + 1);
  address.reply_topic = reply_to.topic;
  address.correlation = reply_to.correlation;
  const NativeTopics& topics = context_.topics;
  if (address.reply_topic != topics.Out(address.user, address.session) &&
      !topics.CheckResponse(address.user, address.reply_topic).ok())
    return;
  asked->id = owed.message_id;
  asked->key = owed.key;
  asked->again = std::move(again);
  asked->place = std::move(place);
  open_.insert(asked);
  context_.services.sessions.Again(
      owed.key, owed.message_id,
      context_.tasks.WhileAlive(
          [this, told = std::weak_ptr(asked)](const Result<sessions::Acceptance>& acceptance) {
            if (const AskedPointer held = told.lock()) Accepted(held, acceptance);
          }));
}

bool NativeMessages::IsRepeatedInVain(const Asked& asked,
                                      const sessions::Acceptance& acceptance) const {
  if (!acceptance.repeated || !(asked.redelivered || asked.again)) return false;
  return context_.streams.Holds(asked.address.reply_topic, acceptance.response_id) ||
         context_.arrivals.Has(acceptance.response_id);
}

void NativeMessages::Accepted(const AskedPointer& asked,
                              const Result<sessions::Acceptance>& acceptance) {
  open_.erase(asked);
  if (!acceptance.ok()) return Refuse(asked, acceptance.status());
  asked->receipt.Accept();
  asked->turn = acceptance->turn;
  if (IsRepeatedInVain(*asked, *acceptance))
    return context_.Leave(&asked->ticket, WaitingRoom::Outcome::kLeft);
  if (acceptance->response != nullptr) return Answer(asked, acceptance->response);
  open_.insert(asked);
  context_.services.responses.Find(
      asked->key.tenant, acceptance->response_id,
      context_.tasks.WhileAlive(
          [this, told = std::weak_ptr(asked),
           first = wire::AcceptedEvent(0, asked->id, acceptance->response_id, acceptance->turn,
                                       acceptance->position)](
              const Result<std::shared_ptr<responses::Response>>& found) {
            const AskedPointer held = told.lock();
            if (held == nullptr) return;
            open_.erase(held);
            if (found.ok()) return Answer(held, *found);
            if (!held->again) context_.Publish(EventMessage(held->address, first));
            Refuse(held, NotFound("expired", "the answer to this message is no longer kept"));
          }));
}

void NativeMessages::Answer(const AskedPointer& asked,
                            std::shared_ptr<responses::Response> response) {
  ReplyStreams::Setup setup;
  setup.topic = asked->address.reply_topic;
  setup.user = asked->address.user;
  setup.dialog = DialogOf(asked->key);
  if (!asked->parallel) setup.turn = asked->turn;
  setup.response = response;
  setup.form = std::make_unique<NativeReply>(asked->address, asked->id, response);
  if (asked->again) {
    setup.form = std::make_unique<EndsOnly>(std::move(setup.form));
    setup.patient = true;
  }
  setup.arrived = context_.WhenArrived(asked->key, asked->turn, response->id());
  setup.ended = [this, asked, response](bool delivered) {
    context_.Leave(&asked->ticket, delivered ? OutcomeOf(*response) : WaitingRoom::Outcome::kLeft);
  };
  const Status status = context_.streams.Open(std::move(setup));
  asked->place.reset();
  if (!status.ok()) Refuse(asked, status);
}

void NativeMessages::Refuse(const AskedPointer& asked, const Status& error) {
  if (asked->again) return error.code() == StatusCode::kNotFound ? void() : asked->again();
  if (!asked->address.refused.ok())
    context_.LogRefusal(asked->topic, asked->address.user, asked->address.refused);
  context_.Publish(ErrorMessage(asked->address, error, asked->id));
  context_.Leave(&asked->ticket, OutcomeOf(error));
  asked->receipt.Accept();
}

}  // namespace tutti::mqtt::profile
