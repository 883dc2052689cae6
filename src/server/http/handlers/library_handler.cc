// Ollama's POST /api/pull, POST /api/copy and DELETE /api/delete: models that come and go while the
// server runs.
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/model_library.h"
#include "api/models.h"
#include "protocol/error.h"
#include "protocol/json/json.h"
#include "protocol/ollama/models.h"
#include "protocol/ollama/request.h"
#include "server/http/connection/connection.h"
#include "server/http/handler.h"
#include "server/http/handlers/body_work.h"
#include "server/http/handlers/event_stream.h"

namespace tutti::http {
namespace {

using protocol::ollama::LibraryCall;

// How often a pull is looked at: a client draws a bar of its lines.
constexpr Duration kLook = std::chrono::milliseconds(100);
// After so long a silence the last line of each unfinished file is sent again, as Ollama does: a
// client that has left is noticed only by what is written to it.
constexpr Duration kLongestSilence = std::chrono::seconds(1);

constexpr std::string_view kFirstStep = "pulling manifest";

using ParseCall = Result<LibraryCall> (*)(const protocol::Json&, const protocol::ParseOptions&);

template <typename Then>
void WithCall(Connection& connection, ParseCall parse, Then then) {
  WithBody(
      connection, kInlineJsonBytes, connection.context().json_helper,
      [parse, options = connection.request_context().parse_options()](
          std::string_view body) -> Result<LibraryCall> {
        ASSIGN_OR_RETURN(const protocol::JsonDocument document, protocol::ParseJson(body));
        return parse(document.root(), options);
      },
      std::move(then));
}

// Pulls a model. The answer is a line for each step and for each change of a file's bytes, or, with
// `stream: false`, one object at the end. The handler's end abandons the pull.
class PullHandler final : public Handler {
 public:
  explicit PullHandler(Connection& connection)
      : connection_(connection),
        library_(*connection.context().deps.library),
        events_(connection) {}

  void Start() override {
    WithCall(connection_, protocol::ollama::ParsePull, [this](Result<LibraryCall> call) {
      if (!call.ok()) return connection_.RespondError(call.status());
      Begin(*std::move(call));
    });
  }

  bool StreamsEvents() const override { return false; }
  TimePoint Due() const override { return due_; }
  void OnTimer(TimePoint) override { Look(); }

 private:
  void Begin(LibraryCall call) {
    Result<std::unique_ptr<api::ModelLibrary::Pull>> pull = library_.Begin(call.model);
    if (!pull.ok()) return connection_.RespondError(pull.status());
    call_ = std::move(call);
    pull_ = *std::move(pull);
    if (call_.stream) {
      events_.Open(Duration::zero(), call_.ignored, "", "application/x-ndjson");
      events_.Show(protocol::ollama::StatusLine(kFirstStep));
    }
    Look();
  }

  void Look() {
    const api::PullProgress progress = pull_->progress();
    if (call_.stream) ShowBlobs(progress);
    if (progress.ended) return End(progress.result);
    due_ = connection_.loop()->clock().Now() + kLook;
    connection_.Reschedule();
  }

  // A line for each file whose bytes have changed. A slow reader gets fewer lines.
  void ShowBlobs(const api::PullProgress& progress) {
    if (!progress.ended && !events_.HasRoom(0)) return;
    const TimePoint now = connection_.loop()->clock().Now();
    const bool repeats = !progress.ended && now - connection_.last_send() >= kLongestSilence;
    shown_.resize(progress.blobs.size());
    std::string lines;
    for (size_t i = 0; i < progress.blobs.size(); ++i) {
      const api::PullBlob& blob = progress.blobs[i];
      const bool unfinished = blob.fetched < blob.total;
      if (shown_[i] == blob.fetched && !(repeats && unfinished)) continue;
      shown_[i] = blob.fetched;
      lines += protocol::ollama::BlobLine(blob);
    }
    if (lines.empty() && repeats) lines = protocol::ollama::StatusLine(kFirstStep);
    events_.Show(lines);
  }

  void End(const Status& result) {
    due_ = TimePoint::max();
    pull_.reset();
    if (!call_.stream) {
      if (!result.ok()) return connection_.RespondError(result);
      return connection_.Respond(200, JsonHeaders(call_.ignored),
                                 protocol::ollama::StatusLine("success"));
    }
    if (result.ok()) {
      for (const std::string_view step : {"verifying sha256 digest", "writing manifest", "success"})
        events_.Show(protocol::ollama::StatusLine(step));
    } else {
      events_.Show(protocol::ErrorBody(connection_.request_context().MakeErrorView(
                       result, Connection::Origin::kServer)) +
                   "\n");
    }
    events_.End();
  }

  Connection& connection_;
  api::ModelLibrary& library_;
  EventStream events_;
  LibraryCall call_;
  std::unique_ptr<api::ModelLibrary::Pull> pull_;
  TimePoint due_ = TimePoint::max();
  std::vector<std::optional<uint64_t>> shown_;  // bytes of the last line, by file
};

// Names a model once more, or removes a name or a pulled model.
class NamesHandler final : public Handler {
 public:
  NamesHandler(RouteId route, Connection& connection) : route_(route), connection_(connection) {}

  void Start() override {
    WithCall(connection_,
             route_ == RouteId::kOllamaDelete ? protocol::ollama::ParseDelete
                                              : protocol::ollama::ParseCopy,
             [this](const Result<LibraryCall>& call) {
               if (!call.ok()) return connection_.RespondError(call.status());
               Run(*call);
             });
  }

 private:
  void Run(const LibraryCall& call) {
    api::ModelLibrary& library = *connection_.context().deps.library;
    const auto done = connection_.Later([this, ignored = call.ignored](const Status& status) {
      if (!status.ok()) return connection_.RespondError(status);
      connection_.Respond(200, JsonHeaders(ignored), "");
    });
    if (route_ == RouteId::kOllamaDelete) return library.Remove(call.model, done);
    done(Copy(library, call));
  }

  // Names of adapters and of the operator's aliases are not the library's.
  Status Copy(api::ModelLibrary& library, const LibraryCall& call) {
    const api::ModelList models = connection_.context().deps.inference->Models();
    const api::ModelInfo* const taken = api::FindModel(models, call.destination);
    const api::ModelInfo* const source = api::FindModel(models, call.model);
    if (source == nullptr) return api::ModelNotFound(call.model);
    if (taken != nullptr && taken->id != source->id) {
      return Status(StatusCode::kAlreadyExists, "model_exists",
                    "another model is called " + call.destination + "; choose a new name")
          .WithParam("destination");
    }
    return library.Copy(source->id, call.destination);
  }

  const RouteId route_;
  Connection& connection_;
};

}  // namespace

std::unique_ptr<Handler> MakeLibraryHandler(RouteId route, Connection& connection) {
  if (route == RouteId::kOllamaPull) return std::make_unique<PullHandler>(connection);
  return std::make_unique<NamesHandler>(route, connection);
}

}  // namespace tutti::http
