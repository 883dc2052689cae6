// One error table for all doors: machine code -> HTTP status and OpenAI type, gRPC, WebSocket, MQTT
// 5, retry.
//
// Every Status that leaves a door passes through here, so that a code means the same everywhere. A
// code that is not listed was not meant for clients: it becomes internal_error, and neither its
// text nor its param leaves. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"

namespace tutti::wire {

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

struct ErrorView {
  int http = 500;
  std::string code, type;
  std::string message, param;  // of a 500 a fixed sentence and nothing: details are in the log
  std::optional<std::chrono::milliseconds>
      retry_after;                   // on 429, 503 and 504, and whenever the status has one
  std::optional<bool> should_retry;  // x-should-retry, where the client's default is wrong
};

struct ErrorOptions {
  int queue_full_http = 503;  // or 429
};

ErrorView ViewError(const Status& status, const ErrorOptions& options = {});

// Beside the code in a context_length_exceeded body.
struct ContextNumbers {
  int prompt_tokens = 0, context = 0;
};

// {"error":{"message","type","param","code"}}
std::string ErrorBody(const ErrorView& error, std::optional<ContextNumbers> context = std::nullopt);

}  // namespace tutti::wire
