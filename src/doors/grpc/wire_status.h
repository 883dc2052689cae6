// A Status as gRPC carries it: code and message, and the details that a client's library reads.
// Pure.
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

// By the table that all doors share (wire/error.h). An error that was not meant for clients becomes
// INTERNAL, and its text stays here.
WireStatus ToWire(const Status& status);

// What a client may read of an error, where there is place for a text alone.
std::string PublicMessage(const Status& status);

}  // namespace tutti::rpc
