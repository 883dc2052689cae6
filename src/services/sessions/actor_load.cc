// SessionActor: into memory and out of it.
#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "services/sessions/message.h"
#include "services/sessions/session_actor.h"

namespace tutti::sessions {
namespace {

constexpr size_t kMaxWhileLoading = 64;
constexpr size_t kResumedAtOnce = 64;
constexpr Duration kResumeRetry = std::chrono::seconds(1);

bool MayPassLater(const Status& refusal) {
  return refusal.reason() == "overloaded" || refusal.reason() == "tenant_concurrency";
}

}  // namespace

struct SessionActor::Loaded {
  std::optional<Dialog> dialog;
  Profile profile;
  std::vector<Accepted> ended, pending;
};

SessionActor::SessionActor(const SessionOptions& options, api::Inference& inference,
                           store::Store& store, responses::Responses& responses, const Clock& clock,
                           std::function<int64_t()> unix_s)
    : options_(options),
      ask_(store, responses.strand()),
      responses_(responses),
      clock_(clock),
      unix_s_(std::move(unix_s)),
      counter_(inference, clock),
      residency_({options.resident, options.active, options.active_per_tenant}) {
  responses_.strand()->PostAt(clock_.Now() + options_.sweep, [this] { Sweep(); });
}

void SessionActor::Open(const SessionKey& key, std::function<void(Result<SessionPointer>)> then) {
  if (Status status = CheckKey(key); !status.ok()) return then(status);
  Result<SessionPointer> used = residency_.Use(key);
  if (!used.ok()) return then(used.status());
  const SessionPointer session = *used;
  if (session->loaded) {
    then(session);
    return residency_.Settle(session);
  }
  if (session->when_loaded.size() >= kMaxWhileLoading)
    return then(Unavailable("overloaded", "the session is being read from the store"));
  const bool first = session->when_loaded.empty();
  session->when_loaded.push_back([session, then = std::move(then)](const Status& status) {
    status.ok() ? then(session) : then(status);
  });
  if (first) Load(session);
}

void SessionActor::Load(const SessionPointer& session) {
  ask_.Read(
      [key = session->key](store::Database& rows) -> Result<Loaded> {
        Loaded loaded;
        ASSIGN_OR_RETURN(loaded.dialog, LoadDialog(rows, key, std::nullopt));
        ASSIGN_OR_RETURN(loaded.profile, LoadProfile(rows, key.tenant, key.project));
        if (!loaded.dialog.has_value()) return loaded;
        ASSIGN_OR_RETURN(loaded.ended, EndedTurns(rows, loaded.dialog->id));
        ASSIGN_OR_RETURN(loaded.pending, PendingTurns(rows, loaded.dialog->id));
        return loaded;
      },
      [this, session](Result<Loaded> loaded) {
        Status status = loaded.status();
        if (status.ok()) status = Restore(*session, *std::move(loaded));
        const auto waiting = std::exchange(session->when_loaded, {});
        if (!status.ok()) residency_.Remove(session);
        ++session->pending;  // stays loaded until all waiting calls have run
        for (const auto& then : waiting) then(status);
        if (status.ok()) Leave(session);
      });
}

// An error, of a turn that finds no room, leaves the session as one that was never loaded.
Status SessionActor::Restore(Session& session, Loaded loaded) {
  const responses::CriticalSection section(&hold_times_);
  session.used_s = unix_s_();
  session.profile = std::move(loaded.profile);
  const int64_t turns = loaded.dialog.has_value() ? loaded.dialog->turns : 0;
  session.queue = std::make_unique<TurnQueue>(options_.queue, turns + 1);
  session.loaded = true;
  if (!loaded.dialog.has_value()) return OkStatus();
  session.dialog = loaded.dialog->id;
  session.version = loaded.dialog->version;
  session.first_place = loaded.dialog->first_place;
  session.next_place = loaded.dialog->next_place;
  session.system_prompt = std::move(loaded.dialog->system_prompt);
  session.items = std::move(loaded.dialog->items);
  session.used_s = loaded.dialog->used_s;
  for (const Accepted& row : loaded.ended) {
    session.queue->Remember(row.message_id, row.turn);
    session.known[row.turn] = {row.response_id, row.fingerprint};
  }
  for (const Accepted& row : loaded.pending) {
    const Status restored = RestoreTurn(session, row);
    if (restored.ok()) continue;
    session.turns.erase(row.turn);
    for (const auto& [number, turn] : session.turns) responses_.Abandon(*turn.response);
    session.turns.clear();
    session.loaded = false;
    return restored;
  }
  return OkStatus();
}

// Under the same response id, with the same seed: what readers saw of it keeps its numbers.
Status SessionActor::RestoreTurn(Session& session, const Accepted& row) {
  Result<TurnRecord> record = DecodeTurn(row.request);
  Turn& turn = session.turns[row.turn];
  turn.number = row.turn;
  turn.durable = true;
  if (record.ok()) {
    turn.message = std::move(record->message);
    if (record->deadline_s.has_value()) {
      turn.message.request.deadline =
          After(clock_.Now(), std::chrono::seconds(*record->deadline_s - unix_s_()));
    }
  } else {
    turn.unreadable = store::ClientStatus(record.status());
  }
  turn.message.id = row.message_id;
  turn.position = record.ok() ? static_cast<size_t>(std::max<int64_t>(record->position, 0)) : 0;
  protocol::ResponseState state = turn.message.state;
  state.id = row.response_id;  // also of one whose record cannot be read
  const SessionKey key = session.key;
  const std::string message_id = row.message_id;
  Result<std::shared_ptr<responses::Response>> response = responses_.Create(
      {session.key.tenant, state, turn.message.input,
       responses::TurnNote{row.message_id, row.turn, static_cast<int64_t>(turn.position)}},
      [this, key, message_id](bool keeps) { Cancel(key, message_id, keeps, [](const Status&) {}); },
      /*again=*/true);
  RETURN_IF_ERROR(response.status());
  turn.response = *std::move(response);
  session.known[row.turn] = {row.response_id, row.fingerprint};
  session.queue->Restore(row.message_id, row.turn, turn.message.parallel);
  return OkStatus();
}

void SessionActor::Resume() {
  ask_.Read([](store::Database& rows) { return PendingSessions(rows); },
            [this](Result<std::vector<SessionKey>> keys) {
              resumes_again_ = !keys.ok() && MayPassLater(keys.status());
              if (keys.ok()) to_resume_.assign(keys->begin(), keys->end());
              ResumeNext();
            });
}

// Resumes a few turns at a time, because all at once would fill the store's queue. If too many are
// active, or the disk is behind, the rest follows later.
void SessionActor::ResumeNext() {
  while (!to_resume_.empty() && resuming_ < kResumedAtOnce) {
    const SessionKey key = std::move(to_resume_.front());
    to_resume_.pop_front();
    ++resuming_;
    Open(key, [this](const Result<SessionPointer>& session) {
      resumes_again_ = resumes_again_ || MayPassLater(session.status());
      --resuming_;
      responses_.strand()->Post([this] { ResumeNext(); });
    });
  }
  if (resuming_ > 0 || !to_resume_.empty() || !std::exchange(resumes_again_, false)) return;
  responses_.strand()->PostAt(clock_.Now() + kResumeRetry, [this] { Resume(); });
}

Sessions::ActiveList SessionActor::ListActive(size_t max) const {
  Sessions::ActiveList list;
  residency_.ForEach([&](const SessionPointer& session) {
    if (session->queue == nullptr || session->queue->idle()) return;
    constexpr std::string_view kUser = "user:";
    api::LiveSession& row = list.sessions.emplace_back();
    const SessionKey& key = session->key;
    row.tenant = key.tenant;
    row.project = key.project;
    row.session = key.session;
    // The session of a user is named "USER/SESSION" here.
    if (const std::string owner = OwnerOf(key); owner.starts_with(kUser)) {
      row.user = owner.substr(kUser.size());
      row.session = key.session.substr(row.user.size() + 1);
    }
    row.running = static_cast<int>(session->queue->running().size());
    row.waiting = static_cast<int>(session->queue->waiting());
    if (row.running == 0) return;
    const auto turn = session->turns.find(session->queue->running().front());
    if (turn != session->turns.end() && turn->second.response != nullptr)
      row.response = turn->second.response->id();
  });
  std::stable_partition(list.sessions.begin(), list.sessions.end(),
                        [](const api::LiveSession& row) { return row.running > 0; });
  list.left_out = list.sessions.size() - std::min(max, list.sessions.size());
  list.sessions.resize(list.sessions.size() - list.left_out);
  return list;
}

void SessionActor::Sweep() {
  const int64_t now_s = unix_s_();
  const int64_t before_s = now_s - options_.ttl_s;
  const int64_t conversations_before_s = now_s - options_.conversation_ttl_s;
  residency_.RemoveUnused(before_s, conversations_before_s);
  ask_.Write(
      [before_s, conversations_before_s](store::Database& rows) {
        return DeleteUnused(rows, before_s, conversations_before_s);
      },
      [](const Result<int64_t>&) {});
  responses_.strand()->PostAt(clock_.Now() + options_.sweep, [this] { Sweep(); });
}

}  // namespace tutti::sessions
