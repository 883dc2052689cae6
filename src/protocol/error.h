// The error table of all servers: maps error codes to HTTP status and OpenAI type, gRPC, WebSocket,
// MQTT 5, retry.
//
// Every Status that a server sends passes through this table, so that a code has the same meaning
// everywhere. A code that is not listed was not meant for clients: it becomes internal_error, and
// neither its message nor its param is sent. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"

namespace tutti::protocol {

enum class Retry { kNo, kYes };

struct ErrorRow {
  std::string_view code;  // Status::reason(); a trailing '*' matches a family ("schema_*")
  StatusCode canonical;   // also gRPC's
  int http;
  std::string_view type;  // OpenAI body field
  int mqtt;               // v5 reason code; 0 = an error event
  int websocket;          // code of an error message
  Retry retry;
};

std::span<const ErrorRow> ErrorTable();

// The row of a Status by its code; internal_error for a code that is not listed.
const ErrorRow& FindError(const Status& status);

// Format of an error body.
enum class ErrorForm : uint8_t {
  kOpenAi,     // {"error":{"message","type","param","code"}}
  kTei,        // {"error","error_type","param","code"}, with TEI's statuses (error.cc)
  kKserve,     // {"error": text}, with Triton's statuses (error.cc)
  kOllama,     // {"error": text}, with the statuses of the table
  kAnthropic,  // {"type":"error","error":{"type","message"},"request_id"}
};

struct ErrorView {
  ErrorForm form = ErrorForm::kOpenAi;
  int http = 500;
  std::string code, type;
  std::string message, param;  // for an internal error: a fixed text, and no param
  bool ours = false;           // an internal_error: details are for the log
  std::string request_id;      // shown in Anthropic's form; set by the server
  std::optional<std::chrono::milliseconds>
      retry_after;                   // on 429, 503 and 504, and whenever the status has one
  std::optional<bool> should_retry;  // x-should-retry, where the client's default is wrong
};

struct ErrorOptions {
  int queue_full_http = 503;  // or 429
  ErrorForm form = ErrorForm::kOpenAi;
};

ErrorView ViewError(const Status& status, const ErrorOptions& options = {});

// Numbers that a context_length_exceeded body carries in addition to the code.
struct ContextNumbers {
  int prompt_tokens = 0, context = 0;
};

// Error body in the form of the view (OpenAI, Anthropic, KServe, Ollama, TEI); only OpenAI's form
// has the context numbers.
std::string ErrorBody(const ErrorView& error, std::optional<ContextNumbers> context = std::nullopt);

// --- The Anthropic Messages API ---
//
// Its clients branch on the status; the message is for people and therefore names the field. The
// statuses are those of the error table: an overloaded server sends 503, which proxies and load
// balancers understand, and not Anthropic's 529.

// Error type for an HTTP status: "invalid_request_error", "overloaded_error", ...
std::string_view AnthropicErrorType(int http);

// {"type":"error","error":{"type","message"},"request_id"}; request_id is null if `error` has none.
std::string AnthropicErrorBody(const ErrorView& error);

}  // namespace tutti::protocol
