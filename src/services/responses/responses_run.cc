// Responses, on the strand: from the events of generations to those of responses, and the end; and
// what a process that ended has left in the store.
#include <utility>

#include "services/responses/active.h"
#include "services/responses/call_state.h"
#include "services/responses/inference_guard.h"
#include "services/responses/request_json.h"
#include "services/responses/responses.h"

namespace tutti::responses {

using protocol::ResponseState;
using protocol::ResponseStatus;

namespace {

constexpr Duration kStoreRetry = std::chrono::milliseconds(50);
constexpr int64_t kAtOnce = 100;  // responses that are read from the store
constexpr Duration kRetry = std::chrono::milliseconds(500);

}  // namespace

// Stores the request before any event of the response is shown.
void Responses::Adopt(const ActivePointer& active, const std::string& request) {
  const std::shared_ptr<Response>& response = active->writer.response();
  running_[response->id()] = active;
  if (active->shown) return Read(active);
  ask_.Write([record = active->writer.Record(response->base().state),
              request](store::Database& rows) { return SaveRunning(rows, record, request); },
             [this, active](const Status& status) {
               if (!running_.contains(active->writer.response()->id())) return;
               active->shown = true;
               active->writer.Open();
               if (status.ok()) {
                 active->writer.response()->log().Announce();
                 return Read(active);
               }
               active->durable = false;
               Finish(active, Failed(active->writer.response()->State(), status));
             });
}

Result<std::shared_ptr<Response>> Responses::Create(ResponseBase base, CancelTurn cancel,
                                                    bool again) {
  auto response = std::make_shared<Response>(std::move(base), options_.log_bytes, again);
  auto active = std::make_shared<Active>(response);
  active->writer.Open();
  active->durable = true;
  RETURN_IF_ERROR(registry_.Add(response));
  active->cancel = std::move(cancel);
  waiting_[response->id()] = std::move(active);
  return response;
}

void Responses::Abandon(const Response& response) {
  waiting_.erase(response.id());
  running_.erase(response.id());
  registry_.Remove(response.id());
}

Status Responses::Run(const std::shared_ptr<Response>& response, api::GenerateRequest request,
                      const DroppedContext& dropped, TurnHooks hooks) {
  const auto waiting = waiting_.find(response->id());
  CHECK(waiting != waiting_.end());
  CheckNoSection();
  request.detached = true;
  JoinItems(&request.prompt);
  NameRequest(response->id(), &request);
  ASSIGN_OR_RETURN(api::Generation generation, inference_.Generate(std::move(request), strand_));
  const ActivePointer active = waiting->second;
  waiting_.erase(waiting);
  active->generation = std::move(generation);
  active->hooks = std::move(hooks);
  active->dropped = dropped;
  active->shown = false;
  running_[response->id()] = active;
  return OkStatus();
}

void Responses::Show(const Response& response) {
  const auto running = running_.find(response.id());
  CHECK(running != running_.end());
  Active& active = *running->second;
  CHECK(!active.shown);
  active.shown = true;
  if (active.dropped.turns > 0) active.writer.Truncated(active.dropped);
  strand_->Wake();  // reads what there is: a refused prompt wakes no thread
}

void Responses::Unrun(const Response& response) {
  const auto running = running_.find(response.id());
  CHECK(running != running_.end());
  const ActivePointer active = running->second;
  CHECK(!active->shown);
  running_.erase(running);
  active->generation = {};
  active->hooks = {};
  active->cut = Cut::kNone;
  waiting_[response.id()] = active;
}

void Responses::EndUnrun(const std::shared_ptr<Response>& response, const Status& why,
                         TurnHooks hooks, bool steered) {
  const auto waiting = waiting_.find(response->id());
  CHECK(waiting != waiting_.end());
  const ActivePointer active = waiting->second;
  waiting_.erase(waiting);
  active->hooks = std::move(hooks);
  ResponseState end = response->State();
  if (why.ok() && steered) return Finish(active, Steered(std::move(end)));
  end.status = ResponseStatus::kCancelled;
  Finish(active, why.ok() ? std::move(end) : Failed(std::move(end), why));
}

bool Responses::CancelRun(const Response& response, bool steered) {
  const auto running = running_.find(response.id());
  if (running == running_.end()) return false;
  running->second->cut = steered ? Cut::kSteer : Cut::kCancel;
  running->second->generation.Cancel();
  return true;
}

void Responses::Pump() {
  std::vector<ActivePointer> grown;  // reading may end a response and begin another
  for (const auto& [id, active] : running_) {
    if (active->shown) grown.push_back(active);
  }
  for (const ActivePointer& active : grown) Read(active);
}

void Responses::Read(const ActivePointer& active) {
  ResponseWriter& writer = active->writer;
  const int64_t before = writer.response()->log().next();
  size_t bytes = 0;
  const auto reason = [&](const std::string& text) {
    if (text.empty()) return;
    if (!writer.begun()) writer.Begin();
    writer.Reason(text);
  };
  const auto say = [&](const std::string& text) {
    if (text.empty()) return;
    if (!writer.begun()) writer.Begin();
    writer.Piece(text, active->tokens.Take(text));
    bytes += text.size();
  };
  const auto call = [&](const std::vector<api::ToolCallDelta>& deltas) {
    if (!deltas.empty() && !writer.begun()) writer.Begin();
    for (const api::ToolCallDelta& delta : deltas) writer.Call(delta);
  };
  while (const api::StreamEvent* event = active->generation.Next()) {
    switch (event->kind) {
      case api::StreamEvent::Kind::kStarted:
        if (!writer.begun()) writer.Begin();
        break;
      case api::StreamEvent::Kind::kChoiceEnd:
        active->finish = event->finish_reason;
        [[fallthrough]];
      case api::StreamEvent::Kind::kToken:
        active->tokens.Add(*event);
        reason(event->reasoning);
        say(event->text);
        call(event->tool_calls);
        if (!event->tool_calls.empty()) active->tokens.Drop();
        break;
      case api::StreamEvent::Kind::kPromptToken:
        break;
      case api::StreamEvent::Kind::kEnd: {
        const api::TokenStream& stream = active->generation.stream();
        if (active->durable && active->cut == Cut::kNone &&
            stream.status().reason() == "draining") {
          // The process ends. The response is stored as running, so the next process runs it again.
          writer.response()->log().Interrupt();
          running_.erase(writer.response()->id());
          return;
        }
        if (stream.status().ok() && !writer.begun()) writer.Begin();
        return Finish(active, EndOf(writer.response()->State(), stream, *event, active->finish,
                                    active->cut, unix_s_()));
      }
    }
  }
  active->generation.Consumed(bytes);
  if (writer.response()->log().next() != before) writer.response()->log().Announce();
}

void Responses::Interrupt() {
  strand_->Post([this] {
    Pump();  // handles generations that have ended
    for (const auto& [id, active] : running_) {
      // The end of a response that is not shown yet is read when it is shown.
      if (active->durable && active->shown) active->writer.response()->log().Interrupt();
    }
    for (const auto& [id, active] : waiting_) active->writer.response()->log().Interrupt();
  });
}

void Responses::Finish(const ActivePointer& active, ResponseState end) {
  running_.erase(active->writer.response()->id());
  active->generation = {};
  if (!active->durable && !active->hooks.commit) return Announce(*active, end, OkStatus());
  ending_[active->writer.response()->id()] = active;
  Save(active, end, /*again=*/false);
}

void Responses::Save(const ActivePointer& active, const ResponseState& end, bool again) {
  const ResponseBase& base = active->writer.response()->base();
  store::Store::Work commit;
  if (active->hooks.commit) commit = active->hooks.commit(end);
  ask_.Write(
      [record = active->writer.Record(end), keep = active->durable && !active->deleted, commit,
       expires_s = ExpiresAt(base), limits = options_.stored](store::Database& rows) -> Status {
        if (keep) RETURN_IF_ERROR(SaveEnded(rows, record, expires_s, limits));
        return commit ? commit(rows) : OkStatus();
      },
      [this, active, end, again](const Status& status) {
        if (status.ok()) return Announce(*active, end, status);
        if (status.reason() == "overloaded") {  // the store is behind: retry
          return strand_->PostAt(clock_.Now() + kStoreRetry,
                                 [this, active, end, again] { Save(active, end, again); });
        }
        const ResponseState failed = Failed(end, status);
        // If the answer cannot be stored, at least its failure may be.
        if (!again) return Save(active, failed, /*again=*/true);
        Announce(*active, failed, status);
      });
}

void Responses::Announce(Active& active, const ResponseState& end, const Status& stored) {
  const std::shared_ptr<Response>& response = active.writer.response();
  ending_.erase(response->id());
  active.writer.End(end);
  response->log().Announce();
  const ResponseBase& base = response->base();
  if (base.state.store || base.turn.has_value()) {
    registry_.Ended(*response);
    strand_->PostAt(
        clock_.Now() + (base.state.background ? options_.keep_background : options_.keep_stored),
        [this, id = response->id()] { registry_.Remove(id); });
  } else {
    registry_.Remove(response->id());
  }
  const TurnHooks hooks = std::exchange(active.hooks, {});  // they refer to the dialog
  if (hooks.ended) hooks.ended(end, stored);
}

int64_t Responses::ExpiresAt(const ResponseBase& base) const {
  return unix_s_() + (base.state.store ? options_.stored_s : options_.turn_s);
}

// --- what an earlier process has left ---

void Responses::Resume() {
  strand_->Post([this] { ResumeBehind(0); });
}

void Responses::ResumeBehind(int64_t row) {
  using Found = std::pair<std::vector<Unfinished>, int64_t>;
  ask_.Read([row](store::Database& rows) { return LoadRunning(rows, row, kAtOnce); },
            [this, row](Result<Found> found) {
              if (found.status().reason() == "overloaded") {  // the disk is behind
                return strand_->PostAt(clock_.Now() + kRetry, [this, row] { ResumeBehind(row); });
              }
              if (!found.ok()) return;  // every caller gets the store's error
              const bool more = found->second != row;
              for (Unfinished& each : found->first) to_rerun_.push_back(std::move(each));
              RerunNext(found->second, more);
            });
}

// In their order, as fast as the engine takes them.
void Responses::RerunNext(int64_t row, bool more) {
  while (!to_rerun_.empty()) {
    const Status status = Rerun(to_rerun_.front());
    if (status.reason() == "draining") return;  // the next process does it
    if (MayPass(status)) {
      strand_->PostAt(clock_.Now() + kRetry, [this, row, more] { RerunNext(row, more); });
      return;
    }
    to_rerun_.pop_front();
  }
  if (more) ResumeBehind(row);
}

// Runs a response again. An error changes nothing: it may be temporary, or the process ends. An
// invalid request ends the response as failed.
Status Responses::Rerun(const Unfinished& unfinished) {
  const ResponseBase& base = unfinished.record.base;
  if (registry_.Find(base.owner, base.state.id) != nullptr) return OkStatus();  // of this process
  auto active = std::make_shared<Active>(
      std::make_shared<Response>(base, options_.log_bytes, /*again=*/true));
  active->durable = true;
  const auto begin = [&]() -> Status {
    ASSIGN_OR_RETURN(api::GenerateRequest request, DecodeRequest(unfinished.request));
    CheckNoSection();
    request.detached = true;
    NameRequest(base.state.id, &request);
    ASSIGN_OR_RETURN(active->generation, inference_.Generate(std::move(request), strand_));
    return OkStatus();
  };
  const Status status = begin();
  if (MayPass(status) || status.reason() == "draining") return status;
  active->writer.Open();
  // Runs even without room in the registry, because it was accepted.
  (void)registry_.Add(active->writer.response());
  if (!status.ok()) {
    Finish(active, Failed(base.state, store::ClientStatus(status)));
    return OkStatus();
  }
  running_[base.state.id] = active;
  strand_->Wake();
  return OkStatus();
}

void Responses::Sweep() {
  store_.Write(
      [now_s = unix_s_()](store::Database& rows) -> Status {
        return DropExpired(rows, now_s, 1000).status();
      },
      [](const Status&) {});
  strand_->PostAt(clock_.Now() + options_.sweep, [this] { Sweep(); });
}

}  // namespace tutti::responses
