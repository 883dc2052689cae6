#include "server/http/connection/request_context.h"

#include <algorithm>
#include <iterator>
#include <new>
#include <utility>

#include "base/ascii.h"
#include "base/clock.h"
#include "protocol/cache_headers.h"
#include "protocol/prefix_report.h"
#include "services/auth/principal.h"
#include "services/limits/rules.h"

namespace tutti::http {
namespace {

std::string IdFor(const HttpRequest& request, IoLoop& loop) {
  const std::string* given =
      request.Count("x-request-id") == 1 ? request.Find("x-request-id") : nullptr;
  return given != nullptr && protocol::IsRequestId(*given) ? *given : "req-" + loop.RandomId(24);
}

// Header fields that a page of an allowed origin may send: the server's own ones and, of the
// requested ones, those that common clients add to every request (the OpenAI client for JavaScript:
// x-stainless-*). Only names are echoed, in lower case, at most 32 of 64 characters.
std::string AllowedHeaders(const HttpRequest& request) {
  std::string out =
      "authorization, content-type, x-request-id, x-request-timeout-ms, x-tutti-timings, "
      "x-tutti-run-at, x-tutti-deadline, x-tutti-webhook, x-cache-similarity";
  constexpr std::string_view kPrefixes[] = {"x-stainless-", "openai-", "anthropic-"};
  constexpr std::string_view kNames[] = {
      "idempotency-key", "prefer",      "if-none-match", "last-event-id",
      "cache-control",   "traceparent", "tracestate",    "inference-header-content-length",
      "x-api-key"};
  const std::string* asked = request.Find("access-control-request-headers");
  if (asked == nullptr) return out;
  std::vector<std::string_view> parts = SplitAt(*asked, ',');
  if (parts.size() > 32) parts.resize(32);
  for (const std::string_view each : parts) {
    const std::string_view part = Trimmed(each);
    const std::string name = AsciiLower(part.substr(0, 64));
    const bool plain = part.size() <= 64 && std::all_of(name.begin(), name.end(), [](char c) {
                         return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
                       });
    const bool known =
        std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames) ||
        std::any_of(std::begin(kPrefixes), std::end(kPrefixes),
                    [&](std::string_view prefix) { return name.starts_with(prefix); });
    if (plain && known) out += ", " + name;
  }
  return out;
}

void AddRateLimitHeader(const std::string& kind, const std::optional<api::RateLimit>& limit,
                        HeaderList* headers) {
  if (!limit.has_value()) return;
  headers->emplace_back("x-ratelimit-limit-" + kind, std::to_string(limit->limit));
  headers->emplace_back("x-ratelimit-remaining-" + kind, std::to_string(limit->remaining));
  headers->emplace_back("x-ratelimit-reset-" + kind, limits::ResetText(limit->reset));
}

void AddRateLimitHeaders(const api::RateLimits& rate_limits, HeaderList* headers) {
  AddRateLimitHeader("requests", rate_limits.requests, headers);
  AddRateLimitHeader("tokens", rate_limits.tokens, headers);
}

}  // namespace

RequestContext::RequestContext(ServerContext& server, IoLoop& loop, const HttpRequest& request,
                               std::string peer)
    : server_(server),
      loop_(loop),
      request_(request),
      peer_(std::move(peer)),
      error_options_{server.options.queue_full_status, protocol::ErrorForm::kOpenAi} {}

void RequestContext::OnHead(const HttpRequest& head, const auth::CertifiedName* certificate) {
  const TimePoint begin = loop_.clock().Now();
  id_ = IdFor(head, loop_);
  decision_ = server_.router.Decide(head, certificate);
  error_options_.form = decision_.errors();
  Stage("auth", begin);
}

void RequestContext::RequireId() {
  if (id_.empty()) id_ = "req-" + loop_.RandomId(24);
}

void RequestContext::AdoptId(const std::string& id) {
  if (!id.empty() && request_.Find("x-request-id") == nullptr) id_ = id;
}

void RequestContext::SetCaller() {
  const auth::PrincipalRef& who =
      decision_.principal == nullptr ? auth::OpenPrincipal() : decision_.principal;
  if (who != principal_) {
    principal_ = who;
    caller_ = auth::CallerOf(*who);
  }
  rate_limits_ = std::make_shared<api::RateLimits>();
  cache_reports_.clear();
}

void RequestContext::Identify(auth::PrincipalRef principal) {
  decision_.principal = std::move(principal);
  SetCaller();
  rate_limits_.reset();  // its head is written
}

bool RequestContext::AsksToExplainCache() const {
  const std::string* value = request_.Find(protocol::kExplainCacheHeader);
  return value != nullptr && (*value == "1" || *value == "true");
}

void RequestContext::SignForCache(api::CacheControl* control,
                                  std::shared_ptr<api::CacheReport>* report) {
  *control = protocol::ReadCacheControl(request_.Joined("cache-control"));
  if (const std::string* similarity = request_.Find("x-cache-similarity"))
    control->least_similarity = protocol::ReadSimilarity(*similarity);
  *report = std::make_shared<api::CacheReport>();
  if (!head_written_) cache_reports_.push_back(*report);
}

TraceContext RequestContext::SentContext() const {
  if (request_.Count("traceparent") != 1) return {};
  return ReadTraceContext(*request_.Find("traceparent"), request_.Joined("tracestate"));
}

std::shared_ptr<api::RequestTrace> RequestContext::BeginTrace(const std::string& request_id) {
  constexpr size_t kMaxTraces = 16;  // that show when the answer was written
  if (server_.deps.traces == nullptr) return nullptr;
  const TimePoint now = loop_.clock().Now();
  // Messages over a WebSocket come long after the request that opened it.
  const TimePoint begun = head_written_ ? now : start_;
  std::shared_ptr<api::RequestTrace> trace =
      server_.deps.traces->Begin({.id = head_written_ && !request_id.empty() ? request_id : id_,
                                  .route = usage_route(),
                                  .tenant = caller_->tenant,
                                  .caller = caller_->credential,
                                  .begun_unix_ns = UnixNanos() - (now - begun).count(),
                                  .begun_at = begun,
                                  .parent = SentContext()});
  trace->server().Append({.at = begun, .kind = api::TraceEvent::Kind::kReceived});
  trace->server().Append({.at = now, .kind = api::TraceEvent::Kind::kParsed});
  if (!head_written_ && traces_.size() < kMaxTraces) traces_.push_back(trace);
  if (!head_written_ && !trace_context_.valid()) trace_context_ = trace->head().context;
  return trace;
}

void RequestContext::CountAs(telemetry::OpKind op) {
  if (decision_.op() != telemetry::OpKind::kOther || op == telemetry::OpKind::kOther) return;
  if (telemetry::ServerMetrics* const serving = server_.deps.serving) {
    serving->InFlight(decision_.op(), -1);
    serving->InFlight(op, 1);
  }
  decision_.model_op = op;
}

protocol::ErrorView RequestContext::MakeErrorView(const Status& status, Origin origin) {
  protocol::ErrorView error = protocol::ViewError(status, error_options_);
  error.request_id = id_;
  if (error.ours && server_.deps.log != nullptr) {
    server_.deps.log->Error("http.internal_error",
                            {{"id", id_}, {"code", status.reason()}, {"what", status.message()}});
  }
  if (origin == Origin::kServer && server_.deps.serving != nullptr)
    server_.deps.serving->RequestRejected(error.code);
  if (server_.deps.errors != nullptr) {
    server_.deps.errors->Add({.unix_ms = UnixMillis(),
                              .request_id = id_,
                              .route = std::string(decision_.name()),
                              .code = error.code,
                              .status = error.http,
                              .message = status.message()});
  }
  return error;
}

void RequestContext::AddHeaders(HeaderList* headers) {
  headers->emplace_back("X-Request-Id", id_);
  if (error_options_.form == protocol::ErrorForm::kAnthropic)
    headers->emplace_back("request-id", id_);  // where its clients look for it
  headers->emplace_back("X-Content-Type-Options", "nosniff");
  if (!decision_.cors_origin.empty()) {
    headers->emplace_back("Access-Control-Allow-Origin", decision_.cors_origin);
    headers->emplace_back(
        "Access-Control-Expose-Headers",
        "x-request-id, request-id, traceresponse, location, etag, preference-applied, "
        "idempotency-replayed, "
        "retry-after, "
        "x-tutti-ignored, x-context-dropped-items, x-cache, age, x-cache-kind, x-cache-similarity, "
        "x-cache-source, "
        "x-ratelimit-limit-requests, x-ratelimit-remaining-requests, "
        "x-ratelimit-reset-requests, x-ratelimit-limit-tokens, "
        "x-ratelimit-remaining-tokens, x-ratelimit-reset-tokens");
    headers->emplace_back("Vary", "Origin");
  }
  if (trace_context_.valid()) headers->emplace_back("traceresponse", TraceParent(trace_context_));
  if (rate_limits_ != nullptr) AddRateLimitHeaders(*std::exchange(rate_limits_, nullptr), headers);
  protocol::AppendCacheHeaders(cache_reports_, headers);
  cache_reports_.clear();
  head_written_ = true;
}

HeaderList RequestContext::ErrorHeaders(const protocol::ErrorView& error) const {
  HeaderList headers = {{"Content-Type", "application/json"}};
  if (error.retry_after.has_value()) {
    const int64_t ms = std::max<int64_t>(1, error.retry_after->count());
    headers.emplace_back("Retry-After", std::to_string((ms + 999) / 1000));
    headers.emplace_back("retry-after-ms", std::to_string(ms));
  }
  if (error.should_retry.has_value())
    headers.emplace_back("x-should-retry", *error.should_retry ? "true" : "false");
  if (error.http == 401) headers.emplace_back("WWW-Authenticate", "Bearer");
  if (error.http == 405) headers.emplace_back("Allow", decision_.allow);
  if (error.http == 426) {
    headers.emplace_back("Upgrade", "websocket");
    headers.emplace_back("Sec-WebSocket-Version", "13");
  }
  // Bodies of these forms have no place for the code.
  if (error.form == protocol::ErrorForm::kKserve || error.form == protocol::ErrorForm::kOllama ||
      error.form == protocol::ErrorForm::kAnthropic)
    headers.emplace_back("x-tutti-error-code", error.code);
  return headers;
}

HeaderList RequestContext::OptionsHeaders() const {
  HeaderList headers = {{"Allow", decision_.allow}};
  if (decision_.preflight) {
    headers.emplace_back("Access-Control-Allow-Methods", decision_.allow);
    headers.emplace_back("Access-Control-Allow-Headers", AllowedHeaders(request_));
    headers.emplace_back("Access-Control-Max-Age", "600");
  }
  return headers;
}

void RequestContext::Stage(std::string_view stage, TimePoint since) {
  if (server_.deps.serving != nullptr)
    server_.deps.serving->Stage(stage, loop_.clock().Now() - since);
}

void RequestContext::Activate() {
  server_.active.fetch_add(1);
  if (server_.deps.serving != nullptr) server_.deps.serving->InFlight(decision_.op(), 1);
}

void RequestContext::Account(int code, bool streamed, uint64_t sent_bytes) {
  if (id_.empty()) return;
  const TimePoint now = loop_.clock().Now();
  const Duration took = now - start_;
  for (const auto& trace : traces_) {
    trace->server().Append({.at = now, .tokens = code, .kind = api::TraceEvent::Kind::kWritten},
                           /*essential=*/true);
  }
  traces_.clear();
  server_.active.fetch_sub(1);
  if (telemetry::ServerMetrics* const serving = server_.deps.serving) {
    serving->InFlight(decision_.op(), -1);
    if (streamed) serving->StreamsOpen(telemetry::ServerKind::kHttp, -1);
  }
  try {
    Report(code, took, sent_bytes);
  } catch (const std::bad_alloc&) {  // better uncounted than a connection that is never closed
  }
}

void RequestContext::Report(int code, Duration took, uint64_t sent_bytes) {
  if (server_.deps.serving != nullptr)
    server_.deps.serving->ServerRequest(telemetry::ServerKind::kHttp, decision_.op(), code, took);
  if (server_.options.access_log && server_.deps.log != nullptr) {
    server_.deps.log->Info("http.request",
                           {{"id", id_},
                            {"peer", peer_},
                            {"method", IsKnownMethod(request_.method) ? request_.method : "-"},
                            {"path", PathForLog(request_.target, server_.hidden_key())},
                            {"route", decision_.name()},
                            {"status", code},
                            {"ms", ToMillis(took)},
                            {"bytes", sent_bytes},
                            {"caller", auth::LogNameOf(decision_.principal, decision_.claim)},
                            {"tenant", auth::LogTenantOf(decision_.principal)}});
  }
}

void RequestContext::Reset() {
  decision_ = Decision();
  error_options_.form = decision_.errors();
  id_.clear();
  traces_.clear();
  trace_context_ = TraceContext();
  head_written_ = false;
}

}  // namespace tutti::http
