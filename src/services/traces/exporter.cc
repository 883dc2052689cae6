#include "services/traces/exporter.h"

#include <algorithm>
#include <optional>
#include <span>

#include "base/ascii.h"
#include "base/quote.h"
#include "base/threads.h"
#include "base/url.h"
#include "services/post/post.h"
#include "services/traces/spans.h"

namespace tutti::traces {
namespace {

using background::Failure;
using std::chrono::milliseconds;

constexpr int kDefaultPort = 4318;

// Whether the same batch may be taken later (OTLP specification, "Failures").
bool MayRetry(int status) {
  return status == 429 || status == 502 || status == 503 || status == 504;
}

Status Refused(int status) {
  return Status(MayRetry(status) ? StatusCode::kUnavailable : StatusCode::kFailedPrecondition,
                "unavailable", "the collector answered with status " + std::to_string(status));
}

}  // namespace

Result<post::Target> ParseEndpoint(std::string_view text) {
  const auto refuse = [&](const std::string& why) {
    return InvalidArgument("invalid_value", "invalid URL of a trace collector " + Quote(text) +
                                                ": " + why + "; example: http://127.0.0.1:4318");
  };
  Url url;
  if (ParseUrl(text, &url) != UrlFault::kNone) return refuse("host or port");
  if (url.user) return refuse("credentials belong into OTEL_EXPORTER_OTLP_HEADERS");
  const std::string scheme = AsciiLower(url.scheme.value_or("http"));
  if (scheme != "http" && scheme != "https") return refuse("the scheme is http or https");
  if (!url.rest.empty()) return refuse("no query is sent");
  post::Target target;
  target.tls = scheme == "https";
  target.host = AsciiLower(url.host);
  target.port = static_cast<uint16_t>(url.port == 0 ? kDefaultPort : url.port);
  target.path = url.path.empty() || url.path == "/" ? "/v1/traces" : std::string(url.path);
  target.authority = HostAndPort(target.host, target.port);
  return target;
}

Result<Pairs> ParsePairs(std::string_view text) {
  Pairs pairs;
  for (const std::string_view part : SplitAt(text, ',')) {
    const std::string_view pair = Trimmed(part);
    if (pair.empty()) continue;
    const size_t equals = pair.find('=');
    const std::string name(Trimmed(pair.substr(0, equals)));
    // A header or an attribute has no control character that could end it.
    const std::optional<std::string> value = equals == std::string_view::npos
                                                 ? std::nullopt
                                                 : PercentDecode(Trimmed(pair.substr(equals + 1)));
    const auto in_name = [](unsigned char c) { return c > ' ' && c < 127 && c != ':'; };
    const auto in_value = [](unsigned char c) { return c >= ' ' && c != 127; };
    if (name.empty() || !std::all_of(name.begin(), name.end(), in_name) || !value ||
        !std::all_of(value->begin(), value->end(), in_value))
      return InvalidArgument("invalid_value", "expected NAME=VALUE pairs separated by commas");
    pairs.emplace_back(name, *value);
  }
  return pairs;
}

Exporter::Exporter(Options options, std::shared_ptr<api::RequestTraces> traces, Logger* log)
    : options_(std::move(options)),
      traces_(std::move(traces)),
      log_(log),
      look_ups_({}),
      retry_(options_.backoff, /*jitter=*/0.1),
      thread_([this] { Run(); }) {}

Exporter::~Exporter() {
  {
    const MutexLock lock(mutex_);
    stop_ = true;
    last_until_ = ProgramClock().Now() + options_.last_wait;
  }
  changed_.NotifyAll();
  thread_.join();
}

ExportStats Exporter::stats() const {
  return {.exported = exported_.load(), .failed = failed_.load(), .dropped = traces_->dropped()};
}

void Exporter::Run() {
  NameThread("tutti-traces");
  bool running = true;
  while (running) {
    running = WaitFor(options_.interval);
    const Batch ended = traces_->TakeEnded();
    for (size_t first = 0; first < ended.size(); first += kBatch)
      Send(std::span(ended).subspan(first, std::min(kBatch, ended.size() - first)));
  }
}

bool Exporter::WaitFor(Duration time) {
  const TimePoint until = ProgramClock().Now() + time;
  const MutexLock lock(mutex_);
  for (TimePoint now; !stop_ && (now = ProgramClock().Now()) < until;)
    (void)changed_.WaitFor(mutex_, until - now);
  return !stop_;
}

void Exporter::Send(std::span<const std::shared_ptr<const api::RequestTrace>> requests) {
  const std::string body = BodyOf(requests);
  for (int64_t attempt = 1;; ++attempt) {
    std::optional<Duration> retry_after;
    const Status status = Post(body, &retry_after);
    const background::RetryDecision decision =
        status.ok() ? background::RetryDecision()
                    : retry_.Decide(status.code() == StatusCode::kUnavailable ? Failure::kFailed
                                                                              : Failure::kPermanent,
                                    attempt, kAttempts, retry_after);
    if (status.ok() || !decision.again() || !WaitFor(decision.wait))
      return Note(status, requests.size());
  }
}

std::string Exporter::BodyOf(
    std::span<const std::shared_ptr<const api::RequestTrace>> requests) const {
  otlp::ExportTraceServiceRequest message;
  otlp::ResourceSpans* const spans = message.add_resource_spans();
  for (const auto& [name, value] : options_.resource)
    AppendAttribute(name, value, spans->mutable_resource()->mutable_attributes());
  otlp::ScopeSpans* const scope = spans->add_scope_spans();
  scope->mutable_scope()->set_name("tutti");
  scope->mutable_scope()->set_version(options_.version);
  for (const auto& request : requests) AppendSpans(*request, scope);
  return message.SerializeAsString();
}

Status Exporter::Post(const std::string& body, std::optional<Duration>* retry_after) {
  Pairs fields = {{"content-type", "application/x-protobuf"}, {"user-agent", "tutti"}};
  fields.insert(fields.end(), options_.headers.begin(), options_.headers.end());
  milliseconds timeout = options_.timeout;
  {
    const MutexLock lock(mutex_);
    if (stop_) {
      timeout = std::min(
          timeout, std::chrono::duration_cast<milliseconds>(last_until_ - ProgramClock().Now()));
    }
  }
  if (timeout <= milliseconds(0)) return Unavailable("traces_unsent", "the process ends");
  const Result<post::Response> answer =
      post::Post(options_.endpoint, fields, body,
                 {.trusted = true,  // the operator named it
                  .ca_file = options_.ca_file,
                  .timeout = timeout,
                  .look_up = [this](const std::string& host, milliseconds within) {
                    return look_ups_.Find(host, "", within);
                  }});
  if (!answer.ok()) return answer.status();
  if (answer->retry_after) *retry_after = *answer->retry_after;
  return answer->status / 100 == 2 ? OkStatus() : Refused(answer->status);
}

void Exporter::Note(const Status& status, size_t requests) {
  (status.ok() ? exported_ : failed_).fetch_add(requests);
  // One line for each change, not for each batch.
  if (log_ != nullptr && failing_ == status.ok()) {
    if (status.ok()) {
      log_->Info("traces.resumed", {{"collector", options_.endpoint.authority}});
    } else {
      log_->Warn("traces.failed",
                 {{"collector", options_.endpoint.authority}, {"what", status.message()}});
    }
  }
  failing_ = !status.ok();
}

}  // namespace tutti::traces
