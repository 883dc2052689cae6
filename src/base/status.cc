#include "base/status.h"

namespace tutti {

std::string_view StatusCodeName(StatusCode code) {
  switch (code) {
    case StatusCode::kOk:
      return "OK";
    case StatusCode::kCancelled:
      return "CANCELLED";
    case StatusCode::kUnknown:
      return "UNKNOWN";
    case StatusCode::kInvalidArgument:
      return "INVALID_ARGUMENT";
    case StatusCode::kDeadlineExceeded:
      return "DEADLINE_EXCEEDED";
    case StatusCode::kNotFound:
      return "NOT_FOUND";
    case StatusCode::kAlreadyExists:
      return "ALREADY_EXISTS";
    case StatusCode::kPermissionDenied:
      return "PERMISSION_DENIED";
    case StatusCode::kResourceExhausted:
      return "RESOURCE_EXHAUSTED";
    case StatusCode::kFailedPrecondition:
      return "FAILED_PRECONDITION";
    case StatusCode::kAborted:
      return "ABORTED";
    case StatusCode::kOutOfRange:
      return "OUT_OF_RANGE";
    case StatusCode::kUnimplemented:
      return "UNIMPLEMENTED";
    case StatusCode::kInternal:
      return "INTERNAL";
    case StatusCode::kUnavailable:
      return "UNAVAILABLE";
    case StatusCode::kDataLoss:
      return "DATA_LOSS";
    case StatusCode::kUnauthenticated:
      return "UNAUTHENTICATED";
  }
  return "UNKNOWN";
}

std::string Status::ToString() const {
  if (ok()) return "OK";
  std::string text(StatusCodeName(code_));
  text += " [" + reason_ + "] ";
  if (!param_.empty()) text += param_ + ": ";
  return text + message_;
}

Status InvalidArgument(std::string_view reason, std::string message) {
  return Status(StatusCode::kInvalidArgument, reason, std::move(message));
}
Status NotFound(std::string_view reason, std::string message) {
  return Status(StatusCode::kNotFound, reason, std::move(message));
}
Status Unavailable(std::string_view reason, std::string message) {
  return Status(StatusCode::kUnavailable, reason, std::move(message));
}
// Short enough for the strings' inline storage, since memory may be exhausted.
Status OutOfMemory() { return Unavailable("overloaded", "out of memory"); }
Status ResourceExhausted(std::string_view reason, std::string message) {
  return Status(StatusCode::kResourceExhausted, reason, std::move(message));
}
Status Internal(std::string message) {
  return Status(StatusCode::kInternal, "internal_error", std::move(message));
}

}  // namespace tutti
