#include "server/http/handlers/job_follow.h"

#include <chrono>

#include "services/jobs/jobs.h"

namespace tutti::http {

void JobFollow::Run(State state, Done done) {
  const auto self = shared_from_this();
  state_ = std::move(state);
  done_ = std::move(done);
  if (connection_.context().deps.jobs != nullptr) return Watch();
  done_(Status(StatusCode::kUnimplemented, "not_implemented", "this server keeps no jobs"));
}

void JobFollow::Watch() {
  connection_.context().deps.jobs->Follow(
      connection_.request_context().tenant(), id_, seen_,
      connection_.loop()->clock().Now() + std::chrono::seconds(protocol::kMaxWaitSeconds),
      connection_.Later([weak = weak_from_this()](const Result<protocol::JobView>& job) {
        if (const auto self = weak.lock()) self->OnJob(job);
      }));
}

void JobFollow::OnJob(const Result<protocol::JobView>& job) {
  if (!job.ok()) return done_(job.status());
  if (job->version > seen_) {
    seen_ = job->version;
    state_(*job);
  }
  if (protocol::Ended(job->state) && !job->past) return done_(OkStatus());
  Watch();
}

}  // namespace tutti::http
