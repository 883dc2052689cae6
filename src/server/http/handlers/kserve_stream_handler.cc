// POST .../generate_stream of KServe v2: one request, its responses as server-sent events.
//
// A failure before the stream has begun (event_stream.h) is an ordinary HTTP error; later ones are
// an event, `data: {"error": text}`, the last.
#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "protocol/error.h"
#include "protocol/kserve/json/generate.h"
#include "server/http/connection/connection.h"
#include "server/http/handlers/body_work.h"
#include "server/http/handlers/event_stream.h"
#include "server/http/handlers/kserve_run.h"

namespace tutti::http {
namespace {

class KserveStreamHandler final : public Handler {
 public:
  explicit KserveStreamHandler(Connection& connection)
      : connection_(connection), clock_(connection.loop()->clock()), events_(connection) {}

  ~KserveStreamHandler() override { connection_.WatchStreams(false); }

  void Start() override {
    parse_start_ = clock_.Now();
    const Result<KserveHead> head = KserveHead::Of(RouteId::kKserveGenerateStream, connection_);
    if (!head.ok()) return connection_.RespondError(head.status());
    WithBody(
        connection_, head->inline_bytes(), connection_.context().json_helper,
        [head = *head](std::string_view body) { return KserveRun::Begin(head, body); },
        [this](KserveRun run) { OnBegun(std::move(run)); });
  }

  void Pump() override {
    std::string frames;
    while (run_.execution != nullptr && events_.HasRoom(frames.size())) {
      Result<std::optional<kserve::InferResponse>> next = run_.execution->Next();
      if (!next.ok()) return Fail(next.status(), Connection::Origin::kInference, &frames);
      if (!next->has_value()) break;
      const kserve::InferResponse& response = **next;
      if (!response.empty || run_.empty_final) {
        const Result<std::string> object =
            kserve::GenerateBody(run_.asked.request.id, run_.model, response);
        if (!object.ok()) return Fail(object.status(), Connection::Origin::kServer, &frames);
        AppendEvent(*object, &frames);
      }
      if (!response.final) continue;
      run_.execution.reset();
      connection_.WatchStreams(false);
      events_.Show(frames);
      return events_.End();
    }
    events_.Show(frames);
  }

  TimePoint Due() const override {
    if (run_.execution == nullptr) return TimePoint::max();
    const TimePoint due = events_.HasRoom(0) ? run_.execution->due() : TimePoint::max();
    return std::min(due, events_.KeepAliveDue());
  }

  void OnTimer(TimePoint now) override {
    if (run_.execution == nullptr) return;
    events_.KeepAlive(now);
    Pump();
  }

 private:
  void OnBegun(KserveRun run) {
    if (telemetry::ServerMetrics* serving = connection_.context().deps.serving)
      serving->Stage("parse", clock_.Now() - parse_start_);
    run_ = std::move(run);
    if (run_.execution == nullptr) return connection_.RespondError(run_.failure, run_.origin);
    events_.Open(connection_.context().options.keepalive.value_or(std::chrono::seconds(15)),
                 run_.asked.ignored.names());
    connection_.WatchStreams(true);
    Pump();
  }

  static void AppendEvent(std::string_view object, std::string* frames) {
    *frames += "data: ";
    *frames += object;
    *frames += "\n\n";
  }

  void Fail(const Status& status, Connection::Origin origin, std::string* frames) {
    run_.execution.reset();
    connection_.WatchStreams(false);
    if (!events_.begun() && frames->empty()) return connection_.RespondError(status, origin);
    AppendEvent(protocol::ErrorBody(
                    protocol::ViewError(status, connection_.request_context().error_options())),
                frames);
    events_.Show(*frames);
    events_.End();
  }

  Connection& connection_;
  const Clock& clock_;
  TimePoint parse_start_;
  KserveRun run_;
  EventStream events_;
};

}  // namespace

std::unique_ptr<Handler> MakeKserveStreamHandler(RouteId /*route*/, Connection& connection) {
  return std::make_unique<KserveStreamHandler>(connection);
}

}  // namespace tutti::http
