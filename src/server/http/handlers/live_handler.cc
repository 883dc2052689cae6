// GET /admin/state, GET /admin/events, GET /admin/requests/{id}: what the engines do now, and what
// a request went through; POST /admin/requests/{id}/cancel ends it (docs/live.md).
//
// The engines take a snapshot before their next step; until then the handler looks every 10 ms. It
// waits 500 ms at most, and then shows the last snapshots, which have their age. Texts are made on
// a helper thread. A watcher that has not read an event gets no other one before it has, and then
// the newest state.
#include <algorithm>
#include <chrono>
#include <ctime>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "protocol/json/json_writer.h"
#include "protocol/live_state.h"
#include "protocol/schema/query_parameters.h"
#include "server/http/connection/connection.h"
#include "server/http/handlers/body_work.h"
#include "server/http/handlers/event_stream.h"
#include "server/http/handlers/live_text.h"
#include "server/http/handlers/request_fields.h"
#include "services/auth/authenticator.h"

namespace tutti::http {
namespace {

constexpr Duration kPoll = std::chrono::milliseconds(10);
constexpr Duration kPatience = std::chrono::milliseconds(500);
// How soon a stream notices a drain, a revoked key and a reader that has caught up.
constexpr Duration kAttention = std::chrono::milliseconds(250);
constexpr int kMaxWatchers = 16;

// Has a place among the watchers of a server.
class WatcherPlace {
 public:
  ~WatcherPlace() {
    if (watchers_ != nullptr) watchers_->fetch_sub(1);
  }
  bool Take(std::atomic<int>* watchers) {
    if (watchers->fetch_add(1) >= kMaxWatchers) {
      watchers->fetch_sub(1);
      return false;
    }
    watchers_ = watchers;
    return true;
  }

 private:
  std::atomic<int>* watchers_ = nullptr;
};

class LiveHandler final : public Handler {
 public:
  LiveHandler(RouteId route, Connection& connection)
      : route_(route),
        connection_(connection),
        context_(connection.context()),
        events_(connection) {}

  void Start() override {
    if (route_ == RouteId::kRequestTrace || route_ == RouteId::kRequestCancel) {
      const auto traces = Traces();
      if (traces.empty()) {
        return connection_.RespondError(
            NotFound("not_found", "no trace of this request; the last " +
                                      std::to_string(api::RequestTraces::kKept) + " are kept"));
      }
      if (route_ == RouteId::kRequestCancel) return Cancel(traces);
    }
    if (route_ == RouteId::kLiveEvents && !Open()) return;
    if (route_ == RouteId::kLiveEvents && connection_.request_context().decision().head_only)
      return events_.End();
    Ask(Now());
  }

  TimePoint Due() const override {
    return route_ == RouteId::kLiveEvents ? std::min(next_look_, events_.KeepAliveDue())
                                          : next_look_;
  }

  void OnTimer(TimePoint now) override {
    if (events_.begun()) {
      if (const Status over = Over(); !over.ok()) return End(over);
      events_.KeepAlive(now);
    }
    if (now < next_look_) return;
    next_look_ = now + kAttention;
    if (writing_) return;
    if (asking_) {
      if (HasSnapshots() || now >= asked_at_ + kPatience) return Write();
      context_.deps.live->Ask();  // the time for it may have come only now
      next_look_ = now + kPoll;
    } else if (now < next_event_) {
      next_look_ = std::min(next_look_, next_event_);
    } else if (connection_.unsent() == 0) {
      Ask(now);
    }
  }

 private:
  TimePoint Now() const { return connection_.loop()->clock().Now(); }

  std::vector<std::shared_ptr<const api::RequestTrace>> Traces() const {
    if (context_.deps.traces == nullptr) return {};
    return context_.deps.traces->Find(connection_.request_context().decision().argument);
  }

  void Cancel(const std::vector<std::shared_ptr<const api::RequestTrace>>& traces) {
    const auto cancelled = std::count_if(traces.begin(), traces.end(),
                                         [](const auto& each) { return each->Cancel(); });
    if (cancelled == 0) {
      return connection_.RespondError(
          Status(StatusCode::kAborted, "already_finished",
                 "the request has ended, or no engine of this process has it"));
    }
    Respond(protocol::JsonWriter()
                .BeginObject()
                .Member("object", "request.cancel")
                .Member("id", connection_.request_context().decision().argument)
                .Member("cancelled", static_cast<int64_t>(cancelled))
                .EndObject()
                .Take());
  }

  // Begins the stream. False: it was refused.
  bool Open() {
    protocol::IgnoredFields ignored;
    const auto asked = ReadQuery(connection_, &protocol::ParseLiveQuery, &ignored);
    if (!asked.ok()) {
      connection_.RespondError(asked.status());
      return false;
    }
    if (!place_.Take(&context_.watchers)) {
      connection_.RespondError(
          Unavailable("overloaded", std::to_string(kMaxWatchers) +
                                        " watchers are connected, which is the limit; close one or "
                                        "poll /admin/state"));
      return false;
    }
    interval_ = asked->interval;
    events_.Open(context_.options.keepalive.value_or(std::chrono::seconds(15)), ignored.names());
    return true;
  }

  // Why the stream ends now.
  Status Over() const {
    if (context_.draining.load()) return Draining();
    const auth::PrincipalRef& who = connection_.request_context().decision().principal;
    if (who == nullptr) return OkStatus();
    return context_.deps.authority->StillValid(*who, std::time(nullptr));
  }

  void End(const Status& why) {
    next_look_ = TimePoint::max();
    events_.Show(
        "event: end\ndata: " +
        protocol::JsonWriter().BeginObject().Member("reason", why.reason()).EndObject().Take() +
        "\n\n");
    events_.End();
  }

  void Ask(TimePoint now) {
    asking_ = true;
    asked_at_ = now;
    next_event_ = now + interval_;
    next_look_ = now + kPoll;
    if (context_.deps.live != nullptr) context_.deps.live->Ask();
    connection_.Reschedule();
  }

  bool HasSnapshots() const {
    return context_.deps.live == nullptr || context_.deps.live->TakenSince(asked_at_);
  }

  void Write() {
    asking_ = false;
    writing_ = true;
    if (route_ == RouteId::kRequestTrace) {
      return OnHelper(
          connection_, context_.json_helper,
          [id = connection_.request_context().decision().argument, traces = Traces(),
           live = context_.deps.live, clock = context_.deps.clock] {
            const api::LiveState steps = live == nullptr ? api::LiveState() : live->Read();
            return protocol::TraceBody(id, traces, steps, clock->Now());
          },
          [this](std::string body) { Respond(std::move(body)); });
    }
    OnHelper(
        connection_, context_.json_helper,
        [context = &context_, seen = seen_] { return WriteLiveText(*context, seen); },
        [this](LiveText text) { OnState(std::move(text)); });
  }

  void OnState(LiveText text) {
    writing_ = false;
    if (route_ == RouteId::kLiveState) return Respond(std::move(text.json));
    seen_ = std::move(text.seen);
    events_.Show("id: " + std::to_string(++event_) + "\nevent: state\ndata: " + text.json + "\n\n");
    next_look_ = std::min(next_event_, Now() + kAttention);
    connection_.Reschedule();
  }

  void Respond(std::string body) {
    next_look_ = TimePoint::max();
    connection_.Respond(200, {{"Content-Type", "application/json"}, {"Cache-Control", "no-store"}},
                        std::move(body));
  }

  const RouteId route_;
  Connection& connection_;
  ServerContext& context_;
  EventStream events_;
  WatcherPlace place_;
  Duration interval_{0};
  SeenSteps seen_;
  uint64_t event_ = 0;
  bool asking_ = false;   // the engines' snapshots are awaited
  bool writing_ = false;  // a helper writes the text
  TimePoint asked_at_{}, next_event_{};
  TimePoint next_look_ = TimePoint::max();
};

}  // namespace

std::unique_ptr<Handler> MakeLiveHandler(RouteId route, Connection& connection) {
  return std::make_unique<LiveHandler>(route, connection);
}

}  // namespace tutti::http
