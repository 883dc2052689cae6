// Jobs: calls that are accepted now and answered later, whatever becomes of the process in between.
//
// What is accepted is durable. A job then waits for its time and its turn, runs as work of the
// batch class through the same waist as any request, and ends once: with a result, an error, or as
// cancelled or expired. Whoever runs it holds a lease, and every word of it carries the epoch of
// its claim, so that who has lost the lease changes nothing. An attempt is spent by a failure of
// ours and by the death of the process, not by a refusal that passes by itself, and not by a drain.
//
// All of it happens on a strand of its own; no call here waits but GiveBack(), and every `done` is
// called on the strand, later. Thread-safe. The inference, store and clock must outlive it.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/inference.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/random.h"
#include "base/status.h"
#include "services/calls/whole_call.h"
#include "services/jobs/end_rate.h"
#include "services/jobs/job_rows.h"
#include "services/responses/strand.h"
#include "store/store.h"
#include "wire/job.h"

namespace tutti::jobs {

// What is to be done. The body has been read by calls::WholeCall::Parse() without an error.
struct NewJob {
  std::string owner = {};  // tenant
  api::CallerRef caller = {};
  calls::CallKind kind = calls::CallKind::kChat;
  std::string body = {};
  std::string idempotency_key = {};         // empty: none
  std::string body_print = {};              // with such a key: calls::PrintOf() the body
  std::optional<int64_t> run_at_ms = {};    // unix; absent: now
  std::optional<int64_t> deadline_ms = {};  // unix; absent: Options::window from now
  std::string webhook = {};                 // URL that is told of its end; empty: none
};

// Since the start; the first three as of the last look, a second ago at most while any waits.
struct JobStats {
  int64_t queued = 0, running = 0, result_bytes = 0;
  uint64_t accepted = 0;
  // Ends of attempts. put_off: the refusal passes by itself, or the server stops.
  uint64_t completed = 0, failed = 0, cancelled = 0, expired = 0, dead = 0, retried = 0,
           put_off = 0;
  uint64_t fenced = 0;  // ends that came when the lease was lost
};

class Jobs {
 public:
  struct Options {
    int64_t slots = 16;  // that run at once
    int64_t max_attempts = 3;
    Duration lease = std::chrono::seconds(30), beat = std::chrono::seconds(10);
    // Before the second attempt, the third, and any further one; a quarter more or less.
    std::array<Duration, 3> backoff = {std::chrono::seconds(1), std::chrono::seconds(5),
                                       std::chrono::seconds(30)};
    Duration window = std::chrono::hours(24);  // the deadline of who names none
    Duration tick = std::chrono::seconds(1);   // looks for what is due or late
    JobLimits limits;
    // Whether a job's end may be told to that URL; null: no webhooks.
    std::function<Status(const std::string& url)> webhook = nullptr;
  };
  // `unix_ms`: the wall clock. `caller`: who has that credential now, and may still use what it is
  // for; what was accepted for somebody else fails with its error.
  using CallerNow = std::function<Result<api::CallerRef>(const api::CallerRef& accepted)>;
  Jobs(const Options& options, api::Inference& inference, store::Store& store, const Clock& clock,
       std::function<int64_t()> unix_ms, CallerNow caller);
  ~Jobs();
  Jobs(const Jobs&) = delete;
  Jobs& operator=(const Jobs&) = delete;

  using Seen = std::function<void(Result<wire::JobView>)>;

  // Once it is durable; `again`: the key was known, and it is the job of then. Errors:
  // model_not_found, invalid_value (webhook), idempotency_key_mismatch, tenant_queue_full,
  // overloaded, storage_full, storage_error; draining (from GiveBack() on).
  void Submit(NewJob job, std::function<void(Result<wire::JobView>, bool again)> done);
  // Errors: not_found (also another owner's), expired (its result is not kept any more).
  void Get(const std::string& owner, const std::string& id, Seen done);
  // When its version is above that, or `until` has come: a version that no job has waits for
  // nothing but the end. Errors: as Get; draining (who waited when nothing more runs here).
  static constexpr int64_t kUntilEnd = INT64_MAX;
  void Watch(const std::string& owner, const std::string& id, int64_t version, TimePoint until,
             Seen done);
  // The same of each version in turn: what the job was in the first one above `version` that is
  // still known, `past` unless it is that now. -1: as it is now.
  void Follow(const std::string& owner, const std::string& id, int64_t version, TimePoint until,
              Seen done);
  // One more than `query.limit` where there are more. Errors: not_found (`after`).
  void List(const std::string& owner, JobQuery query,
            std::function<void(Result<std::vector<wire::JobView>>)> done);
  // Ends it with what it has; `done` when it has ended. Once more changes nothing. Errors: as Get;
  // already_finished, in another way.
  void Cancel(const std::string& owner, const std::string& id, Seen done);
  // One that failed begins anew, with all its attempts. Errors: as Get; already_finished (it did
  // not fail).
  void Replay(const std::string& owner, const std::string& id, Seen done);
  // Nothing of the owner's is begun while it is paused; what runs goes on. Durable.
  void Pause(const std::string& owner, bool paused, std::function<void(Status)> done);

  // Takes up what the process before left, and begins. Once, when the models are loaded.
  void Start();
  // Before a drain: what runs is given back, durably, without spending an attempt; nothing begins
  // any more, and who waits for a job is told so. Waits for the disk.
  void GiveBack();

  JobStats stats() const;
  const std::shared_ptr<responses::Strand>& strand() const { return strand_; }

 private:
  struct Running {
    JobRow row;
    std::unique_ptr<calls::WholeCall> call;
    bool cancelled = false;  // by its owner
  };
  struct Waiter {
    std::string owner;
    int64_t version = 0;
    TimePoint until;
    Seen done;
    bool each = false;  // version by version
  };

  template <typename Change>
  void Count(const Change& change) {
    const MutexLock lock(mutex_);
    change(stats_);
  }
  void CountEnd(JobState state, bool mine);
  // Of the strand.
  void Claim();
  void OnClaimed(std::vector<JobRow> claimed, bool full);
  void Begin(JobRow row);
  void Pump();
  void End(JobRow row, calls::WholeCall::Answer answer, bool cancelled);
  void Save(JobRow row);
  void Requeue(const JobRow& row, Duration in, bool spent);
  void Forget(const JobRow& row);
  void Beat();
  bool ClockHasJumped(TimePoint now);
  void Tick();
  void TickIn(Duration wait);
  void Changed(const std::string& id);
  void Tell(const std::string& id, const std::shared_ptr<Waiter>& waiter);
  Duration Backoff(int64_t attempt);
  // On the store's thread; with where it stands in the queue.
  Result<wire::JobView> Load(store::Database& rows, const std::string& owner,
                             const std::string& id) const;
  Result<wire::JobView> LoadNext(store::Database& rows, const std::string& owner,
                                 const std::string& id, int64_t version) const;
  void Overlay(wire::JobView* view) const;  // what is newer here than in the store

  const Options options_;
  api::Inference& inference_;
  store::Store& store_;
  const Clock& clock_;
  const std::function<int64_t()> unix_ms_;
  const CallerNow caller_;
  std::atomic<bool> takes_no_more_{false};
  // Of the strand.
  Random random_;
  bool started_ = false, stopped_ = false, claiming_ = false, claim_again_ = false;
  TimePoint next_tick_ = TimePoint::max();
  TimePoint seen_;  // when the wall clock was last looked at, and what it said
  int64_t seen_unix_ms_;
  TimePoint next_beat_ = TimePoint::min(), next_drop_ = TimePoint::min();
  std::optional<std::string> claimed_last_;  // owner; on the store's thread, one claim at a time
  std::map<std::string, Running> running_;   // by id
  std::multimap<std::string, std::shared_ptr<Waiter>> waiters_;
  EndRate ends_;  // what the estimate of a wait is made of
  mutable Mutex mutex_;
  JobStats stats_ GUARDED_BY(mutex_);
  const std::shared_ptr<responses::Strand> strand_;  // last: its thread ends before what it uses
};

}  // namespace tutti::jobs
