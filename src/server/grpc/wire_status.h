// Converts a Status to gRPC: code, message, and the details that client libraries read. Pure.
#pragma once

#include <optional>
#include <string>

#include "base/status.h"

namespace tutti::rpc {

struct WireStatus {
  int code = 0;  // google.rpc.Code
  std::string message;
  std::string reason;   // machine code, the trailer `tutti-error-code`
  std::string details;  // a serialised google.rpc.Status: RetryInfo, ErrorInfo
  std::optional<std::chrono::milliseconds> retry_after;
};

// Uses the table that all servers share (protocol/error.h). An internal error becomes INTERNAL
// without its text.
WireStatus ToWire(const Status& status);

// The public text of an error, for protocols whose errors are only a text.
std::string PublicMessage(const Status& status);

}  // namespace tutti::rpc
