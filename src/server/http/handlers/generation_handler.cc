// POST /v1/chat/completions, /v1/completions, /generate, /infill, /v1/messages, /api/chat,
// /api/generate: JSON -> requests -> streams -> JSON, SSE or lines of JSON.
//
// Reading stops while too much waits for the socket (event_stream.h); the unread log then pauses
// the sequence itself. A failure before a stream has begun is an ordinary HTTP error. Destroying
// the handler cancels its generations.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "api/models.h"
#include "api/validate.h"
#include "base/clock.h"
#include "protocol/anthropic/response.h"
#include "protocol/response_writer.h"
#include "server/counting/request_counts.h"
#include "server/http/connection/connection.h"
#include "server/http/handlers/body_work.h"
#include "server/http/handlers/event_stream.h"
#include "server/http/handlers/models_handler.h"
#include "server/http/handlers/request_fields.h"
#include "services/calls/generation_call.h"

namespace tutti::http {
namespace {

class GenerationHandler final : public Handler {
 public:
  GenerationHandler(RouteId route, Connection& connection)
      : kind_(*CallKindOf(route)),
        connection_(connection),
        clock_(connection.loop()->clock()),
        events_(connection) {}

  ~GenerationHandler() override { connection_.WatchStreams(false); }

  void Start() override {
    parse_start_ = clock_.Now();
    WithBody(
        connection_, kInlineJsonBytes, connection_.context().json_helper,
        [kind = kind_, parse = connection_.request_context().parse_options()](
            std::string_view body) { return calls::ParseGeneration(kind, body, parse); },
        [this](Result<protocol::GenerationCall> call) { OnParsed(std::move(call)); });
  }

  void Pump() override {
    if (writer_ == nullptr) return;  // still being parsed
    std::string frames;
    for (size_t i = 0; i < generations_.size(); ++i) {
      while (!heard_[i] || events_.HasRoom(frames.size())) {
        const api::StreamEvent* event = generations_[i].Next();
        if (event == nullptr) break;
        if (!heard_[i]) --unheard_;
        heard_[i] = true;
        generations_[i].Consumed(event->text.size());
        if (event->kind == api::StreamEvent::Kind::kEnd) {
          if (const Status& status = generations_[i].stream().status(); !status.ok()) {
            return Fail(Blame(status, i, event->usage.prompt_tokens), *event, &frames);
          }
          timings_ = event->timings;
          --running_;
        }
        writer_->OnEvent(static_cast<int>(i), *event, &frames);
      }
    }
    if (running_ == 0) return Succeed(&frames);
    events_.Show(frames);
    // The response cache's outcome is known once the first event arrives.
    if (unheard_ == 0) events_.Release();
  }

  TimePoint Due() const override { return events_.KeepAliveDue(); }
  void OnTimer(TimePoint now) override { events_.KeepAlive(now); }

 private:
  void OnParsed(Result<protocol::GenerationCall> call) {
    if (!call.ok()) return OnUnderstood(call.status());
    call_.emplace(*std::move(call));
    if (!call_->echo) return OnUnderstood(calls::EchoTexts());
    // A prompt of tokens is decoded first, on the helper or in another process.
    connection_.Offload(connection_.context().json_helper,
                        [call = *call_, caller = connection_.request_context().caller(),
                         &inference = *connection_.context().deps.inference,
                         done = connection_.Later([this](Result<calls::EchoTexts> echo) {
                           OnUnderstood(std::move(echo));
                         })]() -> Connection::Continuation {
                          calls::AskForEcho(call, caller, inference, done);
                          return [] {};
                        });
  }

  // The body is understood, or it is not: `echo` is then that error.
  void OnUnderstood(Result<calls::EchoTexts> echo) {
    parse_took_ = clock_.Now() - parse_start_;
    if (telemetry::ServerMetrics* serving = connection_.context().deps.serving)
      serving->Stage("parse", parse_took_);
    if (!echo.ok()) return connection_.RespondError(echo.status());
    if (!call_->load_reason.empty()) return AnswerLoad();

    const Result<TimePoint> deadline = HeaderDeadline(connection_);
    if (!deadline.ok()) return connection_.RespondError(deadline.status());
    connection_.request_context().AdoptId(call_->requests.front().request_id);
    size_t call_bytes = 0;
    for (const api::GenerateRequest& request : call_->requests) {
      call_bytes += api::PromptBytes(request.prompt);
    }
    for (api::GenerateRequest& request : call_->requests) {
      request.request_id = connection_.request_context().id();
      connection_.request_context().Sign(&request);
      request.route = connection_.request_context().usage_route();
      request.call_bytes = call_bytes;
      request.deadline = std::min(request.deadline, *deadline);
    }
    keepalive_ = connection_.context().options.keepalive.value_or(
        kind_ == calls::CallKind::kGenerate ? std::chrono::seconds(5) : std::chrono::seconds(15));
    Submit(*std::move(echo));
  }

  // The call only loads or unloads the model (Ollama's API).
  void AnswerLoad() {
    const api::ModelList models = api::ModelsFor(*connection_.request_context().caller(),
                                                 connection_.context().deps.inference->Models());
    const api::ModelInfo* const model = api::FindGenerator(models, call_->model);
    if (model == nullptr) return connection_.RespondError(api::ModelNotFound(call_->model));
    LoadOrUnload(connection_, *model, call_->keep_alive, [this](const Status& status) {
      if (!status.ok()) return connection_.RespondError(status);
      connection_.Respond(200, JsonHeaders(call_->ignored),
                          calls::LoadBody(kind_, *call_, UnixSeconds()));
    });
  }

  bool StreamsLines() const {
    return kind_ == calls::CallKind::kOllamaChat || kind_ == calls::CallKind::kOllamaGenerate;
  }

  void Submit(calls::EchoTexts echo) {
    api::Inference& inference = *connection_.context().deps.inference;
    calls::GenerationHead made =
        calls::HeadOf(kind_, *call_, connection_.loop()->RandomId(24), inference, UnixSeconds());
    context_tokens_ = made.context_tokens;
    chat_prompt_ = std::holds_alternative<api::ChatPrompt>(call_->requests.front().prompt);
    connection_.WatchStreams(true);
    // Copies: the call keeps its shape (prompts, n) for the writer, but not the prompts.
    for (size_t i = 0; i < call_->requests.size(); ++i) {
      api::Prompt prompt = std::exchange(call_->requests[i].prompt, api::Prompt());
      api::GenerateRequest request = call_->requests[i];
      request.prompt = std::move(prompt);
      if (request.pin) request.pin->id = made.head.id;
      Result<api::Generation> generation =
          inference.Generate(std::move(request), connection_.loop());
      if (!generation.ok()) {
        generations_.clear();
        return connection_.RespondError(Blame(generation.status(), i),
                                        Connection::Origin::kInference);
      }
      generations_.push_back(std::move(generation).value());
    }
    running_ = unheard_ = generations_.size();
    heard_.resize(running_);
    if (call_->stream && StreamsLines()) {
      // A line of JSON has no form for a comment that keeps the connection open.
      events_.Open(Duration::zero(), call_->ignored, "", "application/x-ndjson");
    } else if (call_->stream) {
      events_.Open(
          keepalive_, call_->ignored,
          kind_ == calls::CallKind::kMessages ? protocol::kMessagesPing : protocol::kSsePing);
    }
    if (call_->stream && connection_.context().options.tells_cache) events_.Hold();
    writer_ = calls::MakeWriter(kind_, *call_, std::move(made.head), std::move(echo));
    Pump();
  }

  Status Blame(const Status& status, size_t index, int prompt_tokens = 0) const {
    return calls::Blame(*call_, status, index, chat_prompt_, context_tokens_, prompt_tokens);
  }

  void Succeed(std::string* frames) {
    const TimePoint done = clock_.Now();
    counting::CountStages(timings_, connection_.context().deps.serving);
    writer_->OnDone(frames);
    connection_.WatchStreams(false);
    if (!call_->stream) {
      HeaderList headers = JsonHeaders(call_->ignored);
      if (connection_.request().Find("x-tutti-timings") != nullptr) {
        headers.emplace_back("Server-Timing", ServerTiming(done));
      }
      return connection_.Respond(200, std::move(headers), std::move(*frames));
    }
    events_.Show(*frames);
    events_.End();
  }

  void Fail(const Status& status, const api::StreamEvent& end, std::string* frames) {
    connection_.WatchStreams(false);
    for (api::Generation& generation : generations_)
      generation.Cancel();  // the other prompts of this call
    if (events_.begun() || (call_->stream && !frames->empty())) {
      writer_->OnError(
          connection_.request_context().MakeErrorView(status, Connection::Origin::kInference),
          frames);
      events_.Show(*frames);
      return events_.End();
    }
    std::optional<protocol::ContextNumbers> numbers;
    if (status.reason() == "context_length_exceeded" && end.usage.prompt_tokens > 0) {
      numbers = protocol::ContextNumbers{end.usage.prompt_tokens, context_tokens_};
    }
    connection_.RespondError(status, Connection::Origin::kInference, numbers);
  }

  // Stage times in milliseconds, from the first byte of the request to the finished answer.
  std::string ServerTiming(TimePoint done) const {
    const double total = ToMillis(clock_.Now() - connection_.request_context().start());
    return fmt::format(
        "read;dur={:.3f}, parse;dur={:.3f}, tokenize;dur={:.3f}, queue;dur={:.3f}, "
        "prefill;dur={:.3f}, "
        "decode;dur={:.3f}, serialise;dur={:.3f}, total;dur={:.3f}",
        ToMillis(parse_start_ - connection_.request_context().start()), ToMillis(parse_took_),
        ToMillis(timings_.prepare), ToMillis(timings_.queue), ToMillis(timings_.prefill),
        ToMillis(timings_.decode), ToMillis(clock_.Now() - done), total);
  }

  const calls::CallKind kind_;
  Connection& connection_;
  const Clock& clock_;
  TimePoint parse_start_;
  Duration parse_took_{0};
  Duration keepalive_{0};
  std::optional<protocol::GenerationCall> call_;
  std::vector<api::Generation> generations_;  // one for each prompt
  size_t running_ = 0;                        // generations that have not ended
  size_t unheard_ = 0;                        // of which there was no event yet
  std::vector<bool> heard_;
  std::unique_ptr<protocol::ResponseWriter> writer_;
  EventStream events_;  // open if the call asks for a stream
  int context_tokens_ = 0;
  bool chat_prompt_ = false;
  api::Timings timings_;
};

}  // namespace

std::unique_ptr<Handler> MakeGenerationHandler(RouteId route, Connection& connection) {
  return std::make_unique<GenerationHandler>(route, connection);
}

}  // namespace tutti::http
