#include "services/responses/responses.h"

#include "services/responses/active.h"
#include "services/responses/call_state.h"
#include "services/responses/inference_guard.h"
#include "services/responses/request_json.h"

namespace tutti::responses {
namespace {

Status NoSuchResponse() { return NotFound("not_found", "there is no such response"); }

// Error for a response that an earlier process accepted and Resume() has not reached: clients must
// not conclude that it does not exist.
Status NotResumed() {
  return Unavailable("model_loading", "this response goes on as soon as the models are loaded")
      .WithRetryAfter(std::chrono::seconds(1));
}

// Error for an id without a stored response: not_found, unless a waiting turn has that id.
Status Missing(store::Database& rows, const Responses::PendingTurn& pending_turn,
               const std::string& owner, const std::string& id) {
  if (pending_turn) {
    ASSIGN_OR_RETURN(const bool waits, pending_turn(rows, owner, id));
    if (waits) return NotResumed();
  }
  return NoSuchResponse();
}

}  // namespace

Status Registry::Add(const std::shared_ptr<Response>& response) {
  const MutexLock lock(mutex_);
  const std::string& name = response->owner();
  if (entries_.contains(response->id()))
    return Status(StatusCode::kAlreadyExists, "store_conflict", "there is such a response already");
  Owner& owner = owners_[name];
  if (owner.responses >= limits_.per_owner || entries_.size() >= limits_.all) {
    const bool own = owner.responses >= limits_.per_owner;
    if (owner.ended.empty()) {
      if (owner.responses == 0) owners_.erase(name);
      if (own) {
        return ResourceExhausted("tenant_concurrency",
                                 std::to_string(limits_.per_owner) + " responses are under way")
            .WithExcess(static_cast<int64_t>(limits_.per_owner) + 1,
                        static_cast<int64_t>(limits_.per_owner));
      }
      return Unavailable("overloaded", "too many responses are under way");
    }
    RemoveLocked(std::string(owner.ended.front()));
  }
  ++owners_[name].responses;
  entries_[response->id()] = {response};
  return OkStatus();
}

std::shared_ptr<Response> Registry::Find(const std::string& owner, const std::string& id) const {
  const MutexLock lock(mutex_);
  const auto found = entries_.find(id);
  if (found == entries_.end() || found->second.response->owner() != owner) return nullptr;
  return found->second.response;
}

void Registry::Ended(const Response& response) {
  const MutexLock lock(mutex_);
  const auto found = entries_.find(response.id());
  if (found == entries_.end() || std::exchange(found->second.ended, true)) return;
  Owner& owner = owners_[response.owner()];
  found->second.place = owner.ended.insert(owner.ended.end(), response.id());
}

void Registry::Remove(const std::string& id) {
  const MutexLock lock(mutex_);
  RemoveLocked(id);
}

void Registry::RemoveEnded(const std::string& name) {
  const MutexLock lock(mutex_);
  const auto owner = owners_.find(name);
  if (owner == owners_.end()) return;
  const std::list<std::string> ended = owner->second.ended;
  for (const std::string& id : ended) RemoveLocked(id);
}

void Registry::RemoveLocked(const std::string& id) {
  const auto found = entries_.find(id);
  if (found == entries_.end()) return;
  const auto owner = owners_.find(found->second.response->owner());
  if (found->second.ended) owner->second.ended.erase(found->second.place);
  if (--owner->second.responses == 0) owners_.erase(owner);
  entries_.erase(found);
}

size_t Registry::size() const {
  const MutexLock lock(mutex_);
  return entries_.size();
}

bool MayPass(const Status& refusal) {
  const std::string& reason = refusal.reason();
  return reason == "queue_full" || reason == "overloaded" || reason == "model_loading" ||
         reason == "kv_exhausted";
}

Attachment::~Attachment() {
  if (leave_) leave_();
}

Attachment& Attachment::operator=(Attachment&& other) noexcept {
  if (this != &other) {
    if (leave_) leave_();
    response_ = std::move(other.response_);
    leave_ = std::exchange(other.leave_, nullptr);
  }
  return *this;
}

Responses::Responses(const Options& options, api::Inference& inference, store::Store& store,
                     const Clock& clock, std::function<int64_t()> unix_s)
    : options_(options),
      inference_(inference),
      store_(store),
      clock_(clock),
      unix_s_(std::move(unix_s)),
      strand_(std::make_shared<Strand>(clock)),
      ask_(store, strand_),
      registry_(options.memory) {
  strand_->OnWake([this] { Pump(); });
  strand_->PostAt(clock_.Now() + options_.sweep, [this] { Sweep(); });
}

Responses::~Responses() { strand_->Stop(); }

void Responses::NameRequest(const std::string& id, api::GenerateRequest* request) {
  if (request->request_id.empty()) request->request_id = id;
}

Result<Attachment> Responses::Start(Call call) {
  if (call.state.background && !call.state.store) {
    return InvalidArgument("invalid_value", "a background response is stored").WithParam("store");
  }
  NameState(unix_s_(), &call.state);
  call.request.n = 1;
  call.request.tenant = call.owner;
  JoinItems(&call.request.prompt);
  SettleSeed(&call.request);
  const bool lasts = call.state.store;
  const std::string request = lasts ? EncodeRequest(call.request) : std::string();
  auto response = std::make_shared<Response>(
      ResponseBase{std::move(call.owner), std::move(call.state), std::move(call.input), {}},
      options_.log_bytes);
  auto active = std::make_shared<Active>(response);
  if (!lasts) active->writer.Open();  // else when it is in the store
  active->durable = lasts;
  active->shown = !lasts;
  RETURN_IF_ERROR(registry_.Add(response));
  CheckNoSection();
  call.request.detached = active->writer.response()->base().state.background;
  NameRequest(active->writer.response()->id(), &call.request);
  Result<api::Generation> generation = inference_.Generate(std::move(call.request), strand_);
  if (!generation.ok()) {
    registry_.Remove(response->id());
    return generation.status();
  }
  active->generation = *std::move(generation);
  strand_->Post([this, active, request] { Adopt(active, request); });
  const OnLeave on_leave = call.on_leave.value_or(lasts ? OnLeave::kDetach : OnLeave::kCancel);
  if (on_leave == OnLeave::kDetach) return Attachment(std::move(response), nullptr);
  return Attachment(response, [this, strand = strand_, response] {
    if (!response->ended()) strand->Post([this, response] { CancelNow(*response); });
  });
}

// A response of an earlier process that Resume() has not reached is passed to `unended`, which may
// put a response in its place.
void Responses::Load(const std::string& owner, const std::string& id, bool writes, Unended unended,
                     ResponseCallback done) {
  auto load =
      [owner, id, now_s = unix_s_(), bytes = options_.log_bytes, unended = std::move(unended),
       pending_turn = pending_turn_](store::Database& rows) -> Result<std::shared_ptr<Response>> {
    ASSIGN_OR_RETURN(const std::optional<ResponseRecord> ended, LoadEnded(rows, owner, id, now_s));
    if (ended.has_value()) return Replay(*ended, bytes);
    ASSIGN_OR_RETURN(const std::optional<ResponseRecord> begun, LoadUnended(rows, owner, id));
    if (begun.has_value()) return unended(rows, *begun);
    return Missing(rows, pending_turn, owner, id);
  };
  writes ? ask_.Write(std::move(load), std::move(done))
         : ask_.Read(std::move(load), std::move(done));
}

void Responses::Find(const std::string& owner, const std::string& id, ResponseCallback done) {
  std::shared_ptr<Response> response = registry_.Find(owner, id);
  if (response == nullptr) {
    const auto later = [](store::Database&, const ResponseRecord&) {
      return Result<std::shared_ptr<Response>>(NotResumed());
    };
    return Load(owner, id, /*writes=*/false, later, std::move(done));
  }
  strand_->Post([response = std::move(response), done = std::move(done)] { done(response); });
}

void Responses::Look(const std::string& owner, const std::string& id, StateCallback done) {
  const auto state = [done = std::move(done)](const Result<std::shared_ptr<Response>>& found) {
    if (!found.ok()) return done(found.status());
    done((*found)->State());
  };
  if (registry_.Find(owner, id) != nullptr) return Find(owner, id, state);
  const auto as_begun = [bytes = options_.log_bytes](store::Database&,
                                                     const ResponseRecord& record) {
    auto response = std::make_shared<Response>(record.base, bytes, /*again=*/true);
    ResponseWriter(response).Open();
    return Result<std::shared_ptr<Response>>(std::move(response));
  };
  Load(owner, id, /*writes=*/false, as_begun, state);
}

void Responses::CancelNow(const Response& response, bool keeps) {
  // The dialog of a turn must know that it keeps the text before the generation ends.
  const auto running = running_.find(response.id());
  if (keeps && running != running_.end() && running->second->cancel != nullptr) {
    const CancelTurn cancel = running->second->cancel;
    return cancel(true);
  }
  if (CancelRun(response)) return;
  const auto waiting = waiting_.find(response.id());
  if (waiting == waiting_.end()) return;
  const CancelTurn cancel = waiting->second->cancel;  // the entry may go meanwhile
  cancel(keeps);
}

void Responses::Cancel(const std::string& owner, const std::string& id, ResponseCallback done,
                       bool keeps) {
  std::shared_ptr<Response> response = registry_.Find(owner, id);
  if (response == nullptr) return CancelStored(owner, id, std::move(done));
  strand_->Post([this, response = std::move(response), done = std::move(done), keeps] {
    CancelNow(*response, keeps);
    done(response);
  });
}

// Cancels a response that Resume() has not reached: it ends in the store and never runs.
void Responses::CancelStored(const std::string& owner, const std::string& id,
                             ResponseCallback done) {
  const auto cancel = [now_s = unix_s_(), options = options_](
                          store::Database& rows,
                          ResponseRecord record) -> Result<std::shared_ptr<Response>> {
    record.end = record.base.state;
    record.end.status = protocol::ResponseStatus::kCancelled;
    const int64_t kept_s = record.base.state.store ? options.stored_s : options.turn_s;
    RETURN_IF_ERROR(SaveEnded(rows, record, now_s + kept_s, options.stored));
    return Replay(record, options.log_bytes);
  };
  Load(owner, id, /*writes=*/true, cancel,
       [this, owner, id, done = std::move(done)](const Result<std::shared_ptr<Response>>& loaded) {
         if (loaded.ok()) {
           // A response may run without being in the registry, if the registry was full.
           if (const auto running = running_.find(id); running != running_.end())
             (void)CancelRun(*running->second->writer.response());
           std::erase_if(to_rerun_, [&](const Unfinished& unfinished) {
             return unfinished.record.base.state.id == id;
           });
         }
         // Resume() may have come to it meanwhile.
         const std::shared_ptr<Response> response = registry_.Find(owner, id);
         if (response == nullptr) return done(loaded);
         CancelNow(*response);
         done(response);
       });
}

void Responses::Delete(const std::string& owner, const std::string& id,
                       std::function<void(Status)> done) {
  strand_->Post([this, owner, id, done = std::move(done)] {
    const std::shared_ptr<Response> response = registry_.Find(owner, id);
    if (response != nullptr) {
      for (const auto* all : {&running_, &waiting_, &ending_}) {
        if (const auto active = all->find(id); active != all->end()) active->second->deleted = true;
      }
      CancelNow(*response);
      registry_.Remove(id);
    }
    ask_.Write(
        [owner, id, in_memory = response != nullptr,
         pending_turn = pending_turn_](store::Database& rows) -> Status {
          ASSIGN_OR_RETURN(const bool deleted, DeleteResponse(rows, owner, id));
          return in_memory || deleted ? OkStatus() : Missing(rows, pending_turn, owner, id);
        },
        done);
  });
}

void Responses::DeleteAll(const std::string& owner, std::function<void(Status)> done) {
  strand_->Post([this, owner, done = std::move(done)] {
    for (const auto& [id, active] : running_) {
      const Response& response = *active->writer.response();
      if (response.owner() != owner) continue;
      active->deleted = true;
      (void)CancelRun(response);
      registry_.Remove(id);
    }
    std::vector<std::shared_ptr<Response>> waiting;  // their turns are to come
    for (const auto& [id, active] : waiting_) {
      if (active->writer.response()->owner() != owner) continue;
      active->deleted = true;
      waiting.push_back(active->writer.response());
    }
    for (const auto& response : waiting) {
      CancelNow(*response);
      registry_.Remove(response->id());
    }
    for (const auto& [id, active] : ending_) {
      if (active->writer.response()->owner() != owner) continue;
      active->deleted = true;
      registry_.Remove(id);
    }
    registry_.RemoveEnded(owner);
    ask_.Write([owner](store::Database& rows) { return DeleteResponses(rows, owner); }, done);
  });
}

void Responses::Chain(const std::string& owner, const std::string& id,
                      std::function<void(Result<Messages>)> done) {
  ask_.Read([owner, id, now_s = unix_s_(), most = options_.chain](
                store::Database& rows) { return LoadChain(rows, owner, id, now_s, most); },
            std::move(done));
}

}  // namespace tutti::responses
