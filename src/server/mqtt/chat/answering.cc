#include "server/mqtt/chat/answering.h"

#include <memory>
#include <optional>
#include <utility>

namespace tutti::mqtt::chat {
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

void Answering::Restore(const PendingPointer& pending, const std::string& message_id) {
  context_.services.sessions.Again(pending->key, message_id, WhenAccepted(pending));
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

}  // namespace tutti::mqtt::chat
