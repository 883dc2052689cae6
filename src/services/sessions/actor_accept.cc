// SessionActor: acceptance and cancellation of messages.
#include <algorithm>
#include <utility>

#include "base/random.h"
#include "services/responses/call_state.h"
#include "services/sessions/conversations.h"
#include "services/sessions/message.h"
#include "services/sessions/session_actor.h"

namespace tutti::sessions {
namespace {

constexpr size_t kMaxIdBytes = 128;
constexpr size_t kMaxReplyToBytes = 16 << 10;

Status CheckMessage(const Message& message, size_t max_bytes) {
  if (message.input.empty())
    return InvalidArgument("empty_prompt", "input must not be empty").WithParam("input");
  if (message.id.size() > kMaxIdBytes)
    return InvalidArgument("invalid_value", "id is longer than 128 bytes").WithParam("id");
  if (message.reply_to.size() > kMaxReplyToBytes)
    return InvalidArgument("invalid_value", "reply target is longer than 16384 bytes");
  size_t bytes = message.system_prompt.value_or("").size();
  for (const api::ChatMessage& each : message.input) bytes += CountedText(ItemOf(each)).size();
  if (bytes <= max_bytes) return OkStatus();
  return ResourceExhausted("request_too_large", "the message has " + std::to_string(bytes) +
                                                    " bytes, limit " + std::to_string(max_bytes) +
                                                    "; shorten it")
      .WithParam("input")
      .WithExcess(static_cast<int64_t>(bytes), static_cast<int64_t>(max_bytes));
}

Acceptance AcceptanceOf(const Turn& turn) {
  return {.turn = turn.number,
          .response_id = turn.response->id(),
          .position = turn.position,
          .repeated = false,
          .response = turn.response};
}

}  // namespace

void SessionActor::Submit(const SessionKey& key, Message message, Done<Acceptance> done) {
  if (Status status = CheckMessage(message, options_.message_bytes); !status.ok())
    return done(status);
  Open(key, [this, message = std::move(message), done](const Result<SessionPointer>& session) {
    session.ok() ? Accept(*session, message, done) : done(session.status());
  });
}

// The sender's expectations must hold when its turn begins, so no other turn may be pending.
Status SessionActor::CheckExpectations(const Session& session, const Message& message) const {
  const bool still = session.queue->idle() && session.barriers.empty() && !session.barrier_runs;
  if (message.expected_version.has_value() &&
      (!still || *message.expected_version != session.version)) {
    return Status(StatusCode::kFailedPrecondition, "version_mismatch",
                  "the dialog is at version " + std::to_string(session.version) +
                      (still ? "" : ", and another turn is under way"));
  }
  const std::string last = session.items.empty() ? "" : session.items.back().id;
  if (message.expected_last_item_id.has_value() &&
      (!still || *message.expected_last_item_id != last)) {
    return Status(StatusCode::kAborted, "stale_item",
                  "expected_last_item_id is not the dialog's last item")
        .WithParam("expected_last_item_id");
  }
  return OkStatus();
}

// A repeated message id returns the same turn and response, in any state.
void SessionActor::Repeat(Session& session, int64_t number, Done<Acceptance> done) {
  const auto reply = [done](Result<Acceptance> acceptance) {
    if (acceptance.ok()) acceptance->repeated = true;
    done(std::move(acceptance));
  };
  if (const auto turn = session.turns.find(number); turn != session.turns.end()) {
    if (!turn->second.durable) return turn->second.senders.push_back(reply);
    Acceptance acceptance = AcceptanceOf(turn->second);
    acceptance.position = session.queue->PositionOf(number);
    return reply(std::move(acceptance));
  }
  const std::string& id = session.known[number].response_id;
  reply(Acceptance{.turn = number,
                   .response_id = id,
                   .position = 0,
                   .repeated = true,
                   .response = responses_.FindInMemory(session.key.tenant, id)});
}

// A steered turn without output leaves its question, which the new message then directly follows.
Status SessionActor::CheckSteer(const Session& session, const Message& message) {
  const std::vector<int64_t>& running = session.queue->running();
  if (message.policy != BusyPolicy::kSteer || session.queue->Find(message.id).has_value() ||
      std::none_of(running.begin(), running.end(), [&](int64_t number) {
        return session.turns.at(number).response->State().text.empty();
      }))
    return OkStatus();
  if (!counter_.Ready(message.request.model).ok()) return OkStatus();  // as if it is not known
  const Result<TokenCounter::Template> around = counter_.TemplateOf(message.request.model);
  if (!around.ok() || around->takes_users_in_a_row) return OkStatus();
  return Status(StatusCode::kFailedPrecondition, "steer_unsupported",
                "the running turn has no output yet, and the model's template refuses two user "
                "messages in a row");
}

void SessionActor::Accept(const SessionPointer& session, Message message, Done<Acceptance> done) {
  if (Status status = CheckSteer(*session, message); !status.ok()) return done(status);
  // Called outside of the critical section, because `done` may start inference.
  const Result<TurnQueue::Offer> offer = Enqueue(session, std::move(message));
  if (!offer.ok()) return done(offer.status());
  if (offer->repeated) return Repeat(*session, offer->turn, std::move(done));
  Turn& turn = session->turns.at(offer->turn);
  turn.senders.push_back(std::move(done));
  if (offer->cancel.has_value()) {
    turn.cuts = session->queue->running();
    turn.cuts_how = *offer->cancel;
  }
  if (const auto admit = std::exchange(turn.message.admit, nullptr)) {
    Result<Admitted> admitted = admit();
    if (!admitted.ok()) return Refuse(session, offer->turn, admitted.status());
    turn.admitted = *std::move(admitted);
  }
  Advance(session);  // it may begin at once
  if (const Status refused = turn.refused; !refused.ok())
    return Refuse(session, offer->turn, refused);
  Save(session, turn);
}

Result<TurnQueue::Offer> SessionActor::Enqueue(const SessionPointer& session, Message message) {
  const responses::CriticalSection section(&hold_times_);
  TurnQueue& queue = *session->queue;
  if (const auto known = queue.Find(message.id); known.has_value()) {
    RETURN_IF_ERROR(CheckSame(session->known[*known].fingerprint, message));
    return TurnQueue::Offer{.turn = *known, .repeated = true, .position = 0};
  }
  RETURN_IF_ERROR(CheckExpectations(*session, message));
  if (message.id.empty()) message.id = NewId("");
  ASSIGN_OR_RETURN(const TurnQueue::Offer offer,
                   queue.Add(message.id, message.policy, message.parallel));
  const int64_t number = offer.turn;
  protocol::ResponseState& state = message.state;
  state.id = NewId("resp_");
  state.item_id = NewId("msg_");
  state.created_s = unix_s_();
  if (session->key.project == kConversations) state.conversation = session->key.session;
  responses::SettleSeed(&message.request);
  Result<std::shared_ptr<responses::Response>> response = responses_.Create(
      {session->key.tenant, state, message.input,
       responses::TurnNote{message.id, number, static_cast<int64_t>(offer.position)}},
      [this, session, number](bool keeps) { CancelTurn(session, number, keeps); });
  if (!response.ok()) {
    queue.TakeBack(message.id, number);
    return response.status();
  }
  Turn& turn = session->turns[number];
  turn.number = number;
  turn.message = std::move(message);
  turn.response = *std::move(response);
  turn.position = offer.position;
  std::map<int64_t, KnownTurn>& known = session->known;
  known[number] = {turn.response->id(), FingerprintOf(turn.message)};
  while (known.size() > options_.queue.remembered && !session->turns.contains(known.begin()->first))
    known.erase(known.begin());
  return offer;
}

void SessionActor::Save(const SessionPointer& session, Turn& turn) {
  TurnRecord record{
      .message = turn.message, .position = static_cast<int64_t>(turn.position), .deadline_s = {}};
  const TimePoint deadline = turn.message.request.deadline;
  if (deadline != TimePoint::max()) {
    record.deadline_s =
        unix_s_() + std::chrono::ceil<std::chrono::seconds>(deadline - clock_.Now()).count();
  }
  ask_.Write(
      [key = session->key,
       row = sessions::Accepted{turn.number, turn.message.id, EncodeTurn(record),
                                turn.response->id(), FingerprintOf(turn.message)},
       reply_to = turn.message.reply_to, now_s = unix_s_(), owner = turn.message.owner,
       limits = options_.dialogs](store::Database& rows) -> Result<DialogId> {
        ASSIGN_OR_RETURN(const DialogId dialog, EnsureNamedDialog(rows, key, owner, now_s, limits));
        RETURN_IF_ERROR(AcceptTurn(rows, dialog.id, row, now_s));
        if (!reply_to.empty()) RETURN_IF_ERROR(Owe(rows, dialog.id, row.turn, reply_to));
        return dialog;
      },
      [this, session, number = turn.number](const Result<DialogId>& dialog) {
        Saved(session, number, dialog);
      });
}

void SessionActor::Saved(const SessionPointer& session, int64_t number,
                         const Result<DialogId>& dialog) {
  if (!dialog.ok()) return Refuse(session, number, dialog.status());
  Turn& turn = session->turns.at(number);
  const bool dropped = dialog->created && session->dialog != 0;  // by the store, meanwhile
  {
    const responses::CriticalSection section(&hold_times_);
    if (dropped) Forget(*session, /*whole=*/true);
    session->dialog = dialog->id;
    session->used_s = unix_s_();
  }
  if (dropped) RunAnew(session);
  turn.durable = true;
  if (const Admitted admitted = std::exchange(turn.admitted, nullptr)) admitted();
  if (options_.watcher != nullptr) options_.watcher->OnAccepted(session->key, number, turn.message);
  for (const auto& sender : std::exchange(turn.senders, {})) sender(AcceptanceOf(turn));
  for (const int64_t each : std::exchange(turn.cuts, {})) GiveUp(session, each, turn.cuts_how);
  if (turn.generating) responses_.Show(*turn.response);
  if (turn.cut.has_value()) {
    GiveUp(session, number, *turn.cut);
  } else if (turn.running && !turn.generating) {
    TryRun(session, number);
  }
  Advance(session);
}

// Rejects a message that was not accepted.
void SessionActor::Refuse(const SessionPointer& session, int64_t number, const Status& why) {
  const auto place = session->turns.find(number);
  const Turn turn = std::move(place->second);
  session->turns.erase(place);
  session->known.erase(number);
  if (turn.running) session->queue->End(number);
  session->queue->TakeBack(turn.message.id, number);
  responses_.Abandon(*turn.response);
  for (const auto& sender : turn.senders) sender(why);
  Advance(session);
}

void SessionActor::Again(const SessionKey& key, const std::string& message_id,
                         Done<Acceptance> done) {
  Open(key, [this, message_id, done](const Result<SessionPointer>& session) {
    if (!session.ok()) return done(session.status());
    const std::optional<int64_t> turn = (*session)->queue->Find(message_id);
    if (!turn.has_value()) return done(NotFound("not_found", "there is no such message"));
    Repeat(**session, *turn, done);
  });
}

void SessionActor::Cancel(const SessionKey& key, const std::string& message_id, bool keeps,
                          Callback done) {
  Open(key, [this, message_id, done, keeps](const Result<SessionPointer>& session) {
    if (!session.ok()) return done(session.status());
    const std::optional<int64_t> turn = (*session)->queue->Find(message_id);
    if (!turn.has_value()) return done(NotFound("not_found", "there is no such message"));
    if (!(*session)->turns.contains(*turn)) {
      return done(
          Status(StatusCode::kAborted, "already_finished", "the message is already answered"));
    }
    CancelTurn(*session, *turn, keeps);
    done(OkStatus());
  });
}

// A turn that waits has no place among the items yet, so that it leaves nothing.
void SessionActor::CancelTurn(const SessionPointer& session, int64_t number, bool keeps) {
  const auto place = session->turns.find(number);
  const bool runs = place != session->turns.end() && place->second.running;
  GiveUp(session, number, keeps && runs ? CutShort::kKeep : CutShort::kForget);
}

// Cancels a turn: a running one ends within a step, a waiting one at once.
void SessionActor::GiveUp(const SessionPointer& session, int64_t number, CutShort cut) {
  const auto place = session->turns.find(number);
  if (place == session->turns.end() || place->second.ending) return;
  Turn& turn = place->second;
  if (!turn.cut.has_value() || cut == CutShort::kForget) turn.cut = cut;
  if (!turn.durable) return;  // its acceptance is reported first
  if (turn.generating) {
    // False: the turn is already ending.
    (void)responses_.CancelRun(*turn.response, turn.cut == CutShort::kSteer);
    return;
  }
  if (!turn.running) (void)session->queue->Withdraw(number);
  EndUnrun(session, turn, OkStatus());
}

}  // namespace tutti::sessions
