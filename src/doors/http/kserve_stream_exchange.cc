// POST .../generate_stream of KServe v2: one request, its responses as server-sent events.
//
// The status line waits for the first response or the first keep-alive, so that a failure before is
// an ordinary HTTP error; later ones are an event, `data: {"error": text}`, the last. While too
// much waits for the socket nothing is taken from the model.
#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "doors/http/body_work.h"
#include "doors/http/connection.h"
#include "doors/http/kserve_run.h"
#include "kserve/json/generate.h"
#include "wire/openai_response.h"

namespace tutti::http {
namespace {

class KserveStreamExchange final : public Exchange {
 public:
  explicit KserveStreamExchange(Connection& connection)
      : connection_(connection), clock_(connection.loop()->clock()) {}

  ~KserveStreamExchange() override { connection_.WatchStreams(false); }

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
    while (run_.execution != nullptr && HasRoom(frames.size())) {
      Result<std::optional<kserve::InferResponse>> next = run_.execution->Next();
      if (!next.ok()) return Fail(next.status(), Connection::Origin::kWaist, &frames);
      if (!next->has_value()) break;
      const kserve::InferResponse& response = **next;
      if (!response.empty || run_.empty_final) {
        const Result<std::string> object =
            kserve::GenerateBody(run_.asked.request.id, run_.model, response);
        if (!object.ok()) return Fail(object.status(), Connection::Origin::kDoor, &frames);
        AppendEvent(*object, &frames);
      }
      if (!response.final) continue;
      run_.execution.reset();
      connection_.WatchStreams(false);
      Show(frames);
      if (!streaming_) Begin();  // a request without any response
      return connection_.EndStream();
    }
    Show(frames);
  }

  TimePoint Due() const override {
    if (run_.execution == nullptr) return TimePoint::max();
    const TimePoint due = HasRoom(0) ? run_.execution->due() : TimePoint::max();
    return std::min(due, KeepAliveDue());
  }

  void OnTimer(TimePoint now) override {
    if (run_.execution == nullptr) return;
    if (now >= KeepAliveDue()) {
      if (!streaming_) Begin();
      quiet_since_ = now;
      // While the reader is behind, what waits for it keeps the connection alive.
      if (connection_.unsent() == 0) connection_.Send(wire::kSsePing);
    }
    Pump();
  }

 private:
  void OnBegun(KserveRun run) {
    if (telemetry::DoorMetrics* serving = connection_.context().deps.serving)
      serving->Stage("parse", clock_.Now() - parse_start_);
    run_ = std::move(run);
    if (run_.execution == nullptr) return connection_.RespondError(run_.failure, run_.origin);
    keepalive_ = connection_.context().options.keepalive.value_or(std::chrono::seconds(15));
    quiet_since_ = clock_.Now();
    connection_.WatchStreams(true);
    Pump();
  }

  bool HasRoom(size_t more) const {
    return connection_.unsent() + more < connection_.context().options.limits.unsent_bytes;
  }
  TimePoint KeepAliveDue() const {
    if (keepalive_ <= Duration::zero()) return TimePoint::max();
    return std::max(quiet_since_, connection_.last_send()) + keepalive_;
  }

  static void AppendEvent(std::string_view object, std::string* frames) {
    *frames += "data: ";
    *frames += object;
    *frames += "\n\n";
  }

  void Begin() {
    streaming_ = true;
    HeaderList headers = {{"Content-Type", "text/event-stream; charset=utf-8"},
                          {"Cache-Control", "no-cache"},
                          {"X-Accel-Buffering", "no"}};
    AddIgnored(run_.asked.ignored, &headers);
    connection_.BeginStream(200, std::move(headers));
  }

  void Show(const std::string& frames) {
    if (frames.empty()) return;
    if (!streaming_) Begin();
    connection_.Send(frames);
  }

  void Fail(const Status& status, Connection::Origin origin, std::string* frames) {
    run_.execution.reset();
    connection_.WatchStreams(false);
    if (!streaming_ && frames->empty()) return connection_.RespondError(status, origin);
    AppendEvent(wire::ErrorBody(wire::ViewError(status, connection_.error_options())), frames);
    Show(*frames);
    connection_.EndStream();
  }

  Connection& connection_;
  const Clock& clock_;
  TimePoint parse_start_, quiet_since_;
  Duration keepalive_{0};
  KserveRun run_;
  bool streaming_ = false;  // the head is out
};

}  // namespace

std::unique_ptr<Exchange> MakeKserveStreamExchange(Connection& connection) {
  return std::make_unique<KserveStreamExchange>(connection);
}

}  // namespace tutti::http
