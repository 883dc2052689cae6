#include "services/jobs/jobs.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include "protocol/json/json_writer.h"
#include "services/responses/request_json.h"
#include "services/responses/responses.h"
#include "services/webhooks/webhook_rows.h"

namespace tutti::jobs {
namespace {

using calls::BufferedRequest;
using protocol::JobView;
using store::Database;

// Before the second attempt, the third, and any further one.
constexpr std::array<Duration, 3> kBackoff = {std::chrono::seconds(1), std::chrono::seconds(5),
                                              std::chrono::seconds(30)};
constexpr double kBackoffJitter = 0.25;
constexpr Duration kCancelWithin = std::chrono::seconds(10);  // then returns the current state
constexpr int64_t kExpiredAtOnce = 256, kDroppedAtOnce = 1024;
constexpr size_t kEndsPerSlot = 8;  // for estimates of waiting times

Status NoSuchJob() { return NotFound("not_found", "there is no such job"); }
Status ResultGone() {
  return {StatusCode::kNotFound, "expired", "the job has ended, and its result is not kept"};
}
Status Finished(const JobRow& row) {
  return {StatusCode::kAborted, "already_finished",
          "the job is " + std::string(protocol::JobStateName(row.state))};
}

// The current version of a job, or why it cannot be shown.
// A result is kept until `expires_ms`, though the sweep that frees its bytes comes up to a minute
// later.
Result<JobRow> Find(Database& rows, const std::string& owner, const std::string& id,
                    int64_t now_ms) {
  ASSIGN_OR_RETURN(std::optional<JobRow> row, LoadJob(rows, owner, id));
  if (!row.has_value()) return NoSuchJob();
  if (row->gone || (protocol::Ended(row->state) && row->expires_ms <= now_ms)) return ResultGone();
  return *std::move(row);
}

}  // namespace

Jobs::Jobs(const Options& options, api::Inference& inference, store::Store& store,
           const Clock& clock, std::function<int64_t()> unix_ms, CallerNow caller)
    : QueueRunner(store, clock, std::move(unix_ms), "tutti-jobs"),
      options_(options),
      inference_(inference),
      caller_(std::move(caller)),
      retry_({kBackoff.begin(), kBackoff.end()}, kBackoffJitter),
      seen_(clock.Now()),
      seen_unix_ms_(unix_ms_()),
      ends_(kEndsPerSlot * static_cast<size_t>(options.slots)) {}

Jobs::~Jobs() { Close(); }

// --- what clients ask ---

void Jobs::Submit(NewJob job, std::function<void(Result<JobView>, bool)> done) {
  if (releasing_) return strand_->Post([done = std::move(done)] { done(Draining(), false); });
  if (!job.webhook.empty()) {
    Status may = options_.webhook != nullptr
                     ? options_.webhook(job.webhook)
                     : InvalidArgument("unsupported_parameter",
                                       "this server sends no webhooks: jobs.webhooks is off")
                           .WithParam("x-tutti-webhook");
    if (!may.ok()) return strand_->Post([may, done = std::move(done)] { done(may, false); });
  }
  const int64_t now_ms = unix_ms_();
  auto row = std::make_shared<JobRow>();
  row->webhook = std::move(job.webhook);
  row->owner = std::move(job.owner);
  row->caller = responses::CallerText(job.caller);
  row->kind = calls::NameOf(job.kind);
  row->max_attempts = options_.max_attempts;
  row->created_ms = now_ms;
  row->run_at_ms = job.run_at_ms.value_or(0);
  row->deadline_ms =
      job.deadline_ms.value_or(std::max(row->run_at_ms, now_ms) + WholeMillis(options_.window));
  std::optional<IdempotencyKey> key;
  if (!job.idempotency_key.empty())
    key = IdempotencyKey{row->kind + " " + job.idempotency_key, std::move(job.body_hash)};
  row->request = std::move(job.body);

  struct Outcome {
    bool added = false;
    JobView view;
  };
  ask_.Write(
      [this, row, key](Database& rows) -> Result<Outcome> {
        Outcome outcome;
        ASSIGN_OR_RETURN(outcome.added, InsertJob(rows, row.get(), key, options_.limits));
        if (row->gone) return ResultGone();
        ASSIGN_OR_RETURN(outcome.view, Load(rows, row->owner, row->id));
        return outcome;
      },
      [this, done = std::move(done)](Result<Outcome> outcome) {
        if (!outcome.ok()) return done(outcome.status(), false);
        Overlay(&outcome->view);
        done(std::move(outcome->view), !outcome->added);
        if (!outcome->added) return;
        stats_.Update([](JobStats& stats) { ++stats.accepted; });
        Claim();
        TickIn(options_.tick);
      },
      store::Store::Undo::kWithGroup);
}

Result<JobView> Jobs::Load(Database& rows, const std::string& owner, const std::string& id) const {
  ASSIGN_OR_RETURN(const JobRow row, Find(rows, owner, id, unix_ms_()));
  JobView view = ViewOf(row);
  ASSIGN_OR_RETURN(const std::optional<webhooks::Delivery> delivery,
                   webhooks::DeliveryOf(rows, id));
  if (delivery) view.webhook = {delivery->status, delivery->attempts, delivery->error};
  if (row.state != JobState::kQueued) return view;
  ASSIGN_OR_RETURN(const QueuePlace place, PlaceOf(rows, row));
  // Owners take turns, so another owner delays this job by at most `before` + 1 of its own jobs.
  view.position = std::clamp<int64_t>((place.before + 1) * place.owners - 1, place.before,
                                      std::max<int64_t>(place.waiting - 1, place.before));
  ASSIGN_OR_RETURN(view.paused, IsPaused(rows, owner));
  return view;
}

Result<JobView> Jobs::LoadNext(Database& rows, const std::string& owner, const std::string& id,
                               int64_t version) const {
  ASSIGN_OR_RETURN(const JobRow row, Find(rows, owner, id, unix_ms_()));
  ASSIGN_OR_RETURN(const std::optional<JobRow> event, EventAfter(rows, row, version));
  if (!event.has_value()) return Load(rows, owner, id);
  JobView view = ViewOf(*event);
  view.past = true;
  return view;
}

void Jobs::Overlay(JobView* view) const {
  if (view->past) return;
  if (const auto found = running_.find(view->id);
      found != running_.end() && found->second.call != nullptr) {
    view->progress_tokens = found->second.call->progress();
  }
  if (!view->position.has_value() || view->paused || ends_.ms_per_end() <= 0) return;
  const auto ahead = static_cast<double>(*view->position) + static_cast<double>(running_.size());
  const int64_t not_before = std::max<int64_t>(view->run_at_ms - unix_ms_(), 0);
  view->eta_ms = not_before + static_cast<int64_t>((ahead + 1) * ends_.ms_per_end());
}

void Jobs::Get(const std::string& owner, const std::string& id, Callback done) {
  Watch(owner, id, -1, TimePoint::min(), std::move(done));
}

void Jobs::Watch(const std::string& owner, const std::string& id, int64_t version, TimePoint until,
                 Callback done) {
  auto waiter = std::make_shared<Waiter>(Waiter{owner, version, until, std::move(done)});
  AnswerOrWait(id, waiter);
}

void Jobs::Follow(const std::string& owner, const std::string& id, int64_t version, TimePoint until,
                  Callback done) {
  auto waiter = std::make_shared<Waiter>(Waiter{owner, version, until, std::move(done)});
  waiter->each = version >= 0;
  AnswerOrWait(id, waiter);
}

// Answers a waiter if its condition holds, and keeps it until the next change otherwise.
void Jobs::AnswerOrWait(const std::string& id, const std::shared_ptr<Waiter>& waiter) {
  ask_.Read(
      [this, id, waiter](Database& rows) {
        return waiter->each ? LoadNext(rows, waiter->owner, id, waiter->version)
                            : Load(rows, waiter->owner, id);
      },
      [this, id, waiter](Result<JobView> view) {
        if (!view.ok()) return waiter->done(view.status());
        Overlay(&*view);
        const bool news = waiter->version != kUntilEnd && view->version > waiter->version;
        if (news || protocol::Ended(view->state) || waiter->until <= clock_.Now())
          return waiter->done(*std::move(view));
        if (stopped_) return waiter->done(Draining());
        waiters_.emplace(id, waiter);
        strand_->PostAt(waiter->until, [this, id, waiter] {
          const auto [first, last] = waiters_.equal_range(id);
          const auto found =
              std::find_if(first, last, [&](const auto& entry) { return entry.second == waiter; });
          if (found == last) return;  // it has been notified
          waiters_.erase(found);
          AnswerOrWait(id, waiter);
        });
      });
}

void Jobs::NotifyWaiters(const std::string& id) {
  const auto [first, last] = waiters_.equal_range(id);
  std::vector<std::shared_ptr<Waiter>> waiters;
  for (auto it = first; it != last; ++it) waiters.push_back(it->second);
  waiters_.erase(first, last);
  for (const auto& waiter : waiters) AnswerOrWait(id, waiter);
}

void Jobs::List(const std::string& owner, JobQuery query,
                std::function<void(Result<std::vector<JobView>>)> done) {
  ++query.limit;
  ask_.Read(
      [owner, query](Database& rows) -> Result<std::vector<JobView>> {
        ASSIGN_OR_RETURN(const std::vector<JobRow> found, ListJobs(rows, owner, query));
        std::vector<JobView> views;
        for (const JobRow& row : found) views.push_back(ViewOf(row));
        return views;
      },
      std::move(done));
}

void Jobs::Cancel(const std::string& owner, const std::string& id, Callback done) {
  ask_.Write(
      [this, owner, id](Database& rows) -> Result<bool> {  // whether it runs
        ASSIGN_OR_RETURN(const JobRow row, Find(rows, owner, id, unix_ms_()));
        if (row.state == JobState::kCancelled) return false;
        if (protocol::Ended(row.state)) return Finished(row);
        if (row.state == JobState::kRunning) return true;
        RETURN_IF_ERROR(CancelQueued(rows, owner, id, unix_ms_(), options_.limits).status());
        return false;
      },
      [this, owner, id, done = std::move(done)](const Result<bool>& runs) {
        if (!runs.ok()) return done(runs.status());
        if (!*runs) NotifyWaiters(id);
        const auto found = running_.find(id);
        if (*runs && found != running_.end()) {
          found->second.cancelled = true;
          if (found->second.call != nullptr) found->second.call->Cancel();
          Pump();  // a call that never began ends at once
        }
        Watch(owner, id, kUntilEnd, clock_.Now() + kCancelWithin, done);
      });
}

void Jobs::Replay(const std::string& owner, const std::string& id, Callback done) {
  ask_.Write(
      [this, owner, id](Database& rows) -> Status {
        ASSIGN_OR_RETURN(const bool replayed,
                         ReplayJob(rows, owner, id, unix_ms_() + WholeMillis(options_.window)));
        if (replayed) return OkStatus();
        ASSIGN_OR_RETURN(const JobRow row, Find(rows, owner, id, unix_ms_()));
        return Finished(row);
      },
      [this, owner, id, done = std::move(done)](const Status& status) {
        if (!status.ok()) return done(status);
        NotifyWaiters(id);
        Get(owner, id, done);
        Claim();
        TickIn(options_.tick);
      });
}

void Jobs::Pause(const std::string& owner, bool paused, std::function<void(Status)> done) {
  ask_.Write([owner, paused](Database& rows) { return PauseOwner(rows, owner, paused); },
             [this, done = std::move(done)](const Status& status) {
               done(status);
               Claim();
               TickIn(options_.tick);
             });
}

JobStats Jobs::stats() const { return stats_.Copy(); }

void Jobs::CountEnd(JobState state, bool mine) {
  stats_.Update([&](JobStats& stats) {
    ++(!mine                           ? stats.fenced
       : state == JobState::kSucceeded ? stats.completed
       : state == JobState::kCancelled ? stats.cancelled
       : state == JobState::kExpired   ? stats.expired
       : state == JobState::kDead      ? stats.dead
                                       : stats.failed);
  });
}

// --- running them ---

void Jobs::Start() {
  ask_.Write(
      [this](Database& rows) {
        return SweepLeases(rows, unix_ms_(), /*all=*/true, options_.limits).status();
      },
      [this](const Status&) {
        if (stopped_) return;
        started_ = true;
        Claim();
        TickIn(options_.tick);
      });
}

void Jobs::Claim() {
  if (!started_ || stopped_) return;
  if (claiming_) {
    claim_again_ = true;
    return;
  }
  const int64_t room = options_.slots - static_cast<int64_t>(running_.size());
  if (room <= 0) return;
  claiming_ = true;
  claim_again_ = false;
  ask_.Write(
      [this, room](Database& rows) {
        return ClaimJobs(rows, unix_ms_(), WholeMillis(options_.lease), room, &claimed_last_);
      },
      [this, room](Result<std::vector<JobRow>> claimed) {
        claiming_ = false;
        if (!claimed.ok()) return TickIn(options_.tick);
        const bool full = static_cast<int64_t>(claimed->size()) == room;
        OnClaimed(*std::move(claimed), full);
      },
      store::Store::Undo::kWithGroup);
}

void Jobs::OnClaimed(std::vector<JobRow> claimed, bool full) {
  if (!claimed.empty()) {
    ends_.Begin(clock_.Now());
  } else if (running_.empty()) {
    ends_.Idle();
  }
  for (JobRow& row : claimed) Begin(std::move(row));
  if (claim_again_ || full) Claim();
}

void Jobs::Begin(JobRow row) {
  const std::string id = row.id;
  Running& running = running_[id];
  running = {};  // there may be one of an earlier claim, whose lease was lost
  running.row = row;
  running.row.request.clear();
  NotifyWaiters(id);
  const auto begin = [&]() -> Status {
    if (stopped_) return Draining();
    const std::optional<calls::CallKind> kind = calls::KindNamed(row.kind);
    if (!kind.has_value()) return Internal("a job of an unknown kind");
    ASSIGN_OR_RETURN(const api::CallerRef accepted, responses::CallerOfText(row.caller));
    ASSIGN_OR_RETURN(api::CallerRef caller, caller_(accepted));
    const TimePoint now = clock_.Now();
    const int64_t now_ms = unix_ms_();
    const int64_t left_ms = row.deadline_ms - now_ms;
    if (left_ms <= 0)
      return {StatusCode::kDeadlineExceeded, "deadline_exceeded", "its deadline has passed"};
    ASSIGN_OR_RETURN(running.call,
                     BufferedRequest::Parse(*kind, row.request,
                                            {.caller = std::move(caller),
                                             .request_id = row.id,
                                             .parse = {.now = now},
                                             .deadline = now + std::chrono::milliseconds(left_ms),
                                             .unix_s = now_ms / 1000},
                                            inference_));
    return running.call->Begin(strand_);
  };
  if (const Status status = begin(); !status.ok())
    return End(running.row, {.status = status}, false);
  strand_->Wake();  // to read events that have arrived already
}

void Jobs::Pump() {
  struct Ended {
    JobRow row;
    BufferedRequest::Answer answer;
    bool cancelled = false;
  };
  std::vector<Ended> ended;
  for (auto& [id, running] : running_) {
    if (running.call == nullptr) continue;
    if (auto answer = running.call->Poll())
      ended.push_back({running.row, *std::move(answer), running.cancelled});
  }
  for (Ended& each : ended) End(std::move(each.row), std::move(each.answer), each.cancelled);
}

void Jobs::End(JobRow row, BufferedRequest::Answer answer, bool cancelled) {
  if (const auto found = running_.find(row.id); found != running_.end())
    found->second.call = nullptr;
  row.progress = answer.output_tokens;
  const Status& status = answer.status;
  if (status.ok() && static_cast<int64_t>(answer.body.size()) > options_.limits.result_bytes) {
    row.state = JobState::kFailed;
    row.error = protocol::JobErrorJson(ResourceExhausted(
        "request_too_large", "the result has " + std::to_string(answer.body.size()) +
                                 " bytes, more than are kept of all jobs"));
    return Save(std::move(row));
  }
  if (status.ok()) {
    row.state = JobState::kSucceeded;
    row.result = std::move(answer.body);
    return Save(std::move(row));
  }
  row.error = protocol::JobErrorJson(status);
  if (cancelled) {
    row.state = JobState::kCancelled;
    row.result = std::move(answer.body);
    row.error.clear();
    return Save(std::move(row));
  }
  if (status.reason() == "deadline_exceeded") {
    row.state = JobState::kExpired;
    return Save(std::move(row));
  }
  const background::RetryDecision decision =
      retry_.Decide(calls::FailureOf(status), row.attempt, row.max_attempts, status.retry_after());
  if (decision.action == background::RetryDecision::Action::kRelease) stopped_ = true;
  if (decision.again()) return Requeue(row, decision);
  row.state = decision.action == background::RetryDecision::Action::kGiveUp ? JobState::kDead
                                                                            : JobState::kFailed;
  Save(std::move(row));
}

void Jobs::Save(JobRow row) {
  auto shared = std::make_shared<const JobRow>(std::move(row));
  WriteUntilStored(
      [this, shared](Database& rows) {
        return FinishJob(rows, *shared, unix_ms_(), options_.limits);
      },
      [this, shared](bool mine) {
        Forget(*shared);
        CountEnd(shared->state, mine);
        ends_.End(clock_.Now());
        NotifyWaiters(shared->id);
        Claim();
      },
      store::Store::Undo::kWithGroup);
}

void Jobs::Requeue(const JobRow& row, const background::RetryDecision& decision) {
  WriteUntilStored(
      [this, row, decision](Database& rows) {
        const int64_t at_ms =
            decision.wait > Duration(0) ? unix_ms_() + WholeMillis(decision.wait) : 0;
        return RequeueJob(rows, row, at_ms, decision.counted()).status();
      },
      [this, row, counted = decision.counted()] {
        const auto found = running_.find(row.id);
        const bool cancelled = found != running_.end() && found->second.cancelled &&
                               found->second.row.epoch == row.epoch;
        Forget(row);
        // The attempt ended just when the owner cancelled the job, which must not run again.
        if (cancelled) Cancel(row.owner, row.id, [](const Result<protocol::JobView>&) {});
        stats_.Update([&](JobStats& stats) { ++(counted ? stats.retried : stats.put_off); });
        NotifyWaiters(row.id);
        Claim();
        TickIn(options_.tick);
      });
}

// Removes a running job, unless it was claimed again in the meantime.
void Jobs::Forget(const JobRow& row) {
  const auto found = running_.find(row.id);
  if (found != running_.end() && found->second.row.epoch == row.epoch) running_.erase(found);
}

void Jobs::Heartbeat() {
  next_heartbeat_ = clock_.Now() + options_.heartbeat;
  auto running = std::make_shared<std::vector<std::pair<JobRow, int64_t>>>();
  for (const auto& [id, entry] : running_) {
    if (entry.call != nullptr) running->emplace_back(entry.row, entry.call->progress());
  }
  if (running->empty()) return;
  ask_.Write(
      [this, running](Database& rows) -> Result<std::vector<std::string>> {
        std::vector<std::string> lost;
        const int64_t until_ms = unix_ms_() + WholeMillis(options_.lease);
        for (const auto& [row, progress] : *running) {
          ASSIGN_OR_RETURN(const bool mine, RenewLease(rows, row, until_ms, progress));
          if (!mine) lost.push_back(row.id);
        }
        return lost;
      },
      [this](const Result<std::vector<std::string>>& lost) {
        if (!lost.ok()) return;
        // The jobs have ended, or another claim has them: their calls are cancelled.
        for (const std::string& id : *lost) {
          const auto found = running_.find(id);
          if (found != running_.end() && found->second.call != nullptr) running_.erase(found);
        }
      });
}

// True if the wall clock has jumped ahead of the steady clock, so that all leases seem to have
// expired.
bool Jobs::ClockHasJumped(TimePoint now) {
  const int64_t now_ms = unix_ms_();
  const int64_t ahead_ms = (now_ms - std::exchange(seen_unix_ms_, now_ms)) -
                           WholeMillis(now - std::exchange(seen_, now));
  return ahead_ms > WholeMillis(options_.heartbeat);
}

// Runs each options_.tick while a job waits or runs, and once a minute otherwise, to drop old
// results.
void Jobs::Tick() {
  const TimePoint now = clock_.Now();
  if (ClockHasJumped(now) || now >= next_heartbeat_) Heartbeat();  // before leases are swept
  const bool drop = TakeSweep();
  struct Found {
    std::vector<std::string> expired;
    JobCounts counts;
  };
  ask_.Write(
      [this, drop](Database& rows) -> Result<Found> {
        Found found;
        const int64_t now_ms = unix_ms_();
        RETURN_IF_ERROR(SweepLeases(rows, now_ms, /*all=*/false, options_.limits).status());
        ASSIGN_OR_RETURN(found.expired, ExpireJobs(rows, now_ms, kExpiredAtOnce, options_.limits));
        if (drop)
          RETURN_IF_ERROR(DropResults(rows, now_ms, kDroppedAtOnce, options_.limits).status());
        ASSIGN_OR_RETURN(found.counts, CountJobs(rows));
        return found;
      },
      [this](const Result<Found>& found) {
        bool busy = true;
        if (found.ok()) {
          for (const std::string& id : found->expired) NotifyWaiters(id);
          stats_.Update([&](JobStats& stats) {
            stats.queued = found->counts.queued;
            stats.running = found->counts.running;
            stats.result_bytes = found->counts.result_bytes;
            stats.expired += found->expired.size();
          });
          busy = found->counts.queued > 0 || found->counts.running > 0;
        }
        Claim();
        TickIn(busy ? options_.tick : kSweepInterval);
      });
}

store::Store::Work Jobs::Release() {
  for (const auto& [id, waiter] : std::exchange(waiters_, {})) waiter->done(Draining());
  for (auto& [id, running] : running_) running.call = nullptr;  // cancels it
  return [](Database& rows) { return ReleaseJobs(rows).status(); };
}

}  // namespace tutti::jobs
