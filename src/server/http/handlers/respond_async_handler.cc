// Prefer: respond-async (RFC 7240) on a route that generates or embeds: the call is accepted as a
// durable job, and the answer is 202 with the job's Location; or the job's result, if it comes
// within the `wait` of the same field.
#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/clock.h"
#include "protocol/job.h"
#include "protocol/schema/query_parameters.h"
#include "server/http/connection/connection.h"
#include "server/http/handlers/body_work.h"
#include "server/http/handlers/request_fields.h"
#include "services/idempotency/keys.h"
#include "services/jobs/jobs.h"

namespace tutti::http {
namespace {

protocol::Preference PreferenceOf(const HttpRequest& request) {
  return protocol::ReadPrefer(request.Joined("prefer"));
}

// Reads Unix seconds from the header field `name`; nothing if it is absent.
Result<std::optional<int64_t>> ReadMoment(const HttpRequest& request, const std::string& name) {
  const std::string* const field = request.Find(name);
  if (field == nullptr) return std::optional<int64_t>();
  const std::optional<int64_t> seconds = protocol::ReadWholeNumber(*field);
  constexpr int64_t kMost = int64_t{1} << 40;
  if (!seconds.has_value() || *seconds > kMost || request.Count(name) > 1)
    return BadValue(name, name + " must be a time in whole seconds since 1970");
  return std::optional(*seconds * 1000);
}

// Reads the URL to call when the job ends; the jobs service checks whether it is allowed.
Result<std::string> ReadWebhook(const HttpRequest& request) {
  const std::string* const field = request.Find("x-tutti-webhook");
  if (field == nullptr) return std::string();
  if (field->empty() || request.Count("x-tutti-webhook") > 1)
    return BadValue("x-tutti-webhook", "X-Tutti-Webhook must be one URL");
  return *field;
}

class RespondAsyncHandler final : public Handler {
 public:
  RespondAsyncHandler(calls::CallKind kind, Connection& connection)
      : connection_(connection), wait_(PreferenceOf(connection.request()).wait) {
    job_.kind = kind;
  }

  void Start() override {
    if (const Status status = ReadFields(); !status.ok()) return connection_.RespondError(status);
    const calls::CallContext context{.caller = connection_.request_context().caller(),
                                     .parse = connection_.request_context().parse_options()};
    api::Inference& inference = *connection_.context().deps.inference;
    WithBody(
        connection_, kInlineJsonBytes, connection_.context().json_helper,
        [kind = job_.kind, keyed = !job_.idempotency_key.empty(), context,
         &inference](std::string_view body) -> Result<Understood> {
          RETURN_IF_ERROR(calls::BufferedRequest::Parse(kind, body, context, inference).status());
          return Understood{std::string(body),
                            keyed ? idempotency::CanonicalBodyHash(body) : std::string()};
        },
        [this](Result<Understood> body) { OnUnderstood(std::move(body)); });
  }

 private:
  struct Understood {
    std::string body, body_hash;  // body_hash: empty without a key
  };

  Status ReadFields() {
    const HttpRequest& request = connection_.request();
    ASSIGN_OR_RETURN(job_.idempotency_key, ReadIdempotencyKey(request));
    ASSIGN_OR_RETURN(job_.run_at_ms, ReadMoment(request, "x-tutti-run-at"));
    ASSIGN_OR_RETURN(job_.deadline_ms, ReadMoment(request, "x-tutti-deadline"));
    ASSIGN_OR_RETURN(job_.webhook, ReadWebhook(request));
    ASSIGN_OR_RETURN(const TimePoint deadline, HeaderDeadline(connection_));
    if (deadline != TimePoint::max()) {
      const Duration left = deadline - connection_.loop()->clock().Now();
      const int64_t by = UnixMillis() + WholeMillis(left);
      job_.deadline_ms = std::min(job_.deadline_ms.value_or(by), by);
    }
    const int64_t begin = std::max(job_.run_at_ms.value_or(0), UnixMillis());
    if (job_.deadline_ms.has_value() && *job_.deadline_ms <= begin) {
      return BadValue("x-tutti-deadline", "the job's deadline is over before it may begin");
    }
    return OkStatus();
  }

  void OnUnderstood(Result<Understood> body) {
    if (!body.ok()) return connection_.RespondError(body.status());
    job_.owner = connection_.request_context().tenant();
    job_.caller = connection_.request_context().caller();
    job_.body = std::move(body->body);
    job_.body_hash = std::move(body->body_hash);
    Jobs().Submit(std::move(job_),
                  connection_.Later([this](const Result<protocol::JobView>& job, bool again) {
                    OnAccepted(job, again);
                  }));
  }

  void OnAccepted(const Result<protocol::JobView>& job, bool again) {
    if (!job.ok()) return connection_.RespondError(job.status());
    again_ = again;
    accepted_ = *job;
    if (!wait_.has_value() || wait_->count() == 0) return Accepted(accepted_);
    const auto most = std::chrono::seconds(protocol::kMaxWaitSeconds);
    Jobs().Watch(
        connection_.request_context().tenant(), job->id, jobs::Jobs::kUntilEnd,
        connection_.loop()->clock().Now() + std::min(*wait_, most),
        connection_.Later([this](const Result<protocol::JobView>& seen) { OnWaited(seen); }));
  }

  void OnWaited(const Result<protocol::JobView>& job) {
    if (!job.ok()) return Accepted(accepted_);  // a failed wait leaves the job accepted
    if (!protocol::Ended(job->state)) return Accepted(*job);
    if (job->state != protocol::JobState::kSucceeded) {
      return connection_.RespondError(
          job->error.empty() ? Status(StatusCode::kCancelled, "cancelled", "the job was cancelled")
                             : protocol::JobErrorOf(job->error),
          Connection::Origin::kInference);
    }
    HeaderList headers = JsonHeaders({});
    AddCommon(*job, &headers);
    connection_.Respond(200, std::move(headers), job->result);
  }

  void Accepted(const protocol::JobView& job) {
    HeaderList headers = JsonHeaders({});
    AddCommon(job, &headers);
    const int64_t seconds = (job.eta_ms.value_or(1000) + 999) / 1000;
    headers.emplace_back("Retry-After", std::to_string(std::clamp<int64_t>(seconds, 1, 60)));
    connection_.Respond(202, std::move(headers), protocol::JobJson(job));
  }

  void AddCommon(const protocol::JobView& job, HeaderList* headers) const {
    headers->emplace_back("Location", "/v1/jobs/" + job.id);
    headers->emplace_back("Preference-Applied", "respond-async");
    if (again_) headers->emplace_back("Idempotency-Replayed", "true");
  }

  jobs::Jobs& Jobs() { return *connection_.context().deps.jobs; }

  Connection& connection_;
  const std::optional<std::chrono::seconds> wait_;
  jobs::NewJob job_;
  protocol::JobView accepted_;  // as of its acceptance
  bool again_ = false;
};

}  // namespace

bool WantsJob(const Route& route, Connection& connection) {
  const std::optional<calls::CallKind> kind = CallKindOf(route.id);
  return connection.context().deps.jobs != nullptr && kind.has_value() &&
         calls::Deferrable(*kind) && PreferenceOf(connection.request()).respond_async;
}

std::unique_ptr<Handler> MakeRespondAsyncHandler(RouteId route, Connection& connection) {
  return std::make_unique<RespondAsyncHandler>(*CallKindOf(route), connection);
}

}  // namespace tutti::http
