// Jobs: durable queue of calls that are accepted now and answered later, across restarts.
//
//                      Claim()         Save(): the call has ended
//   Submit() --> queued -----> running --------------------------> succeeded, failed, dead,
//                  ^              |                                cancelled or expired
//                  +--------------+
//        Requeue(): a refusal, or a failure with attempts left
//        SweepLeases(): the lease has expired, with attempts left; otherwise dead
//        ReleaseLeases(): the process stops
//
//   queued --> cancelled     CancelQueued(), by its owner
//   queued --> expired       ExpireJobs(): its deadline has passed
//   failed, dead --> queued  Replay(), by its owner, with all attempts
//
// failed: the error would repeat. dead: no attempts left.
//
// An accepted job is durable. It waits for its time and its turn, runs as a batch-priority request
// through api::Inference, and ends exactly once. A running job has a lease, which Heartbeat()
// renews, and every update carries the epoch of its claim, so that a runner that has lost its lease
// changes nothing. background/retry.h has the retry decision.
//
// All work happens on one strand. Only ReleaseLeases() blocks; every `done` is called later, on the
// strand. Thread-safe. The inference, store and clock must outlive it. Long, because each arrow
// above is a call over the same queue.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/inference.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/status.h"
#include "protocol/job.h"
#include "services/background/queue_runner.h"
#include "services/background/retry.h"
#include "services/calls/buffered_request.h"
#include "services/jobs/job_rows.h"
#include "store/store.h"

namespace tutti::jobs {

// EndRate: average time between the ends of jobs while others wait; for estimates of waiting times.
//
// Concurrent jobs end in bursts, so the time between two single ends means nothing. The rate is
// therefore averaged over the last `window` ends, or, before there are that many, since the first
// job began. Not synchronised.
class EndRate {
 public:
  // Should be several times the number of concurrent jobs.
  explicit EndRate(size_t window) : window_(window) {}

  // Called when a job begins; only the first call after Idle() counts.
  void Begin(TimePoint now) {
    if (since_ == TimePoint::min()) since_ = now;
  }
  void End(TimePoint now) {
    if (since_ == TimePoint::min()) return;  // no Begin() came before
    ends_.push_back(now);
    if (ends_.size() > window_) {
      since_ = ends_.front();
      ends_.pop_front();
    }
    ms_per_end_ = ToMillis(now - since_) / static_cast<double>(ends_.size());
  }
  // Called when no job runs or waits. The last rate stays valid until there are new ends.
  void Idle() {
    since_ = TimePoint::min();
    ends_.clear();
  }

  double ms_per_end() const { return ms_per_end_; }  // 0: not known

 private:
  const size_t window_;
  TimePoint since_ = TimePoint::min();
  std::deque<TimePoint> ends_;
  double ms_per_end_ = 0;
};

// A job to submit. calls::BufferedRequest::Parse() must have accepted its body.
struct NewJob {
  std::string owner = {};  // tenant
  api::CallerRef caller = {};
  calls::CallKind kind = calls::CallKind::kChat;
  std::string body = {};
  std::string idempotency_key = {};         // empty: none
  std::string body_hash = {};               // with a key: idempotency::CanonicalBodyHash()
  std::optional<int64_t> run_at_ms = {};    // unix; absent: now
  std::optional<int64_t> deadline_ms = {};  // unix; absent: Options::window from now
  std::string webhook = {};                 // URL for the event at its end; empty: none
};

// Counts since the start of the process. queued, running and result_bytes are current values, at
// most a second old while jobs wait.
struct JobStats {
  int64_t queued = 0, running = 0, result_bytes = 0;
  uint64_t accepted = 0;
  // Ends of attempts. put_off: the refusal passes by itself, or the server stops.
  uint64_t completed = 0, failed = 0, cancelled = 0, expired = 0, dead = 0, retried = 0,
           put_off = 0;
  uint64_t fenced = 0;  // ends that came when the lease was lost
};

class Jobs final : public background::QueueRunner {
 public:
  struct Options {
    int64_t slots = 16;  // that run at once
    int64_t max_attempts = 3;
    Duration lease = std::chrono::seconds(30), heartbeat = std::chrono::seconds(10);
    Duration window = std::chrono::hours(24);  // default deadline
    Duration tick = std::chrono::seconds(1);   // interval of checks for due and late jobs
    JobLimits limits;
    // OK if the URL is allowed as webhook; null: no webhooks.
    std::function<Status(const std::string& url)> webhook = nullptr;
  };
  // `unix_ms`: the wall clock. `caller` re-resolves the caller of an accepted job; its error fails
  // the job (for example when the key has been revoked).
  using CallerNow = std::function<Result<api::CallerRef>(const api::CallerRef& accepted)>;
  Jobs(const Options& options, api::Inference& inference, store::Store& store, const Clock& clock,
       std::function<int64_t()> unix_ms, CallerNow caller);
  ~Jobs() override;

  using Callback = std::function<void(Result<protocol::JobView>)>;

  // Calls `done` when the job is durable. `again`: duplicate idempotency key, and the existing job
  // is returned. Errors: model_not_found, invalid_value (webhook), idempotency_key_mismatch,
  // tenant_queue_full, overloaded, storage_full, storage_error; draining (after ReleaseLeases()).
  void Submit(NewJob job, std::function<void(Result<protocol::JobView>, bool again)> done);
  // Errors: not_found (also another owner's), expired (its result is not kept any more).
  void Get(const std::string& owner, const std::string& id, Callback done);
  // Calls `done` when the job's version exceeds `version`, when it has ended, or at `until`.
  // kUntilEnd waits for the end only. Errors: as Get; draining (the server stops while a call
  // waits).
  static constexpr int64_t kUntilEnd = INT64_MAX;
  void Watch(const std::string& owner, const std::string& id, int64_t version, TimePoint until,
             Callback done);
  // Like Watch, but returns the first version above `version` that is still known, with `past` set
  // if it is not the current one. -1: the current version, at once.
  void Follow(const std::string& owner, const std::string& id, int64_t version, TimePoint until,
              Callback done);
  // Lists `query.limit` + 1 jobs if there are more than the limit. Errors: not_found (`after`).
  void List(const std::string& owner, JobQuery query,
            std::function<void(Result<std::vector<protocol::JobView>>)> done);
  // Cancels a job and keeps its partial result; calls `done` when it has ended. Cancelling again
  // changes nothing. Errors: as Get; already_finished (ended otherwise).
  void Cancel(const std::string& owner, const std::string& id, Callback done);
  // Requeues a failed job with all of its attempts. Errors: as Get; already_finished (it did not
  // fail).
  void Replay(const std::string& owner, const std::string& id, Callback done);
  // Pauses or resumes an owner: no job of a paused owner begins; running ones continue. Durable.
  void Pause(const std::string& owner, bool paused, std::function<void(Status)> done);

  // Recovers the jobs of the previous process and begins to run jobs. Called once, when the models
  // are loaded.
  // After ReleaseLeases() no job is accepted, and Watch() calls that wait have ended with draining.
  void Start();

  JobStats stats() const;

 private:
  struct Running {
    JobRow row;
    std::unique_ptr<calls::BufferedRequest> call;
    bool cancelled = false;  // by its owner
  };
  struct Waiter {
    std::string owner;
    int64_t version = 0;
    TimePoint until;
    Callback done;
    bool each = false;  // version by version
  };

  void CountEnd(JobState state, bool mine);
  // All functions below run on the strand.
  void Claim();
  void OnClaimed(std::vector<JobRow> claimed, bool full);
  void Begin(JobRow row);
  void Pump() override;
  void End(JobRow row, calls::BufferedRequest::Answer answer, bool cancelled);
  void Save(JobRow row);
  void Requeue(const JobRow& row, const background::RetryDecision& decision);
  void Forget(const JobRow& row);
  void Heartbeat();
  bool ClockHasJumped(TimePoint now);
  void Tick() override;
  store::Store::Work Release() override;
  void NotifyWaiters(const std::string& id);
  void AnswerOrWait(const std::string& id, const std::shared_ptr<Waiter>& waiter);
  // On the store's thread; with where it stands in the queue.
  Result<protocol::JobView> Load(store::Database& rows, const std::string& owner,
                                 const std::string& id) const;
  Result<protocol::JobView> LoadNext(store::Database& rows, const std::string& owner,
                                     const std::string& id, int64_t version) const;
  void Overlay(protocol::JobView* view) const;  // adds what the store does not have yet

  const Options options_;
  api::Inference& inference_;
  const CallerNow caller_;
  // Used on the strand only.
  background::RetryPolicy retry_;
  bool claiming_ = false, claim_again_ = false;
  TimePoint seen_;  // when the wall clock was last read, and its value
  int64_t seen_unix_ms_;
  TimePoint next_heartbeat_ = TimePoint::min();
  std::optional<std::string> claimed_last_;  // owner; on the store's thread, one claim at a time
  std::map<std::string, Running> running_;   // by id
  std::multimap<std::string, std::shared_ptr<Waiter>> waiters_;
  EndRate ends_;  // for estimates of waiting times
  Synchronized<JobStats> stats_;
};

}  // namespace tutti::jobs
