#include "base/status.h"

#include <array>
#include <cstddef>
#include <tuple>

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

struct Status::Error {
  StatusCode code;
  std::string reason;
  std::string message;
  std::string param = {};
  std::optional<std::chrono::milliseconds> retry_after = std::nullopt;
  std::optional<Excess> excess = std::nullopt;
  bool shared = false;  // by all statuses of OutOfMemory(), and never freed

  friend bool operator==(const Error& a, const Error& b) {
    const auto said = [](const Error& error) {
      return std::tie(error.code, error.reason, error.message, error.param, error.retry_after,
                      error.excess);
    };
    return said(a) == said(b);
  }
};

Status::Status(StatusCode code, std::string_view reason, std::string message)
    : error_(new Error{code, std::string(reason), std::move(message)}) {
  CHECK(code != StatusCode::kOk);
}

Status::Status(const Status& other)
    : error_(other.error_ == nullptr || other.error_->shared ? other.error_
                                                             : new Error(*other.error_)) {}

void Status::Free(Error* error) noexcept {
  if (!error->shared) delete error;
}

bool Status::Equal(const Status& a, const Status& b) {
  return a.error_ == b.error_ ||
         (a.error_ != nullptr && b.error_ != nullptr && *a.error_ == *b.error_);
}

const Status::Error& Status::error() const {
  static const Error kNone{StatusCode::kOk, "", ""};
  return error_ == nullptr ? kNone : *error_;
}

StatusCode Status::code() const { return error().code; }
const std::string& Status::reason() const { return error().reason; }
const std::string& Status::message() const { return error().message; }
const std::string& Status::param() const { return error().param; }
std::optional<std::chrono::milliseconds> Status::retry_after() const { return error().retry_after; }
std::optional<Status::Excess> Status::excess() const { return error().excess; }

Status::Error* Status::Own() {
  if (error_ != nullptr && error_->shared) {
    error_ = new Error(*error_);
    error_->shared = false;
  }
  return error_;
}

Status&& Status::WithParam(std::string param) && {
  if (Error* const error = Own(); error != nullptr) error->param = std::move(param);
  return std::move(*this);
}
Status&& Status::WithRetryAfter(std::chrono::milliseconds wait) && {
  if (Error* const error = Own(); error != nullptr) error->retry_after = wait;
  return std::move(*this);
}
Status&& Status::WithExcess(int64_t asked, int64_t most) && {
  if (Error* const error = Own(); error != nullptr) error->excess = {asked, most};
  return std::move(*this);
}
Status&& Status::WithContext(std::string_view context) && {
  if (Error* const error = Own(); error != nullptr)
    error->message = std::string(context) + ": " + error->message;
  return std::move(*this);
}

std::string Status::ToString() const {
  if (ok()) return "OK";
  std::string text(StatusCodeName(error_->code));
  text += " [" + error_->reason + "] ";
  if (!error_->param.empty()) text += error_->param + ": ";
  return text + error_->message;
}

namespace internal {

void CheckIsError(const Status& status) { CHECK(!status.ok()); }

void FailWithoutValue(const Status& status) {
  CHECK(false) << status.ToString();
  __builtin_unreachable();
}

}  // namespace internal

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
// All share one error, for memory may be exhausted.
Status OutOfMemory() {
  static Status::Error error{.code = StatusCode::kUnavailable,
                             .reason = "overloaded",
                             .message = "out of memory",
                             .shared = true};
  Status status;
  status.error_ = &error;
  return status;
}
Status Draining() { return Unavailable("draining", "the server is shutting down"); }
Status Cancelled() { return {StatusCode::kCancelled, "cancelled", "the request was cancelled"}; }
Status ResourceExhausted(std::string_view reason, std::string message) {
  return Status(StatusCode::kResourceExhausted, reason, std::move(message));
}
Status Internal(std::string message) {
  return Status(StatusCode::kInternal, "internal_error", std::move(message));
}

}  // namespace tutti
