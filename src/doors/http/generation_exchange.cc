// POST /v1/chat/completions, /v1/completions, /generate: JSON -> requests -> streams -> JSON or
// SSE.
//
// Reading stops while too much waits for the socket (event_stream.h); the unread log then pauses
// the sequence itself. A failure before a stream has begun is an ordinary HTTP error. Destroying
// the exchange cancels its generations.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "api/models.h"
#include "api/validate.h"
#include "doors/counting/request_counts.h"
#include "doors/http/body_work.h"
#include "doors/http/connection.h"
#include "doors/http/event_stream.h"
#include "doors/http/request_deadline.h"
#include "wire/json.h"
#include "wire/openai_request.h"
#include "wire/openai_response.h"

namespace tutti::http {
namespace {

wire::Dialect DialectOf(RouteId route) {
  switch (route) {
    case RouteId::kText:
      return wire::Dialect::kText;
    case RouteId::kGenerate:
      return wire::Dialect::kGenerate;
    default:
      return wire::Dialect::kChat;
  }
}

const char* IdPrefix(wire::Dialect dialect) {
  switch (dialect) {
    case wire::Dialect::kChat:
      return "chatcmpl-";
    case wire::Dialect::kText:
      return "cmpl-";
    case wire::Dialect::kGenerate:
      return "gen-";
  }
  return "";
}

// A body, understood.
struct ParsedCall {
  wire::GenerationCall call;
  std::vector<std::string> echo;  // what `echo` repeats, for each prompt; empty without it
};

// As sent, or decoded from the token ids.
Result<std::vector<std::string>> EchoTexts(const wire::GenerationCall& call,
                                           const api::CallerRef& caller,
                                           api::Inference& inference) {
  std::vector<std::string> texts;
  if (!call.echo) return texts;
  for (const api::GenerateRequest& request : call.requests) {
    if (const auto* text = std::get_if<api::TextPrompt>(&request.prompt)) {
      texts.push_back(text->text);
    } else if (const auto* tokens = std::get_if<api::TokenPrompt>(&request.prompt)) {
      ASSIGN_OR_RETURN(std::string decoded,
                       inference.Detokenize(
                           {.model = request.model, .tokens = tokens->tokens, .caller = caller}));
      texts.push_back(std::move(decoded));
    }
  }
  return texts;
}

// Thread-safe: what it uses is.
Result<ParsedCall> Parse(wire::Dialect dialect, std::string_view body,
                         const wire::ParseOptions& options, const api::CallerRef& caller,
                         api::Inference& inference) {
  ASSIGN_OR_RETURN(const wire::JsonDocument document, wire::ParseJson(body));
  ASSIGN_OR_RETURN(wire::GenerationCall call,
                   wire::ParseGeneration(dialect, document.root(), options));
  ASSIGN_OR_RETURN(std::vector<std::string> echo, EchoTexts(call, caller, inference));
  return ParsedCall{std::move(call), std::move(echo)};
}

class GenerationExchange final : public Exchange {
 public:
  GenerationExchange(RouteId route, Connection& connection)
      : dialect_(DialectOf(route)),
        connection_(connection),
        clock_(connection.loop()->clock()),
        events_(connection) {}

  ~GenerationExchange() override { connection_.WatchStreams(false); }

  void Start() override {
    const HttpOptions& options = connection_.context().options;
    parse_start_ = clock_.Now();
    const wire::ParseOptions parse{options.strict, connection_.request_start(),
                                   options.limits.deadline_cap};
    api::Inference& inference = *connection_.context().deps.inference;
    WithBody(
        connection_, kInlineJsonBytes, connection_.context().json_helper,
        [dialect = dialect_, parse, caller = connection_.caller(), &inference](
            std::string_view body) { return Parse(dialect, body, parse, caller, inference); },
        [this](Result<ParsedCall> parsed) { OnParsed(std::move(parsed)); });
  }

  void Pump() override {
    if (writer_ == nullptr) return;  // still being parsed
    std::string frames;
    for (size_t i = 0; i < generations_.size(); ++i) {
      while (events_.HasRoom(frames.size())) {
        const api::StreamEvent* event = generations_[i].Next();
        if (event == nullptr) break;
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
  }

  TimePoint Due() const override { return events_.KeepAliveDue(); }
  void OnTimer(TimePoint now) override { events_.KeepAlive(now); }

 private:
  void OnParsed(Result<ParsedCall> parsed) {
    const TimePoint parsed_at = clock_.Now();
    parse_took_ = parsed_at - parse_start_;
    if (telemetry::DoorMetrics* serving = connection_.context().deps.serving)
      serving->Stage("parse", parse_took_);
    if (!parsed.ok()) return connection_.RespondError(parsed.status());
    call_.emplace(std::move(parsed->call));

    const HttpOptions& options = connection_.context().options;
    const Result<TimePoint> deadline = HeaderDeadline(
        connection_.request(), connection_.request_start(), options.limits.deadline_cap);
    if (!deadline.ok()) return connection_.RespondError(deadline.status());
    connection_.AdoptRequestId(call_->requests.front().request_id);
    size_t call_bytes = 0;
    for (const api::GenerateRequest& request : call_->requests) {
      call_bytes += api::PromptBytes(request.prompt);
    }
    for (api::GenerateRequest& request : call_->requests) {
      request.request_id = connection_.request_id();
      connection_.Sign(&request);
      request.route = connection_.usage_route();
      request.call_bytes = call_bytes;
      request.deadline = std::min(request.deadline, *deadline);
    }
    keepalive_ = options.keepalive.value_or(
        dialect_ == wire::Dialect::kGenerate ? std::chrono::seconds(5) : std::chrono::seconds(15));
    Submit(std::move(parsed->echo));
  }

  void Submit(std::vector<std::string> echo) {
    api::Inference& inference = *connection_.context().deps.inference;
    wire::ResponseHead head = MakeHead(inference);
    chat_prompt_ = std::holds_alternative<api::ChatPrompt>(call_->requests.front().prompt);
    connection_.WatchStreams(true);
    // Copies: the call keeps its shape (prompts, n) for the writer, but not the prompts.
    for (size_t i = 0; i < call_->requests.size(); ++i) {
      api::Prompt prompt = std::exchange(call_->requests[i].prompt, api::Prompt());
      api::GenerateRequest request = call_->requests[i];
      request.prompt = std::move(prompt);
      Result<api::Generation> generation =
          inference.Generate(std::move(request), connection_.loop());
      if (!generation.ok()) {
        generations_.clear();
        return connection_.RespondError(Blame(generation.status(), i), Connection::Origin::kWaist);
      }
      generations_.push_back(std::move(generation).value());
    }
    running_ = generations_.size();
    if (call_->stream) events_.Open(keepalive_, call_->ignored);
    writer_ = wire::MakeResponseWriter(*call_, std::move(head), std::move(echo));
    Pump();
  }

  wire::ResponseHead MakeHead(const api::Inference& inference) {
    const std::vector<api::ModelInfo> models = inference.Models();
    const api::ModelInfo* model =
        call_->model.empty() ? api::DefaultGenerator(models) : api::FindModel(models, call_->model);
    wire::ResponseHead head;
    head.id = IdPrefix(dialect_) + connection_.loop()->RandomId(24);
    head.model = !call_->model.empty() ? call_->model : model == nullptr ? "" : model->id;
    head.created_s = std::chrono::duration_cast<std::chrono::seconds>(
                         std::chrono::system_clock::now().time_since_epoch())
                         .count();
    head.fingerprint =
        "fp_" + (model == nullptr ? std::string("unknown") : model->digest.substr(0, 12));
    context_tokens_ = model == nullptr ? 0 : model->max_model_len;
    return head;
  }

  // Names the field that is to blame: which of several prompts, and what made a request longer than
  // the context.
  Status Blame(Status status, size_t index, int prompt_tokens = 0) const {
    const bool too_long = status.param().empty() && (status.reason() == "context_length_exceeded" ||
                                                     status.reason() == "never_fits");
    std::string param = status.param();
    if (too_long && prompt_tokens > 0 && prompt_tokens < context_tokens_) {
      param = "max_tokens";  // the prompt alone would do
    } else if (too_long) {
      param = chat_prompt_ ? "messages" : "prompt";
    }
    if (param == "prompt" && call_->requests.size() > 1) param += "[" + std::to_string(index) + "]";
    return std::move(status).WithParam(std::move(param));
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
      writer_->OnError(wire::ViewError(status, connection_.error_options()), frames);
      events_.Show(*frames);
      return events_.End();
    }
    std::optional<wire::ContextNumbers> numbers;
    if (status.reason() == "context_length_exceeded" && end.usage.prompt_tokens > 0) {
      numbers = wire::ContextNumbers{end.usage.prompt_tokens, context_tokens_};
    }
    connection_.RespondError(status, Connection::Origin::kWaist, numbers);
  }

  // Where the time went, in milliseconds, from the first byte of the request to the finished
  // answer.
  std::string ServerTiming(TimePoint done) const {
    const double total = ToMillis(clock_.Now() - connection_.request_start());
    return fmt::format(
        "read;dur={:.3f}, parse;dur={:.3f}, tokenize;dur={:.3f}, queue;dur={:.3f}, "
        "prefill;dur={:.3f}, "
        "decode;dur={:.3f}, serialise;dur={:.3f}, total;dur={:.3f}",
        ToMillis(parse_start_ - connection_.request_start()), ToMillis(parse_took_),
        ToMillis(timings_.prepare), ToMillis(timings_.queue), ToMillis(timings_.prefill),
        ToMillis(timings_.decode), ToMillis(clock_.Now() - done), total);
  }

  const wire::Dialect dialect_;
  Connection& connection_;
  const Clock& clock_;
  TimePoint parse_start_;
  Duration parse_took_{0};
  Duration keepalive_{0};
  std::optional<wire::GenerationCall> call_;
  std::vector<api::Generation> generations_;  // one for each prompt
  size_t running_ = 0;                        // generations that have not ended
  std::unique_ptr<wire::ResponseWriter> writer_;
  EventStream events_;  // open if the call asks for a stream
  int context_tokens_ = 0;
  bool chat_prompt_ = false;
  api::Timings timings_;
};

}  // namespace

std::unique_ptr<Exchange> MakeGenerationExchange(RouteId route, Connection& connection) {
  return std::make_unique<GenerationExchange>(route, connection);
}

}  // namespace tutti::http
