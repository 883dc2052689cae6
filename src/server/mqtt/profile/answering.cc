#include "server/mqtt/profile/answering.h"

#include <memory>
#include <optional>
#include <utility>
#include <variant>

#include "server/mqtt/profile/reply_form.h"

namespace tutti::mqtt::profile {
namespace {

// FinalOnly: sends only the `accepted` event and the last event of an answer that an earlier
// process owed. It is unknown which events that process had sent; a client that wants the others
// sends a resume.
class FinalOnly final : public ReplyForm {
 public:
  explicit FinalOnly(std::unique_ptr<ReplyForm> form) : form_(std::move(form)) {}

  std::optional<Message> OfDeltas(const Deltas&, int64_t) const override { return std::nullopt; }
  std::optional<Message> OfEvent(const responses::LogEntry& entry, int64_t index) const override {
    const bool accepted = std::holds_alternative<wire::AcceptedEvent>(entry.event);
    if (!entry.terminal() && !accepted) return std::nullopt;
    return form_->OfEvent(entry, index);
  }
  std::optional<Message> OfError(const Status& error) const override {
    // The missing events would not have been sent anyway.
    return error.reason() == "expired" ? std::nullopt : form_->OfError(error);
  }

 private:
  const std::unique_ptr<ReplyForm> form_;
};

}  // namespace

void Answering::Submit(const AskedPointer& asked, sessions::Message said) {
  Result<api::CallerRef> caller = context_.services.caller_of(asked->credential, asked->key.tenant);
  if (!caller.ok()) return Refuse(asked, caller.status());
  Result<AdmissionQueue::Permit> permit = context_.Enter(asked->quota_key);
  if (!permit.ok()) return Refuse(asked, permit.status());
  asked->permit = *std::move(permit);
  said.request.caller = *std::move(caller);
  said.admit = context_.chat.AdmissionOf(asked->key);
  asked->parallel = said.parallel;
  context_.services.sessions.Submit(asked->key, std::move(said), WhenAccepted(asked));
}

void Answering::Restore(const AskedPointer& asked, const std::string& message_id) {
  context_.services.sessions.Again(asked->key, message_id, WhenAccepted(asked));
}

std::function<void(const Result<sessions::Acceptance>&)> Answering::WhenAccepted(
    const AskedPointer& asked) {
  open_.insert(asked);
  return context_.tasks.WhileAlive(
      [this, told = std::weak_ptr(asked)](const Result<sessions::Acceptance>& acceptance) {
        if (const AskedPointer held = told.lock()) Accepted(held, acceptance);
      });
}

void Answering::Accepted(const AskedPointer& asked,
                         const Result<sessions::Acceptance>& acceptance) {
  open_.erase(asked);
  if (!acceptance.ok()) return Refuse(asked, acceptance.status());
  asked->receipt.Accept();
  asked->turn = acceptance->turn;
  if (IsRepeatedInVain(*asked, *acceptance))
    return context_.Leave(&asked->permit, AdmissionQueue::Outcome::kLeft);
  if (acceptance->response != nullptr) return Answer(asked, acceptance->response);
  open_.insert(asked);
  context_.services.responses.Find(
      asked->key.tenant, acceptance->response_id,
      context_.tasks.WhileAlive([this, told = std::weak_ptr(asked),
                                 first = asked->reply_target->OfAcceptance(*acceptance)](
                                    const Result<std::shared_ptr<responses::Response>>& found) {
        const AskedPointer held = told.lock();
        if (held == nullptr) return;
        open_.erase(held);
        if (found.ok()) return Answer(held, *found);
        if (first && !held->again) context_.Publish(*first);
        Refuse(held, NotFound("expired", "the answer to this message is no longer kept"));
      }));
}

bool Answering::IsRepeatedInVain(const Asked& asked, const sessions::Acceptance& acceptance) const {
  if (!acceptance.repeated) return false;
  const bool nobody_asks = asked.redelivered || asked.again;
  if ((nobody_asks || asked.once_there) &&
      context_.streams.Holds(asked.reply_topic, acceptance.response_id))
    return true;
  return nobody_asks && context_.delivered_ids.Has(acceptance.response_id);
}

void Answering::Answer(const AskedPointer& asked, std::shared_ptr<responses::Response> response) {
  ReplyStreams::Setup setup;
  setup.topic = asked->reply_topic;
  setup.quota_key = asked->quota_key;
  setup.dialog = DialogOf(asked->key);
  if (!asked->parallel) setup.turn = asked->turn;
  setup.response = response;
  setup.form = asked->reply_target->FormOf(asked->turn, response);
  if (asked->again) {
    setup.form = std::make_unique<FinalOnly>(std::move(setup.form));
    setup.patient = true;
  }
  setup.arrived = context_.WhenArrived(asked->key, asked->turn, response->id());
  setup.ended = [this, asked, response](bool delivered) {
    context_.Leave(&asked->permit,
                   delivered ? OutcomeOf(*response) : AdmissionQueue::Outcome::kLeft);
  };
  const Status status = context_.streams.Open(std::move(setup));
  asked->place.reset();
  if (!status.ok()) Refuse(asked, status);
}

void Answering::Refuse(const AskedPointer& asked, const Status& error) {
  if (asked->again) return error.code() == StatusCode::kNotFound ? void() : asked->again();
  context_.Publish(asked->reply_target->OfError(asked->turn, error));
  context_.Leave(&asked->permit, OutcomeOf(error));
  asked->receipt.Accept();
}

}  // namespace tutti::mqtt::profile
