#include "server/mqtt/chat/answering.h"

#include <memory>
#include <optional>
#include <utility>

#include "base/ascii.h"
#include "protocol/json/json.h"
#include "protocol/json/json_writer.h"

namespace tutti::mqtt::chat {
namespace {

std::optional<std::string> FromHex(std::string_view text) {
  if (text.size() % 2 != 0) return std::nullopt;
  std::string bytes;
  for (size_t i = 0; i < text.size(); i += 2) {
    const int high = HexDigit(text[i]), low = HexDigit(text[i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    bytes += static_cast<char>(high * 16 + low);
  }
  return bytes;
}

}  // namespace

void Answering::Submit(const PendingPointer& pending, sessions::Message message) {
  Result<api::CallerRef> caller =
      context_.services.caller_of(pending->credential, pending->key.tenant);
  if (!caller.ok()) return Refuse(pending, caller.status());
  Result<AdmissionQueue::Permit> permit = context_.Enter(pending->quota_key);
  if (!permit.ok()) return Refuse(pending, permit.status());
  pending->permit = *std::move(permit);
  message.request.caller = *std::move(caller);
  message.admit = context_.chat.AdmissionOf(pending->key);
  pending->parallel = message.parallel;
  context_.services.sessions.Submit(pending->key, std::move(message), WhenAccepted(pending));
}

void Answering::Restore(const PendingPointer& pending, const sessions::OwedAnswer& owed,
                        ReplyOrder::Place place, std::function<void()> again) {
  pending->key = owed.key;
  pending->again = std::move(again);
  pending->place = std::move(place);
  context_.services.sessions.Again(owed.key, owed.message_id, WhenAccepted(pending));
}

std::function<void(const Result<sessions::Acceptance>&)> Answering::WhenAccepted(
    const PendingPointer& pending) {
  open_.insert(pending);
  return context_.tasks.WhileAlive(
      [this, weak = std::weak_ptr(pending)](const Result<sessions::Acceptance>& acceptance) {
        if (const PendingPointer held = weak.lock()) OnAccepted(held, acceptance);
      });
}

void Answering::OnAccepted(const PendingPointer& pending,
                           const Result<sessions::Acceptance>& acceptance) {
  open_.erase(pending);
  if (!acceptance.ok()) return Refuse(pending, acceptance.status());
  pending->receipt.Accept();
  pending->turn = acceptance->turn;
  pending->formatter->set_turn(acceptance->turn);
  if (NeedsNoAnswer(*pending, *acceptance))
    return context_.Leave(&pending->permit, AdmissionQueue::Outcome::kLeft);
  if (acceptance->response != nullptr) return Answer(pending, acceptance->response);
  open_.insert(pending);
  context_.services.responses.Find(
      pending->key.tenant, acceptance->response_id,
      context_.tasks.WhileAlive([this, weak = std::weak_ptr(pending),
                                 first = pending->formatter->OfAcceptance(*acceptance)](
                                    const Result<std::shared_ptr<responses::Response>>& found) {
        const PendingPointer held = weak.lock();
        if (held == nullptr) return;
        open_.erase(held);
        if (found.ok()) return Answer(held, *found);
        if (first && !held->again) context_.Publish(*first);
        Refuse(held, NotFound("expired", "the answer to this message is no longer kept"));
      }));
}

bool Answering::NeedsNoAnswer(const PendingMessage& pending,
                              const sessions::Acceptance& acceptance) const {
  if (!acceptance.repeated) return false;
  const bool unasked = pending.redelivered || pending.again;
  if ((unasked || pending.once_there) &&
      context_.publisher.Holds(pending.reply_topic, acceptance.response_id))
    return true;
  return unasked && context_.delivered_ids.Has(acceptance.response_id);
}

void Answering::Answer(const PendingPointer& pending,
                       std::shared_ptr<responses::Response> response) {
  ReplyPublisher::Setup setup;
  setup.topic = pending->reply_topic;
  setup.quota_key = pending->quota_key;
  setup.dialog = DialogOf(pending->key);
  if (!pending->parallel) setup.turn = pending->turn;
  setup.response = response;
  setup.formatter = pending->formatter;
  setup.owed = pending->again != nullptr;
  setup.arrived = context_.WhenArrived(pending->key, pending->turn, response->id());
  setup.ended = [this, pending, response](bool delivered) {
    context_.Leave(&pending->permit,
                   delivered ? OutcomeOf(*response) : AdmissionQueue::Outcome::kLeft);
  };
  const Status status = context_.publisher.Open(std::move(setup));
  pending->place.reset();
  if (!status.ok()) Refuse(pending, status);
}

void Answering::Refuse(const PendingPointer& pending, const Status& error) {
  if (pending->again) return error.code() == StatusCode::kNotFound ? void() : pending->again();
  if (std::optional<Message> message = pending->formatter->OfError(error); message.has_value())
    context_.Publish(*std::move(message));
  context_.Leave(&pending->permit, OutcomeOf(error));
  pending->receipt.Accept();
}

std::string EncodeReplyTo(const ReplyTo& reply_to) {
  std::string out;
  protocol::JsonWriter json(&out);
  json.BeginObject().Member("server", reply_to.server).Member("native", reply_to.native);
  json.Member("topic", reply_to.topic);
  // Correlation data is bytes, and JSON holds text.
  if (reply_to.correlation.has_value() && reply_to.correlation->size() <= kMaxCorrelationBytes)
    json.Member("correlation", ToHex(*reply_to.correlation));
  if (!reply_to.client.empty()) json.Member("client", reply_to.client);
  if (!reply_to.request_id.empty()) json.Member("request_id", reply_to.request_id);
  json.EndObject();
  return out;
}

std::optional<ReplyTo> DecodeReplyTo(std::string_view text) {
  const Result<protocol::JsonDocument> document = protocol::ParseJson(text);
  if (!document.ok() || !document->root().is_object()) return std::nullopt;
  const protocol::JsonObject& fields = document->root().get_object();
  const auto text_of = [&](std::string_view name) -> std::optional<std::string> {
    const protocol::Json* value = fields.if_contains(name);
    if (value == nullptr || !value->is_string()) return std::nullopt;
    return std::string(value->get_string().data(), value->get_string().size());
  };
  std::optional<std::string> server = text_of("server");
  if (!server.has_value()) server = text_of("door");  // of a store that an older version wrote
  const std::optional<std::string> topic = text_of("topic");
  const protocol::Json* native = fields.if_contains("native");
  if (!server.has_value() || !topic.has_value() || native == nullptr || !native->is_bool())
    return std::nullopt;
  ReplyTo reply_to{.server = *server,
                   .native = native->get_bool(),
                   .topic = *topic,
                   .client = text_of("client").value_or(""),
                   .request_id = text_of("request_id").value_or("")};
  if (const auto hex = text_of("correlation"); hex.has_value()) {
    reply_to.correlation = FromHex(*hex);
    if (!reply_to.correlation.has_value()) return std::nullopt;
  }
  return reply_to;
}

}  // namespace tutti::mqtt::chat
