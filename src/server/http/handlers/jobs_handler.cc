// The routes below /v1/jobs: get, list, wait for, cancel and replay durable jobs; pause and resume
// an owner's queue; stream the events of a job.
//
// A job's version is its entity tag and the number of its event.
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "protocol/job.h"
#include "protocol/json/json_writer.h"
#include "protocol/responses/conversations.h"
#include "protocol/responses/events.h"
#include "protocol/schema/query_parameters.h"
#include "server/http/connection/connection.h"
#include "server/http/handlers/event_stream.h"
#include "server/http/handlers/job_follow.h"
#include "server/http/handlers/json_handler.h"
#include "server/http/handlers/request_fields.h"
#include "services/jobs/jobs.h"

namespace tutti::http {
namespace {

using protocol::JobView;

class JobsHandler final : public JsonHandler {
 public:
  JobsHandler(RouteId route, Connection& connection) : JsonHandler(connection), route_(route) {}

  void Start() override {
    switch (route_) {
      case RouteId::kJobs:
        return List();
      case RouteId::kJobsPause:
        return Pause(true);
      case RouteId::kJobsResume:
        return Pause(false);
      case RouteId::kJobCancel:
        return Jobs().Cancel(Owner(), Id(), ThenJob());
      case RouteId::kJobReplay:
        return Jobs().Replay(Owner(), Id(), ThenJob());
      default:
        return Look();
    }
  }

 private:
  void List() {
    const auto asked = TakeQuery(&protocol::ParseJobListQuery);
    if (!asked.ok()) return connection_.RespondError(asked.status());
    jobs::JobQuery query;
    if (!asked->status.empty()) {
      const auto states = protocol::StatesNamed(asked->status);
      query.states.assign(states.begin(), states.end());
    }
    query.after = asked->page.after;
    query.ascending = asked->page.ascending;
    query.limit = asked->page.limit;
    Jobs().List(Owner(), query, ThenPage<JobView>(query.limit, &protocol::JobListJson));
  }

  void Pause(bool paused) {
    Jobs().Pause(Owner(), paused, ThenDone([paused] {
                   return protocol::JsonWriter()
                       .BeginObject()
                       .Member("object", "job_queue")
                       .Member("paused", paused)
                       .EndObject()
                       .Take();
                 }));
  }

  void Look() {
    const auto asked = TakeQuery(&protocol::ParseJobQuery);
    if (!asked.ok()) return connection_.RespondError(asked.status());
    if (asked->wait_s == 0) return Jobs().Get(Owner(), Id(), ThenJob());
    Jobs().Watch(Owner(), Id(), jobs::Jobs::kUntilEnd,
                 connection_.loop()->clock().Now() + std::chrono::seconds(asked->wait_s),
                 ThenJob());
  }

  jobs::Jobs::Callback ThenJob() {
    return connection_.Later([this](const Result<JobView>& job) { OnJob(job); });
  }

  void OnJob(const Result<JobView>& job) {
    if (!job.ok()) return connection_.RespondError(job.status());
    HeaderList headers = JsonHeaders(ignored_);
    const std::string tag = protocol::EntityTag(job->version);
    headers.emplace_back("ETag", tag);
    const std::string* const known = connection_.request().Find("if-none-match");
    if (route_ == RouteId::kJob && known != nullptr && *known == tag)
      return connection_.Respond(304, std::move(headers), "");
    if (!protocol::Ended(job->state)) headers.emplace_back("Retry-After", "1");
    connection_.Respond(200, std::move(headers), protocol::JobJson(*job));
  }

  jobs::Jobs& Jobs() { return *connection_.context().deps.jobs; }

  const RouteId route_;
};

// GET /v1/jobs/{id}/events: each state that is seen as an event with the job's version as its
// number, the last of which has the result. A late reader gets the current state, or
// with starting_after the states after that number.
class JobEventsHandler final : public Handler {
 public:
  explicit JobEventsHandler(Connection& connection)
      : connection_(connection), events_(connection) {}

  void Start() override {
    protocol::IgnoredFields ignored;
    const auto asked = ReadQuery(connection_, &protocol::ParseJobQuery, &ignored);
    if (!asked.ok()) return connection_.RespondError(asked.status());
    int64_t seen = asked->starting_after.value_or(-1);
    // A browser that reopens the stream sends the last number it has seen.
    if (const std::string* last = connection_.request().Find("last-event-id"); last != nullptr) {
      if (const auto number = protocol::ReadWholeNumber(*last)) seen = *number;
    }
    events_.Open(connection_.context().options.keepalive.value_or(std::chrono::seconds(15)),
                 ignored.names());
    job_ = std::make_shared<JobFollow>(connection_,
                                       connection_.request_context().decision().argument, seen);
    job_->Run(
        [this](const JobView& job) {
          events_.Show("id: " + std::to_string(job.version) + "\nevent: " +
                       protocol::JobEventType(job) + "\ndata: " + protocol::JobEvent(job) + "\n\n");
        },
        [this](const Status& status) { return status.ok() ? events_.End() : Fail(status); });
  }

  TimePoint Due() const override { return events_.KeepAliveDue(); }
  void OnTimer(TimePoint now) override { events_.KeepAlive(now); }

 private:
  void Fail(const Status& status) {
    if (!events_.begun()) return connection_.RespondError(status);
    events_.Show("event: error\ndata: " + protocol::ErrorEvent(std::nullopt, status, "") + "\n\n");
    events_.End();
  }

  Connection& connection_;
  EventStream events_;
  std::shared_ptr<JobFollow> job_;
};

}  // namespace

std::unique_ptr<Handler> MakeJobsHandler(RouteId route, Connection& connection) {
  if (route == RouteId::kJobEvents) return std::make_unique<JobEventsHandler>(connection);
  return std::make_unique<JobsHandler>(route, connection);
}

}  // namespace tutti::http
