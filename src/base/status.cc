#include "base/status.h"

#include <array>
#include <cstddef>

namespace tutti {
namespace {

// By the codes' values.
constexpr std::array<std::string_view, 17> kStatusCodes = {
    "OK",        "CANCELLED",      "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
    "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
    "ABORTED",   "OUT_OF_RANGE",   "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
    "DATA_LOSS", "UNAUTHENTICATED"};
static_assert(kStatusCodes.size() == static_cast<size_t>(StatusCode::kUnauthenticated) + 1);

}  // namespace

std::string_view StatusCodeName(StatusCode code) {
  const auto value = static_cast<size_t>(code);
  return value < kStatusCodes.size() ? kStatusCodes[value] : "UNKNOWN";
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
Status BadValue(std::string param, std::string message) {
  return InvalidArgument("invalid_value", std::move(message)).WithParam(std::move(param));
}
Status NotFound(std::string_view reason, std::string message) {
  return Status(StatusCode::kNotFound, reason, std::move(message));
}
Status Unavailable(std::string_view reason, std::string message) {
  return Status(StatusCode::kUnavailable, reason, std::move(message));
}
// Short enough for the strings' inline storage, since memory may be exhausted.
Status OutOfMemory() { return Unavailable("overloaded", "out of memory"); }
Status Draining() { return Unavailable("draining", "the server is shutting down"); }
Status Cancelled() { return {StatusCode::kCancelled, "cancelled", "the request was cancelled"}; }
Status ResourceExhausted(std::string_view reason, std::string message) {
  return Status(StatusCode::kResourceExhausted, reason, std::move(message));
}
Status Internal(std::string message) {
  return Status(StatusCode::kInternal, "internal_error", std::move(message));
}

}  // namespace tutti
