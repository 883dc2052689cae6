#include "protocol/error.h"

#include <algorithm>
#include <array>

#include "protocol/json/json_writer.h"

namespace tutti::protocol {
namespace {

// Errors of Text Embeddings Inference: six error types, each with its status.
//
// Source: its router (router/src/lib.rs, router/src/http/server.rs of version 1.9). Errors for
// which it has no type (unknown path, body too large) keep the status of the error table.
struct TeiError {
  int http;
  std::string_view type;  // Validation, Tokenizer, Empty, Overloaded, Backend, Unhealthy
};

// TEI answers a body that is not JSON with 400, and other invalid input with 422.
bool IsNoJson(std::string_view code) {
  return code == "invalid_json" || code == "invalid_utf8" || code == "json_depth" ||
         code == "duplicate_key";
}

bool IsBusy(std::string_view code) {
  return code == "overloaded" || code == "queue_full" || code == "kv_exhausted";
}

// TEI status and error type for an error that is given in OpenAI's terms.
TeiError TeiErrorOf(const ErrorView& view) {
  if (view.http == 429 || IsBusy(view.code)) return {429, "Overloaded"};
  if (view.http == 503) return {503, "Unhealthy"};
  if (view.http == 504) return {504, "Overloaded"};
  if (view.ours) return {424, "Backend"};
  if (view.http != 400) return {view.http, "Validation"};
  if (view.code == "empty_prompt") return {400, "Empty"};
  // TEI has no such status; the request is meant for another kind of server.
  if (view.code == "unsupported_parameter") return {400, "Validation"};
  if (IsNoJson(view.code)) return {400, "Validation"};
  if (view.code == "token_out_of_range") return {422, "Tokenizer"};
  // The requested model does not support this operation.
  if (view.code == "invalid_value" && view.param == "model") return {424, "Backend"};
  return {422, "Validation"};
}

// The HTTP status of error `row` on the routes of KServe v2; `http` is the status that OpenAI
// routes send for it.
//
// Clients of Triton expect 400, 404, 500, 501 and 503, as its HTTP server sends them
// (HttpCodeFromError). Errors of HTTP itself (authentication, method, size, rate limits) keep the
// status of the error table.
int KserveStatusOf(const ErrorRow& row, int http) {
  if (row.canonical == StatusCode::kInvalidArgument) return 400;
  if (row.canonical == StatusCode::kNotFound) return 404;
  // Triton reports a timeout as unavailable; 408 for a slow body is HTTP's own.
  if (http == 504) return 503;
  return http;
}

using C = StatusCode;
constexpr std::string_view kBad = "invalid_request_error", kServer = "server_error";

constexpr ErrorRow Bad(std::string_view code) {
  return {code, C::kInvalidArgument, 400, kBad, 0x99, 4400, Retry::kNo};
}
constexpr ErrorRow Limit(std::string_view code, std::string_view type) {
  return {code, C::kResourceExhausted, 429, type, 0x97, 4429, Retry::kYes};
}
constexpr ErrorRow Quota(std::string_view code) {
  return {code, C::kResourceExhausted, 429, "insufficient_quota", 0x97, 4429, Retry::kNo};
}
constexpr ErrorRow Busy(std::string_view code) {
  return {code, C::kUnavailable, 503, kServer, 0x89, 1013, Retry::kYes};
}
constexpr ErrorRow Conflict(std::string_view code) {
  return {code, C::kAborted, 409, "conflict_error", 0, 4409, Retry::kYes};
}

constexpr auto kTable = std::to_array<ErrorRow>({
    Bad("invalid_value"),
    Bad("invalid_json"),
    Bad("invalid_utf8"),
    Bad("json_depth"),
    Bad("duplicate_key"),
    Bad("missing_required_parameter"),
    Bad("unsupported_parameter"),
    Bad("unknown_parameter"),
    Bad("empty_prompt"),
    Bad("empty_message"),
    Bad("token_out_of_range"),
    Bad("invalid_logit_mask"),
    Bad("schema_*"),
    Bad("grammar_*"),
    Bad("template_*"),
    Bad("adapter_config"),
    Bad("adapter_target"),
    Bad("adapter_shape"),
    Bad("adapter_invalid"),
    {"adapter_path", C::kPermissionDenied, 403, kBad, 0x87, 4403, Retry::kNo},
    {"adapter_exists", C::kAlreadyExists, 409, kBad, 0, 4409, Retry::kNo},
    {"adapter_limit", C::kResourceExhausted, 409, kBad, 0, 4409, Retry::kNo},
    {"pull_not_allowed", C::kPermissionDenied, 403, kBad, 0x87, 4403, Retry::kNo},
    {"hub_denied", C::kPermissionDenied, 403, kBad, 0x87, 4403, Retry::kNo},
    {"model_exists", C::kAlreadyExists, 409, kBad, 0, 4409, Retry::kNo},
    {"name_taken", C::kAlreadyExists, 409, kBad, 0, 4409, Retry::kNo},
    {"two_keys_active", C::kFailedPrecondition, 409, "conflict_error", 0, 4409, Retry::kNo},
    {"too_many_keys", C::kResourceExhausted, 409, kBad, 0, 4409, Retry::kNo},
    {"too_many_users", C::kResourceExhausted, 409, kBad, 0, 4409, Retry::kNo},
    {"alias_limit", C::kResourceExhausted, 409, kBad, 0, 4409, Retry::kNo},
    Bad("websocket_stream_limit_reached"),
    Bad("websocket_connection_limit_reached"),
    {"context_length_exceeded", C::kInvalidArgument, 400, kBad, 0, 4400, Retry::kNo},
    {"invalid_api_key", C::kUnauthenticated, 401, kBad, 0x86, 4401, Retry::kNo},
    {"key_revoked", C::kUnauthenticated, 401, kBad, 0x86, 4401, Retry::kNo},
    {"insufficient_scope", C::kPermissionDenied, 403, "permission_error", 0x87, 4403, Retry::kNo},
    {"not_found", C::kNotFound, 404, kBad, 0, 4404, Retry::kNo},
    {"model_not_found", C::kNotFound, 404, kBad, 0, 4404, Retry::kNo},
    {"expired", C::kNotFound, 410, kBad, 0, 4410, Retry::kNo},
    {"not_implemented", C::kUnimplemented, 501, kServer, 0x83, 4400, Retry::kNo},
    {"upgrade_required", C::kUnimplemented, 426, kBad, 0x90, 1003, Retry::kNo},
    {"method_not_allowed", C::kUnimplemented, 405, kBad, 0x90, 1003, Retry::kNo},
    {"uri_too_long", C::kUnimplemented, 414, kBad, 0x90, 1003, Retry::kNo},
    {"unsupported_media_type", C::kUnimplemented, 415, kBad, 0x90, 1003, Retry::kNo},
    {"headers_too_large", C::kUnimplemented, 431, kBad, 0x90, 1003, Retry::kNo},
    {"expectation_failed", C::kUnimplemented, 417, kBad, 0x90, 1003, Retry::kNo},
    {"http_version_not_supported", C::kUnimplemented, 505, kBad, 0x90, 1003, Retry::kNo},
    {"deadline_exceeded", C::kDeadlineExceeded, 504, kServer, 0, 4504, Retry::kNo},
    {"request_timeout", C::kDeadlineExceeded, 408, kBad, 0x8D, 1008, Retry::kYes},
    Conflict("conversation_busy"),
    Conflict("idempotency_in_progress"),
    {"already_finished", C::kAborted, 409, "conflict_error", 0, 4409, Retry::kNo},
    Conflict("stale_item"),
    {"steer_unsupported", C::kFailedPrecondition, 409, "conflict_error", 0, 4409, Retry::kNo},
    {"model_too_large", C::kFailedPrecondition, 409, "conflict_error", 0, 4409, Retry::kNo},
    {"model_in_use", C::kFailedPrecondition, 409, "conflict_error", 0, 4409, Retry::kNo},
    {"version_mismatch", C::kFailedPrecondition, 412, kBad, 0, 4409, Retry::kNo},
    {"idempotency_key_mismatch", C::kInvalidArgument, 422, kBad, 0, 4409, Retry::kNo},
    Limit("rate_limit_exceeded", "requests"),
    {"request_too_large", C::kResourceExhausted, 413, kBad, 0x95, 1009, Retry::kNo},
    {"request_exceeds_capacity", C::kInvalidArgument, 413, kBad, 0x95, 4400, Retry::kNo},
    Limit("tenant_rate", "requests"),
    Limit("tenant_tokens", "tokens"),
    Limit("tenant_concurrency", "concurrency"),
    Limit("tenant_queue_full", "requests"),
    Limit("session_queue_full", "requests"),
    Quota("insufficient_quota"),
    Quota("pin_limit"),
    Quota("request_exceeds_limit"),
    {"request_quarantined", C::kFailedPrecondition, 422, kServer, 0x80, 4400, Retry::kNo},
    {"cancelled", C::kCancelled, 499, kServer, 0, 1000, Retry::kNo},
    {"internal_error", C::kInternal, 500, kServer, 0x80, 1011, Retry::kYes},
    {"logits_not_finite", C::kInternal, 500, kServer, 0x80, 1011, Retry::kNo},
    {"output_not_finite", C::kInternal, 500, kServer, 0x80, 1011, Retry::kNo},
    {"attempts_exhausted", C::kInternal, 500, kServer, 0x80, 1011, Retry::kNo},
    {"callback_failed", C::kInternal, 500, kServer, 0x80, 1011, Retry::kNo},
    Busy("overloaded"),
    Busy("queue_full"),
    Busy("kv_exhausted"),
    Busy("model_loading"),
    {"model_load_failed", C::kUnavailable, 503, kServer, 0x83, 4400, Retry::kNo},
    Busy("pull_limit"),
    {"pull_failed", C::kUnavailable, 503, kServer, 0x83, 4400, Retry::kNo},
    Busy("engine_stalled"),
    Busy("worker_lost"),
    Busy("worker_unreachable"),
    Busy("storage_full"),
    Busy("storage_error"),
    {"draining", C::kUnavailable, 503, kServer, 0x8B, 1001, Retry::kYes},
});

constexpr std::chrono::milliseconds kDefaultRetry{1000};

bool Matches(std::string_view pattern, std::string_view code) {
  if (pattern.back() == '*')
    return code.substr(0, pattern.size() - 1) == pattern.substr(0, pattern.size() - 1);
  return pattern == code;
}

// For forms without a member for the parameter: the message names it.
std::string NamedMessage(const ErrorView& error) {
  const bool named = error.param.empty() || error.message.find(error.param) != std::string::npos;
  return named ? error.message : error.param + ": " + error.message;
}

// Whether an openai client retries without a header that decides it.
bool ClientRetriesByDefault(int http) {
  return http == 408 || http == 409 || http == 429 || http >= 500;
}

}  // namespace

std::span<const ErrorRow> ErrorTable() { return kTable; }

const ErrorRow& FindError(const Status& status) {
  for (const ErrorRow& row : kTable) {
    if (Matches(row.code, status.reason())) return row;
  }
  return *std::find_if(kTable.begin(), kTable.end(),
                       [](const ErrorRow& row) { return row.code == "internal_error"; });
}

ErrorView ViewError(const Status& status, const ErrorOptions& options) {
  const ErrorRow& row = FindError(status);
  ErrorView view;
  view.form = options.form;
  view.http = row.http;
  view.type = row.type;
  const bool known = Matches(row.code, status.reason());
  view.code = known ? status.reason() : std::string(row.code);
  view.ours = row.http == 500;
  if (view.ours) {
    view.message = "the server failed to answer this request";
  } else {
    view.message = status.message();
    view.param = status.param();
  }
  if (view.code == "queue_full" && options.queue_full_http == 429) {
    view.http = 429;
    view.type = "requests";
  }
  if (options.form == ErrorForm::kTei) {
    const TeiError tei = TeiErrorOf(view);
    view.http = tei.http;
    view.type = tei.type;
  }
  if (options.form == ErrorForm::kKserve) view.http = KserveStatusOf(row, view.http);
  if (options.form == ErrorForm::kAnthropic) view.type = AnthropicErrorType(view.http);
  const bool retry = row.retry == Retry::kYes;
  const bool tell_when =
      view.http == 429 || view.http == 503 || view.http == 504 || (view.http == 409 && retry);
  if (tell_when || status.retry_after().has_value())
    view.retry_after = status.retry_after().value_or(kDefaultRetry);
  // A mismatched idempotency key gets x-should-retry even if its client would not retry by default:
  // no retry can succeed.
  const bool told = row.code == "idempotency_key_mismatch";
  if (told || ClientRetriesByDefault(view.http) != retry) view.should_retry = retry;
  return view;
}

std::string ErrorBody(const ErrorView& error, std::optional<ContextNumbers> context) {
  if (error.form == ErrorForm::kAnthropic) return AnthropicErrorBody(error);
  JsonWriter json;
  json.BeginObject();
  if (error.form == ErrorForm::kKserve || error.form == ErrorForm::kOllama) {
    json.Member("error", error.form == ErrorForm::kOllama ? NamedMessage(error) : error.message);
    json.EndObject();
    return json.Take();
  }
  const bool nested = error.form == ErrorForm::kOpenAi;
  if (nested) {
    json.Key("error").BeginObject();
    json.Member("message", error.message).Member("type", error.type);
  } else {
    json.Member("error", error.message).Member("error_type", error.type);
  }
  json.MemberOrNull("param", error.param).Member("code", error.code);
  if (!nested) {
    json.EndObject();
    return json.Take();
  }
  if (context.has_value()) {
    json.Member("n_prompt_tokens", context->prompt_tokens).Member("n_ctx", context->context);
  }
  json.EndObject().EndObject();
  return json.Take();
}

std::string_view AnthropicErrorType(int http) {
  switch (http) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
    case 410:
      return "not_found_error";
    case 413:
      return "request_too_large";
    case 429:
      return "rate_limit_error";
    case 503:
      return "overloaded_error";
    case 504:
      return "timeout_error";
    default:
      // 499: the request was cancelled by another one.
      return http < 499 ? "invalid_request_error" : "api_error";
  }
}

std::string AnthropicErrorBody(const ErrorView& error) {
  JsonWriter json;
  json.BeginObject().Member("type", "error").Key("error").BeginObject();
  json.Member("type", error.type);
  json.Member("message", NamedMessage(error));
  json.EndObject().MemberOrNull("request_id", error.request_id).EndObject();
  return json.Take();
}

}  // namespace tutti::protocol
